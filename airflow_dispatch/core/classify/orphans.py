"""What is left of a TrainJob that is gone (contract, section 7, last row)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.facts import current_execution
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.remaining import may_run
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.identity import Submission, execution, parse_decimal, parse_job_id, parse_name
from airflow_dispatch.core.objects import Job, JobSet, Metadata, Object, Pod, TrainingRuntime
from airflow_dispatch.core.observation import Cause, CauseKind, Execution, Observation, Provenance, State
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Leftovers

NOTE: Final = "no TrainJob of its UID"


def orphans(leftovers: Leftovers, now: datetime) -> list[Observation]:
    """One observation for each JobSet, pod and runtime copy of ours that has no live TrainJob of its UID.

    Each is its own object, always foreign: running while pods of it may run, else ended; in order of their references.
    """
    finder = _Finder(leftovers)
    found = [
        *(_jobset(leftovers, jobset, now) for jobset in leftovers.jobsets if finder.orphaned_jobset(jobset)),
        *(_pod(leftovers, pod, now) for pod in leftovers.pods if finder.orphaned_pod(pod)),
        *(_runtime(leftovers, copy, now) for copy in leftovers.runtimes if finder.orphaned_runtime(copy)),
    ]
    return sorted(found, key=lambda each: each.ref)


class _Finder:
    """Finds an object's TrainJob through its owners: Pod, Job, JobSet, TrainJob."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._trainjob_uids = {trainjob.metadata.uid for trainjob in leftovers.trainjobs}
        self._trainjobs = {trainjob.metadata.name: trainjob.metadata for trainjob in leftovers.trainjobs}
        self._jobs: dict[str, Job] = {job.metadata.uid: job for job in leftovers.jobs}
        self._jobsets: dict[str, JobSet] = {jobset.metadata.uid: jobset for jobset in leftovers.jobsets}

    def orphaned_jobset(self, jobset: JobSet) -> bool:
        name = jobset.metadata.name
        return parse_name(name) is not None and self._orphaned(jobset.metadata, _owner(jobset, "TrainJob"), name)

    def orphaned_runtime(self, copy: TrainingRuntime) -> bool:
        """A copy without an owner belongs to the TrainJob of its name, which ``start`` creates after it."""
        if parse_name(copy.metadata.name) is None:
            return False
        owner = _owner(copy, "TrainJob")
        return owner not in self._trainjob_uids if owner is not None else copy.metadata.name not in self._trainjobs

    def orphaned_pod(self, pod: Pod) -> bool:
        if _submission_of_pod(pod) is None:
            return False
        job = self._jobs.get(_owner(pod, "Job") or "")
        jobset = self._jobsets.get(_owner(job, "JobSet") or "") if job is not None else None
        owner = _owner(jobset, "TrainJob") if jobset is not None else None
        return self._orphaned(pod.metadata, owner, _trainjob_name(pod))

    def _orphaned(self, metadata: Metadata, trainjob_uid: str | None, name: str) -> bool:
        """By the TrainJob's UID; where that can't be known, by whether it is older than the TrainJob of its name."""
        if trainjob_uid is not None:
            return trainjob_uid not in self._trainjob_uids
        trainjob = self._trainjobs.get(name)
        if trainjob is None:
            return True
        if metadata.creation_timestamp is None or trainjob.creation_timestamp is None:
            return False
        return metadata.creation_timestamp < trainjob.creation_timestamp


def _owner(owned: Object, kind: str) -> str | None:
    """The UID of the owner of this kind, or None."""
    return next((owner.uid for owner in owned.metadata.owner_references or () if owner.kind == kind), None)


def _jobset(leftovers: Leftovers, jobset: JobSet, now: datetime) -> Observation:
    """Its pods are those of its name that are owned by its Jobs, or by none that is still there."""
    jobs = {job.metadata.uid: job for job in leftovers.jobs}
    pods = [
        pod
        for pod in leftovers.pods
        if pod.metadata.label(names.LABEL_JOBSET_NAME) == jobset.metadata.name
        and ((job := jobs.get(_owner(pod, "Job") or "")) is None or _owner(job, "JobSet") == jobset.metadata.uid)
    ]
    ref = f"{leftovers.namespace}/jobset/{jobset.metadata.name}"
    return _observe(ref, jobset, parse_name(jobset.metadata.name), _views(leftovers, pods), now)


def _pod(leftovers: Leftovers, pod: Pod, now: datetime) -> Observation:
    ref = f"{leftovers.namespace}/pod/{pod.metadata.name}"
    return _observe(ref, pod, _submission_of_pod(pod), _views(leftovers, [pod]), now)


def _runtime(leftovers: Leftovers, copy: TrainingRuntime, now: datetime) -> Observation:
    ref = f"{leftovers.namespace}/trainingruntime/{copy.metadata.name}"
    return _observe(ref, copy, parse_name(copy.metadata.name), [], now)


def _views(leftovers: Leftovers, pods: Iterable[Pod]) -> list[PodView]:
    return [PodView(pod, leftovers.node_of(pod), live=True) for pod in pods]


@implements(
    Row(
        "7",
        "orphan",
        "a JobSet, pod or runtime copy of ours without a live TrainJob of its UID: an observation of its own, "
        "`running` while pods of it may run, else `ended`; its cause is unknown",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        details=(NOTE,),
    )
)
def _observe(
    ref: str, orphan: Object, submission: Submission | None, views: Sequence[PodView], now: datetime
) -> Observation:
    return Observation(
        ref=ref,
        job_id=submission.job_id if submission is not None else "",
        submission=submission.number if submission is not None else 0,
        attempt=0,
        uid=orphan.metadata.uid,
        state=State.RUNNING if any(may_run(view) for view in views) else State.ENDED,
        cause=Cause(kind=CauseKind.UNKNOWN, detail=NOTE),
        execution=_execution(submission, views),
        foreign=True,
        seen_at=now,
    )


def _execution(submission: Submission | None, views: Sequence[PodView]) -> Execution | None:
    """The execution of section 6.4; the attempt went with the TrainJob, so the token says 0."""
    for view in current_execution(views):
        if submission is not None and view.counters is not None:
            return execution(submission, 0, *view.counters)
    return None


def _trainjob_name(pod: Pod) -> str:
    return pod.metadata.label(names.LABEL_JOBSET_NAME) or next(_labelled_names(pod), "")


def _submission_of_pod(pod: Pod) -> Submission | None:
    """From the JobSet's name, else from our labels; None for a pod that is not ours."""
    return parse_name(_trainjob_name(pod)) or next((parse_name(name) for name in _labelled_names(pod)), None)


def _labelled_names(pod: Pod) -> Iterator[str]:
    job_id = pod.metadata.label(names.LABEL_JOB_ID)
    number = parse_decimal(pod.metadata.label(names.LABEL_SUBMISSION))
    if job_id is None or number is None:
        return
    try:
        yield names.object_name(parse_job_id(job_id), number)
    except InvalidJob:
        return  # a label that is no JobID makes a pod nobody's
