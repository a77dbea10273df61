"""``start``: read the runtime, copy it, create the TrainJob gated, give it the copy (contract, section 9).

Each step looks at what is there, so a start that was stopped anywhere is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_dispatch.adapter.reading import read_snapshot, record_of, snapshot_of
from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.classify.conditions import stamp
from airflow_dispatch.core.errors import (
    AlreadyExists,
    Conflict,
    DispatchError,
    Forbidden,
    InvalidJob,
    NotFound,
    Refused,
    Unreachable,
)
from airflow_dispatch.core.identity import Submission, parse_decimal
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import Metadata, Object
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.paths import Resource

__all__ = ["check_identity", "create", "give", "runtime_names", "source_runtime", "start", "sweep"]


async def start(
    target: Target, job: TrainingJob, submission: int, attempt: int, annotations: Mapping[str, str]
) -> Observation:
    """Makes sure that the submission exists, gated or further; repeats what may be repeated."""

    async def once() -> Observation:
        return await _start(target, job, submission, attempt, annotations)

    return await retrying(once)


async def _start(
    target: Target, job: TrainingJob, submission: int, attempt: int, annotations: Mapping[str, str]
) -> Observation:
    if submission > 1:
        selector = f"{names.LABEL_JOB_ID}={job.job_id}"
        copies = await target.client.list(paths.RUNTIMES, target.namespace, label_selector=selector)
        await sweep(target, copies.items, submission)
    trainjob = await _found(target, names.object_name(job.job_id, submission))
    if trainjob is None:
        snapshot = await create(target, job, submission, attempt, annotations)
    else:
        check_identity(target, record_of(paths.TRAINJOBS, trainjob).metadata, Submission(job.job_id, submission))
        snapshot = await read_snapshot(target, trainjob)
        await give(target, snapshot.trainjob, snapshot.runtime)
    return classify(snapshot, datetime.now(UTC))


async def _found(target: Target, name: str) -> dict[str, Any] | None:
    try:
        return await target.client.get(paths.TRAINJOBS, name, target.namespace)
    except NotFound:
        return None


async def source_runtime(target: Target, name: str) -> dict[str, Any]:
    """The ClusterTrainingRuntime of that name, else the namespace's TrainingRuntime.

    Raises :class:`InvalidJob`, which lists those that there are.
    """
    try:
        return await target.client.get(paths.CLUSTER_RUNTIMES, name)
    except NotFound:
        pass
    try:
        return await target.client.get(paths.RUNTIMES, name, target.namespace)
    except NotFound:
        raise InvalidJob(f"runtime {name!r} is not known here; {await _known_runtimes(target)}") from None


async def _known_runtimes(target: Target) -> str:
    try:
        return "there are: " + (", ".join(await runtime_names(target)) or "none")
    except Forbidden as error:
        return f"which there are can't be said: {error}"


async def runtime_names(target: Target) -> list[str]:
    """The runtimes that a job can name: the cluster's and the namespace's, without the copies of jobs."""
    cluster = await target.client.list(paths.CLUSTER_RUNTIMES)
    own = await target.client.list(paths.RUNTIMES, target.namespace, label_selector=f"!{names.LABEL_JOB_ID}")
    return sorted({item.metadata.name for item in (*cluster.items, *own.items)})


async def create(
    target: Target, job: TrainingJob, submission: int, attempt: int, annotations: Mapping[str, str]
) -> Snapshot:
    """Makes runtime copy and TrainJob, gated; both as they were made, with nothing else that may have their name.

    Raises :class:`InvalidJob` before any write, and :class:`Conflict` when the TrainJob is there.
    """
    source = await source_runtime(target, job.runtime)
    unsafe = manifest.unsafe_fields(source)
    policy = job.unsafe_runtime or target.settings.unsafe_runtime
    if unsafe and policy == "refuse":
        raise InvalidJob(
            f"runtime {job.runtime!r} could start a second execution beside a running one ({'; '.join(unsafe)}): "
            "use a safe runtime, or set unsafe_runtime to 'harden' for a safe copy, or to 'allow'"
        )
    wanted = manifest.copy_of(source, job.job_id, submission, harden=policy == "harden")
    copy = await _copy(target, wanted)
    body = manifest.trainjob(
        job,
        submission,
        attempt,
        replicated_job=manifest.trainer_job(copy)["name"],
        labels=target.settings.labels,
        annotations={**target.settings.annotations, **annotations},
    )
    try:
        trainjob = await target.client.create(paths.TRAINJOBS, target.namespace, body)
    except AlreadyExists as error:
        raise Conflict(f"{target.ref(body['metadata']['name'])}: made by another start meanwhile") from error
    except Refused as error:
        await _withdraw(target, error, (paths.RUNTIMES, copy))
        raise
    record = record_of(paths.TRAINJOBS, trainjob)
    try:
        owned = await _own(target, copy, record)
    except Forbidden as error:
        await _withdraw(target, error, (paths.TRAINJOBS, trainjob), (paths.RUNTIMES, copy))
        raise
    return snapshot_of(target, record, record_of(paths.RUNTIMES, owned))


async def _withdraw(target: Target, refusal: Refused, *made: tuple[Resource, dict[str, Any]]) -> None:
    """Deletes what was made before a refusal: a start that can't succeed leaves nothing behind."""
    for resource, raw in made:
        metadata = raw["metadata"]
        try:
            await _delete(target, resource, metadata["name"], metadata["uid"])
        except DispatchError as error:
            refusal.add_note(f"its {resource.kind} {target.ref(metadata['name'])} is left behind: {error}")


async def _copy(target: Target, wanted: dict[str, Any]) -> dict[str, Any]:
    """The runtime copy of a TrainJob that does not exist yet: a new one, or what a stopped start left."""
    name = wanted["metadata"]["name"]
    try:
        return await target.client.create(paths.RUNTIMES, target.namespace, wanted)
    except AlreadyExists:
        found = await target.client.get(paths.RUNTIMES, name, target.namespace)
    metadata = found["metadata"]
    if metadata.get("ownerReferences"):
        raise Unreachable(f"{target.ref(name)}: its runtime copy belongs to a TrainJob that is going away")
    mine = {key: wanted["metadata"]["labels"][key] for key in (names.LABEL_JOB_ID, names.LABEL_SUBMISSION)}
    labels = metadata.get("labels") or {}
    if any(labels.get(key) != value for key, value in mine.items()):
        raise Refused(f"{target.ref(name)}: a TrainingRuntime of that name exists which is not dispatch's")
    if found["spec"] == wanted["spec"] and not metadata.get("deletionTimestamp"):
        return found
    await target.client.delete(paths.RUNTIMES, name, target.namespace, uid=metadata["uid"])
    raise Unreachable(f"{target.ref(name)}: a runtime copy of another source was left and is being deleted")


def check_identity(target: Target, metadata: Metadata, submission: Submission) -> None:
    """That a TrainJob is this submission's; raises :class:`Unreachable` while it is being deleted."""
    ref = target.ref(metadata.name)
    if metadata.deletion_timestamp is not None:
        raise Unreachable(f"{ref}: is being deleted since {stamp(metadata.deletion_timestamp)}")
    wanted = {names.LABEL_JOB_ID: submission.job_id, names.LABEL_SUBMISSION: str(submission.number)}
    for key, value in wanted.items():
        if metadata.label(key) != value:
            raise Refused(f"{ref} exists with {key}={metadata.label(key)!r}, not {value!r}")


async def give(target: Target, trainjob: Object, copy: Object | None) -> None:
    """Finishes a start that was stopped before the TrainJob owned its copy.

    Without a copy nothing is done: classification says that it is gone, and one made now would not be the one that the
    TrainJob runs on.
    """
    if copy is None or copy.metadata.owner_references:
        return
    found = await target.client.get(paths.RUNTIMES, copy.metadata.name, target.namespace)
    if not found["metadata"].get("ownerReferences"):
        await _own(target, found, trainjob)


async def _own(target: Target, copy: dict[str, Any], trainjob: Object) -> dict[str, Any]:
    owners = manifest.owned_by(trainjob.metadata.name, trainjob.metadata.uid)
    return await target.client.replace(
        paths.RUNTIMES, {**copy, "metadata": {**copy["metadata"], "ownerReferences": owners}}
    )


async def sweep(target: Target, copies: Iterable[Object], submission: int) -> None:
    """Deletes ownerless ones among a job's copies of lower submissions: their starts will not be repeated."""
    for copy in copies:
        number = parse_decimal(copy.metadata.label(names.LABEL_SUBMISSION))
        if copy.metadata.owner_references or number is None or number >= submission:
            continue
        try:
            await target.client.read(paths.TRAINJOBS, copy.metadata.name, target.namespace)
        except NotFound:
            await _delete(target, paths.RUNTIMES, copy.metadata.name, copy.metadata.uid)


async def _delete(target: Target, resource: Resource, name: str, uid: str) -> None:
    try:
        await target.client.delete(resource, name, target.namespace, uid=uid)
    except NotFound:
        return
