"""Our entry of ``spec.runtimePatches``: the pods' labels, and A as the TrainJob asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_dispatch.core import names
from airflow_dispatch.core.identity import parse_decimal
from airflow_dispatch.core.objects import TrainJob


class PodPatch(NamedTuple):
    """What our entry puts on the trainer's pods; values as they stand there, None when absent."""

    job_id: str | None
    submission: str | None
    admission: str | None

    @property
    def admission_number(self) -> int | None:
        """A, or None when it is absent or no decimal."""
        return parse_decimal(self.admission)


def pod_patch(trainjob: TrainJob) -> PodPatch | None:
    """Our entry, or None when it is missing or patches no pod template."""
    for patch in trainjob.spec.runtime_patches or ():
        if patch.manager == names.PATCH_MANAGER:
            patches = list(_pod_patches(patch.training_runtime_spec))
            return next((each for each in patches if each.admission is not None), patches[0] if patches else None)
    return None


def _pod_patches(spec: Any) -> Iterator[PodPatch]:
    replicated = _at(spec, "template", "spec", "replicatedJobs")
    for job in replicated if isinstance(replicated, list) else ():
        metadata = _at(job, "template", "spec", "template", "metadata")
        if isinstance(metadata, dict):
            yield PodPatch(
                job_id=_text(_at(metadata, "labels", names.LABEL_JOB_ID)),
                submission=_text(_at(metadata, "labels", names.LABEL_SUBMISSION)),
                admission=_text(_at(metadata, "annotations", names.ANNOTATION_ADMISSION)),
            )


def _at(value: Any, *path: str) -> Any:
    """What stands at a path of objects, or None: anybody may have rewritten the entry in any shape."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
