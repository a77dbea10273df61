"""One set of watches for all who wait, with a triggerer's permissions; and streams that end or break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.names import object_name
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import hub as hub_module
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from tests.suite.workspace import WAIT_SECONDS, Workspace, name_of
from tests.support.accounts import TRIGGERER, verbs_of
from tests.support.proxy import CountingProxy, counting_proxy

KINDS = ("trainjobs", "jobsets", "jobs", "pods", "trainingruntimes", "events", "nodes")
"""What a triggerer may watch."""

Snapshots = AsyncGenerator[Snapshot | None, None]


@contextlib.asynccontextmanager
async def proxied_hub(workspace: Workspace, folder: Path) -> AsyncIterator[tuple[CountingProxy, Hub]]:
    """A triggerer's hub behind a counting proxy, with all of its streams open."""
    kubeconfig = Path(str(workspace.accounts.configs[TRIGGERER].kubeconfig))
    async with (
        counting_proxy(kubeconfig, folder) as proxy,
        asyncio.timeout(WAIT_SECONDS),
        shared_hub(ClusterConfig(kubeconfig=str(proxy.kubeconfig)), workspace.namespace) as hub,
    ):
        await hub.synced()
        await proxy.until(lambda: proxy.streams.total() == len(KINDS))
        yield proxy, hub


async def until(snapshots: Snapshots, ready: Callable[[Snapshot], bool]) -> Snapshot:
    async for snapshot in snapshots:
        if snapshot is not None and ready(snapshot):
            return snapshot
    raise AssertionError("the watches ended")


async def until_ended(hub: Hub, name: str, kind: CauseKind) -> Observation:
    """The end of a job, once all streams have brought what is known of it."""

    def known(snapshot: Snapshot) -> bool:
        observation = classify(snapshot, datetime.now(UTC))
        return observation.state is State.ENDED and observation.cause.kind is kind

    async with contextlib.aclosing(hub.subscribe(name)) as snapshots:
        return classify(await until(snapshots, known), datetime.now(UTC))


def phases(snapshot: Snapshot) -> list[str | None]:
    return [pod.status.phase if pod.status else None for pod in snapshot.pods]


def test_a_subscriber_gets_what_is_there_then_what_changes_and_at_last_that_it_is_gone(workspace: Workspace) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            hub = await stack.enter_async_context(workspace.hub())
            adapter = await stack.enter_async_context(workspace.adapter())
            await stack.enter_async_context(asyncio.timeout(WAIT_SECONDS))
            job = workspace.job("sleep", "300")
            name = object_name(job.job_id, 1)
            snapshots = await stack.enter_async_context(contextlib.aclosing(hub.subscribe(name)))
            assert await anext(snapshots) is None
            observation = await adapter.start(job, submission=1, attempt=1)
            gated = await until(snapshots, lambda seen: seen.runtime is not None)
            assert (name_of(observation), gated.trainjob.metadata.uid) == (name, observation.uid)
            await adapter.open(name, uid=observation.uid)
            await until(snapshots, lambda seen: phases(seen) == ["Running", "Running"])
            await adapter.cancel(name, uid=observation.uid)
            async for snapshot in snapshots:
                if snapshot is None:
                    break

    asyncio.run(main())


def test_the_last_state_of_a_pod_that_vanishes_is_kept(workspace: Workspace) -> None:
    async def main() -> None:
        async with (
            workspace.started(workspace.job("sleep", "300")) as (_, name),
            workspace.hub() as hub,
            asyncio.timeout(WAIT_SECONDS),
            contextlib.aclosing(hub.subscribe(name)) as snapshots,
        ):
            await until(snapshots, lambda seen: phases(seen) == ["Running", "Running"])
            doomed = await workspace.pod_of_rank(name, 1)
            await asyncio.to_thread(workspace.faults.force_delete, doomed, namespace=workspace.namespace)
            seen = await until(snapshots, lambda seen: doomed in [each.pod.metadata.name for each in seen.captured])
            assert doomed not in [pod.metadata.name for pod in seen.pods]

    asyncio.run(main())


def test_more_subscribers_add_no_request_and_no_stream(workspace: Workspace, tmp_path: Path) -> None:
    async def main() -> None:
        async with workspace.adapter() as adapter:
            jobs = [workspace.job("true") for _ in range(4)]
            names = [name_of(await adapter.start(job, submission=1, attempt=1)) for job in jobs]
        async with contextlib.AsyncExitStack() as stack:
            proxy, hub = await stack.enter_async_context(proxied_hub(workspace, tmp_path))
            alone = proxy.total
            assert alone == 2 * len(KINDS) + 1  # a list and a watch each, and a list of Workloads, which is refused
            for number in range(100):
                same = await stack.enter_async_context(
                    shared_hub(ClusterConfig(kubeconfig=str(proxy.kubeconfig)), workspace.namespace)
                )
                assert same is hub
                snapshots = hub.subscribe(names[number % len(names)])
                await stack.enter_async_context(contextlib.aclosing(snapshots))
                assert await anext(snapshots) is not None
            assert (proxy.total, proxy.streams.total()) == (alone, len(KINDS))

    asyncio.run(main())


def test_watches_that_break_lose_nothing(workspace: Workspace, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            proxied_hub(workspace, tmp_path) as (proxy, hub),
            workspace.started(workspace.job("sleep", "300")) as (_, name),
        ):
            await workspace.until_started(name, 2)
            failing = await workspace.pod_of_rank(name, 1)
            lists = proxy.requests.total()
            for kind in KINDS:
                proxy.break_streams(kind)
            await asyncio.to_thread(workspace.faults.pod_exit, failing, 3, namespace=workspace.namespace)
            ended = await until_ended(hub, name, CauseKind.NON_ZERO_EXIT)
            assert ended.cause.detail.startswith(f"pod {failing}: exit code 3")
            await proxy.until(lambda: proxy.streams.total() == len(KINDS))
            assert proxy.requests.total() >= lists + len(KINDS)

    asyncio.run(main())


def test_watches_that_expire_are_taken_up_where_they_ended(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "WATCH_SECONDS", 2)

    async def main() -> None:
        async with (
            proxied_hub(workspace, tmp_path) as (proxy, hub),
            workspace.started(workspace.job("sleep", "5")) as (_, name),
        ):
            await until_ended(hub, name, CauseKind.COMPLETED)
            assert proxy.requests["GET trainjobs"] >= 3
            assert hub.trouble is None

    asyncio.run(main())


def test_nodes_that_may_not_be_listed_are_got_one_by_one(workspace: Workspace) -> None:
    async def main() -> None:
        collective = [each for each in verbs_of(TRIGGERER) if each.resource == "nodes" and each.verb != "get"]
        async with (
            workspace.accounts.without(TRIGGERER, *collective),
            workspace.started(workspace.job("sleep", "300", num_nodes=1)) as (_, name),
            workspace.hub() as hub,
            asyncio.timeout(WAIT_SECONDS),
            contextlib.aclosing(hub.subscribe(name)) as snapshots,
        ):
            seen = await until(snapshots, lambda seen: bool(seen.nodes))
            assert list(seen.nodes) == [await workspace.node_of_rank(name, 0)]

    asyncio.run(main())
