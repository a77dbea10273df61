"""The notes of section 8 that come from pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from airflow_dispatch.core.classify.conditions import stamp, words
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.pods import PodView, newest_of_each_rank
from airflow_dispatch.core.classify.ranks import completed, count, without
from airflow_dispatch.core.classify.remaining import describe_remaining
from airflow_dispatch.core.names import TRAINER_CONTAINER
from airflow_dispatch.core.observation import State
from airflow_dispatch.core.rows import Row, implements

CREATING: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons to wait that every pod goes through."""


@implements(
    Row(
        "8",
        "earlier-execution",
        "pods of an earlier admission that may still run",
        details=("earlier execution: <pods>",),
    )
)
def earlier_execution(facts: Facts, _state: State) -> Iterator[str]:
    """Pods that may still run and whose A is below the patch's."""
    current = facts.patch_admission
    if current is not None:
        views = [view for view in facts.remaining if view.admission is not None and view.admission < current]
        yield from _listed("earlier execution", _written(facts, views))


@implements(Row("8", "remaining", "not running, and pods that may still run", details=("remaining pods: <pods>",)))
def remaining(facts: Facts, state: State) -> Iterator[str]:
    """While nothing should run: what may still run, and what the ledger can't tell."""
    if state is not State.RUNNING:
        yield from _listed("remaining pods", [*_written(facts, facts.remaining), *facts.snapshot.unreadable])


@implements(
    Row(
        "8",
        "being-deleted",
        "running, and somebody deletes a pod that nothing has replaced",
        details=("pod <pod> is being deleted, due <t>",),
    )
)
def being_deleted(facts: Facts, state: State) -> Iterator[str]:
    """Somebody deleted a pod of the execution that should run, and nothing has replaced it."""
    job = facts.trainer_job
    if (
        state is not State.RUNNING
        or facts.job_condition("FailureTarget") is not None
        or facts.suspended is not None
        or (job is not None and job.spec.suspend is True)
    ):
        return
    for view in sorted(facts.live, key=lambda each: each.name):
        due = view.pod.metadata.deletion_timestamp
        if due is None or view.finished or view.disruption is not None or view.admission is None:
            continue
        if view.admission == facts.patch_admission and not facts.replaced(view):
            yield f"pod {view.name} is being deleted, due {stamp(due)}"


@implements(
    Row(
        "8",
        "sidecars",
        "`node` has ended, and other containers run on",
        details=("pod <pod>: node exited <n>, <containers> still runs",),
    )
)
def sidecars(facts: Facts, _state: State) -> Iterator[str]:
    """``node`` has ended, but other containers keep its pod from ending."""
    for view in _unfinished(facts):
        state = view.trainer.state if view.trainer is not None else None
        if state is None or state.terminated is None:
            continue
        others = [name for name in view.running_containers() if name != TRAINER_CONTAINER]
        if others:
            yield f"pod {view.name}: node exited {state.terminated.exit_code}, {', '.join(others)} still runs"


@implements(
    Row(
        "8",
        "waiting",
        "a container waits for anything but its creation",
        details=(
            "pod <pod> <reason>: <message>",
            "pod <pod> <reason>",
        ),
    )
)
def waiting(facts: Facts, _state: State) -> Iterator[str]:
    """Containers that wait for something that does not come by itself."""
    for view in _unfinished(facts):
        states = [status.state for status in (*view.init_containers, *view.containers)]
        waits = [state.waiting for state in states if state is not None and state.waiting is not None]
        reasons = [words(each.reason, each.message) for each in waits if each.reason and each.reason not in CREATING]
        for reason in dict.fromkeys(reasons):
            yield f"pod {view.name} {reason}"


@implements(
    Row(
        "8",
        "failed",
        "a pod failed and says nothing of section 6.3",
        details=(
            "pod <pod> failed: <reason>: <message>",
            "pod <pod> failed: <reason>",
            "pod <pod> failed",
        ),
    )
)
def failed_without_finding(facts: Facts, _state: State) -> Iterator[str]:
    """A pod of the current execution that failed and says nothing that section 6.3 knows."""
    explained = {each.view for each in facts.findings}
    for view in newest_of_each_rank(facts.current):
        status = view.pod.status
        if view.phase == "Failed" and status is not None and view not in explained:
            yield words(f"pod {view.name} failed", words(status.reason, status.message))


@implements(
    Row(
        "8",
        "completed-ranks",
        "the gang was resumed without ranks that had completed",
        details=("<k> of <n> ranks had already completed",),
    )
)
def completed_ranks(facts: Facts, state: State) -> Iterator[str]:
    """The resumed gang lacks the ranks that had completed before: a Job never runs a completed index again."""
    job = facts.trainer_job
    if job is None or state not in (State.PENDING, State.RUNNING):
        return
    done = completed((job.status.completed_indexes if job.status is not None else None) or "")
    if state is State.RUNNING:
        ran = {view.index for view in facts.pods if view.admission == facts.patch_admission}
        done = without(done, {index for index in ran if index is not None})
    lacking = count(done)
    if lacking:
        yield f"{lacking} of {job.spec.completions or 0} ranks had already completed"


def _unfinished(facts: Facts) -> list[PodView]:
    return [view for view in facts.live if not view.finished]


def _written(facts: Facts, views: Iterable[PodView]) -> list[str]:
    return [describe_remaining(view, facts.node_now(view)) for view in views]


def _listed(note: str, written: Sequence[str]) -> Iterator[str]:
    if written:
        yield f"{note}: {', '.join(written)}"
