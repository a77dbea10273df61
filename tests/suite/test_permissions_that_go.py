"""Permissions that are taken away while a hub watches, and a cluster whose Nodes may not be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.kube.hub import Hub
from tests.suite.workspace import WAIT_SECONDS, Workspace
from tests.support.accounts import TRIGGERER, verbs_of
from tests.support.proxy import counting_proxy

PODS = [each for each in verbs_of(TRIGGERER) if each.resource == "pods"]
NODES = [each for each in verbs_of(TRIGGERER) if each.resource == "nodes"]


async def observed(hub: Hub, name: str, ready: Callable[[Observation], bool]) -> Observation:
    """The first observation of a job for which ``ready`` holds."""
    async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(hub.subscribe(name)) as snapshots:
        async for snapshot in snapshots:
            assert snapshot is not None
            observation = classify(snapshot, datetime.now(UTC))
            if ready(observation):
                return observation
    raise AssertionError("the watch ended")


def test_a_wait_whose_watch_of_pods_is_forbidden_says_so_and_goes_on_when_it_is_allowed_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main() -> None:
        kubeconfig = Path(str(workspace.accounts.configs[TRIGGERER].kubeconfig))
        async with (
            workspace.started(workspace.job("sleep", "300")) as (adapter, name),
            counting_proxy(kubeconfig, tmp_path) as proxy,
        ):
            workspace.act_as(TRIGGERER, monkeypatch, proxy.kubeconfig)
            observation = await adapter.inspect(name)
            assert observation is not None
            trigger, lines = workspace.trigger(observation, stream_output=False)
            waiting = asyncio.create_task(trigger.wait())
            await workspace.until_started(name, 2)
            failing = await workspace.pod_of_rank(name, 1)
            await proxy.until(lambda: proxy.streams["pods"] == 1)
            async with workspace.accounts.without(TRIGGERER, *PODS):
                proxy.break_streams("pods")
                await asyncio.to_thread(lines.wait_for, "no permission to watch pods in the namespace")
                await asyncio.to_thread(workspace.faults.pod_exit, failing, 3, namespace=workspace.namespace)
                await workspace.until_ended(name)
                assert not waiting.done()
            event = await asyncio.wait_for(waiting, WAIT_SECONDS)
            assert event["status"] == "ended"
            assert event["outcome"]["cause"]["detail"].startswith(f"pod {failing}: exit code 3")

    asyncio.run(main())


@pytest.mark.timeout(180)
def test_without_permission_on_nodes_a_lost_node_is_not_told_and_all_else_works(workspace: Workspace) -> None:
    async def main() -> None:
        async with (
            workspace.accounts.without(TRIGGERER, *NODES),
            workspace.started(workspace.job("sleep", "300")) as (
                _,
                name,
            ),
        ):
            await workspace.until_started(name, 2)
            node = await workspace.node_of_rank(name, 1)
            await asyncio.to_thread(workspace.faults.lose_node, node)
            try:
                async with workspace.hub() as blind, workspace.administrators_hub() as seeing:
                    lost = await observed(seeing, name, lambda seen: seen.cause.kind is CauseKind.NODE_LOST)
                    assert f"node {node} " in lost.cause.detail
                    snapshot = blind.snapshot(name)
                    assert snapshot is not None
                    observation = classify(snapshot, datetime.now(UTC))
                    assert (observation.state, observation.cause.kind) == (State.RUNNING, CauseKind.NONE)
                    await asyncio.to_thread(workspace.faults.out_of_service, node)
                    done = await observed(blind, name, lambda seen: seen.state is State.ENDED)
                    assert done.cause.kind is CauseKind.UNKNOWN
                    assert f"node {node} is not readable" in done.cause.detail
            finally:
                await asyncio.to_thread(workspace.faults.in_service, node)
                await asyncio.to_thread(workspace.faults.return_node, node)

    asyncio.run(main())
