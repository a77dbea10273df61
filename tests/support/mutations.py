"""Recordings of the real controllers with odd values in them: what a cluster might write that no rule thinks of."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store
from tests.support.recordings import MODES, Recording, recording, scenarios

RESOURCES: Final[dict[str, Resource]] = {
    each.kind: each
    for each in (
        paths.TRAINJOBS,
        paths.RUNTIMES,
        paths.JOBSETS,
        paths.JOBS,
        paths.PODS,
        paths.NODES,
        paths.EVENTS,
        paths.WORKLOADS,
    )
}
_LINES: Final = 400
"""Longer recordings are left to the tests of the recordings themselves."""

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63), 10**400, 1e300, [], {}, [[]], [None], {"": ""}),
    *("", "0", "01", "-1", "1.0", "99999999999999999999", "True", "true", "Unknown", "\x00", "\U0001f4a5", "é\u202e"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-45T25:61:61Z", "2026-01-01T00:00:00", "now"),
    *("Failed", "Complete", "Suspended", "Running", "Evicted", "DisruptionTarget", "OOMKilled", "FailedJobs"),
)


class Mutation(NamedTuple):
    """One change of one object of a recording; numbers are taken modulo what there is to choose from.

    ``steps`` leads from the object down to a field. ``drop`` takes the field away, else it becomes ``value``.
    """

    event: int
    steps: tuple[int, ...]
    drop: bool
    value: Any


class OddRecording(NamedTuple):
    """A recording, how many of its events have come, and how they were changed."""

    mode: str
    scenario: str
    until: int
    mutations: tuple[Mutation, ...]

    @property
    def played(self) -> Recording:
        return recording(self.mode, self.scenario)

    def replay(self) -> Store:
        """The store that has watched all of it, each object decoded from JSON."""
        events = [(line["event"], line["object"]) for line in self.played.lines if "event" in line]
        events = [each for each in events[: max(1, self.until % (len(events) + 1))] if each[1]["kind"] in RESOURCES]
        store = Store(self.played.head["namespace"])
        for number, (event, raw) in enumerate(events):
            here = [each for each in self.mutations if each.event % len(events) == number]
            record = decode_record(RESOURCES[raw["kind"]], json.dumps(mutated(raw, here)).encode())
            store.apply(event, raw["kind"], record)
        return store


def mutated(raw: Mapping[str, Any], mutations: Sequence[Mutation]) -> Any:
    """The object with these changes."""
    holder = {"object": copy.deepcopy(raw)} if mutations else {"object": raw}
    for each in mutations:
        _mutate(holder, each)
    return holder.get("object")


def _mutate(holder: dict[str, Any], mutation: Mutation) -> None:
    inside: Any = holder
    key: Any = "object"
    for step in mutation.steps:
        below = inside[key]
        choices = list(below) if isinstance(below, dict) else list(range(len(below))) if isinstance(below, list) else []
        if not choices:
            break
        inside, key = below, choices[step % len(choices)]
    if mutation.drop and inside is not holder:
        del inside[key]
    else:
        inside[key] = copy.deepcopy(mutation.value)


def odd_recordings() -> st.SearchStrategy[OddRecording]:
    """Any of the shorter recordings, cut off anywhere, with up to twelve changes."""
    names = [
        (mode, scenario)
        for mode in MODES
        for scenario in scenarios(mode)
        if len(recording(mode, scenario).lines) < _LINES
    ]
    number = st.integers(0, 10**6)
    mutations = st.builds(
        Mutation,
        event=number,
        steps=st.lists(number, min_size=1, max_size=8).map(tuple),
        drop=st.booleans(),
        value=st.sampled_from(ODD),
    )
    return st.builds(
        lambda name, until, changes: OddRecording(name[0], name[1], until, tuple(changes)),
        st.sampled_from(names),
        number,
        st.lists(mutations, min_size=1, max_size=12),
    )
