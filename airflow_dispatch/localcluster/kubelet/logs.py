"""Container output, kept as a kubelet keeps it: one file a run of a container, a time before each line.

The lines are those of the container runtime interface's log format, ``<time> stdout F <text>``, with the time in
nanoseconds; the time is when the line arrived, and no two lines share one. Standard output and standard error share a
pipe, so that their order is kept, and are both written as ``stdout``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path

from airflow_dispatch.localcluster.apiserver.logs import LogLine

__all__ = ["ContainerLog", "read_log"]

_TAG = b" stdout F "


class ContainerLog:
    """The log of one run of a container.

    Written by the runtime, read by any number of readers on the same event loop. A reader that follows is woken for
    each portion of output, and ends when the log is closed.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        path.touch()
        self._file: FileIO | None = None
        self._closed = False
        self._last = datetime.min.replace(tzinfo=UTC)
        self._rest = b""
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def closed(self) -> bool:
        """Whether its container has ended."""
        return self._closed

    def write(self, data: bytes, now: datetime) -> None:
        """Adds output; an unfinished last line waits for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            if self._file is None:
                self._file = FileIO(self.path, "ab")
            self._file.write(b"".join(self._stamp(now) + _TAG + line + b"\n" for line in lines))
            self._wake()

    def _stamp(self, now: datetime) -> bytes:
        """The time of one more line: clients that go on after the last time they have seen must miss none."""
        self._last = max(now.astimezone(UTC), self._last + timedelta(microseconds=1))
        return self._last.strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()

    def close(self, now: datetime) -> None:
        """Finishes an unfinished line and lets followers end."""
        if self._closed:
            return
        if self._rest:
            self.write(b"\n", now)
        self._closed = True
        if self._file is not None:
            self._file.close()
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def changed(self) -> None:
        """Returns when something was written or the log was closed after this call."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


def _parsed(line: bytes) -> LogLine:
    stamp, _, text = line.partition(_TAG)
    return LogLine(datetime.fromisoformat(stamp[:26].decode() + "+00:00"), text)


async def read_log(log: ContainerLog, *, follow: bool) -> AsyncIterator[LogLine | None]:
    """The lines of a log, oldest first.

    With ``follow`` a None stands where what was written so far ends, and further lines come until the log is closed.
    """
    offset = 0
    caught_up = False
    while True:
        closed = log.closed
        with log.path.open("rb") as file:
            file.seek(offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        offset += end
        for line in data[:end].split(b"\n")[:-1]:
            yield _parsed(line)
        if not follow or closed:
            return
        if not caught_up:
            caught_up = True
            yield None
        if not log.closed and log.path.stat().st_size == offset:
            await log.changed()
