"""What an end means for the task: the exception of its cause, or the outcome that it returns."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from airflow_dispatch.core.explain import sentence
from airflow_dispatch.core.observation import CauseKind, Observation
from airflow_dispatch.exceptions import TrainJobUnknownError, TrainJobWatchError, error_of
from airflow_dispatch.triggers.event import make_event
from airflow_dispatch.triggers.journal import Log

__all__ = ["event_of", "raise_or_return", "to_xcom"]


def to_xcom(observation: Observation) -> dict[str, Any]:
    """An observation as plain JSON values (contract, section 14)."""
    values: dict[str, Any] = msgspec.to_builtins(observation)
    return values


def event_of(observation: Observation) -> dict[str, Any]:
    """The event of a job that had ended before anybody waited for it."""
    return make_event("ended", observation, sentence(observation))


def raise_or_return(event: Mapping[str, Any] | None, log: Log, *, repeat: bool = True) -> dict[str, Any]:
    """Ends a task as an event says: returns the outcome of a job that completed, else raises its cause's exception.

    ``repeat``: log the trigger's last line here too, since some log back ends lose what a trigger writes.
    """
    if event is None:
        raise TrainJobUnknownError("the trigger ended without an event: what became of the TrainJob is not known")
    line, outcome = event["line"], event["outcome"]
    if outcome is None:
        raise TrainJobWatchError(line)
    completed = outcome["cause"]["kind"] == CauseKind.COMPLETED
    if repeat:
        log.log(logging.INFO if completed else logging.ERROR, "%s", line)
    if completed:
        return dict(outcome)
    _show_output(event.get("output") or (), log)
    raise error_of(line, outcome)


def _show_output(lines: Sequence[str], log: Log) -> None:
    if not lines:
        return
    log.log(logging.INFO, "::group::Last output of the rank that failed")
    for text in lines:
        log.log(logging.INFO, "%s", text)
    log.log(logging.INFO, "::endgroup::")
