"""Exit codes of the command line (contract, section 14)."""

from __future__ import annotations

import enum

from airflow_dispatch.core.errors import DispatchError, InvalidFile, InvalidJob, NotFound, PodsRemain, Refused

__all__ = ["Exit", "Failure", "exit_of"]


class Exit(enum.IntEnum):
    """What a command's exit code says."""

    DONE = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    PODS_REMAIN = 5
    INTERRUPTED = 130


class Failure(Exception):
    """Ends a command with a message on standard error and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def exit_of(error: DispatchError) -> Exit:
    """The code of an error of the adapter's tree; what may pass by itself, or be known later, is UNREACHABLE."""
    match error:
        case InvalidFile() | InvalidJob():
            return Exit.USAGE
        case PodsRemain():
            return Exit.PODS_REMAIN
        case NotFound():
            return Exit.NO
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.UNREACHABLE
