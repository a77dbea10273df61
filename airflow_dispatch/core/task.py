"""An Airflow task becomes a job: the decisions of section 13, from what stands on the cluster.

Pure: the adapter reads, asks :func:`decide`, and acts.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import end
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import MAX_SUBMISSION, TaskKey, parse_name
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import TrainJob
from airflow_dispatch.core.observation import Cause

__all__ = [
    "Action",
    "Decision",
    "Submitted",
    "decide",
    "format_origin",
    "format_verdict",
    "next_submission",
    "parse_origin",
    "parse_verdict",
    "spec_digest",
    "submitted_of",
]

DIGEST_VERSION: Final = "v1"
DETAIL_BYTES: Final = 1024


class Action(enum.Enum):
    """What a try does."""

    START = "start"
    ADOPT = "adopt"
    REPLACE = "replace"
    VERDICT = "verdict"


class Submitted(NamedTuple):
    """One submission as it stands: ``finished`` says that Complete or Failed is True on it now."""

    number: int
    uid: str
    finished: bool = False
    deleting: bool = False
    reported: bool = False
    digest: str | None = None
    origin: TaskKey | None = None

    @property
    def live(self) -> bool:
        """It has not ended, or it runs again though its end was reported."""
        return not self.finished and not self.deleting


class Decision(NamedTuple):
    """``submission`` is the one to start, to adopt, or whose verdict to take; ``cancel`` has to go first, by UID."""

    action: Action
    submission: int
    cancel: tuple[Submitted, ...] = ()


def decide(
    submissions: Sequence[Submitted], *, digest: str, origin: TaskKey, try_number: int, highest: int
) -> Decision:
    """The table of section 13.

    ``highest`` is the highest N of anything of the job (:func:`next_submission`). Raises :class:`Refused` when the
    newest submission is another task's.
    """
    present = sorted((each for each in submissions if not each.deleting), key=lambda each: each.number)
    following = next_submission(try_number, [highest, *(each.number for each in submissions)])
    if not present:
        return Decision(Action.START, following)
    *earlier, newest = present
    if newest.origin is not None and newest.origin != origin:
        raise Refused(f"submission {newest.number} of this job is another task's: {format_origin(newest.origin)}")
    stale = tuple(each for each in earlier if each.live)
    if newest.reported:
        undead = (newest,) if newest.live else ()
        return Decision(Action.START, following, (*stale, *undead))
    if newest.finished:
        return Decision(Action.VERDICT, newest.number, stale)
    if _same(newest.digest, digest):
        return Decision(Action.ADOPT, newest.number, stale)
    return Decision(Action.REPLACE, following, (*stale, newest))


def next_submission(try_number: int, numbers: Iterable[int]) -> int:
    """N of a new submission: above every N there is or may have been, so that the epoch only rises."""
    following = max(1, try_number, 1 + max(numbers, default=0))
    if following > MAX_SUBMISSION:
        raise Refused(f"submission {following} is above {MAX_SUBMISSION}")
    return following


def submitted_of(trainjob: TrainJob) -> Submitted | None:
    """A TrainJob as the table sees it; None for a name that is not of our form."""
    submission = parse_name(trainjob.metadata.name)
    if submission is None:
        return None
    metadata = trainjob.metadata
    return Submitted(
        number=submission.number,
        uid=metadata.uid,
        finished=end(trainjob.status) is not None,
        deleting=metadata.deletion_timestamp is not None,
        reported=metadata.annotation(names.ANNOTATION_REPORTED) is not None,
        digest=metadata.annotation(names.ANNOTATION_SPEC_DIGEST),
        origin=parse_origin(metadata.annotation(names.ANNOTATION_ORIGIN)),
    )


def spec_digest(job: TrainingJob) -> str:
    """``v1:<sha256>`` over the fields that differ from their defaults, as canonical JSON.

    A field added by a later version has its default in every older job, so it changes no digest. The JobID is left
    out: it is the same for all submissions that are compared.
    """
    defaults = msgspec.to_builtins(TrainingJob(job_id="", argv=(), runtime=""))
    fields: dict[str, Any] = msgspec.to_builtins(job)
    given = {key: value for key, value in fields.items() if key != "job_id" and value != defaults[key]}
    canonical = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{DIGEST_VERSION}:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _same(found: str | None, wanted: str) -> bool:
    """Equal, or of a version that can't be compared: such a job is adopted rather than run twice."""
    return found is None or not found.startswith(f"{DIGEST_VERSION}:") or found == wanted


def format_origin(task: TaskKey) -> str:
    """The origin annotation."""
    return json.dumps(task._asdict(), separators=(",", ":"))


def parse_origin(text: str | None) -> TaskKey | None:
    """The task of an origin annotation; None when there is none or it can't be read."""
    try:
        fields: Mapping[str, Any] = msgspec.json.decode(text or "", type=dict[str, Any])
        return TaskKey(**fields)
    except (msgspec.MsgspecError, TypeError):
        return None


def format_verdict(cause: Cause) -> str:
    """The verdict annotation; the detail is cut at 1 KiB."""
    detail = cause.detail.encode()[:DETAIL_BYTES].decode(errors="ignore")
    return msgspec.json.encode(msgspec.structs.replace(cause, detail=detail)).decode()


def parse_verdict(text: str | None) -> Cause | None:
    """The cause of a verdict annotation; None when there is none or it can't be read."""
    try:
        return msgspec.json.decode(text or "", type=Cause)
    except msgspec.MsgspecError:
        return None
