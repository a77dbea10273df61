"""``airflow-dispatch``: the command line. One module a command; each adds its own parser and says what it does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from airflow_dispatch.cli import acting, classify, confirm, doctor, harden, local, reading, record, replay, start, watch
from airflow_dispatch.cli.exits import Exit, Failure, exit_of
from airflow_dispatch.core.errors import DispatchError

__all__ = ["main"]

_COMMANDS = (classify, reading, watch, start, acting, confirm, record, replay, doctor, harden, local)


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
    except DispatchError as error:
        sys.stderr.write(f"airflow-dispatch: {error}\n")
        return exit_of(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read has heard enough. The interpreter flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    return code
