"""``airflow-dispatch``: the command line. One module a command; each adds its own parser and says what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from airflow_dispatch.cli import confirm, local
from airflow_dispatch.cli.exits import Exit, Failure

__all__ = ["main"]

_COMMANDS = (confirm, local)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="airflow-dispatch", description="Training jobs on Kubernetes, from Airflow.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code (contract, section 14)."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except Failure as failure:
        sys.stderr.write(f"airflow-dispatch: {failure}\n")
        return failure.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return code
