"""A log that keeps what is written."""

from __future__ import annotations

import threading


class Lines:
    """``texts`` are the lines as they would be read; another thread may wait for one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._changed = threading.Condition()

    def log(self, _level: int, message: str, *args: object) -> None:
        """What loggers have."""
        with self._changed:
            self.texts.append(message % args)
            self._changed.notify_all()

    def info(self, message: str, *args: object) -> None:
        """The same."""
        self.log(0, message, *args)

    warning = info

    def has(self, text: str) -> bool:
        """A line has this in it."""
        return any(text in line for line in self.texts)

    def wait_for(self, text: str, seconds: float = 20) -> None:
        """Returns when a line has this in it; blocks."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.has(text), timeout=seconds), self.texts
