"""Exit codes of the command line (contract, section 14)."""

from __future__ import annotations

import enum

__all__ = ["Exit", "Failure"]


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
