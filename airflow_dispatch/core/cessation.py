"""May anything of a TrainJob still run? The one answer that admission, release and resubmission ask (section 12)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.classify.patch import pod_patch
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.remaining import describe_remaining, in_order, may_have_outlived, may_run
from airflow_dispatch.core.objects import Job, JobSet
from airflow_dispatch.core.snapshot import Snapshot

__all__ = ["SETTLING", "Cessation", "cessation", "remaining_pods"]

SETTLING: Final = timedelta(seconds=30)
"""How long an empty list must go on being empty where the controllers' own times prove nothing."""


class Cessation(NamedTuple):
    """What is known.

    ``remaining``: pods that may still run, as ``<pod> on <node> (<node state>)``. ``doubt``: why an empty list proves
    nothing yet; ``settles``: a second look after :data:`SETTLING` that finds the same removes the doubt.
    """

    remaining: tuple[str, ...] = ()
    doubt: str = ""
    settles: bool = False

    @property
    def proven(self) -> bool:
        """Nothing of it runs."""
        return not self.remaining and not self.doubt


def cessation(snapshot: Snapshot) -> Cessation:
    """Judges one TrainJob from one consistent read."""
    remaining = remaining_pods(snapshot)
    if remaining:
        return Cessation(remaining=remaining)
    patch = pod_patch(snapshot.trainjob)
    admission = patch.admission_number if patch is not None else None
    if admission == 0:
        return Cessation()  # never opened: no pod was ever made, and none will be while it stays so
    jobset = snapshot.jobset
    if jobset is None:
        if snapshot.jobs:
            return Cessation(doubt=f"Job {snapshot.jobs[0].metadata.name} is still there")
        return Cessation(doubt="its JobSet is gone", settles=True)
    if _finished(jobset):
        return Cessation()
    return _suspended(snapshot, jobset, admission)


def remaining_pods(snapshot: Snapshot) -> tuple[str, ...]:
    """The pods of a TrainJob that may still run, live and vanished, in order of name."""
    live = [PodView(pod, snapshot.node_of(pod), live=True) for pod in snapshot.pods]
    vanished = [PodView(each.pod, each.node, live=False) for each in snapshot.vanished]
    running = [view for view in live if may_run(view)]
    running += [view for view in vanished if may_have_outlived(view, snapshot.node_of(view.pod))]
    return tuple(describe_remaining(view, snapshot.node_of(view.pod)) for view in in_order(running))


def _suspended(snapshot: Snapshot, jobset: JobSet, admission: int | None) -> Cessation:
    """Everything that could make a pod has been told to stop, and says that it has heard of it since the last raise."""
    if not jobset.spec.suspend:
        return Cessation(doubt="its JobSet is not suspended")
    unfinished = [job for job in snapshot.jobs if not _finished(job)]
    for job in unfinished:
        if not job.spec.suspend:
            return Cessation(doubt=f"Job {job.metadata.name} is not suspended")
    if admission is not None and _template_admission(jobset) != str(admission):
        return Cessation(doubt=f"its JobSet does not carry admission {admission} yet")
    raised = _last_raise(snapshot)
    stopped: tuple[JobSet | Job, ...] = (jobset, *unfinished)
    for owner in stopped:
        suspended = true(owner.status, "Suspended")
        if suspended is None:
            return Cessation(doubt=f"{owner.metadata.name} does not report Suspended yet")
        began = suspended.last_transition_time
        if raised is None or began is None or began <= raised:
            return Cessation(doubt=f"{owner.metadata.name} was suspended before the last admission", settles=True)
    return Cessation()


def _finished(owner: JobSet | Job) -> bool:
    return any(true(owner.status, kind) is not None for kind in ("Completed", "Complete", "Failed"))


def _last_raise(snapshot: Snapshot) -> datetime | None:
    for patch in snapshot.trainjob.spec.runtime_patches or ():
        if patch.manager == names.PATCH_MANAGER:
            return patch.time
    return None


def _template_admission(jobset: JobSet) -> str | None:
    """The A that the JobSet puts on the trainer's pods."""
    for replicated in jobset.spec.replicated_jobs or ():
        value: Any = replicated
        for key in ("template", "spec", "template", "metadata", "annotations", names.ANNOTATION_ADMISSION):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    return None
