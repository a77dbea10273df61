"""The real control plane with nodes: the local cluster's kubelets, over HTTPS as any kubelet would."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, JOBSETS, Resource
from airflow_dispatch.localcluster.runtimes import shipped_runtimes
from tests.realcluster.controlplane import ControlPlane, control_plane
from tests.realcluster.logs import log_server

WEBHOOK_SECONDS = 20.0
"""How long a webhook may take until it takes its first object."""


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
    """Creates the runtimes, once Trainer's and JobSet's webhooks are served to the API server.

    Both controllers say that they are ready a moment before their webhooks are there.
    """
    for runtime in shipped_runtimes():
        await _create(api, clock, CLUSTER_TRAINING_RUNTIMES, None, runtime)
    pod = {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    replicated = {"name": "r", "template": {"spec": {"template": pod}}}
    body = {"metadata": {"name": "probe"}, "spec": {"suspend": True, "replicatedJobs": [replicated]}}
    await _create(api, clock, JOBSETS, "default", {"apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind, **body})
    await api.delete(JOBSETS, "default", "probe")


async def _create(
    api: HttpApi, clock: WallClock, resource: Resource, namespace: str | None, body: dict[str, Any]
) -> None:
    """Creates an object, again and again for so long as its webhook is not served."""
    began = clock.now()
    while True:
        try:
            await api.create(resource, namespace, body)
        except ApiError:
            if (clock.now() - began).total_seconds() > WEBHOOK_SECONDS:
                raise
            await clock.sleep(0.1)
        else:
            return
