"""From Airflow's synchronous worker into the asynchronous code: the only place that starts an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from airflow_dispatch.exceptions import TrainJobInterruptedError

__all__ = ["Bridge"]

Result = TypeVar("Result")


class Bridge:
    """Runs coroutines for one task instance, and can be stopped from a signal handler.

    Airflow calls ``on_kill`` from its SIGTERM handler and lets ``execute`` go on afterwards. :meth:`stop` makes sure
    that it does not: what runs is cancelled at its next await, and :meth:`run` raises
    :class:`TrainJobInterruptedError`, then and ever after.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._stopped

    def run(self, coroutine: Coroutine[Any, Any, Result], *, even_if_stopped: bool = False) -> Result:
        """Runs a coroutine to its end in an event loop of its own; not from within a running loop.

        ``even_if_stopped`` is for what has to be done after the stop, such as a cancellation.
        """
        if self._stopped and not even_if_stopped:
            coroutine.close()
            raise self._interrupted()
        try:
            return asyncio.run(self._main(coroutine))
        except asyncio.CancelledError:
            if self._stopped:
                raise self._interrupted() from None
            raise
        finally:
            self._loop = self._task = None

    def stop(self) -> None:
        """Stops what runs; safe in a signal handler and from another thread, and more than once."""
        self._stopped = True
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _main(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        return await coroutine

    @staticmethod
    def _interrupted() -> TrainJobInterruptedError:
        return TrainJobInterruptedError("the worker was told to stop; the TrainJob is left as it is")
