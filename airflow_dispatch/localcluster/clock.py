"""The one clock of a local cluster: the wall's, or a virtual one that tests move."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_QUIET_TURNS: Final = 20


async def quiet(version: Callable[[], str], idle: Callable[[], bool]) -> None:
    """Returns when for some turns of the event loop nothing has been written and everybody was idle."""
    turns, before = 0, version()
    while turns < _QUIET_TURNS:
        await asyncio.sleep(0)
        turns = turns + 1 if idle() and version() == before else 0
        before = version()


class Clock(Protocol):
    """What controllers, kubelets and the API server read the time from."""

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns when ``seconds`` have passed on this clock."""
        ...


class WallClock:
    """Real time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that stands still until :meth:`step` moves it."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), future))
        await future

    def next_wake(self) -> datetime | None:
        """When the next sleeper is due, or None."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[None]]) -> None:
        """Moves on by ``seconds``, stopping wherever a sleeper is due; ``settle`` lets everybody work there."""
        target = self._now + timedelta(seconds=seconds)
        await settle()
        while (due := self.next_wake()) is not None and due <= target:
            self.step(due)
            await settle()
        self.step(target)
        await settle()

    def step(self, to: datetime) -> None:
        """Moves to ``to`` and wakes all who are due, in order; they run when the caller next awaits."""
        self._now = max(self._now, to)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)
