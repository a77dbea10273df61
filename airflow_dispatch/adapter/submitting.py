"""``submit`` and ``report``: what a try of an Airflow task does with its job (contract, section 13)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from airflow_dispatch.adapter.cancelling import remove
from airflow_dispatch.adapter.editing import annotations_of, has_condition
from airflow_dispatch.adapter.reading import complete, get_trainjob, read_submissions, snapshot_named
from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.starting import check_identity, create, give, sweep
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names, task
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.errors import NotFound
from airflow_dispatch.core.identity import Submission, TaskKey, parse_decimal, parse_name
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, Observation
from airflow_dispatch.core.snapshot import Leftovers
from airflow_dispatch.core.task import Action
from airflow_dispatch.kube import paths

__all__ = ["Submitted", "report", "submit"]

_WORDS = {
    Action.START: "submitted",
    Action.REPLACE: "submitted anew, since the job was changed,",
    Action.ADOPT: "adopted",
    Action.VERDICT: "found the end of",
}


class Submitted(NamedTuple):
    """What a try has, and how it came by it: ``action`` is the past participle that a log begins with."""

    action: str
    observation: Observation


async def submit(target: Target, job: TrainingJob, origin: TaskKey, try_number: int) -> Submitted:
    """Starts, adopts or replaces the task's submission, or finds that it has ended with nobody having taken that.

    What is started is gated and runs nothing; ``open`` makes sure that nothing of an earlier submission may still run.
    """

    async def once() -> Submitted:
        return await _submit(target, job, origin, try_number)

    return await retrying(once)


async def _submit(target: Target, job: TrainingJob, origin: TaskKey, try_number: int) -> Submitted:
    store = await read_submissions(target)
    leftovers = store.leftovers()
    digest = task.spec_digest(job)
    decision = task.decide(
        task.submissions_of(leftovers.trainjobs, job.job_id),
        digest=digest,
        origin=origin,
        try_number=try_number,
        highest=max(_numbers(leftovers, job.job_id), default=0),
    )
    for each in decision.remove:
        await remove(target, job.job_id, each)
    copies = [copy for copy in leftovers.runtimes if copy.metadata.label(names.LABEL_JOB_ID) == job.job_id]
    await sweep(target, copies, decision.submission)
    name = names.object_name(job.job_id, decision.submission)
    if decision.action in (Action.START, Action.REPLACE):
        marks = {names.ANNOTATION_SPEC_DIGEST: digest, names.ANNOTATION_ORIGIN: task.format_origin(origin)}
        snapshot = await create(target, job, decision.submission, try_number, marks)
    else:
        await complete(target, store, job.job_id)
        snapshot = snapshot_named(target, store, name)
        if decision.action is Action.ADOPT:
            check_identity(target, snapshot.trainjob.metadata, Submission(job.job_id, decision.submission))
            await give(target, snapshot.trainjob, snapshot.runtime)
    return Submitted(_WORDS[decision.action], classify(snapshot, datetime.now(UTC)))


def _numbers(leftovers: Leftovers, job_id: str) -> list[int]:
    """N of everything there is of a job, by name or by label."""
    items = (*leftovers.trainjobs, *leftovers.jobsets, *leftovers.pods, *leftovers.runtimes)
    found = []
    for item in items:
        metadata = item.metadata
        for name in (metadata.name, metadata.label(names.LABEL_JOBSET_NAME) or ""):
            parsed = parse_name(name)
            if parsed is not None and parsed.job_id == job_id:
                found.append(parsed.number)
        if metadata.label(names.LABEL_JOB_ID) == job_id:
            found.append(parse_decimal(metadata.label(names.LABEL_SUBMISSION)) or 0)
    return found


async def report(target: Target, name: str, uid: str, verdict: Cause, ti_id: str) -> None:
    """Writes the verdict and who has taken it in one update, and keeps a Failed submission from running again.

    An object that is gone needs no report; one that carries this report already is left alone.
    """

    async def once() -> None:
        await _report(target, name, uid, verdict, ti_id)

    await retrying(once)


async def _report(target: Target, name: str, uid: str, verdict: Cause, ti_id: str) -> None:
    try:
        trainjob = await get_trainjob(target, name, uid)
    except NotFound:
        return
    annotations = annotations_of(trainjob)
    if annotations.get(names.ANNOTATION_REPORTED) == ti_id:
        return
    annotations[names.ANNOTATION_REPORTED] = ti_id
    annotations.setdefault(names.ANNOTATION_VERDICT, task.format_verdict(verdict))
    if has_condition(trainjob, "Failed"):
        trainjob["spec"]["suspend"] = True
    await target.client.replace(paths.TRAINJOBS, trainjob)
