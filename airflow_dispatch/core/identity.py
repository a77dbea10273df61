"""Who a job, a submission and an execution are (contract, sections 1, 6.4 and 13)."""

from __future__ import annotations

import functools
import hashlib
import re
from datetime import datetime
from typing import Final, NamedTuple

from ulid import ULID

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.observation import Execution

EPOCH_FACTOR: Final = 1_000_000
MAX_SUBMISSION: Final = EPOCH_FACTOR - 1
MAX_NUMBER: Final = EPOCH_FACTOR - 1

_MAX_DIGITS: Final = 19

_NAME = re.compile(r"dj-([0-7][0-9a-hjkmnp-tv-z]{25})-s([1-9][0-9]{0,5})")
_COMMENT = re.compile(r"dispatch:s=([1-9][0-9]{0,5});a=([1-9][0-9]*)")
_DECIMAL = re.compile(r"0|[1-9][0-9]*")


class Submission(NamedTuple):
    """The JobID (26 upper-case characters) and N of one TrainJob."""

    job_id: str
    number: int

    @property
    def name(self) -> str:
        """The TrainJob's name."""
        return names.object_name(self.job_id, self.number)


class TaskKey(NamedTuple):
    """What makes an Airflow task instance the same one on every worker and in every try."""

    deployment: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int


def parse_name(name: str) -> Submission | None:
    """The submission that an object's name stands for, or None when it is no name of ours."""
    match = _NAME.fullmatch(name)
    return Submission(match[1].upper(), int(match[2])) if match else None


def parse_job_id(text: str) -> str:
    """A JobID in its canonical upper-case form; raises :class:`InvalidJob` when it is no ULID."""
    try:
        return str(ULID.from_str(text.upper()))
    except ValueError as error:
        raise InvalidJob(f"job_id {text!r} is not a ULID (26 characters of Crockford's base 32)") from error


@functools.lru_cache(maxsize=4096)
def parse_decimal(text: str | None) -> int | None:
    """A decimal without sign or leading zero, else None; so ``"01"``, ``"+1"`` and ``"1.0"`` are not counters.

    The answers are kept: the counters and completion indexes of all pods are a few small numbers.
    """
    return int(text) if text is not None and len(text) <= _MAX_DIGITS and _DECIMAL.fullmatch(text) else None


def parse_gates(text: str | None) -> list[str]:
    """The parties that the annotation ``kueue.x-k8s.io/admission-gated-by`` names."""
    return [gate for each in (text or "").split(",") if (gate := each.strip())]


def format_comment(submission: int, attempt: int) -> str:
    """The comment annotation: ``dispatch:s=<N>;a=<attempt>``."""
    return f"dispatch:s={submission};a={attempt}"


def parse_comment(text: str) -> tuple[int, int] | None:
    """Submission and attempt of a comment annotation, or None when it is not of its form."""
    match = _COMMENT.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def job_id_of(task: TaskKey, run_after: datetime) -> str:
    """The JobID of a task instance: the run's ``run_after`` in milliseconds, then 80 bits of SHA-256 over the key.

    Each part is preceded by its length in bytes, so ``("a", "bc")`` and ``("ab", "c")`` differ.
    """
    digest = hashlib.sha256()
    for part in task:
        encoded = str(part).encode()
        digest.update(f"{len(encoded)}:".encode() + encoded)
    milliseconds = int(run_after.timestamp() * 1000)
    return str(ULID(milliseconds.to_bytes(6, "big") + digest.digest()[:10]))


def execution(submission: Submission, attempt: int, admission: int, restart: int) -> Execution:
    """The execution of A and J: R = A + J, ``DISPATCH_EPOCH`` = N * 1,000,000 + R, and its token."""
    number = admission + restart
    return Execution(
        admission=admission,
        restart=restart,
        number=number,
        epoch=submission.number * EPOCH_FACTOR + number,
        token=f"{submission.job_id}.{submission.number}.{attempt}.{admission}.{restart}",
    )
