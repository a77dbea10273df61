"""Replays the recordings of ``tests/golden``: what real controllers wrote, folded up to a mark."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from airflow_dispatch.core.objects import (
    Event,
    Job,
    JobSet,
    Node,
    Object,
    Pod,
    TrainingRuntime,
    TrainJob,
    Workload,
)
from airflow_dispatch.kube.store import Store

GOLDEN = Path(__file__).parent.parent / "golden"
MODES: Final = ("plain", "kueue")
KINDS: Final[dict[str, type[Object]]] = {
    kind.__name__: kind for kind in (TrainJob, TrainingRuntime, JobSet, Job, Pod, Node, Event, Workload)
}


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
        starts = (
            datetime.fromisoformat(line["object"]["metadata"]["creationTimestamp"]) - timedelta(seconds=line["t"])
            for line in self.lines
            if line.get("event") == "ADDED" and line["object"]["kind"] == "TrainJob"
        )
        return max(starts) + timedelta(seconds=seconds)

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


@functools.cache
def recording(mode: str, scenario: str) -> Recording:
    """One recording; it is kept, since several marks read it."""
    with gzip.open(GOLDEN / mode / f"{scenario}.jsonl.gz", "rt") as file:
        head, *lines = (json.loads(line) for line in file)
    return Recording(head, tuple(lines))


def scenarios(mode: str) -> list[str]:
    """The names of a mode's recordings."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in (GOLDEN / mode).glob("*.jsonl.gz"))


def replay(played: Recording, until: float) -> Store:
    """A store that has watched from the beginning up to a time."""
    store = Store(played.head["namespace"])
    for event, raw in played.events(until):
        if raw["kind"] in KINDS:
            store.apply(event, raw["kind"], msgspec.convert(raw, KINDS[raw["kind"]]))
    return store
