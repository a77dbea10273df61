"""Runs controllers: a work queue for each, filled by what is written, emptied one key at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Controller", "ControllerManager"]

_LOG = logging.getLogger(__name__)
_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 10.0
_AT_ONCE: Final = 50
"""Keys that are worked on before others in the event loop get their turn."""


class Controller(Protocol):
    """What a controller is: which kinds it watches, which keys a change of one concerns, and what it does for a key."""

    name: str
    watches: tuple[Resource, ...]

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterable[Hashable]:
        """The keys to reconcile after a write; ``obj`` is None after a deletion, ``old`` after a creation."""
        ...

    def reconcile(self, key: Any) -> float | None:
        """Brings the world of one key nearer to what it should be; seconds until it wants to look again, or None."""
        ...


class _Queue:
    """The keys of one controller, each with the moment at which it is due."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.paused = False
        self._due: dict[Hashable, datetime] = {}
        self._failures: dict[Hashable, int] = {}

    def add(self, key: Hashable, due: datetime) -> None:
        known = self._due.get(key)
        if known is None or due < known:
            self._due[key] = due

    def take(self, now: datetime) -> Hashable | None:
        """A key that is due, the one that has waited longest first; it leaves the queue."""
        if self.paused:
            return None
        for key, due in self._due.items():
            if due <= now:
                del self._due[key]
                return key
        return None

    def next_due(self) -> datetime | None:
        return None if self.paused else min(self._due.values(), default=None)

    def failed(self, key: Hashable) -> float:
        """Seconds until a key that failed is tried again."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(_LAST_RETRY, _FIRST_RETRY * 2**count))

    def succeeded(self, key: Hashable) -> None:
        self._failures.pop(key, None)


class ControllerManager:
    """All controllers of a cluster.

    ``lag`` is how many seconds after a write a controller hears of it, for tests of what happens in between.
    """

    def __init__(
        self, registry: Registry, clock: Clock, controllers: Sequence[Controller], *, lag: float = 0.0
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._lag = lag
        self._queues = {controller.name: _Queue(controller) for controller in controllers}
        self._changed = asyncio.Event()
        registry.listen(self._on_write)

    @property
    def idle(self) -> bool:
        """Nothing is due at this moment of the clock."""
        due = self._next_due()
        return due is None or due > self._clock.now()

    def pause(self, name: str) -> None:
        """Freezes a controller; what concerns it waits."""
        self._queues[name].paused = True

    def resume(self, name: str) -> None:
        """Lets a frozen controller go on with what has waited."""
        self._queues[name].paused = False
        self._changed.set()

    def drain(self) -> None:
        """Works until nothing is due."""
        while self._work():
            pass

    async def run(self) -> None:
        """Works for ever, as things become due on the clock."""
        self._prime()
        while True:
            worked = sum(1 for _ in range(_AT_ONCE) if self._work())
            if worked:
                await asyncio.sleep(0)
                continue
            self._changed.clear()
            await self._wait()

    def _prime(self) -> None:
        """Queues what exists already."""
        for queue in self._queues.values():
            for resource in queue.controller.watches:
                for obj in self._registry.list(resource).items:
                    self._enqueue(queue, resource, obj, None)

    def _on_write(self, resource: Resource, event_type: str, new: Object | None, old: Object | None) -> None:
        del event_type
        for queue in self._queues.values():
            if resource in queue.controller.watches:
                self._enqueue(queue, resource, new, old)
        self._changed.set()

    def _enqueue(self, queue: _Queue, resource: Resource, obj: Object | None, old: Object | None) -> None:
        due = self._clock.now() + timedelta(seconds=self._lag)
        for key in queue.controller.keys_for(resource, obj, old):
            queue.add(key, due)

    def _work(self) -> bool:
        """Reconciles one key of each controller that has one due; false when none had."""
        worked = False
        for queue in self._queues.values():
            key = queue.take(self._clock.now())
            if key is not None:
                worked = True
                self._reconcile(queue, key)
        return worked

    def _reconcile(self, queue: _Queue, key: Hashable) -> None:
        try:
            again = queue.controller.reconcile(key)
        except ApiError as error:
            again = queue.failed(key)
            _LOG.debug("%s: %s: %s; again in %.2f s", queue.controller.name, key, error, again)
        except Exception:  # noqa: BLE001 (one broken object must not end its controller)
            again = queue.failed(key)
            _LOG.exception("%s: %s: failed; again in %.2f s", queue.controller.name, key, again)
        else:
            queue.succeeded(key)
        if again is not None:
            queue.add(key, self._clock.now() + timedelta(seconds=again))

    def _next_due(self) -> datetime | None:
        return min((due for queue in self._queues.values() if (due := queue.next_due()) is not None), default=None)

    async def _wait(self) -> None:
        """Returns when something was written, or something becomes due."""
        due = self._next_due()
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if due is not None:
            seconds = (due - self._clock.now()).total_seconds()
            waiting.append(asyncio.ensure_future(self._clock.sleep(max(0.0, seconds))))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
