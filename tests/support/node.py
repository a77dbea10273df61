"""One node without controllers: a registry, a kubelet, and pods that are bound to it by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.client import InProcessApi
from airflow_dispatch.localcluster.clock import Clock, VirtualClock, WallClock, quiet
from airflow_dispatch.localcluster.kubelet import (
    PYTHON_IMAGE,
    ClusterNetwork,
    ContainerSpec,
    ImageTable,
    Kubelet,
    KubeletLogs,
    NodeSpec,
    PodNames,
    ProcessRuntime,
    Runtime,
    Script,
    ScriptedRuntime,
)
from airflow_dispatch.localcluster.kubelet.scripted import runs_until_told
from airflow_dispatch.localcluster.resources import PODS

__all__ = ["Bench", "container", "processes", "scripted"]

NODE = "node-0"


def container(*argv: str, name: str = "node", image: str = PYTHON_IMAGE, **fields: Any) -> dict[str, Any]:
    """A container that runs ``argv``."""
    return {"name": name, "image": image, "command": list(argv), **fields}


class Bench:
    """A node under test."""

    def __init__(self, clock: Clock, runtime: Runtime, folder: Path, images: ImageTable | None) -> None:
        self.clock = clock
        self.runtime = runtime
        self.registry = Registry(clock)
        self.names = PodNames()
        self.network = ClusterNetwork()
        self.kubelet = Kubelet(
            InProcessApi(self.registry),
            NodeSpec(NODE),
            runtime,
            clock,
            addresses=self.network.node(0),
            names=self.names,
            folder=folder,
            images=images,
        )
        self._written = asyncio.Event()
        self.registry.listen(lambda *_: self._written.set())

    def create(self, name: str, *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Makes a pod that is bound to the node; ``annotations`` and ``labels`` go to its metadata."""
        metadata: dict[str, Any] = {key: fields.pop(key) for key in ("annotations", "labels") if key in fields}
        spec = {"nodeName": NODE, "restartPolicy": "Never", "containers": list(containers), **fields}
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        return self.registry.create(PODS, "default", body)

    def pod(self, name: str) -> dict[str, Any] | None:
        """The pod as the API server has it, or None."""
        try:
            return self.registry.get(PODS, "default", name)
        except ApiError:
            return None

    def status(self, name: str) -> dict[str, Any]:
        """The pod's status."""
        status: dict[str, Any] = self.registry.get(PODS, "default", name)["status"]
        return status

    def state(self, name: str) -> dict[str, Any]:
        """The state of the pod's first container."""
        state: dict[str, Any] = self.status(name)["containerStatuses"][0]["state"]
        return state

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason of the pod's conditions."""
        conditions = self.status(name).get("conditions", ())
        return {entry["type"]: (entry["status"], entry.get("reason", "")) for entry in conditions}

    async def until(self, holds: Callable[[], Any], *, seconds: float = 20.0) -> Any:
        """Waits until something holds, looking again after each write; for real time."""
        async with asyncio.timeout(seconds):
            while not (found := holds()):
                self._written.clear()
                await self._written.wait()
        return found

    async def phase(self, name: str, phase: str) -> None:
        """Waits until the pod is in a phase."""
        await self.until(lambda: (self.pod(name) or {}).get("status", {}).get("phase") == phase)

    async def gone(self, name: str) -> None:
        """Waits until there is no such pod."""
        await self.until(lambda: self.pod(name) is None)

    async def log(self, name: str, of: str = "node", *, previous: bool = False) -> list[str]:
        """What the container has written."""
        logs = KubeletLogs({NODE: self.kubelet})
        lines = logs.read(self.registry.get(PODS, "default", name), of, previous=previous, follow=False)
        return [line.text.decode() async for line in lines if line is not None]

    async def settle(self) -> None:
        """Lets everything run that can run without the clock."""
        await quiet(lambda: self.registry.resource_version, lambda: self.kubelet.idle)

    async def advance(self, seconds: float) -> None:
        """Moves the virtual clock on."""
        assert isinstance(self.clock, VirtualClock)
        await self.clock.advance(seconds, self.settle)


@asynccontextmanager
async def _bench(clock: Clock, runtime: Runtime, folder: Path, images: ImageTable | None) -> AsyncIterator[Bench]:
    bench = Bench(clock, runtime, folder, images)
    try:
        await bench.kubelet.start()
        yield bench
    finally:
        await bench.kubelet.stop()
        await runtime.close()
        bench.network.close()


@asynccontextmanager
async def scripted(
    folder: Path,
    script: Callable[[ContainerSpec], Script] = runs_until_told,
    images: ImageTable | None = None,
) -> AsyncIterator[Bench]:
    """A node that plays its containers, under virtual time."""
    clock = VirtualClock()
    async with _bench(clock, ScriptedRuntime(clock, script), folder, images) as bench:
        await bench.settle()
        yield bench


@asynccontextmanager
async def processes(folder: Path, *, namespaces: bool | None = None) -> AsyncIterator[Bench]:
    """A node that runs real processes, in real time."""
    async with _bench(WallClock(), ProcessRuntime(folder, namespaces=namespaces), folder, ImageTable()) as bench:
        yield bench
