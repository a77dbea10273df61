"""Where the recordings of the real controllers show a row of the contract: found by replaying them."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Final, NamedTuple

from airflow_dispatch.core.cessation import ask, ceased
from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.observation import Observation, State
from airflow_dispatch.core.snapshot import Snapshot
from tests.support.recordings import MODES, expectations, recording, replay, scenarios
from tests.support.rows import Trace, traced


class Moment(NamedTuple):
    """A recording at one of its marks, or at a second between them."""

    mode: str
    scenario: str
    at: str | float


BETWEEN_MARKS: Final = {
    "6.1/3": Moment("plain", "p10-node-lost-returns", 17.2),
    "8/workload": Moment("kueue", "k01-gated-open-complete", 0.8),
    "8/no-job": Moment("plain", "p04-jobset-restarts", 13.5),
}
"""Rows that show for a short time only, and at no mark."""

_HAND_EDITED = "somebody has to edit the object by hand"
_REAL_KUBELET = "only a real kubelet's admission refuses a pod so"
_OTHER_RUNTIME = "the recorded containers do not end so"
_NO_TRIES = "recordings know nothing of Airflow"
_NEVER_ODD = "the real API server keeps every shape"
_SLOW = "the recorded controllers were never that slow"

UNRECORDED: Final = {
    "3/unknown-condition": "Trainer 2.3 has no further condition",
    "3/unreadable": _NEVER_ODD,
    "4/deadline": "no recording has a time limit",
    "4/runtime": "Trainer 2.3 refuses such a TrainJob at its creation",
    "4/pods-without-finding": "every recorded gang failed by a pod",
    "4/no-pods": "a replay has watched from the beginning, so it has captured every pod",
    "4/other": "every recorded failure is one of the above",
    "5/execution-time": "no recording has a maximum execution time",
    "6.1/6-quota": "no recorded namespace has a quota",
    "6.1/6-refused": "no recorded cluster forbids what a Job creates",
    "6.2/2": "no recorded Kueue evicts for failed Nodes",
    "6.3/taint-preempted": "no recorded taint but those of lost Nodes evicts",
    "6.3/taint-unknown": "Nodes may be read in every recording",
    "6.3/gc-unknown": "every pod that was recorded as garbage-collected had lost its Node",
    "6.3/kubelet-other": "the recorded kubelet evicts for memory and shuts down, nothing else",
    "6.3/disruption-unknown": "Kubernetes 1.36 writes no other reason",
    "6.3/status-unknown": _OTHER_RUNTIME,
    "6.3/never-started": _OTHER_RUNTIME,
    "6.3/init": "no recorded init container fails",
    "6.3/node-going": "no recorded cluster has an autoscaler",
    "6.3/no-room": _REAL_KUBELET,
    "6.3/terminated-by-kueue": "no recorded Kueue ends pods by force",
    "6.3/rejected-node-lost": _REAL_KUBELET,
    "6.3/evicted-memory": "the recorded kubelet writes DisruptionTarget with it",
    "6.3/evicted-limit": "the recorded containers exceed no limit of storage",
    "6.3/evicted-other": "the recorded kubelet writes DisruptionTarget with it",
    "7/labels": _HAND_EDITED,
    "7/comment": _HAND_EDITED,
    "7/patch": _HAND_EDITED,
    "7/floor": _HAND_EDITED,
    "7/pods": _HAND_EDITED,
    "7/hold": _HAND_EDITED,
    "8/unreadable": _NEVER_ODD,
    "10/ceased": "no recorded gang has lost all its Nodes",
    "12/finished": "no recorded JobSet has finished under a TrainJob that had not",
    "12/submissions": "each recording has one submission",
    "13/none": _NO_TRIES,
    "13/reported": _NO_TRIES,
    "13/not-reported": _NO_TRIES,
    "13/same": _NO_TRIES,
    "13/changed": _NO_TRIES,
    "8/deleted": "Background deletion takes a TrainJob away at once; one with a finalizer lingers",
    "8/gate-without-effect": "in k26 the gate feature is off too, but the admission check still holds the job back",
    "8/no-jobset": _SLOW,
    "8/no-pods": "no recorded cluster refuses a Job's pods",
    "8/admitted-suspended": _SLOW,
    "8/jobset-not-suspended": _SLOW,
    "8/sidecars": "no recorded pod has a second container",
    "8/failed": "every recorded pod that failed says why",
}
"""Rows that no recording shows at any moment, and why."""


@functools.cache
def moments() -> dict[str, Moment]:
    """The mark at which each row is first seen to decide, marks with an observation worked out by hand before others.

    A row decides when it has fired and the observation says what it says.
    """
    by_hand = {(each.mode, each.scenario, each.mark) for mode in MODES for each in expectations(mode)}
    found: dict[str, Moment] = {}
    for moment in sorted(_marks(), key=lambda each: each not in by_hand):
        for row in deciding(moment):
            found.setdefault(row, moment)
    return found


def deciding(moment: Moment) -> set[str]:
    """The rows that decide what is observed at a moment."""
    played = recording(moment.mode, moment.scenario)
    until = moment.at if isinstance(moment.at, float) else played.time_of(moment.at)
    store, now = replay(played, until), played.clock(until)
    rows: set[str] = set()
    for name in store.trainjob_names():
        snapshot = store.snapshot(name)
        if snapshot is not None:
            with traced() as trace:
                observation = classify(snapshot, now)
            rows |= _decided(trace, observation)
            if observation.state not in (State.RUNNING, State.ENDED):
                rows |= _asked(snapshot, now)
    with traced() as trace:
        orphaned = orphans(store.leftovers(), now)
    return rows.union(*(_decided(trace, each) for each in orphaned))


def _asked(snapshot: Snapshot, now: datetime) -> set[str]:
    """The rows that say whether an object that does not run may be admitted, and whether it has ceased."""
    with traced() as trace:
        ask(snapshot, now)
        ceased(snapshot)
    assert not trace.undeclared
    return trace.ids


def _decided(trace: Trace, observation: Observation) -> set[str]:
    assert not trace.undeclared
    return {
        row.id
        for row, outcome in trace.fired
        if outcome.detail in observation.cause.detail and row.state in (None, observation.state)
    }


def _marks() -> list[Moment]:
    """Every mark of every recording whose text stands there once."""
    found: list[Moment] = []
    for mode in MODES:
        for scenario in scenarios(mode):
            marks = [line["mark"] for line in recording(mode, scenario).lines if "mark" in line]
            found += [Moment(mode, scenario, mark) for mark in marks if marks.count(mark) == 1]
    return found
