"""A whole cluster in one process: API server, controllers, nodes."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.client import Api, HttpApi, InProcessApi
from airflow_dispatch.localcluster.clock import Clock, VirtualClock, WallClock, quiet
from airflow_dispatch.localcluster.controllers import ControllerManager, default_controllers
from airflow_dispatch.localcluster.faults import Faults
from airflow_dispatch.localcluster.kubelet import (
    DEFAULT_IMAGES,
    ClusterNetwork,
    ContainerSpec,
    Image,
    ImageTable,
    Kubelet,
    KubeletLogs,
    NodeSpec,
    ProcessRuntime,
    Runtime,
    Script,
    ScriptedRuntime,
)
from airflow_dispatch.localcluster.kubelet.scripted import runs_until_told
from airflow_dispatch.localcluster.machines import running_nodes
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES
from airflow_dispatch.localcluster.runtimes import shipped_runtimes

if TYPE_CHECKING:
    from airflow_dispatch.localcluster.thread import ClusterThread

__all__ = ["LocalCluster", "Timings"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timings:
    """How fast a lost node is noticed and given up: in seconds, and much shorter than Kubernetes' defaults.

    Attributes:
        heartbeat: How often a node renews its Lease (Kubernetes: 10).
        grace: How long after the last heartbeat the Node turns ``Ready=Unknown`` (Kubernetes: 50).
        toleration: How long pods stay on an unreachable Node before they are evicted (Kubernetes: 300).
    """

    heartbeat: float = 1.0
    grace: float = 5.0
    toleration: int = 4


class LocalCluster:
    """A Kubernetes-like cluster with Trainer and JobSet, in this process, for development, demos and tests.

    ``async with LocalCluster(nodes=3) as cluster:`` and then point any client at ``cluster.kubeconfig``. For callers
    without an event loop there is :meth:`in_thread`.

    Containers are real processes of this machine and user (see
    :mod:`~airflow_dispatch.localcluster.kubelet.process`). With ``runtime="scripted"`` they are played instead, and
    with a :class:`~airflow_dispatch.localcluster.clock.VirtualClock` the whole cluster stands still until
    :meth:`advance` moves it.

    Args:
        nodes: How many nodes, named ``node-0`` and so on, or what they are.
        clock: The clock of everything; the wall's when not given.
        runtime: ``process``, ``scripted``, or a runtime of one's own.
        script: What scripted containers do; by default they run until a fault or a deletion ends them.
        images: Images beside ``localhost/python:3``. Scripted containers take every image, unless this is given.
        timings: How fast a lost node is noticed.
        directory: Where kubeconfigs and pods' files go; a temporary folder when not given.
        port: The API server's port, 0 for a free one.
        kubelets_over_http: Whether kubelets go through HTTPS as they would elsewhere, not straight to the registry.
        mount_namespaces: Whether processes get mount namespaces; found out when None.
    """

    def __init__(
        self,
        *,
        nodes: int | Sequence[NodeSpec] = 3,
        clock: Clock | None = None,
        runtime: Literal["process", "scripted"] | Runtime = "process",
        script: Callable[[ContainerSpec], Script] = runs_until_told,
        images: Mapping[str, Image] | None = None,
        timings: Timings | None = None,
        directory: Path | None = None,
        port: int = 0,
        kubelets_over_http: bool = False,
        mount_namespaces: bool | None = None,
    ) -> None:
        self.clock: Clock = clock or WallClock()
        self.timings = timings or Timings()
        self.kubelets: dict[str, Kubelet] = {}
        self._temporary = tempfile.TemporaryDirectory(prefix="airflow-dispatch-local-") if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary is not None else directory or Path()
        self.registry = Registry(self.clock, toleration_seconds=self.timings.toleration)
        self.server = ApiServer(self.registry, self.directory, logs=KubeletLogs(self.kubelets), port=port)
        self.manager = ControllerManager(
            self.registry, self.clock, default_controllers(self.registry, self.clock, grace=self.timings.grace)
        )
        self.images: ImageTable | None = ImageTable({**DEFAULT_IMAGES, **(images or {})})
        if runtime == "process":
            self.runtime: Runtime = ProcessRuntime(self.directory, namespaces=mount_namespaces)
        elif runtime == "scripted":
            self.runtime = ScriptedRuntime(self.clock, script)
            self.images = None if images is None else ImageTable(images)
        else:
            self.runtime = runtime
        if isinstance(nodes, int):
            beat = self.timings.heartbeat
            nodes = [NodeSpec(f"node-{number}", heartbeat_seconds=beat) for number in range(nodes)]
        self._nodes = nodes
        self._over_http = kubelets_over_http
        self._stack = AsyncExitStack()
        self._kubeconfig: Path | None = None
        self._faults: Faults | None = None

    @classmethod
    def in_thread(cls, **options: Any) -> ClusterThread:
        """A cluster with these options in a thread of its own: ``with LocalCluster.in_thread(nodes=2) as cluster:``."""
        from airflow_dispatch.localcluster.thread import ClusterThread  # noqa: PLC0415 - it builds on this module

        return ClusterThread(lambda: cls(**options))

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, once the cluster has started."""
        if self._kubeconfig is None:
            raise RuntimeError("the cluster has not started")
        return self._kubeconfig

    @property
    def faults(self) -> Faults:
        """What can be made to go wrong, once the cluster has started."""
        if self._faults is None:
            raise RuntimeError("the cluster has not started")
        return self._faults

    async def start(self) -> None:
        """Starts everything; returns when the nodes are ready and the runtimes are there."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        await self._stack.enter_async_context(self.server)
        self._kubeconfig = self.server.kubeconfig()
        managing = asyncio.create_task(self.manager.run(), name="controllers")
        self._stack.push_async_callback(_end, managing)
        self._stack.push_async_callback(self.runtime.close)
        network = ClusterNetwork()
        self._stack.callback(network.close)
        api: Api = InProcessApi(self.registry)
        if self._over_http:
            api = await self._stack.enter_async_context(await HttpApi.connect(self._kubeconfig))
        self._faults = Faults(api, self.kubelets)
        for runtime in shipped_runtimes():
            self.registry.create(CLUSTER_TRAINING_RUNTIMES, None, runtime, field_manager="local")
        await self._stack.enter_async_context(
            running_nodes(
                api,
                [(spec, network.node(index)) for index, spec in enumerate(self._nodes)],
                self.runtime,
                self.clock,
                kubelets=self.kubelets,
                folder=self.directory / "nodes",
                images=self.images,
            )
        )
        await self.settle()  # the node controller takes the taint of new Nodes away
        _LOG.info("the local cluster serves %s with %d nodes", self.url, len(self._nodes))

    async def stop(self) -> None:
        """Ends every process and closes every port."""
        await self._stack.aclose()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def settle(self) -> None:
        """Returns when there is nothing left to do at this moment of the clock.

        It looks at what is within the process: a request that a client has yet to send is not seen.
        """
        await quiet(
            lambda: self.registry.resource_version,
            lambda: self.manager.idle and all(kubelet.idle for kubelet in self.kubelets.values()),
        )

    async def advance(self, seconds: float) -> None:
        """Moves a virtual clock on, stopping at each moment at which something is due, and settles.

        Raises:
            TypeError: The cluster runs on the wall's clock.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("only a virtual clock can be moved")
        await clock.advance(seconds, self.settle)


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
