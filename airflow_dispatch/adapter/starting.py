"""Start: from a job to its gated TrainJob, in steps that a later start finishes (contract, section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_dispatch.adapter.settings import Settings
from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.errors import AlreadyExists, NotFound, OutcomeUnknown, Refused, Unreachable
from airflow_dispatch.core.identity import format_comment
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import Resource

__all__ = ["start"]


async def start(
    client: KubeClient,
    namespace: str,
    settings: Settings,
    job: TrainingJob,
    *,
    submission: int,
    attempt: int,
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    """Makes the runtime copy, the TrainJob, and the copy's owner reference, as far as they are not there.

    Returns the TrainJob as it stands. Raises :class:`Refused` for an unknown or unsafe runtime and when an object of
    the name is somebody else's, and :class:`Unreachable` while a copy of an earlier TrainJob of the name is going.
    """
    source = await _runtime(client, namespace, job.runtime)
    replicated_job = manifest.trainer_job(source)["name"]
    harden = _unsafe(source, job.unsafe_runtime or settings.unsafe_runtime)
    copy = manifest.copy_of(source, job.job_id, submission, harden=harden)
    copy = await _ensure(client, paths.RUNTIMES, namespace, copy)
    wanted = manifest.trainjob(
        job,
        submission,
        attempt,
        replicated_job=replicated_job,
        labels=settings.labels,
        annotations={**settings.annotations, **annotations},
    )
    trainjob = await _ensure(client, paths.TRAINJOBS, namespace, wanted)
    _check_identity(trainjob, wanted)
    await _own(client, namespace, copy, trainjob)
    return trainjob


async def _runtime(client: KubeClient, namespace: str, name: str) -> dict[str, Any]:
    """The runtime of that name: the namespace's own before the cluster's."""
    for resource in (paths.RUNTIMES, paths.CLUSTER_RUNTIMES):
        try:
            found = await client.get(resource, name, namespace)
        except NotFound:
            continue
        return {"kind": resource.kind, **found}
    known = [
        item.metadata.name
        for resource in (paths.RUNTIMES, paths.CLUSTER_RUNTIMES)
        for item in (await client.list(resource, namespace)).items
        if item.metadata.label(names.LABEL_JOB_ID) is None
    ]
    there = f"there are: {', '.join(sorted(known))}" if known else "there are none"
    raise Refused(f"there is no runtime {name!r}, neither in namespace {namespace} nor in the cluster; {there}")


def _unsafe(source: Mapping[str, Any], choice: str) -> bool:
    """Whether the copy is to be hardened; raises :class:`Refused` when an unsafe runtime is to be refused."""
    fields = manifest.unsafe_fields(source)
    if fields and choice == "refuse":
        name = source["metadata"]["name"]
        raise Refused(
            f"runtime {name} could start a second process beside one that still runs: {'; '.join(fields)}. Apply what "
            f"`airflow-dispatch harden-runtime {name}` prints and name that, or set unsafe_runtime to 'harden' (this "
            f"job's copy gets the safe values) or 'allow'",
        )
    return bool(fields) and choice == "harden"


async def _ensure(client: KubeClient, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    """Creates an object, or returns the one that is there; a lost answer is resolved by reading."""
    name = body["metadata"]["name"]
    try:
        return await client.create(resource, namespace, body)
    except AlreadyExists:
        return await client.get(resource, name, namespace)
    except OutcomeUnknown:
        try:
            return await client.get(resource, name, namespace)
        except NotFound:
            raise Unreachable(f"create {resource.plural} {namespace}/{name}: it did not arrive") from None


def _check_identity(trainjob: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises :class:`Refused` unless the TrainJob that is there is the one that was to be made."""
    metadata, expected = trainjob["metadata"], wanted["metadata"]
    name = expected["name"]
    for key in (names.LABEL_JOB_ID, names.LABEL_SUBMISSION):
        value = (metadata.get("labels") or {}).get(key)
        if value not in (None, expected["labels"][key]):
            raise Refused(f"TrainJob {name} is not ours: label {key} is {value!r}")
    for key in (names.ANNOTATION_SPEC_DIGEST, names.ANNOTATION_ORIGIN):
        value, ours = ((each.get("annotations") or {}).get(key) for each in (metadata, expected))
        if value is not None and ours is not None and value != ours:
            raise Refused(f"TrainJob {name} was made for something else: annotation {key} is {value!r}, not {ours!r}")
    comment = (metadata.get("annotations") or {}).get(names.ANNOTATION_COMMENT, "")
    submission = int(expected["labels"][names.LABEL_SUBMISSION])
    if not comment.startswith(format_comment(submission, 1).partition(";")[0]):
        raise Refused(f"TrainJob {name} is not ours: comment is {comment!r}")


async def _own(client: KubeClient, namespace: str, copy: Mapping[str, Any], trainjob: Mapping[str, Any]) -> None:
    """Makes the TrainJob the copy's owner, so that both go together."""
    metadata = copy["metadata"]
    owners = metadata.get("ownerReferences") or []
    uid = trainjob["metadata"]["uid"]
    if any(owner.get("uid") == uid for owner in owners):
        return
    if owners or metadata.get("deletionTimestamp"):
        raise Unreachable(f"runtime copy {metadata['name']} still belongs to an earlier TrainJob of that name")
    change = {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": manifest.owned_by(trainjob),
        },
    }
    await client.patch(paths.RUNTIMES, metadata["name"], namespace, change)
