"""The kubelet's client: the same behaviour within the process and over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.client import MERGE_PATCH, Api, HttpApi, InProcessApi
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS, NODES, PODS

Play = Callable[[Api, Registry], Awaitable[None]]


@asynccontextmanager
async def _api(kind: str, folder: Path) -> AsyncIterator[tuple[Api, Registry]]:
    registry = Registry(WallClock())
    if kind == "in process":
        yield InProcessApi(registry), registry
        return
    async with ApiServer(registry, folder) as server, await HttpApi.connect(server.kubeconfig()) as api:
        yield api, registry


@pytest.fixture(params=["in process", "over https"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Play], None]:
    def run(play: Play) -> None:
        async def main() -> None:
            async with _api(request.param, tmp_path) as (api, registry):
                await play(api, registry)

        asyncio.run(main())

    return run


def pod(name: str, node: str) -> dict[str, object]:
    spec = {"nodeName": node, "containers": [{"name": "node", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_create_get_patch_and_delete(run: Callable[[Play], None]) -> None:
    async def play(api: Api, registry: Registry) -> None:
        made = await api.create(
            CONFIGMAPS,
            "default",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}},
        )
        assert (await api.get(CONFIGMAPS, "default", "a"))["metadata"]["uid"] == made["metadata"]["uid"]
        patched = await api.patch(CONFIGMAPS, "default", "a", {"data": {"k": "2"}}, content_type=MERGE_PATCH)
        patched["data"]["k"] = "3"
        assert (await api.update(CONFIGMAPS, "default", "a", patched))["data"] == {"k": "3"}
        await api.delete(CONFIGMAPS, "default", "a", uid=made["metadata"]["uid"])
        with pytest.raises(ApiError) as refused:
            registry.get(CONFIGMAPS, "default", "a")
        assert refused.value.code == 404

    run(play)


def test_a_refusal_carries_the_servers_code_reason_and_words(run: Callable[[Play], None]) -> None:
    async def play(api: Api, _: Registry) -> None:
        with pytest.raises(ApiError) as refused:
            await api.get(NODES, None, "nowhere")
        error = refused.value
        assert (error.code, error.reason, error.message) == (404, "NotFound", 'nodes "nowhere" not found')

    run(play)


def test_a_deletion_with_another_uid_is_refused(run: Callable[[Play], None]) -> None:
    async def play(api: Api, registry: Registry) -> None:
        registry.create(PODS, "default", pod("a", "node-0"))
        with pytest.raises(ApiError) as refused:
            await api.delete(PODS, "default", "a", uid="another", grace_period=0)
        assert refused.value.code == 409

    run(play)


def test_a_watch_goes_on_from_a_list_and_sees_its_selection_alone(run: Callable[[Play], None]) -> None:
    async def play(api: Api, registry: Registry) -> None:
        registry.create(PODS, "default", pod("before", "node-0"))
        listing = await api.list(PODS, field_selector="spec.nodeName=node-0")
        assert [item["metadata"]["name"] for item in listing.items] == ["before"]
        registry.create(PODS, "default", pod("elsewhere", "node-1"))
        registry.create(PODS, "default", pod("here", "node-0"))
        async with aclosing(api.watch(PODS, listing.resource_version, field_selector="spec.nodeName=node-0")) as events:
            first = await anext(events)
            assert (first.type, first.object["metadata"]["name"]) == ("ADDED", "here")
            registry.delete(PODS, "default", "before", grace_period=0)
            while (event := await anext(events)).type != "DELETED":
                assert event.type == "MODIFIED"
            assert event.object["metadata"]["name"] == "before"

    run(play)


def test_a_watch_from_too_long_ago_is_refused_with_410(run: Callable[[Play], None]) -> None:
    async def play(api: Api, registry: Registry) -> None:
        registry.create(PODS, "default", pod("a", "node-0"))
        registry.compact()
        with pytest.raises(ApiError) as refused:
            async with aclosing(api.watch(PODS, "1")) as events:
                await anext(events)
        assert refused.value.code == 410

    run(play)


def test_a_server_that_is_gone_is_a_connection_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with ApiServer(Registry(WallClock()), tmp_path) as server:
            api = await HttpApi.connect(server.kubeconfig())
        async with api:
            with pytest.raises(ConnectionError):
                await api.list(PODS)

    asyncio.run(play())
