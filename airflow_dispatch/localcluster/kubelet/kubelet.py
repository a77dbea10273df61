"""A kubelet: one node's part of the cluster. It speaks to the API server and to its runtime, and to nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.logs import LogLine
from airflow_dispatch.localcluster.client import Api
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.kubelet.host import Host
from airflow_dispatch.localcluster.kubelet.images import ImageTable
from airflow_dispatch.localcluster.kubelet.link import Link
from airflow_dispatch.localcluster.kubelet.logs import read_log
from airflow_dispatch.localcluster.kubelet.names import PodNames
from airflow_dispatch.localcluster.kubelet.network import AddressPool
from airflow_dispatch.localcluster.kubelet.node import NodeReporter, NodeSpec
from airflow_dispatch.localcluster.kubelet.runtime import Runtime
from airflow_dispatch.localcluster.kubelet.worker import PodWorker
from airflow_dispatch.localcluster.resources import PODS

__all__ = ["Kubelet", "KubeletLogs"]

_LOG = logging.getLogger(__name__)
_RELIST_AFTER: Final = 1.0


class Kubelet:
    """Runs the pods that are bound to its Node.

    ``async with`` or :meth:`start` and :meth:`stop`. The other methods are faults: they do to the node what happens to
    machines.

    Args:
        api: The API server.
        spec: The node it stands for.
        runtime: What runs containers; several kubelets may share one.
        clock: What times are read from and waits are made on.
        addresses: Where pods' addresses come from.
        names: The names of pods, shared by all kubelets of a cluster.
        folder: Where the files of this node's pods go.
        images: The images that the node has; None takes every image for granted.
    """

    def __init__(
        self,
        api: Api,
        spec: NodeSpec,
        runtime: Runtime,
        clock: Clock,
        *,
        addresses: AddressPool,
        names: PodNames,
        folder: Path,
        images: ImageTable | None = None,
    ) -> None:
        self.name = spec.name
        self.lost = False
        self._clock = clock
        self._link = Link(api, clock)
        self._selector = f"spec.nodeName={spec.name}"
        self._host = Host(
            node=spec.name,
            link=self._link,
            runtime=runtime,
            clock=clock,
            images=images,
            addresses=addresses,
            names=names,
            folder=folder / spec.name,
            allocatable=spec.capacity,
        )
        self._reporter = NodeReporter(spec, self._link, clock, address=addresses.host, runtime=runtime.name)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Registers the Node and begins to run its pods."""
        await self._reporter.register()
        self._connect()

    async def stop(self) -> None:
        """Ends everything it runs, and tells nobody."""
        await self._disconnect()
        await self._drop_pods()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do until the clock moves, something is written, or a container ends."""
        return self._link.calls == 0

    @property
    def boot_id(self) -> str:
        """The boot ID of the node's present life."""
        return self._reporter.boot_id

    # Faults

    async def lose(self) -> None:
        """Cuts the node off: no heartbeat, no reading and no writing. What runs goes on running."""
        self.lost = True
        self._link.cut()
        await self._disconnect()

    async def restore(self) -> None:
        """The node is back: it registers again if need be, and acts on what it has missed."""
        if not self.lost:
            return
        self.lost = False
        self._link.restore()
        await self._reporter.register()
        self._connect()
        for worker in list(self._workers.values()):
            if not worker.done:
                await worker.report_again()

    async def reboot(self) -> None:
        """The machine restarts: everything on it ends at once, and it comes back with another boot ID."""
        self.lost = True
        self._link.cut()
        await self._disconnect()
        await self._drop_pods()
        self._reporter.reboot()
        await self.restore()

    def worker(self, uid: str) -> PodWorker | None:
        """What runs the pod of that UID here, or None."""
        return self._workers.get(uid)

    @property
    def workers(self) -> tuple[PodWorker, ...]:
        """What runs here, a lost node's too."""
        return tuple(self._workers.values())

    # Its own work

    def _connect(self) -> None:
        self._tasks = [
            asyncio.create_task(self._reporter.run(), name=f"heartbeats of {self.name}"),
            asyncio.create_task(self._follow_pods(), name=f"pods of {self.name}"),
        ]

    async def _disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _drop_pods(self) -> None:
        await asyncio.gather(*(worker.abort() for worker in self._workers.values()))
        self._workers = {}

    async def _follow_pods(self) -> None:
        """Lists and watches its pods; whenever that ends or fails, it lists again."""
        while True:
            try:
                listing = await self._link.read(lambda api: api.list(PODS, field_selector=self._selector))
                self._replace(listing.items)
                events = self._link.api.watch(PODS, listing.resource_version, field_selector=self._selector)
                async with aclosing(events):
                    async for kind, pod in events:
                        self._apply(kind, pod)
            except (ApiError, ConnectionError) as error:
                _LOG.info("%s: the watch on pods ended: %s", self.name, error)
                await self._clock.sleep(_RELIST_AFTER)

    def _replace(self, pods: list[dict[str, Any]]) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in set(self._workers) - present:
            self._let_go(uid)
        for pod in pods:
            self._apply("MODIFIED", pod)

    def _apply(self, kind: str, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._let_go(uid)
            return
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
            return
        self._workers[uid] = PodWorker(self._host, pod)
        self._workers[uid].begin()

    def _let_go(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            return
        worker.vanish()
        task = asyncio.create_task(self._bury(uid, worker), name=f"end of pod {worker.namespace}/{worker.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _bury(self, uid: str, worker: PodWorker) -> None:
        await worker.ended()
        self._workers.pop(uid, None)
        worker.forget()


class KubeletLogs:
    """The logs of all pods of a cluster, for the API server's ``pods/log``."""

    def __init__(self, kubelets: dict[str, Kubelet]) -> None:
        self._kubelets = kubelets

    async def read(
        self, pod: dict[str, Any], container: str, *, previous: bool, follow: bool
    ) -> AsyncIterator[LogLine | None]:
        """The container's lines.

        Raises:
            ApiError: 400 when there is no such log, 500 when the pod's node can't be reached.
        """
        name = pod["metadata"]["name"]
        node = pod["spec"].get("nodeName", "")
        kubelet = self._kubelets.get(node)
        if kubelet is not None and kubelet.lost:
            where = f"containerLogs/{pod['metadata']['namespace']}/{name}/{container}"
            raise ApiError(500, "InternalError", f"Get {where}: node {node} can't be reached: i/o timeout")
        worker = kubelet.worker(pod["metadata"]["uid"]) if kubelet is not None else None
        log = worker.log(container, previous=previous) if worker is not None else None
        if log is None:
            reason = worker.waiting_reason(container) if worker is not None else "ContainerCreating"
            message = (
                f'previous terminated container "{container}" in pod "{name}" not found'
                if previous
                else f'container "{container}" in pod "{name}" is waiting to start: {reason}'
            )
            raise ApiError(400, "BadRequest", message)
        async for line in read_log(log, follow=follow):
            yield line
