"""The recordings of ``tests/golden``: what real controllers wrote, what was done to them, and what is expected."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_dispatch.kube.store import Store
from airflow_dispatch.recording import format as recording_format
from airflow_dispatch.recording import replaying

GOLDEN = Path(__file__).parent.parent / "golden"
MODES: Final = ("plain", "kueue")


class Expectation(NamedTuple):
    """What the contract says of one object at one mark; ``ref`` is None for the recording's TrainJob."""

    mode: str
    scenario: str
    mark: str
    ref: str | None
    observation: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.scenario}: {self.mark}" + (f" ({self.ref})" if self.ref else "")


class Recording(NamedTuple):
    """The lines of one file, the first one apart."""

    head: dict[str, Any]
    lines: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """The TrainJob that it is about."""
        return f"dj-{self.head['job_id'].lower()}-s1"

    def time_of(self, mark: str) -> float:
        """The only mark of that text."""
        (found,) = (line["t"] for line in self.lines if line.get("mark") == mark)
        return float(found)

    def clock(self, seconds: float) -> datetime:
        """The cluster's clock; known to a second, from what was created while the recording ran."""
        return parsed(self.head["mode"], self.head["scenario"]).clock(seconds)

    def events(self, until: float) -> Iterator[tuple[str, dict[str, Any]]]:
        """The watch events up to a time: type and object."""
        yield from ((line["event"], line["object"]) for line in self.lines if "event" in line and line["t"] <= until)


def expectations(mode: str) -> list[Expectation]:
    """All of a mode's ``expect.json``."""
    written = json.loads((GOLDEN / mode / "expect.json").read_text())
    return [
        Expectation(mode, scenario, each["mark"], each.get("ref"), each["observation"])
        for scenario, marks in written.items()
        for each in marks
    ]


def path_of(mode: str, scenario: str) -> Path:
    """Where a recording lies."""
    return GOLDEN / mode / f"{scenario}.jsonl.gz"


@functools.cache
def recording(mode: str, scenario: str) -> Recording:
    """One recording; it is kept, since several marks read it."""
    with gzip.open(path_of(mode, scenario), "rt") as file:
        head, *lines = (json.loads(line) for line in file)
    return Recording(head, tuple(lines))


def scenarios(mode: str) -> list[str]:
    """The names of a mode's recordings."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in (GOLDEN / mode).glob("*.jsonl.gz"))


@functools.cache
def parsed(mode: str, scenario: str) -> recording_format.Recording:
    """The same recording as the product reads it."""
    return recording_format.parse(gzip.decompress(path_of(mode, scenario).read_bytes()))


def replay(played: Recording, until: float) -> Store:
    """A store that has watched from the beginning up to a time."""
    return replaying.replay(parsed(played.head["mode"], played.head["scenario"]), until).store
