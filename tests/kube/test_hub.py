"""A hub on the local API server, whose history the test cuts off; what any cluster does is in tests/suite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, TRAINJOBS

NAME = "dj-01k6njrfae13r8h0c3swzgbj7r-s1"


@contextlib.asynccontextmanager
async def server(folder: Path) -> AsyncIterator[ApiServer]:
    registry = Registry(WallClock())
    async with ApiServer(registry, folder) as running:
        yield running


def trainjob(name: str = NAME) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch"}, "suspend": True},
    }


def config_of(running: ApiServer) -> ClusterConfig:
    return ClusterConfig(kubeconfig=str(running.kubeconfig()))


async def following(hub: Hub, name: str = NAME) -> Snapshot | None:
    async with contextlib.aclosing(hub.subscribe(name)) as snapshots:
        return await anext(snapshots)


def test_a_compacted_history_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(tmp_path) as running:
            config = config_of(running)
            async with asyncio.timeout(20), shared_hub(config, "default") as hub:
                assert await following(hub) is None
                running.registry.create(CLUSTER_TRAINING_RUNTIMES, None, _runtime())
                running.registry.compact()
                running.registry.create(TRAINJOBS, "default", trainjob())
                async with contextlib.aclosing(hub.subscribe(NAME)) as snapshots:
                    async for seen in snapshots:
                        if seen is not None:
                            break

    asyncio.run(main())


def _runtime() -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": []}}},
    }
