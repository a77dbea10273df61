"""What a task raises when its TrainJob did not succeed: one class for each kind of cause.

::

    AirflowException
    └── TrainJobError                    the job ended, and not well; carries the whole outcome
        ├── TrainJobNonZeroExitError     a rank exited with an error, or its limits were exceeded
        ├── TrainJobOutOfMemoryError     a rank was killed for memory
        ├── TrainJobPreemptedError       something more important took its place
        ├── TrainJobNodeLostError        a Node was lost under it
        ├── TrainJobTimeoutError         a time limit: the job's own, Kueue's or the task's ``execution_timeout``
        ├── TrainJobNoCapacityError      Kueue gave up waiting for room
        ├── TrainJobRejectedError        it can never run as it is
        └── TrainJobUnknownError         the evidence does not say why, or the job was deleted
    AirflowException
    ├── TrainJobWatchError               the triggerer can't watch the job, which is left as it is
    └── TrainJobInterruptedError         the worker was told to stop while it waited; says nothing of the job

So a retry policy or a callback decides by class, as in
``RetryRule(exception=TrainJobNodeLostError, action=RetryAction.RETRY)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException

from airflow_dispatch.core.observation import CauseKind

__all__ = [
    "TrainJobError",
    "TrainJobInterruptedError",
    "TrainJobNoCapacityError",
    "TrainJobNodeLostError",
    "TrainJobNonZeroExitError",
    "TrainJobOutOfMemoryError",
    "TrainJobPreemptedError",
    "TrainJobRejectedError",
    "TrainJobTimeoutError",
    "TrainJobUnknownError",
    "TrainJobWatchError",
    "error_of",
]


class TrainJobError(AirflowException):
    """A TrainJob ended without success.

    ``outcome`` is the last observation as plain JSON values (contract, section 14): ``ref``, ``job_id``,
    ``submission``, ``cause`` with kind, provenance, detail and time, ``execution`` and the rest. The message is the
    last line of the task log. Both are kept in ``args``, so it survives pickling between Airflow's processes.
    """

    def __init__(self, message: str, outcome: Mapping[str, Any] | None = None) -> None:
        self.outcome: dict[str, Any] = dict(outcome or {})
        super().__init__(message, self.outcome)

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def cause(self) -> CauseKind:
        """The kind of the outcome's cause; ``unknown`` when the outcome has none."""
        return CauseKind(self.outcome.get("cause", {}).get("kind", CauseKind.UNKNOWN))


class TrainJobNonZeroExitError(TrainJobError):
    """Cause ``non-zero-exit``."""


class TrainJobOutOfMemoryError(TrainJobError):
    """Cause ``out-of-memory``."""


class TrainJobPreemptedError(TrainJobError):
    """Cause ``preempted``."""


class TrainJobNodeLostError(TrainJobError):
    """Cause ``node-lost``."""


class TrainJobTimeoutError(TrainJobError):
    """Cause ``timeout``."""


class TrainJobNoCapacityError(TrainJobError):
    """Cause ``no-capacity``."""


class TrainJobRejectedError(TrainJobError):
    """Cause ``rejected``."""


class TrainJobUnknownError(TrainJobError):
    """Cause ``unknown``, and an end whose cause is ``none``."""


class TrainJobWatchError(AirflowException):
    """The triggerer does not know the connection, can't read it, or may not watch; the message says which."""


class TrainJobInterruptedError(AirflowException):
    """The worker was told to stop while it worked for a TrainJob; the next try finds the job as it is by then."""


_BY_KIND: Final[Mapping[CauseKind, type[TrainJobError]]] = {
    CauseKind.NON_ZERO_EXIT: TrainJobNonZeroExitError,
    CauseKind.OUT_OF_MEMORY: TrainJobOutOfMemoryError,
    CauseKind.PREEMPTED: TrainJobPreemptedError,
    CauseKind.NODE_LOST: TrainJobNodeLostError,
    CauseKind.TIMEOUT: TrainJobTimeoutError,
    CauseKind.NO_CAPACITY: TrainJobNoCapacityError,
    CauseKind.REJECTED: TrainJobRejectedError,
    CauseKind.UNKNOWN: TrainJobUnknownError,
    CauseKind.NONE: TrainJobUnknownError,
}


def error_of(message: str, outcome: Mapping[str, Any]) -> TrainJobError:
    """The exception of an outcome's cause; raises ``ValueError`` for ``completed``, which is no failure."""
    kind = CauseKind(outcome["cause"]["kind"])
    if kind is CauseKind.COMPLETED:
        raise ValueError(f"{outcome.get('ref')} completed: that is no failure")
    return _BY_KIND[kind](message, outcome)
