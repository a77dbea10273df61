"""``airflow-dispatch classify``: a dump of ``kubectl get -o json``, with no cluster at hand."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.cli.files import read_file
from airflow_dispatch.cli.printing import add_output_option, note, show, time_of
from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.recording.dump import classify_dump

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``classify``."""
    description = "classifies a List that kubectl get -o json has printed, with no cluster"
    parser = commands.add_parser("classify", help=description, description=description)
    parser.add_argument("file", metavar="FILE", help="the dump; - is standard input")
    parser.add_argument("--ref", metavar="NAMESPACE/NAME", help="this object alone")
    parser.add_argument("--at", type=time_of, metavar="TIME", help="when the dump was made, in RFC 3339 (default: now)")
    add_output_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    text = read_file(options.file)
    try:
        found = classify_dump(text, options.at or datetime.now(UTC))
    except InvalidFile as error:
        raise InvalidFile(f"{options.file}: {error}") from error
    for each in found.notes:
        note(f"{options.file}: {each}")
    if options.ref is None:
        if not found.observations:
            note(f"{options.file}: no object of dispatch's is in it")
        show(options, found.observations)
        return Exit.DONE
    meant = [each for each in found.observations if each.ref == options.ref]
    if not meant:
        known = ", ".join(each.ref for each in found.observations) or "none"
        raise Failure(f"{options.file}: there is no {options.ref}; objects of dispatch's: {known}", Exit.NO)
    show(options, meant)
    return Exit.DONE
