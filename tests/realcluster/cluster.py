"""The real control plane with nodes: the local cluster's kubelets, over HTTPS as any kubelet would."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.cluster import Timings
from airflow_dispatch.localcluster.faults import Faults
from airflow_dispatch.localcluster.kubelet import (
    DEFAULT_IMAGES,
    ClusterNetwork,
    ImageTable,
    Kubelet,
    NodeSpec,
    ProcessRuntime,
)
from airflow_dispatch.localcluster.machines import running_nodes
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES
from airflow_dispatch.localcluster.runtimes import shipped_runtimes
from tests.realcluster.controlplane import ControlPlane, control_plane
from tests.realcluster.logs import log_server

RUNTIME_SECONDS = 20.0
"""How long Trainer's webhook may take until it takes the first runtime."""


@dataclass(frozen=True)
class RealCluster:
    """What tests use of it: an administrator's kubeconfig, the control plane's processes, and the faults of nodes."""

    plane: ControlPlane
    faults: Faults
    kubelets: dict[str, Kubelet]

    @property
    def url(self) -> str:
        return self.plane.server

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig


@contextlib.asynccontextmanager
async def real_cluster(
    folder: Path | None = None, *, nodes: int = 3, kueue: bool = False
) -> AsyncIterator[RealCluster]:
    """A control plane and ``nodes`` nodes, and the runtimes that the local cluster ships; ``folder`` keeps the logs."""
    clock = WallClock()
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(control_plane(folder, kueue=kueue))
        api = await stack.enter_async_context(await HttpApi.connect(plane.kubeconfig))
        runtime = ProcessRuntime(plane.folder)
        stack.push_async_callback(runtime.close)
        network = ClusterNetwork()
        stack.callback(network.close)
        pools = [network.node(index) for index in range(nodes)]
        kubelets: dict[str, Kubelet] = {}
        logs = await stack.enter_async_context(log_server(plane, kubelets, [pool.host for pool in pools]))
        beat = Timings().heartbeat
        specs = [NodeSpec(f"node-{index}", heartbeat_seconds=beat, port=logs.port) for index in range(nodes)]
        await stack.enter_async_context(
            running_nodes(
                api,
                list(zip(specs, pools, strict=True)),
                runtime,
                clock,
                kubelets=kubelets,
                folder=plane.folder / "nodes",
                images=ImageTable(DEFAULT_IMAGES),
            )
        )
        await _create_runtimes(api, clock)
        yield RealCluster(plane, Faults(api, kubelets), kubelets)


async def _create_runtimes(api: HttpApi, clock: WallClock) -> None:
    """Creates the runtimes as soon as Trainer's webhook is served to the API server."""
    began = clock.now()
    for runtime in shipped_runtimes():
        while True:
            try:
                await api.create(CLUSTER_TRAINING_RUNTIMES, None, runtime)
            except ApiError:
                if (clock.now() - began).total_seconds() > RUNTIME_SECONDS:
                    raise
                await clock.sleep(0.1)
            else:
                break
