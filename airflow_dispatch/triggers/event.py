"""The one event that a trigger fires, and its size.

Airflow prints the whole event into the log and stores it in its database, so it is plain JSON, without secrets, and
below 8 KiB. It carries all that the resume method needs: by then the object may be gone.

===========  ==============================================================================
``status``   meaning
===========  ==============================================================================
``ended``    the TrainJob ended; ``outcome`` says how
``gone``     it was deleted before an end was seen; the cause is ``unknown``
``timeout``  the task's ``execution_timeout`` has passed; the TrainJob still stands
``error``    the triggerer can't watch it; the TrainJob is left as it is, ``outcome`` is null
===========  ==============================================================================

``outcome`` is an observation as in section 14 of the contract, ``line`` the last line of the log, ``output`` the last
lines of the rank that failed, oldest first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from airflow_dispatch.core.observation import Cause, CauseKind, Observation, State

__all__ = ["MAX_BYTES", "gone", "make_event", "timed_out"]

MAX_BYTES: Final = 8 * 1024 - 256
_MAX_DETAIL: Final = 3000
_MAX_LINE: Final = 500


def make_event(status: str, observation: Observation | None, line: str, output: Sequence[str] = ()) -> dict[str, Any]:
    """An event below :data:`MAX_BYTES`: a long detail is cut in its middle, and the oldest output lines fall away."""
    outcome: dict[str, Any] | None = None
    if observation is not None:
        outcome = msgspec.to_builtins(observation)
        outcome["cause"]["detail"] = _shortened(outcome["cause"]["detail"])
    event: dict[str, Any] = {"status": status, "outcome": outcome, "line": _shortened(line), "output": []}
    room = MAX_BYTES - _size(event)
    for text in reversed(output):
        part = text[:_MAX_LINE]
        room -= _size(part) + 2
        if room < 0:
            break
        event["output"].insert(0, part)
    return event


def gone(ref: str, job_id: str, submission: int, uid: str, seen_at: datetime) -> Observation:
    """What is said of a TrainJob that was deleted before an end was seen (contract, section 13)."""
    return Observation(
        ref=ref,
        job_id=job_id,
        submission=submission,
        attempt=0,
        uid=uid,
        state=State.ENDED,
        cause=Cause(kind=CauseKind.UNKNOWN, detail="TrainJob was deleted"),
        seen_at=seen_at,
    )


def timed_out(last: Observation, seconds: float | None, now: datetime) -> Observation:
    """The outcome of a task whose ``execution_timeout`` has passed, with what the job was doing then."""
    limit = f"execution_timeout of {seconds:g} s has passed" if seconds else "execution_timeout has passed"
    doing = f"the job was {last.state.value}"
    if last.cause.kind is not CauseKind.NONE:
        doing = f"{doing}, {last.cause.kind.value}"
    detail = "; ".join(part for part in (limit, doing, last.cause.detail) if part)
    cause = Cause(kind=CauseKind.TIMEOUT, detail=detail)
    return msgspec.structs.replace(last, state=State.ENDED, cause=cause, seen_at=now)


def _shortened(text: str) -> str:
    while _size(text) > _MAX_DETAIL:
        keep = len(text) * 9 // 20
        text = f"{text[:keep].removesuffix('…')} … {text[-keep:]}"
    return text


def _size(value: Any) -> int:
    """Bytes of its JSON as Airflow writes it: ASCII, so a character may take six."""
    return len(json.dumps(value))
