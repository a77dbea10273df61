"""Ends a process at any of its awaits: what it has done stays done, what it would have done next never happens."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["Crash"]


class Crash:
    """Runs a coroutine that ends at its ``at``-th suspension, in whichever of its tasks that comes.

    The coroutine is cancelled there, without the answer that it waits for; whatever it awaits while it is torn down is
    cancelled too. ``stopped`` says whether it came to that, or had returned before.
    """

    def __init__(self, at: int) -> None:
        self.stopped = False
        self._left = at

    async def run(self, act: Coroutine[Any, Any, object]) -> None:
        """Returns when it has ended, of itself or not; what it raises by itself is raised."""
        loop = asyncio.get_running_loop()

        def guarded_task(running: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
            task = asyncio.Task(self._guarded(coro), loop=running, **options)
            task.add_done_callback(lambda _: coro.close())  # it may have been cancelled before it began
            return task

        loop.set_task_factory(guarded_task)
        try:
            await self._guarded(act)
        except asyncio.CancelledError:
            if not self.stopped:
                raise
        finally:
            loop.set_task_factory(None)

    async def _guarded(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return await self._steps(coro)

    @types.coroutine
    def _steps(self, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        value: Any = None
        while True:
            try:
                awaited = coro.send(value) if error is None else coro.throw(error)
            except StopIteration as returned:
                return returned.value
            value, error = None, None
            self._left -= 1
            if self._left <= 0:
                self.stopped = True
                if isinstance(awaited, asyncio.Future):
                    awaited._asyncio_future_blocking = False  # no task waits for it any more
                    awaited.cancel()
                error = asyncio.CancelledError()
                continue
            try:
                value = yield awaited
            except BaseException as thrown:  # noqa: BLE001 (handed on to the coroutine)
                error = thrown
