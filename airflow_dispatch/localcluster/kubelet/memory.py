"""Memory limits: a container whose processes together hold more than its limit is killed, ``OOMKilled`` with 137.

The kernel does that through control groups, which an ordinary user may not have; here the resident sizes of a
container's processes are added up a few times a second. So a limit is passed a moment before it strikes, and memory
that several processes of a container share counts for each of them.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

__all__ = ["MemoryWatch"]

_PERIOD: Final = 0.2
_EXIT_CODE: Final = 137
_PAGE: Final = resource.getpagesize()


class _Limited(Protocol):
    @property
    def shim_pid(self) -> int: ...

    @property
    def memory_limit(self) -> int | None: ...

    def end(self, exit_code: int, reason: str) -> None: ...


def _resident(roots: Iterable[int]) -> Mapping[int, int]:
    """The resident bytes of all processes below each root, the root itself left out."""
    children: dict[int, list[tuple[int, int]]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        fields = text.rpartition(")")[2].split()
        children.setdefault(int(fields[1]), []).append((int(process.name), int(fields[21]) * _PAGE))
    sums: dict[int, int] = {}
    for root in roots:
        total = 0
        pending = [root]
        while pending:
            for pid, size in children.get(pending.pop(), []):
                total += size
                pending.append(pid)
        sums[root] = total
    return sums


class MemoryWatch:
    """Watches the containers that have a limit; one look at the process table serves them all."""

    def __init__(self) -> None:
        self._containers: set[_Limited] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, container: _Limited) -> None:
        """Begins to watch a container."""
        self._containers.add(container)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def discard(self, container: _Limited) -> None:
        """Stops watching a container."""
        self._containers.discard(container)

    async def _run(self) -> None:
        while self._containers:
            watched = list(self._containers)
            sizes = await asyncio.to_thread(_resident, [container.shim_pid for container in watched])
            for container in watched:
                limit = container.memory_limit
                if limit is not None and sizes[container.shim_pid] > limit and container in self._containers:
                    self._containers.discard(container)
                    container.end(_EXIT_CODE, "OOMKilled")
            await asyncio.sleep(_PERIOD)

    async def close(self) -> None:
        """Stops watching."""
        self._containers.clear()
        if self._task is not None:
            await self._task
