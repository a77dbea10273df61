"""What commands print: observations as sentences for people, or one JSON object a line for programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from airflow_dispatch.core.explain import lines
from airflow_dispatch.core.observation import CauseKind, Observation, State

__all__ = ["Story", "add_output_option", "failed", "note", "say", "show", "time_of"]

_FORMATS: Final = ("text", "json")


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--output``."""
    parser.add_argument(
        "--output", choices=_FORMATS, default="text", help="sentences, or one observation a line as JSON (default text)"
    )


def show(options: argparse.Namespace, observations: Iterable[Observation]) -> None:
    """Prints observations; in text each with what can be done about it."""
    story = Story(options)
    for seen in observations:
        story.tell(seen)


class Story:
    """Prints the observations of objects as they follow each other: in text, how long each state has lasted."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._json = options.output == "json"
        self._last: dict[tuple[str, str], tuple[Observation, datetime | None]] = {}

    def tell(self, seen: Observation, *, prefix: str = "") -> None:
        """Prints one that is not yet known; one that equals the last one of its object is passed over."""
        key = (seen.ref, seen.uid)
        previous, since = self._last.get(key, (None, None))
        if previous == seen:
            return
        self._last[key] = seen, since if previous is not None and previous.state is seen.state else seen.seen_at
        if self._json:
            say(seen.to_json().decode())
            return
        first, *rest = lines(seen, previous, since)
        say(f"{prefix}{seen.ref}  {first.text}")
        for each in rest:
            say(f"{' ' * len(prefix)}{each.text}")


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
