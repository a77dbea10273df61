"""The client against the local API server: what lists, watches, preconditions and permissions really do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core.errors import AlreadyExists, Conflict, Forbidden, Gone, NotFound, Refused
from airflow_dispatch.core.objects import TrainJob
from airflow_dispatch.kube import client as client_module
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS, PODS
from tests.support.apiserver import ScriptedLogs
from tests.support.apiserver import pod as plain_pod


@contextlib.asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    async with (
        asyncio.timeout(20),
        ApiServer(Registry(WallClock()), folder, logs=ScriptedLogs()) as server,
        await KubeClient.connect(ClusterConfig(kubeconfig=str(server.kubeconfig()))) as client,
    ):
        yield server, client


def configmap(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def trainjob(name: str = "job") -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch"}, "suspend": True},
    }


def test_a_list_is_read_in_pages_and_watched_from_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE_SIZE", 2)

    async def main() -> None:
        async with connected(tmp_path) as (server, client):
            for number in range(5):
                server.registry.create(CONFIGMAPS, "default", configmap(f"c{number}", odd=str(number % 2)))
            found = await client.list(paths.CONFIGMAPS, "default", label_selector="odd=0")
            assert [item.metadata.name for item in found.items] == ["c0", "c2", "c4"]
            found = await client.list(paths.CONFIGMAPS, "default", field_selector="metadata.name=c3")
            assert [item.metadata.name for item in found.items] == ["c3"]
            found = await client.list(paths.CONFIGMAPS, "default")
            assert len(found.items) == 5
            server.registry.create(CONFIGMAPS, "default", configmap("later"))
            stream = client.watch(paths.CONFIGMAPS, "default", resource_version=found.resource_version)
            async with contextlib.aclosing(stream) as events:
                event = await anext(events)
                assert (event.type, event.object.metadata.name) == ("ADDED", "later")
                server.registry.delete(CONFIGMAPS, "default", "later")
                deleted = await anext(events)
                assert (deleted.type, deleted.object.metadata.name) == ("DELETED", "later")
                assert int(deleted.resource_version) > int(event.resource_version)

    asyncio.run(main())


def test_a_watch_from_a_version_that_was_compacted_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (server, client):
            old = (await client.list(paths.CONFIGMAPS, "default")).resource_version
            for number in range(3):
                server.registry.create(CONFIGMAPS, "default", configmap(f"c{number}"))
            server.registry.compact()
            with pytest.raises(Gone):
                async with contextlib.aclosing(
                    client.watch(paths.CONFIGMAPS, "default", resource_version=old)
                ) as events:
                    await anext(events)

    asyncio.run(main())


def test_writes_hold_to_their_preconditions(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (_, client):
            created = await client.create(paths.TRAINJOBS, "default", trainjob())
            with pytest.raises(AlreadyExists):
                await client.create(paths.TRAINJOBS, "default", trainjob())
            replaced = await client.replace(
                paths.TRAINJOBS, {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
            )
            with pytest.raises(Conflict):
                await client.replace(paths.TRAINJOBS, created)
            other = {**replaced, "metadata": {**replaced["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
            with pytest.raises(Refused, match="UID") as refused:
                await client.replace(paths.TRAINJOBS, other)
            assert not isinstance(refused.value, Conflict)
            patched = await client.patch(
                paths.TRAINJOBS,
                "job",
                "default",
                {"metadata": {"uid": created["metadata"]["uid"], "labels": {"a": None}}},
            )
            assert "labels" not in patched["metadata"]
            record = await client.read(paths.TRAINJOBS, "job", "default")
            assert isinstance(record, TrainJob)
            assert record.metadata.uid == created["metadata"]["uid"]
            with pytest.raises(Refused, match="UID"):
                await client.delete(paths.TRAINJOBS, "job", "default", uid="00000000-0000-0000-0000-000000000000")
            await client.delete(paths.TRAINJOBS, "job", "default", uid=created["metadata"]["uid"])
            with pytest.raises(NotFound):
                await client.get(paths.TRAINJOBS, "job", "default")

    asyncio.run(main())


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (_, client):
            answer = await client.create(paths.TRAINJOBS, "default", trainjob(), dry_run=True)
            assert answer["metadata"]["name"] == "job"
            assert (await client.list(paths.TRAINJOBS, "default")).items == []

    asyncio.run(main())


def test_what_one_may_do_is_asked_and_what_one_may_not_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (server, _):
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
            config = ClusterConfig(kubeconfig=str(server.add_user("reader", rules)))
            async with await KubeClient.connect(config) as reader:
                assert await reader.can_i("list", paths.PODS, "default")
                assert not await reader.can_i("delete", paths.PODS, "default")
                assert not await reader.can_i("get", paths.PODS, "default", "log")
                assert not await reader.can_i("get", paths.NODES, None)
                with pytest.raises(Forbidden, match="no permission to delete pods"):
                    await reader.delete(paths.PODS, "p", "default")
                with pytest.raises(Forbidden, match=r"no permission to create trainjobs\.trainer\.kubeflow\.org"):
                    await reader.create(paths.TRAINJOBS, "default", trainjob())

    asyncio.run(main())


def test_a_log_is_read_line_by_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (server, client):
            server.registry.create(PODS, "default", plain_pod("p"))
            lines = [line async for line in client.log("p", "default", container="main", tail_lines=2)]
            assert lines == [b"main 1", b"main 2"]
            since = ScriptedLogs.start.replace(second=2)
            stamped = [
                line async for line in client.log("p", "default", container="main", since_time=since, timestamps=True)
            ]
            assert [line.partition(b" ")[2] for line in stamped] == [b"main 2"]
            followed = [line async for line in client.log("p", "default", container="main", follow=True)]
            assert followed[-1] == b"main 3 of p"

    asyncio.run(main())
