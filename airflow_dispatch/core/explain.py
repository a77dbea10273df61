"""From an observation to the lines that a person reads in a task's log.

A line says the state, then the cause with its words as the contract gives them, then, on a line of its own, what to do
when there is something to do. What is said of an unchanged object is one line with its age.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import Final, NamedTuple

from airflow_dispatch.core.names import TAINT_OUT_OF_SERVICE
from airflow_dispatch.core.observation import CauseKind, Observation, State

_LOST_NODE = re.compile(r"node (\S+) (?:Ready=(?:False|Unknown)|tainted )")
_GONE_NODE = re.compile(r"node (\S+) is gone")
_REMAINS_ON_LOST = re.compile(r"on (\S+) \(Ready=(?:False|Unknown)\)")
_VANISHED = re.compile(r"\S+ on \S+ \(vanished, ")
_WAITING = re.compile(r"pod (\S+) (ErrImagePull|ImagePullBackOff|InvalidImageName|CreateContainerConfigError)\b")

_ENDED_HINTS: Final = {
    CauseKind.OUT_OF_MEMORY: "give each node more memory, or let the training hold less",
    CauseKind.REJECTED: "waiting does not mend this: change the job, its runtime or the queue",
    CauseKind.TIMEOUT: "raise the time limit, or let the training resume from its checkpoint in another try",
}
_WAITING_HINTS: Final = {
    "ErrImagePull": "check the image's name, and that the namespace may pull it",
    "ImagePullBackOff": "check the image's name, and that the namespace may pull it",
    "InvalidImageName": "the image's name can't be read: correct it in the job",
    "CreateContainerConfigError": "check that the Secrets and ConfigMaps it uses exist",
}


class Line(NamedTuple):
    """One line of the task log; ``level`` is one of :mod:`logging`'s."""

    level: int
    text: str


def lines(observation: Observation, previous: Observation | None = None, since: datetime | None = None) -> list[Line]:
    """What to log of an observation, given the one that was logged before it.

    ``since`` is when the state of ``previous`` began. The clock reading is ``observation.seen_at``. When nothing has
    changed, the one line repeats what stalls with its age; callers decide how often they ask for it.
    """
    level = _level(observation)
    if previous == observation:
        age = _elapsed(since, observation.seen_at)
        return [Line(level, _join(_headline(observation, short=True), f"unchanged for {age}" if age else "unchanged"))]
    spent = _spent(observation, previous, since)
    if observation.cause.kind is CauseKind.COMPLETED and spent.startswith("ran "):
        text = _headline(observation, after=spent.removeprefix("ran "))
    else:
        text = _join(_headline(observation), spent)
    return [Line(level, text), *(Line(level, f"  {hint}") for hint in hints(observation))]


def sentence(observation: Observation, previous: Observation | None = None, since: datetime | None = None) -> str:
    """The first of :func:`lines`: what an exception's message and the last line of a try say."""
    return lines(observation, previous, since)[0].text


def hints(observation: Observation) -> list[str]:
    """What a person can do about it, most urgent first; empty when there is nothing to do but wait."""
    detail = observation.cause.detail
    found: list[str] = []
    if observation.state is not State.ENDED:
        found += [_lost_hint(node) for node in _stuck_nodes(observation)]
        if _VANISHED.search(detail):
            found.append(_vanished_hint(observation))
        found += [
            f"{node} is gone: Kubernetes fails its pods, and with them the job, within some minutes"
            for node in _GONE_NODE.findall(detail)[:1]
        ]
        found += dict.fromkeys(_WAITING_HINTS[reason] for _, reason in _WAITING.findall(detail))
        if observation.cause.kind is CauseKind.REJECTED:
            found.append(_ENDED_HINTS[CauseKind.REJECTED])
        if observation.state is State.HELD:
            found.append(_held_hint(observation))
    elif observation.cause.kind in _ENDED_HINTS:
        found.append(_ENDED_HINTS[observation.cause.kind])
    if observation.foreign:
        found.append("someone else changed something of this job, see above: what it does now is not vouched for")
    return found


def duration(seconds: float) -> str:
    """A duration in its two largest units: ``40 s``, ``3 min 12 s``, ``1 h 4 min``, ``2 d 3 h``."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    for large, large_unit, small, small_unit in (
        (days, "d", hour, "h"),
        (hours, "h", minute, "min"),
        (minutes, "min", rest, "s"),
    ):
        if large:
            return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
    return f"{whole} s"


def _headline(observation: Observation, *, short: bool = False, after: str = "") -> str:
    cause = observation.cause
    parts = [observation.state.value]
    if cause.kind is not CauseKind.NONE:
        parts.append(f"{cause.kind} after {after}" if after else cause.kind.value)
    if cause.detail:
        parts.append("…" if short and cause.kind is not CauseKind.NONE else cause.detail)
    elif cause.kind is CauseKind.NONE:
        parts += _calm(observation)
    return ": ".join(parts)


def _calm(observation: Observation) -> list[str]:
    """What is worth saying of a state that nothing disturbs."""
    execution = observation.execution
    if observation.state is State.RUNNING and execution is not None:
        restart = f", restart {execution.restart}" if execution.restart else ""
        return [f"admission {execution.admission}{restart}"]
    if observation.state is State.HELD and observation.hold_instance:
        return [f"hold {observation.hold_instance}, no pod remains"]
    return []


def _spent(observation: Observation, previous: Observation | None, since: datetime | None) -> str:
    """How long the state that has just ended lasted, when it is another one now."""
    if previous is None or previous.state is observation.state:
        return ""
    age = _elapsed(since, observation.seen_at)
    words = {State.PENDING: "queued", State.RUNNING: "ran", State.HELD: "held", State.GATED: "gated"}
    return f"{words[previous.state]} {age}" if age and previous.state in words else ""


def _elapsed(since: datetime | None, now: datetime | None) -> str:
    return duration((now - since).total_seconds()) if since is not None and now is not None else ""


def _level(observation: Observation) -> int:
    if observation.state is State.ENDED:
        return logging.INFO if observation.cause.kind is CauseKind.COMPLETED else logging.ERROR
    needs_an_eye = (
        observation.foreign
        or observation.state is State.HELD
        or observation.cause.kind in (CauseKind.NODE_LOST, CauseKind.REJECTED)
        or bool(_stuck_nodes(observation) or _VANISHED.search(observation.cause.detail))
        or bool(_WAITING.search(observation.cause.detail))
    )
    return logging.WARNING if needs_an_eye else logging.INFO


def _stuck_nodes(observation: Observation) -> list[str]:
    """Nodes that are not heard of and on which a process of the job may live, in the order they are named."""
    detail = observation.cause.detail
    found = _REMAINS_ON_LOST.findall(detail)
    if observation.state is State.RUNNING and observation.cause.kind is CauseKind.NODE_LOST:
        found = _LOST_NODE.findall(detail) + found
    return list(dict.fromkeys(found))


def _lost_hint(node: str) -> str:
    return f"nothing restarts until {node} is back, rebooted, deleted or tainted {TAINT_OUT_OF_SERVICE}"


def _vanished_hint(observation: Observation) -> str:
    return (
        f"a pod that vanished may run until its node is rebooted, deleted or tainted {TAINT_OUT_OF_SERVICE}; once it "
        f"is known to have ended: airflow-dispatch confirm-ceased {observation.job_id} --who WHO --reason WHY"
    )


def _held_hint(observation: Observation) -> str:
    if observation.hold_instance:
        return f"it stays so until hold {observation.hold_instance} is released"
    if observation.admin_held:
        return "it stays so until whoever suspended it resumes it"
    return "Kueue gave it up: delete the Workload to queue it anew, or clear the task for a new submission"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
