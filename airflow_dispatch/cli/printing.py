"""What commands print: observations as sentences for people, or one JSON object a line for programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from airflow_dispatch.core.explain import hints, sentence
from airflow_dispatch.core.observation import CauseKind, Observation, State

__all__ = ["add_output_option", "as_json", "failed", "note", "say", "show", "time_of"]

_FORMATS: Final = ("text", "json")


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--output``."""
    parser.add_argument(
        "--output", choices=_FORMATS, default="text", help="sentences, or one observation a line as JSON (default text)"
    )


def as_json(options: argparse.Namespace) -> bool:
    """Programs read it."""
    return bool(options.output == "json")


def show(options: argparse.Namespace, observations: Iterable[Observation], *, prefix: str = "") -> None:
    """Prints observations; in text each with what can be done about it."""
    for seen in observations:
        if as_json(options):
            say(seen.to_json().decode())
            continue
        say(f"{prefix}{seen.ref}  {sentence(seen)}")
        for hint in hints(seen):
            say(f"{' ' * len(prefix)}  {hint}")


def failed(seen: Observation) -> bool:
    """It has ended, and not well."""
    return seen.state is State.ENDED and seen.cause.kind is not CauseKind.COMPLETED


def say(text: str) -> None:
    """A line on standard output, at once: whoever reads a pipe waits for it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on standard error, where it does not mix with what programs read."""
    sys.stderr.write(f"airflow-dispatch: {text}\n")


def time_of(text: str) -> datetime:
    """An instant in RFC 3339, for argparse; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-11-29T22:40:29Z") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
