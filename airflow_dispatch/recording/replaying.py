"""A recording through the hub's own store: what it knew at any moment, evidence of deleted pods included."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import Unreadable, decode_record
from airflow_dispatch.kube.observing import jobs_of, observations
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store
from airflow_dispatch.recording.format import Line, Recording, named

__all__ = ["RESOURCES", "Change", "Replay", "changes", "replay"]

RESOURCES: Final[dict[tuple[str, str], Resource]] = {
    (resource.group, resource.kind): resource
    for resource in (
        paths.TRAINJOBS,
        paths.RUNTIMES,
        paths.JOBSETS,
        paths.JOBS,
        paths.PODS,
        paths.WORKLOADS,
        paths.EVENTS,
        paths.NODES,
    )
}
"""What a classification reads, by API group and kind: of the Workloads of two groups only Kueue's are meant."""


class Change(NamedTuple):
    """An observation that differs from the last one of its object; ``t`` in seconds since the recording's start."""

    t: float
    observation: Observation


class Replay:
    """A store that has watched from a recording's beginning."""

    def __init__(self, recording: Recording) -> None:
        self.store = Store(recording.head.namespace)
        self.odd: list[str] = []

    def take(self, line: Line) -> set[str]:
        """Takes one line; returns the names of the TrainJobs whose snapshot may differ now.

        What has no name is left out, as a hub does, and noted in :attr:`odd`.
        """
        if line.nodes_readable is not None:
            return self._permission(line.nodes_readable)
        if line.ledger is not None:
            return self.store.take_ledger(line.ledger)
        found = named(line.object)
        resource = RESOURCES.get((found.group, found.kind))
        if line.event is None or resource is None:
            return set()
        item = decode_record(resource, line.object)
        if isinstance(item, Unreadable):
            self.odd.append(f"at {line.t:g} s: a {item.kind} without a name is left out: {item.problem}")
        name = item.metadata.name
        touched = self.store.apply(line.event, resource.kind, item)
        if resource is paths.NODES and line.event == "DELETED" and name in self.store.unseen_nodes:
            touched |= self.store.node_is_gone(name)
        return touched

    def _permission(self, readable: bool) -> set[str]:
        if readable:
            self.store.nodes_readable = True
        else:
            self.store.nodes_denied()
        return set(self.store.trainjob_names())


def replay(recording: Recording, until: float) -> Replay:
    """All lines up to a moment, in seconds since the start."""
    played = Replay(recording)
    for line in recording.events(until):
        played.take(line)
    return played


def changes(recording: Recording, until: float) -> Iterator[Change]:
    """Every observation that differs from the last one of its object, as a watch would have given it."""
    played = Replay(recording)
    start = recording.clock(0)
    last: dict[tuple[str, str], Observation] = {}
    for line in recording.events(until):
        now = start + timedelta(seconds=line.t)
        for job_id in jobs_of(played.store, played.take(line)):
            for seen in observations(played.store, now, job_id):
                key = (seen.ref, seen.uid)
                if last.get(key) != seen:
                    last[key] = seen
                    yield Change(line.t, seen)
