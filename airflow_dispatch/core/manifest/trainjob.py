"""The TrainJob of a submission: suspended, and gated until it is opened (contract, section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_dispatch.core import names
from airflow_dispatch.core.identity import format_comment
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.manifest.patch import new_patch
from airflow_dispatch.core.manifest.prologue import COMMAND

__all__ = ["trainjob"]


def trainjob(
    job: TrainingJob,
    submission: int,
    attempt: int,
    *,
    replicated_job: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The manifest; ``labels`` and ``annotations`` are the site's and what the caller notes of the submission."""
    name = names.object_name(job.job_id, submission)
    spec: dict[str, Any] = {
        "suspend": True,
        "runtimeRef": {"apiGroup": names.GROUP_TRAINER, "kind": "TrainingRuntime", "name": name},
        "trainer": _trainer(job, submission, attempt),
        "runtimePatches": [new_patch(job, submission, replicated_job)],
    }
    if job.time_limit is not None:
        spec["activeDeadlineSeconds"] = job.time_limit
    return {
        "apiVersion": names.API_VERSION_TRAINER,
        "kind": "TrainJob",
        "metadata": {
            "name": name,
            "labels": {
                **(labels or {}),
                **job.labels,
                **_queue_labels(job),
                names.LABEL_JOB_ID: job.job_id,
                names.LABEL_SUBMISSION: str(submission),
            },
            "annotations": {
                **job.annotations,
                **(annotations or {}),
                names.ANNOTATION_COMMENT: format_comment(submission, attempt),
                names.ANNOTATION_KUEUE_GATED_BY: names.GATE,
            },
        },
        "spec": spec,
    }


def _queue_labels(job: TrainingJob) -> dict[str, str]:
    wanted = {names.LABEL_KUEUE_QUEUE: job.queue, names.LABEL_KUEUE_PRIORITY: job.priority}
    return {key: value for key, value in wanted.items() if value is not None}


def _trainer(job: TrainingJob, submission: int, attempt: int) -> dict[str, Any]:
    trainer: dict[str, Any] = {
        "command": list(COMMAND),
        "args": list(job.argv),
        "env": [
            *({"name": name, "value": value} for name, value in sorted(job.env.items())),
            *_own_env(job, submission, attempt),
        ],
    }
    optional = {
        "image": job.image,
        "numNodes": job.num_nodes,
        "numProcPerNode": job.num_proc_per_node,
        "resourcesPerNode": job.resources_per_node or None,
    }
    return trainer | {key: value for key, value in optional.items() if value is not None}


def _own_env(job: TrainingJob, submission: int, attempt: int) -> list[dict[str, Any]]:
    values = {
        names.ENV_JOB_ID: job.job_id,
        names.ENV_SUBMISSION: str(submission),
        names.ENV_INPUT_EPOCH_PREFIX: str(submission),
        names.ENV_INPUT_TOKEN_PREFIX: f"{job.job_id}.{submission}.{attempt}",
    }
    if job.work_dir is not None:
        values[names.ENV_INPUT_WORKDIR] = job.work_dir
    fields = {
        names.ENV_INPUT_ADMISSION: f"metadata.annotations['{names.ANNOTATION_ADMISSION}']",
        names.ENV_INPUT_RESTART: f"metadata.labels['{names.LABEL_RESTART_ATTEMPT}']",
    }
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]
