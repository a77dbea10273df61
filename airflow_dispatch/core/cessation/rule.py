"""The rule for one TrainJob that is about to be admitted (contract, section 12).

An empty list of pods is not enough once the object has run: Trainer, JobSet and Job controllers may each be a step
behind, and pods were seen to appear more than a second after an empty list. So the list is trusted only when JobSet
and Jobs show that they have taken the suspension in.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import end, jobset_end, true
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.remaining import describe_remaining
from airflow_dispatch.core.identity import parse_decimal
from airflow_dispatch.core.objects import Job, JobSet, TrainJob
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Snapshot

__all__ = ["SECOND_LOOK_SECONDS", "Answer", "ask"]

SECOND_LOOK_SECONDS: Final = 30.0
"""How long what can't be dated must have held before a second empty list is believed."""


class Answer(NamedTuple):
    """``remaining``: ``<pod> on <node> (<node state>)`` of each pod that may still run, and what the ledger can't tell.

    ``unsettled`` says why an empty list is not believed yet; ``second_look`` the seconds after which the same state,
    seen again, is believed, or None when something has to change first.
    """

    remaining: tuple[str, ...] = ()
    unsettled: str = ""
    second_look: float | None = None

    @property
    def nothing_runs(self) -> bool:
        """The object may be admitted."""
        return not self.remaining and not self.unsettled


@implements(
    Row(
        "12",
        "behind",
        "the list is empty, and a controller has not taken the suspension in: JobSet and unfinished Jobs are suspended "
        "and say so, and the JobSet's template carries the patch's A; or a JobSet that is gone has left Jobs",
        details=(
            "its JobSet is not suspended yet",
            "Job <job> is not suspended yet",
            "its JobSet does not carry admission <A> yet",
            "<object> does not confirm its suspension yet",
            "its JobSet is gone, its Jobs are not",
        ),
    ),
    Row(
        "12",
        "second-look",
        "the list is empty, and what can't be dated has not held for 30 s: the suspension may be older than the last "
        "raise of A, or the JobSet is gone",
        details=("its suspension may be older than its last admission", "its JobSet is gone"),
    ),
    Row("12", "settled", "the list is empty, and none of this: it may be admitted"),
    Row(
        "12",
        "remaining",
        "pods that may still run, remembered ones among them, and what can't be read of the ledger",
        details=("<pods>",),
    ),
)
def ask(snapshot: Snapshot, now: datetime, *, held_for: float = 0.0) -> Answer:
    """May anything of this TrainJob still run?

    ``held_for``: seconds since the caller first got an answer with a ``second_look``, and the same one ever since.
    """
    facts = Facts(snapshot, now)
    remaining = tuple(describe_remaining(view, facts.node_now(view)) for view in facts.remaining)
    if remaining or snapshot.unreadable:
        return Answer((*remaining, *snapshot.unreadable))
    if _never_admitted(facts):
        return Answer()
    if snapshot.jobset is None:
        if snapshot.jobs:
            return Answer(unsettled="its JobSet is gone, its Jobs are not")
        return _after_second_look("its JobSet is gone", held_for)
    return _suspension(facts, snapshot.jobset, held_for)


@implements(Row("12", "never-admitted", "A is 0 and was never raised: an empty list alone decides"))
def _never_admitted(facts: Facts) -> bool:
    """A is 0 and was never raised: nothing of it has run, and no controller makes pods of a suspended object."""
    floor = parse_decimal(facts.metadata.annotation(names.ANNOTATION_ADMISSION_FLOOR))
    return facts.patch_admission == 0 and not floor


def _suspension(facts: Facts, jobset: JobSet, held_for: float) -> Answer:  # noqa: PLR0911 (one return a condition)
    if _has_finished(jobset):
        return Answer()
    unfinished = [job for job in facts.snapshot.jobs if end(job.status) is None]
    if jobset.spec.suspend is not True:
        return Answer(unsettled="its JobSet is not suspended yet")
    for job in unfinished:
        if job.spec.suspend is not True:
            return Answer(unsettled=f"Job {job.metadata.name} is not suspended yet")
    if str(facts.patch_admission) not in _template_admissions(jobset):
        return Answer(unsettled=f"its JobSet does not carry admission {facts.patch_admission} yet")
    raised = _raised_at(facts.trainjob)
    stopped: tuple[JobSet | Job, ...] = (jobset, *unfinished)
    for item in stopped:
        suspended = true(item.status, "Suspended")
        if suspended is None:
            return Answer(unsettled=f"{item.metadata.name} does not confirm its suspension yet")
        since = suspended.last_transition_time
        if raised is None or since is None or since <= raised:
            return _after_second_look("its suspension may be older than its last admission", held_for)
    return Answer()


@implements(Row("12", "finished", "the JobSet has finished: an empty list alone decides"))
def _has_finished(jobset: JobSet) -> bool:
    return jobset_end(jobset.status) is not None


def _after_second_look(why: str, held_for: float) -> Answer:
    left = SECOND_LOOK_SECONDS - held_for
    return Answer(unsettled=why, second_look=left) if left > 0 else Answer()


def _raised_at(trainjob: TrainJob) -> datetime | None:
    """When our patch entry was last written, which is the last raise of A."""
    entries = [patch for patch in trainjob.spec.runtime_patches or () if patch.manager == names.PATCH_MANAGER]
    return entries[0].time if entries else None


def _template_admissions(jobset: JobSet) -> set[str]:
    """A, as each replicated job's pod template carries it."""
    found = set()
    for replicated in jobset.spec.replicated_jobs or ():
        value: Any = replicated
        for key in ("template", "spec", "template", "metadata", "annotations", names.ANNOTATION_ADMISSION):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            found.add(value)
    return found
