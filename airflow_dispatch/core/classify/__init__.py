"""Snapshot -> Observation: one table of the contract (sections 3 to 8) is one module here and one test module.

====================  ==========================================================
module                contract
====================  ==========================================================
``state``             section 3, the state and its cause
``failed``            section 4, ``Failed=True`` by its reason
``suspended``         section 5, suspended by someone else
``running``           section 6.1, and ``creation`` for its row 6
``pending``           section 6.2, and ``evicted`` for its rows 1 to 4 and 6
``findings``          section 6.3: ``disruption``, ``termination``, ``rejection``
``facts``             sections 2 and 6.4, what the rules read
``foreign``           section 7
``orphans``           section 7, its last row
``situation``         section 8, and ``pod_situation`` for what pods say
``began``             when the current execution began, which no rule asks
====================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from airflow_dispatch.core.classify.began import began
from airflow_dispatch.core.classify.conditions import join
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.foreign import accepted, foreign
from airflow_dispatch.core.classify.orphans import orphans
from airflow_dispatch.core.classify.situation import situation
from airflow_dispatch.core.classify.state import ended, rule
from airflow_dispatch.core.identity import execution
from airflow_dispatch.core.observation import Cause, Execution, Observation
from airflow_dispatch.core.snapshot import Snapshot

__all__ = ["began", "classify", "end_of", "orphans"]


def classify(snapshot: Snapshot, now: datetime) -> Observation:
    """The observation of one TrainJob: a pure function of what was read and a clock reading.

    It never raises on odd objects, and the order of the snapshot's pods, Jobs and Events means nothing to it.
    """
    facts = Facts(snapshot, now)
    ruling = rule(facts)
    contradictions = foreign(facts)
    detail = _detail(ruling.cause.detail, [*contradictions, *accepted(facts), *situation(facts, ruling.state)])
    submission = facts.submission
    return Observation(
        ref=f"{snapshot.namespace}/{facts.metadata.name}",
        job_id=submission.job_id if submission is not None else "",
        submission=submission.number if submission is not None else 0,
        attempt=facts.attempt,
        uid=facts.metadata.uid,
        state=ruling.state,
        admin_held=ruling.admin_held,
        hold_instance=facts.hold_instance,
        cause=msgspec.structs.replace(ruling.cause, detail=detail),
        execution=_execution(facts),
        foreign=bool(contradictions),
        seen_at=now,
    )


def end_of(snapshot: Snapshot, now: datetime) -> Cause | None:
    """The end that the object shows by itself, without the notes: what a hub remembers as ``Snapshot.seen_end``."""
    ruling = ended(Facts(snapshot, now))
    return ruling.cause if ruling is not None else None


def _execution(facts: Facts) -> Execution | None:
    for view in facts.current:
        if facts.submission is not None and view.counters is not None:
            return execution(facts.submission, facts.attempt, *view.counters)
    return None


def _detail(cause: str, notes: Iterable[str]) -> str:
    """The cause's own detail, then the notes that it does not hold already, as a verdict's detail may."""
    said = f"; {cause}; "
    return join([cause, *(note for note in notes if f"; {note}; " not in said)])
