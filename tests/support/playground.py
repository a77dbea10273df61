"""A local cluster in virtual time, the adapter's calls on it over HTTPS, and a hub that sees what happens."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import importlib
import pkgutil
import random
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
from aiohttp import web

from airflow_dispatch import adapter as adapter_room
from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster import LocalCluster, Timings
from airflow_dispatch.localcluster.apiserver.access import User
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.kubelet.scripted import ScriptedContainer, ScriptedRuntime
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, PODS, TRAINJOBS

__all__ = ["NAMESPACE", "Call", "Playground", "playground"]

NAMESPACE = "default"
_DEADLINE = 30.0
_TIMINGS = Timings(heartbeat=10, grace=25, toleration=10)
"""Fewer moments at which something is due than by default, so that time moves on faster."""

_FOLLOWED = ((paths.TRAINJOBS, TRAINJOBS), (paths.JOBSETS, JOBSETS), (paths.JOBS, JOBS), (paths.PODS, PODS))
_GUARDED = ("PUT", "PATCH")


class Call:
    """One call of a verb; ``result`` once it has answered, ``error`` when it was refused."""

    def __init__(self, words: str, working: Awaitable[Any]) -> None:
        self.words = words
        self.task: asyncio.Task[Any] = asyncio.ensure_future(working)

    @property
    def done(self) -> bool:
        return self.task.done()

    @property
    def error(self) -> BaseException | None:
        return self.task.exception() if self.task.done() and not self.task.cancelled() else None

    @property
    def succeeded(self) -> bool:
        return self.done and not self.task.cancelled() and self.error is None


class Playground:
    """``unguarded``: what was written over HTTP without naming the UID and version that it was meant for."""

    def __init__(self, cluster: LocalCluster, clock: VirtualClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.unguarded: list[str] = []
        self._open_requests = 0
        self._sleeping = 0
        self._calls: list[Call] = []
        self._seen_version = ""
        self.adapter: Adapter
        self.hub: Hub

    # ------------------------------------------------------------ acting

    def call(self, words: str, working: Awaitable[Any]) -> Call:
        call = Call(words, working)
        self._calls.append(call)
        return call

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds, self.settle)

    async def settle(self) -> None:
        """Returns when nothing is left to do until the clock moves: on the cluster, on the wire, in the hub."""
        deadline, turns = time.monotonic() + _DEADLINE, 0
        while turns < 2:
            await self.cluster.settle()
            self._calls = [call for call in self._calls if not call.done]
            busy = self._open_requests or len(self._calls) > self._sleeping or not self._hub_has_seen_it()
            turns = 0 if busy else turns + 1
            assert time.monotonic() < deadline, f"still busy: {[call.words for call in self._calls]}"
            await asyncio.sleep(0.001 if busy else 0)

    def _hub_has_seen_it(self) -> bool:
        version = self.cluster.registry.resource_version
        if version == self._seen_version:
            return True
        for followed, resource in _FOLLOWED:
            listed = self.cluster.registry.list(resource, NAMESPACE).items
            wanted = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed}
            seen = self.hub.store._objects[followed.kind].items()
            if {name: item.metadata.resource_version for name, item in seen} != wanted:
                return False
        self._seen_version = version
        return True

    # ------------------------------------------------------------ looking

    def live_containers(self) -> list[ScriptedContainer]:
        runtime = self.cluster.runtime
        assert isinstance(runtime, ScriptedRuntime)
        return [container for container in runtime.containers if not container._exit.done()]

    # ------------------------------------------------------------ the inside

    async def sleep(self, seconds: float) -> None:
        self._sleeping += 1
        try:
            await self.clock.sleep(seconds)
        finally:
            self._sleeping -= 1

    def watch_requests(self) -> None:
        """Looks at every request before the server does."""
        handlers = self.cluster.server._handlers
        answered = handlers.handle

        async def handle(request: web.Request, user: User) -> web.StreamResponse:
            if request.query.get("watch"):
                return await answered(request, user)
            self._open_requests += 1
            try:
                await self._look_at(request)
                return await answered(request, user)
            finally:
                self._open_requests -= 1

        handlers.handle = handle  # type: ignore[method-assign]

    async def _look_at(self, request: web.Request) -> None:
        if request.method not in (*_GUARDED, "DELETE"):
            return
        body = msgspec.json.decode(await request.read() or b"{}")
        if request.method == "DELETE":
            guarded = bool(body.get("preconditions", {}).get("uid"))
        else:
            metadata = body.get("metadata", {})
            guarded = bool(metadata.get("uid") and metadata.get("resourceVersion"))
            guarded &= request.query.get("fieldManager") == names.FIELD_MANAGER
        if not guarded:
            self.unguarded.append(f"{request.method} {request.path_qs}")


@contextlib.asynccontextmanager
async def playground(directory: Path, *, nodes: int = 3) -> AsyncIterator[Playground]:
    """The adapter's own waits and clock readings are on the cluster's clock."""
    clock = VirtualClock()
    cluster = LocalCluster(nodes=nodes, clock=clock, runtime="scripted", directory=directory, timings=_TIMINGS)
    ground = Playground(cluster, clock)
    ground.watch_requests()
    async with AsyncExitStack() as stack:
        for patch in _on_the_clock(ground):
            stack.enter_context(patch)
        await stack.enter_async_context(cluster)
        config = ClusterConfig(kubeconfig=str(cluster.kubeconfig))
        client = await stack.enter_async_context(await KubeClient.connect(config))
        ground.adapter = Adapter(client, NAMESPACE)
        ground.hub = await stack.enter_async_context(shared_hub(config, NAMESPACE))
        await ground.hub.synced()
        yield ground


def _on_the_clock(ground: Playground) -> Iterator[Any]:
    class Datetime(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            del tz
            return ground.clock.now()

    replacements = {
        "asyncio": SimpleNamespace(**{**vars(asyncio), "sleep": ground.sleep}),
        "time": SimpleNamespace(**{**vars(time), "monotonic": lambda: ground.clock.now().timestamp()}),
        "datetime": Datetime,
        "random": random.Random(0),
    }
    for found in pkgutil.iter_modules(adapter_room.__path__):
        module = importlib.import_module(f"{adapter_room.__name__}.{found.name}")
        for name, replacement in replacements.items():
            if name in vars(module):
                yield mock.patch.object(module, name, replacement)
