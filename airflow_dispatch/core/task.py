"""How an Airflow task becomes a job: what a try does, decided from what is on the cluster (contract, section 13)."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import MAX_SUBMISSION, TaskKey, parse_name
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import Object, TrainJob
from airflow_dispatch.core.observation import Cause

__all__ = ["Action", "Decision", "decide", "next_submission", "origin", "spec_digest", "verdict"]

_DIGEST_VERSION: Final = "v1"
_VERDICT_BYTES: Final = 1024


class Action(enum.StrEnum):
    """What a try does with the newest submission of its JobID."""

    START = "submitted"
    ADOPT = "adopted"
    REPLACE = "replacing"
    TAKE_VERDICT = "took the verdict of"


class Decision(NamedTuple):
    """The action, and the TrainJob it is about; None when there is none."""

    action: Action
    trainjob: TrainJob | None = None


def decide(trainjobs: Iterable[TrainJob], digest: str) -> Decision:
    """The table of section 13, from one consistent list of the JobID's TrainJobs.

    One that is being deleted counts as gone. A reported submission is over, whatever it shows since.
    """
    live = [item for item in trainjobs if item.metadata.deletion_timestamp is None]
    newest = max(live, key=lambda item: _number(item.metadata.name), default=None)
    if newest is None:
        return Decision(Action.START)
    if newest.metadata.annotation(names.ANNOTATION_REPORTED) is not None:
        return Decision(Action.START, newest)
    if _ended(newest):
        return Decision(Action.TAKE_VERDICT, newest)
    if same_digest(newest.metadata.annotation(names.ANNOTATION_SPEC_DIGEST), digest):
        return Decision(Action.ADOPT, newest)
    return Decision(Action.REPLACE, newest)


def next_submission(job_id: str, try_number: int, objects: Iterable[Object]) -> int:
    """N: the try's number, or one above every N that any object of the job carries, so that epochs only rise."""
    highest = 0
    for item in objects:
        metadata = item.metadata
        owner = metadata.label(names.LABEL_JOBSET_NAME) or metadata.name
        submission = parse_name(owner)
        if submission is not None and submission.job_id == job_id:
            highest = max(highest, submission.number)
    number = max(try_number, 1 + highest)
    if number > MAX_SUBMISSION:
        raise Refused(f"job {job_id} would need submission {number}, above {MAX_SUBMISSION}")
    return number


def spec_digest(job: TrainingJob) -> str:
    """``v1:<sha256>`` of what the user asked for; defaults are left out, so an upgrade changes nothing."""
    asked = {
        field: value
        for field, value in msgspec.to_builtins(job).items()
        if field not in ("job_id", "unsafe_runtime") and value not in (None, {}, [], ())
    }
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{_DIGEST_VERSION}:{hashlib.sha256(canonical.encode()).hexdigest()}"


def same_digest(written: str | None, digest: str) -> bool:
    """A digest of a version that is not ours counts as equal: nobody could tell."""
    if written is None or not written.startswith(f"{_DIGEST_VERSION}:"):
        return True
    return written == digest


def origin(task: TaskKey) -> str:
    """The annotation that says which task instance a TrainJob belongs to."""
    return json.dumps(task._asdict(), sort_keys=True)


def check_origin(trainjob: TrainJob, task: TaskKey) -> None:
    """Raises :class:`Refused` when the TrainJob was made for another task instance."""
    written = trainjob.metadata.annotation(names.ANNOTATION_ORIGIN)
    if written is None or written == origin(task):
        return
    raise Refused(
        f"TrainJob {trainjob.metadata.name} belongs to another task instance, {written}: two Airflow deployments that "
        f"share a namespace need different names ([dispatch] deployment)",
    )


def verdict(cause: Cause) -> str:
    """The annotation that keeps an end: kind, provenance, at, and the detail cut to 1 KiB."""
    values: dict[str, Any] = msgspec.to_builtins(cause)
    values["detail"] = cause.detail.encode()[:_VERDICT_BYTES].decode(errors="ignore")
    return json.dumps(values, sort_keys=True)


def _number(name: str) -> int:
    submission = parse_name(name)
    return submission.number if submission is not None else 0


def _ended(trainjob: TrainJob) -> bool:
    if trainjob.metadata.annotation(names.ANNOTATION_VERDICT) is not None:
        return True
    conditions = (trainjob.status.conditions if trainjob.status else None) or ()
    return any(each.type in ("Complete", "Failed") and each.status == "True" for each in conditions)
