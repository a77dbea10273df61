"""An API server to test against: logs that are scripted, controllers that run on demand, a thread to serve from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from airflow_dispatch.localcluster.apiserver.garbage import GarbageCollector, NamespaceController
from airflow_dispatch.localcluster.apiserver.logs import LogLine
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Collector", "Live", "Object", "ScriptedLogs", "pod"]

Object = dict[str, Any]
T = TypeVar("T")


class Reconciler(Protocol):
    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Any: ...

    def reconcile(self, key: str) -> None: ...


class Collector:
    """Runs the garbage collector and the namespace controller until nothing is left to do."""

    def __init__(self, registry: Registry) -> None:
        self._controllers: list[Reconciler] = [GarbageCollector(registry), NamespaceController(registry)]
        self._queue: list[tuple[Reconciler, str]] = []
        registry.listen(self._enqueue)

    def _enqueue(self, resource: Resource, kind: str, new: Object | None, old: Object | None) -> None:
        del kind
        for controller in self._controllers:
            self._queue.extend((controller, key) for key in controller.keys_for(resource, new, old))

    def run(self) -> None:
        while self._queue:
            controller, key = self._queue.pop(0)
            controller.reconcile(key)


class ScriptedLogs:
    """Three lines a second apart, and one more that a follower sees once it is let through."""

    start = datetime(2026, 1, 1, 12, tzinfo=UTC)

    async def read(self, pod: Object, container: str, *, previous: bool, follow: bool) -> AsyncIterator[LogLine | None]:
        where = "previous" if previous else container
        for second in range(3):
            yield LogLine(self.start.replace(second=second), f"{where} {second}".encode())
        if follow:
            yield None
            yield LogLine(self.start.replace(second=3), f"{where} 3 of {pod['metadata']['name']}".encode())


class Live:
    """A server that listens, driven from outside its event loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apiserver")
        self.registry = Registry(WallClock())
        self.server = ApiServer(self.registry, directory, logs=ScriptedLogs())

    def __enter__(self) -> Self:
        self._thread.start()
        collector = Collector(self.registry)

        def collect_soon(*_: object) -> None:
            self._loop.call_soon(collector.run)

        self.registry.listen(collect_soon)
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(10)
        self.kubeconfig = str(self.server.kubeconfig())
        return self

    def __exit__(self, *exc_info: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the server's loop, where the registry may be touched."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)


def pod(name: str = "p", **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/app:1"}]},
    }
