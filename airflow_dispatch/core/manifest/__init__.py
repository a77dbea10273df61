"""From a job to the objects that are sent: TrainJob, runtime copy, runtime patch, prologue (contract, section 9)."""

from airflow_dispatch.core.manifest.patch import raise_admission, read_admission
from airflow_dispatch.core.manifest.prologue import PROLOGUE
from airflow_dispatch.core.manifest.runtime import copy_of, hardened, owned_by, trainer_job, unsafe_fields
from airflow_dispatch.core.manifest.trainjob import trainjob

__all__ = [
    "PROLOGUE",
    "copy_of",
    "hardened",
    "owned_by",
    "raise_admission",
    "read_admission",
    "trainer_job",
    "trainjob",
    "unsafe_fields",
]
