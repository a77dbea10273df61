"""What the task log says of a job while a task waits: a line when something changed, and never otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from airflow_dispatch.core.explain import lines
from airflow_dispatch.core.observation import Cause, CauseKind, Observation, State

__all__ = ["Journal", "Log"]

REPEAT: Final = timedelta(minutes=10)
"""How often an unchanged stall is repeated, with its age."""

_WINDING_UP: Final = ("job is completing: ", "job is failing: ")
"""How a detail begins when the Job carries its end already (contract, section 8)."""

Log = Any
"""A standard library logger or Airflow's structlog one: both have ``log(level, message, *args)``."""


class Journal:
    """Logs the observations of one job."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._previous: Observation | None = None
        self._since: datetime | None = None
        self._logged_at: datetime | None = None
        self.last_line = ""

    @property
    def previous(self) -> Observation | None:
        """The observation that was logged last."""
        return self._previous

    def resume(self, published: dict[str, Any]) -> None:
        """Goes on where another process stopped: what that one logged is not logged again.

        ``published`` is what :meth:`published` gave there; anything else is ignored.
        """
        try:
            self._previous = msgspec.convert(published["observation"], Observation)
            self._since = msgspec.convert(published["since"], datetime | None)
            self._logged_at = msgspec.convert(published["logged_at"], datetime | None)
            self.last_line = msgspec.convert(published["line"], str)
        except (KeyError, TypeError, msgspec.ValidationError):
            self._previous = self._since = self._logged_at = None

    def published(self) -> dict[str, Any]:
        """Where this journal stands, as plain JSON values."""
        return {
            "line": self.last_line,
            "observation": msgspec.to_builtins(self._previous),
            "since": msgspec.to_builtins(self._since),
            "logged_at": msgspec.to_builtins(self._logged_at),
        }

    def observe(self, observation: Observation, now: datetime, began: datetime | None = None) -> bool:
        """Logs what is new; true when the observation differs from the last one.

        ``began`` is when the execution began on the cluster: a job that runs already when it is first looked at has
        run since then, not since now.
        """
        changed = observation != self._previous
        if changed and _is_winding_up(observation, self._previous):
            return False
        if not changed and not (_stalls(observation) and self._is_due(now)):
            return False
        written = lines(observation, self._previous, self._since)
        if changed:
            if self._previous is None or self._previous.state is not observation.state:
                self._since = began if began is not None and observation.state is State.RUNNING else now
            self.last_line = written[0].text
        for line in written:
            self._log.log(line.level, "%s", line.text)
        self._previous, self._logged_at = observation, now
        return changed

    def _is_due(self, now: datetime) -> bool:
        return self._logged_at is None or now - self._logged_at >= REPEAT


def _is_winding_up(observation: Observation, previous: Observation | None) -> bool:
    """The Job's end was told, and the TrainJob has yet to follow: between the two there is nothing to tell."""
    return (
        previous is not None
        and previous.cause.detail.startswith(_WINDING_UP)
        and observation == msgspec.structs.replace(previous, cause=Cause())
    )


def _stalls(observation: Observation) -> bool:
    return (
        observation.state is not State.RUNNING
        or observation.cause.kind is not CauseKind.NONE
        or bool(observation.cause.detail)
    )
