"""``ceased``: whether the machines that it ran on are known to be off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import NotFound, Refused
from airflow_dispatch.localcluster.resources import NODES
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)


def add_node(running: Cluster, name: str, *taints: str) -> None:
    spec = {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]}
    running.registry.create(NODES, None, {"metadata": {"name": name}, "spec": spec})


def test_it_is_unanswered_without_pods_and_true_when_every_node_is_gone_or_out_of_service(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(NotFound):
                await running.adapter.ceased(NAME)
            await running.adapter.start(job(), submission=1, attempt=1)
            assert await running.adapter.ceased(NAME) is None
            running.add_pod("pending")
            assert await running.adapter.ceased(NAME) is None
            add_node(running, "off", names.TAINT_OUT_OF_SERVICE)
            running.add_pod("a", "gone")
            running.add_pod("b", "off")
            assert await running.adapter.ceased(f"{NAMESPACE}/{NAME}") is True
            add_node(running, "lost", names.TAINT_UNREACHABLE)
            running.add_pod("c", "lost")
            before = running.client.requests, running.registry.resource_version
            assert await running.adapter.ceased(NAME) is False
            assert running.registry.resource_version == before[1]

    asyncio.run(run())


def test_pods_of_other_submissions_do_not_count(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            add_node(running, "on")
            running.add_pod("theirs", "on", of=2)
            running.add_pod("ours", "gone")
            assert await running.adapter.ceased(NAME) is True

    asyncio.run(run())


def test_another_namespace_s_reference_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(Refused, match="works in namespace default"):
                await running.adapter.ceased(f"other/{NAME}")

    asyncio.run(run())
