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
from airflow_dispatch.core.identity import MAX_SUBMISSION, TaskKey, parse_gates, parse_name
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import TrainJob
from airflow_dispatch.core.observation import Cause
from airflow_dispatch.core.rows import Row, implements

__all__ = [
    "Action",
    "Decision",
    "Submitted",
    "before_open",
    "decide",
    "format_origin",
    "format_verdict",
    "is_opened",
    "next_submission",
    "open_beside",
    "parse_origin",
    "parse_verdict",
    "spec_digest",
    "standing",
    "submissions_of",
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
    """One submission as it stands.

    ``opened`` says that it was opened, so that pods of it may run; ``finished`` that Complete or Failed is True on it
    now; ``version`` is the resourceVersion at which all this was read.
    """

    number: int
    uid: str
    version: str = ""
    opened: bool = False
    finished: bool = False
    deleting: bool = False
    reported: bool = False
    digest: str | None = None
    origin: TaskKey | None = None

    @property
    def live(self) -> bool:
        """It has not ended, or it runs again though its end was reported: pods of it may run, now or later."""
        return not self.finished and not self.deleting

    @property
    def guard(self) -> str | None:
        """The version that its deletion depends on: a gated one is deleted only if nobody has opened it meanwhile."""
        return None if self.opened or self.reported else self.version


class Decision(NamedTuple):
    """``submission`` is the one to start, to adopt, or whose verdict to take; those of ``remove`` have to go first.

    They are deleted by UID, each under its :attr:`Submitted.guard`, in this order.
    """

    action: Action
    submission: int
    remove: tuple[Submitted, ...] = ()


def standing(submissions: Iterable[Submitted]) -> Submitted | None:
    """The live submission that may go on, or None when there is none; all other live ones have to go (section 12).

    It is the one that was opened, since pods of it may run; while none was, the highest. A gated one keeps all others
    closed for as long as it stands, since each looks for others after its own create and before it is opened; and it
    is withdrawn only in the version in which it was seen gated. So no two of a job are ever open together. One whose
    end was reported is never gone on with, though it may run again.
    """
    wanted = [each for each in submissions if each.live and not each.reported]
    opened = [each for each in wanted if each.opened]
    return max(opened or wanted, key=lambda each: each.number, default=None)


def decide(
    submissions: Sequence[Submitted], *, digest: str, origin: TaskKey, try_number: int, highest: int
) -> Decision:
    """What a try does: the table of section 13 over the job's newest submission, or over one that was opened already.

    ``highest`` is the highest N of anything of the job (:func:`next_submission`). Raises :class:`Refused` when the
    submission that decides is another task's.
    """
    present = sorted((each for each in submissions if not each.deleting), key=lambda each: each.number)
    following = next_submission(try_number, [highest, *(each.number for each in submissions)])
    if not present:
        return _nothing_left(following)
    stays = standing(present)
    subject = stays if stays is not None and stays.opened else present[-1]
    if subject.origin is not None and subject.origin != origin:
        raise Refused(f"submission {subject.number} of this job is another task's: {format_origin(subject.origin)}")
    others = tuple(each for each in present if each.live and each != subject)
    return _by_subject(subject, others, following, digest)


@implements(
    Row(
        "13",
        "none",
        "no submission, or gone since an earlier try, or being deleted: start the next",
        details=("start",),
    )
)
def _nothing_left(following: int) -> Decision:
    return Decision(Action.START, following)


@implements(
    Row(
        "13", "reported", "ended and reported: start the next; one that is alive all the same goes", details=("start",)
    ),
    Row("13", "not-reported", "ended, not reported: take its verdict, no new submission", details=("verdict",)),
    Row("13", "same", "live, with the same digest: adopt it", details=("adopt",)),
    Row("13", "changed", "live, with another digest: it goes, then start the next", details=("replace",)),
)
def _by_subject(subject: Submitted, others: tuple[Submitted, ...], following: int, digest: str) -> Decision:
    """By the submission that decides; ``others`` are the job's other live ones."""
    if subject.reported:
        return Decision(Action.START, following, (*others, subject) if subject.live else others)
    if subject.finished:
        return Decision(Action.VERDICT, subject.number, others)
    if _same(subject.digest, digest):
        return Decision(Action.ADOPT, subject.number, others)
    return Decision(Action.REPLACE, following, (*others, subject))


def before_open(own: Submitted, others: Iterable[Submitted]) -> Decision:
    """Whether ``own``, which is gated, may be opened beside the job's others, on a list taken after its create.

    ADOPT of its own number: it may, once those of ``remove`` have gone. Of another: that one stays, ``own`` goes.
    """
    everyone = [*others, own]
    stays = standing(everyone) or own
    return Decision(Action.ADOPT, stays.number, tuple(each for each in everyone if each.live and each != stays))


def next_submission(try_number: int, numbers: Iterable[int]) -> int:
    """N of a new submission: above every N there is or may have been, so that the epoch only rises."""
    following = max(1, try_number, 1 + max(numbers, default=0))
    if following > MAX_SUBMISSION:
        raise Refused(f"submission {following} is above {MAX_SUBMISSION}")
    return following


def open_beside(own: int, submissions: Iterable[Submitted]) -> list[Submitted]:
    """The live ones beside submission ``own`` that were opened: while there is one, ``own`` is not admitted again."""
    return [each for each in submissions if each.live and each.opened and each.number != own]


def submissions_of(trainjobs: Iterable[TrainJob], job_id: str) -> list[Submitted]:
    """A job's submissions among TrainJobs, by their names, lowest first."""
    found = []
    for trainjob in trainjobs:
        parsed = parse_name(trainjob.metadata.name)
        if parsed is not None and parsed.job_id == job_id:
            found.append(_submitted(trainjob, parsed.number))
    return sorted(found, key=lambda each: each.number)


def _submitted(trainjob: TrainJob, number: int) -> Submitted:
    metadata = trainjob.metadata
    annotations = metadata.annotations or {}
    return Submitted(
        number=number,
        uid=metadata.uid,
        version=metadata.resource_version,
        opened=is_opened(annotations),
        finished=end(trainjob.status) is not None,
        deleting=metadata.deletion_timestamp is not None,
        reported=names.ANNOTATION_REPORTED in annotations,
        digest=annotations.get(names.ANNOTATION_SPEC_DIGEST),
        origin=parse_origin(annotations.get(names.ANNOTATION_ORIGIN)),
    )


def is_opened(annotations: Mapping[str, str]) -> bool:
    """A TrainJob with these annotations was opened, and our gate is gone."""
    gates = parse_gates(annotations.get(names.ANNOTATION_KUEUE_GATED_BY))
    return annotations.get(names.ANNOTATION_OPENED) == "true" and names.GATE not in gates


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
