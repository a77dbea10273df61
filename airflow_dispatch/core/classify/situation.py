"""What status needs to explain a stall: the last part of a detail (contract, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import pod_situation
from airflow_dispatch.core.classify.conditions import stamp, true, words, words_of
from airflow_dispatch.core.classify.creation import (
    job_failure,
    job_is_missing,
    pod_failure,
    pods_are_missing,
    resources_failure,
)
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.objects import Event, Time
from airflow_dispatch.core.observation import State
from airflow_dispatch.core.rows import Row, implements

PATIENCE: Final = timedelta(seconds=60)
"""How long a controller may be a step behind before it is worth a note."""


@implements(Row("8", "deleted", "it is being deleted", details=("TrainJob is being deleted since <t>",)))
def deleted(facts: Facts, _state: State) -> Iterator[str]:
    if facts.metadata.deletion_timestamp is not None:
        yield f"TrainJob is being deleted since {stamp(facts.metadata.deletion_timestamp)}"


@implements(Row("8", "gates", "others gate it", details=("gated by <gates>",)))
def gates(facts: Facts, _state: State) -> Iterator[str]:
    if facts.foreign_gates:
        yield f"gated by {', '.join(facts.foreign_gates)}"


@implements(Row("8", "workload", "Kueue mode, not ended, no Workload", details=("no Workload yet",)))
def workload(facts: Facts, state: State) -> Iterator[str]:
    if facts.kueue and facts.workload is None and state is not State.ENDED:
        yield "no Workload yet"


@implements(
    Row(
        "8",
        "checks",
        "Kueue mode, pending: admission checks that are not Ready",
        details=(
            "admission check <name> <state>: <message>",
            "admission check <name> <state>",
        ),
    )
)
def checks(facts: Facts, state: State) -> Iterator[str]:
    """Admission checks that are not Ready, in the Workload's own order."""
    status = facts.workload.status if facts.workload is not None else None
    if state is not State.PENDING or status is None:
        return
    for check in status.admission_checks or ():
        if check.state != "Ready":
            yield words(f"admission check {check.name} {check.state}", check.message)


@implements(
    Row("8", "gate-without-effect", "gated in Kueue mode, and not suspended", details=("runs although it is gated",))
)
def gate_without_effect(facts: Facts, state: State) -> Iterator[str]:
    if state is State.GATED and facts.kueue and facts.not_suspended:
        yield "runs although it is gated"


@implements(
    Row(
        "8",
        "no-jobset",
        "admitted, not suspended, not ended, no JobSet",
        details=(
            "no JobSet yet: <message>",
            "no JobSet yet",
        ),
    )
)
def no_jobset(facts: Facts, state: State) -> Iterator[str]:
    if facts.admitted and facts.not_suspended and state is not State.ENDED and facts.snapshot.jobset is None:
        yield _because("no JobSet yet", resources_failure(facts))


@implements(
    Row(
        "8",
        "no-job",
        "the JobSet is there and resumed, its Job is not",
        details=(
            "no Job yet: <message>",
            "no Job yet",
        ),
    )
)
def no_job(facts: Facts, state: State) -> Iterator[str]:
    if state is not State.ENDED and job_is_missing(facts):
        yield _because("no Job yet", job_failure(facts))


@implements(
    Row(
        "8",
        "no-pods",
        "the Job is there and resumed, has no pod, and an Event says why",
        details=(
            "no pods yet: <message>",
            "no pods yet",
        ),
    )
)
def no_pods(facts: Facts, state: State) -> Iterator[str]:
    failure = pod_failure(facts)
    if state is not State.ENDED and failure is not None and pods_are_missing(facts):
        yield _because("no pods yet", failure)


@implements(
    Row(
        "8",
        "admitted-suspended",
        "admitted by Kueue for more than 60 s, and suspended",
        details=("admitted since <t>, still suspended",),
    )
)
def admitted_still_suspended(facts: Facts, state: State) -> Iterator[str]:
    admitted = facts.workload_condition("Admitted")
    if state is State.ENDED or admitted is None or not facts.suspend_asked:
        return
    since = admitted.last_transition_time
    if since is not None and _overdue(since, facts.now):
        yield f"admitted since {stamp(since)}, still suspended"


@implements(
    Row(
        "8",
        "jobset-not-suspended",
        "suspended for more than 60 s, its JobSet is not",
        details=(
            "JobSet not suspended yet: <message>",
            "JobSet not suspended yet",
        ),
    )
)
def jobset_not_suspended(facts: Facts, state: State) -> Iterator[str]:
    jobset = facts.snapshot.jobset
    if state is State.ENDED or not facts.suspend_asked or jobset is None or jobset.spec.suspend is True:
        return
    since = _suspended_since(facts)
    if since is not None and _overdue(since, facts.now):
        yield _because("JobSet not suspended yet", resources_failure(facts))


@implements(
    Row("8", "completing", "the Job has succeeded and is not Complete yet", details=("job is completing: <words>",))
)
def completing(facts: Facts, _state: State) -> Iterator[str]:
    """A pod that is stuck on a lost node keeps it so."""
    found = facts.job_condition("SuccessCriteriaMet")
    if found is not None and facts.job_condition("Complete") is None and facts.complete is None:
        yield f"job is completing: {words_of(found)}"


@implements(
    Row("8", "failing", "the Job fails and the TrainJob has not failed yet", details=("job is failing: <words>",))
)
def failing(facts: Facts, _state: State) -> Iterator[str]:
    found = facts.job_condition("FailureTarget")
    if found is not None and facts.failed is None:
        yield f"job is failing: {words_of(found)}"


@implements(Row("8", "restarting", "the JobSet restarts", details=("JobSet restarting: <words>",)))
def restarting(facts: Facts, _state: State) -> Iterator[str]:
    jobset = facts.snapshot.jobset
    found = true(jobset.status, "RestartingJobSet") if jobset is not None else None
    if found is not None:
        yield f"JobSet restarting: {words_of(found)}"


@implements(
    Row(
        "8",
        "unreadable",
        "a part of an object is not of the documented shape, and was left out",
        details=("<kind> <name> can't be read in full: <problem>",),
    )
)
def unreadable(facts: Facts, _state: State) -> Iterator[str]:
    yield from facts.odd


ROWS: Final[tuple[Callable[[Facts, State], Iterator[str]], ...]] = (
    unreadable,
    deleted,
    gates,
    workload,
    checks,
    gate_without_effect,
    pod_situation.earlier_execution,
    pod_situation.remaining,
    no_jobset,
    no_job,
    no_pods,
    admitted_still_suspended,
    jobset_not_suspended,
    completing,
    failing,
    pod_situation.being_deleted,
    pod_situation.sidecars,
    pod_situation.waiting,
    pod_situation.failed_without_finding,
    restarting,
    pod_situation.completed_ranks,
)


def situation(facts: Facts, state: State) -> list[str]:
    """The notes, in the table's order."""
    return [note for row in ROWS for note in row(facts, state)]


def _because(note: str, event: Event | None) -> str:
    return words(note, event.message if event is not None else None)


def _overdue(since: datetime, now: datetime) -> bool:
    return now - since > PATIENCE


def _suspended_since(facts: Facts) -> datetime | None:
    """When ``Suspended=True`` began, else when the hold was written."""
    if facts.suspended is not None and facts.suspended.last_transition_time is not None:
        return facts.suspended.last_transition_time
    held = facts.held_object
    text = held.annotation(names.ANNOTATION_HOLD_SINCE) if held is not None else None
    if text is None:
        return None
    try:
        return msgspec.convert(text, Time)
    except msgspec.ValidationError:
        return None  # the annotation is anybody's to write; what is no time says nothing
