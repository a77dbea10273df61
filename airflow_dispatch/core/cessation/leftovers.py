"""The rule between submissions: what is left of a job's other submissions when one of them is to be opened."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import end, jobset_end
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.remaining import describe_remaining, may_have_outlived, may_run
from airflow_dispatch.core.identity import Submission, parse_name
from airflow_dispatch.core.objects import Condition, Object, Pod
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Leftovers

__all__ = ["of_other_submissions"]


@implements(
    Row(
        "12",
        "submissions",
        "between submissions: pods of the job's other submissions that may still run, and their JobSets and Jobs that "
        "may make pods",
    )
)
def of_other_submissions(leftovers: Leftovers, own: Submission) -> tuple[str, ...]:
    """What of the job's other submissions may still run or make pods; empty when ``own`` may be opened.

    A pod is written as in section 8; vanished ones of the ledger are among them. A JobSet or Job that has not finished
    may make pods at any moment, so each counts as long as it is there; suspended or not when its TrainJob is gone or
    going, since a controller may have in hand what it was before, and the garbage collector takes both soon.
    """
    live = [PodView(pod, leftovers.node_of(pod), live=True) for pod in leftovers.pods if _is_other(_owner(pod), own)]
    listed = {pod.metadata.uid for pod in leftovers.pods}
    vanished = [
        PodView.of(each)
        for owner, each in leftovers.vanished
        if _is_other(owner, own) and each.pod.metadata.uid not in listed
    ]
    views = [
        *(view for view in live if may_run(view)),
        *(view for view in vanished if may_have_outlived(view, leftovers.node_of(view.pod))),
    ]
    pods = [describe_remaining(view, leftovers.node_of(view.pod)) for view in sorted(views, key=lambda each: each.name)]
    return (*pods, *_makers(leftovers, own))


def _makers(leftovers: Leftovers, own: Submission) -> Iterator[str]:
    stay = {each.metadata.name for each in leftovers.trainjobs if each.metadata.deletion_timestamp is None}

    def may_make(owner: str, ended: Condition | None, suspend: bool | None) -> bool:
        return _is_other(owner, own) and ended is None and not (suspend is True and owner in stay)

    for jobset in leftovers.jobsets:
        if may_make(jobset.metadata.name, jobset_end(jobset.status), jobset.spec.suspend):
            yield f"JobSet {jobset.metadata.name}"
    for job in leftovers.jobs:
        if may_make(_owner(job), end(job.status), job.spec.suspend):
            yield f"Job {job.metadata.name}"


def _owner(item: Object) -> str:
    """The TrainJob's name, by JobSet's label, else by our own two."""
    metadata = item.metadata
    by_jobset = metadata.label(names.LABEL_JOBSET_NAME)
    if by_jobset and parse_name(by_jobset):
        return by_jobset
    job_id, number = metadata.label(names.LABEL_JOB_ID), metadata.label(names.LABEL_SUBMISSION)
    if isinstance(item, Pod) and job_id and number and number.isdecimal():
        return names.object_name(job_id, int(number))
    return ""


def _is_other(name: str, own: Submission) -> bool:
    found = parse_name(name)
    return found is not None and found.job_id == own.job_id and found.number != own.number
