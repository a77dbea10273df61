"""Our entry of ``spec.runtimePatches``: one, of our manager, rewritten and never appended (contract, section 9)."""

from __future__ import annotations

from typing import Any

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import MAX_NUMBER, parse_decimal
from airflow_dispatch.core.job import Publish, TrainingJob

__all__ = ["new_patch", "raise_admission", "read_admission"]


def new_patch(job: TrainingJob, submission: int, replicated_job: str) -> dict[str, Any]:
    """The entry of a new TrainJob: A is 0, and nothing is in it that an older Kueue would drop on its own writes."""
    metadata = {
        "labels": {names.LABEL_JOB_ID: job.job_id, names.LABEL_SUBMISSION: str(submission)},
        "annotations": {names.ANNOTATION_ADMISSION: "0"},
    }
    template: dict[str, Any] = {"metadata": metadata}
    pod = _pod_spec(job)
    if pod:
        template["spec"] = pod
    replicated = {"name": replicated_job, "template": {"spec": {"template": template}}}
    return {
        "manager": names.PATCH_MANAGER,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [replicated]}}},
    }


def read_admission(trainjob: dict[str, Any]) -> int | None:
    """A as our entry has it; None when the entry is missing or A is no decimal."""
    for found in _annotations(trainjob):
        return parse_decimal(found.get(names.ANNOTATION_ADMISSION))
    return None


def raise_admission(trainjob: dict[str, Any]) -> int:
    """Raises A in our entry and the floor in the annotations of a TrainJob that was read; returns the new A.

    The new A is above both, so it is above every A that was ever raised. Raises :class:`Refused` when the entry is
    gone, or no decimal: whoever changed it has to be asked first.
    """
    metadata = trainjob["metadata"]
    floor = parse_decimal((metadata.get("annotations") or {}).get(names.ANNOTATION_ADMISSION_FLOOR)) or 0
    current = read_admission(trainjob)
    if current is None:
        raise Refused(f"{metadata['name']}: our entry of spec.runtimePatches was removed or changed by someone else")
    raised = max(floor, current) + 1
    if raised > MAX_NUMBER:
        raise Refused(f"{metadata['name']}: admission {raised} is above {MAX_NUMBER}")
    for found in _annotations(trainjob):
        found[names.ANNOTATION_ADMISSION] = str(raised)
    metadata.setdefault("annotations", {})[names.ANNOTATION_ADMISSION_FLOOR] = str(raised)
    return raised


def _annotations(trainjob: dict[str, Any]) -> list[dict[str, str]]:
    """The pod annotations in our entry, to read and to change."""
    found = []
    for entry in trainjob.get("spec", {}).get("runtimePatches") or ():
        if entry.get("manager") != names.PATCH_MANAGER:
            continue
        spec = ((entry.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for replicated in spec.get("replicatedJobs") or ():
            pod = ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}
            annotations = (pod.get("metadata") or {}).get("annotations")
            if annotations is not None and names.ANNOTATION_ADMISSION in annotations:
                found.append(annotations)
    return found


def _pod_spec(job: TrainingJob) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    spec: dict[str, Any] = {}
    for index, credential in enumerate(job.credentials):
        name = f"{names.VOLUME_CREDENTIAL_PREFIX}{index}"
        secret = {"secretName": credential.secret, "defaultMode": 0o400, "optional": True}
        volumes.append({"name": name, "secret": secret})
        mounts.append({"name": name, "mountPath": credential.mount_path, "readOnly": True})
    if job.publish is not None:
        volumes.append({"name": names.VOLUME_PUBLISH, **_publish_volume(job.publish)})
        mount = {"name": names.VOLUME_PUBLISH, "mountPath": names.PUBLISH_DEST}
        mounts.append({**mount, "readOnly": True})
        if job.publish.init_container is not None:
            destination = {"name": names.ENV_PUBLISH_DEST, "value": names.PUBLISH_DEST}
            spec["initContainers"] = [
                {"name": job.publish.init_container, "env": [destination], "volumeMounts": [mount]},
            ]
    if volumes:
        spec["volumes"] = volumes
        spec["containers"] = [{"name": names.TRAINER_CONTAINER, "volumeMounts": mounts}]
    return spec


def _publish_volume(publish: Publish) -> dict[str, Any]:
    if publish.image is not None:
        return {"image": {"reference": publish.image, "pullPolicy": "IfNotPresent"}}
    return {"emptyDir": {}}
