"""One set of watches for all who wait, over real HTTP against the local API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core.errors import Forbidden
from airflow_dispatch.core.snapshot import NodeAbsence, Snapshot
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub, shared_hub
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, NODES, PODS, TRAINJOBS
from tests.support.proxy import counting_proxy

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


def pod(name: str, node: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "node", "image": "localhost/python:3"}]}
    if node:
        spec["nodeName"] = node
    labels = {"jobset.sigs.k8s.io/jobset-name": NAME}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def config_of(running: ApiServer) -> ClusterConfig:
    return ClusterConfig(kubeconfig=str(running.kubeconfig()))


async def following(hub: Hub, name: str = NAME) -> Snapshot | None:
    async with contextlib.aclosing(hub.subscribe(name)) as snapshots:
        return await anext(snapshots)


def test_a_subscriber_gets_what_is_there_and_then_what_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(20))
            running = await stack.enter_async_context(server(tmp_path))
            hub = await stack.enter_async_context(shared_hub(config_of(running), "default"))
            async with contextlib.aclosing(hub.subscribe(NAME)) as snapshots:
                assert await anext(snapshots) is None
                created = running.registry.create(TRAINJOBS, "default", trainjob())
                seen = await anext(snapshots)
                assert seen is not None
                assert seen.trainjob.metadata.uid == created["metadata"]["uid"]
                running.registry.create(PODS, "default", pod("rank-0"))
                seen = await anext(snapshots)
                assert seen is not None
                assert [each.metadata.name for each in seen.pods] == ["rank-0"]
                running.registry.delete(PODS, "default", "rank-0", grace_period=0)
                while seen is not None and seen.pods:
                    seen = await anext(snapshots)
                assert seen is not None
                assert [each.pod.metadata.name for each in seen.captured] == ["rank-0"]
                running.registry.delete(TRAINJOBS, "default", NAME)
                assert await anext(snapshots) is None

    asyncio.run(main())


def test_more_subscribers_add_no_request_and_no_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(tmp_path) as running, counting_proxy(running.kubeconfig(), tmp_path) as proxy:
            for number in range(100):
                running.registry.create(TRAINJOBS, "default", trainjob(f"job-{number}"))
            config = ClusterConfig(kubeconfig=str(proxy.kubeconfig))
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(asyncio.timeout(30))
                costs = []
                for number in range(100):
                    hub = await stack.enter_async_context(shared_hub(config, "default"))
                    snapshots = await stack.enter_async_context(contextlib.aclosing(hub.subscribe(f"job-{number}")))
                    assert await anext(snapshots) is not None
                    await proxy.until(lambda: proxy.streams.total() == 7)
                    costs.append((proxy.total, proxy.streams.total()))
                first, second, third, hundredth = costs[0], costs[1], costs[2], costs[99]
                assert second == third == hundredth == costs[0]
                assert first == (15, 7)  # 8 lists, one of them of a kind that is not there, and 7 watches
            await proxy.until(lambda: proxy.streams.total() == 0)

    asyncio.run(main())


def test_a_permission_that_is_missing_reaches_every_subscriber(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(tmp_path) as running:
            rules = [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
            config = ClusterConfig(kubeconfig=str(running.add_user("poor", rules)))
            async with shared_hub(config, "default") as hub:
                with pytest.raises(Forbidden, match="no permission to list"):
                    await following(hub)

    asyncio.run(main())


def test_nodes_that_may_not_be_read_are_not_readable(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(tmp_path) as running:
            rules = [
                {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]}
                for group, resources in (
                    ("trainer.kubeflow.org", ["*"]),
                    ("jobset.x-k8s.io", ["*"]),
                    ("batch", ["*"]),
                    ("", ["pods"]),
                )
            ]
            running.registry.create(NODES, None, {"metadata": {"name": "node-1"}})
            running.registry.create(TRAINJOBS, "default", trainjob())
            running.registry.create(PODS, "default", pod("rank-0", "node-1"))
            config = ClusterConfig(kubeconfig=str(running.add_user("blind", rules)))
            async with asyncio.timeout(20), shared_hub(config, "default") as hub:
                seen = await following(hub)
                assert seen is not None
                assert seen.node_of(seen.pods[0]) is NodeAbsence.NOT_READABLE

    asyncio.run(main())


def test_nodes_that_may_only_be_got_are_got_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(tmp_path) as running:
            rules = [
                {
                    "apiGroups": ["trainer.kubeflow.org", "jobset.x-k8s.io", "batch"],
                    "resources": ["*"],
                    "verbs": ["get", "list", "watch"],
                },
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
            ]
            node = running.registry.create(NODES, None, {"metadata": {"name": "node-1"}})
            running.registry.create(TRAINJOBS, "default", trainjob())
            running.registry.create(PODS, "default", pod("rank-0", "node-1"))
            config = ClusterConfig(kubeconfig=str(running.add_user("getter", rules)))
            async with asyncio.timeout(20), shared_hub(config, "default") as hub:
                async with contextlib.aclosing(hub.subscribe(NAME)) as snapshots:
                    async for seen in snapshots:
                        assert seen is not None
                        if "node-1" in seen.nodes:
                            break
                assert seen is not None
                assert seen.nodes["node-1"].metadata.uid == node["metadata"]["uid"]

    asyncio.run(main())


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
