"""Nodes: heartbeats, and what happens to machines."""

from __future__ import annotations

import asyncio
from pathlib import Path

from airflow_dispatch.localcluster.kubelet import Script
from airflow_dispatch.localcluster.resources import LEASES, NODES, PODS
from tests.support.node import NODE, Bench, container, scripted


def lease(node: Bench) -> str:
    return str(node.registry.get(LEASES, "kube-node-lease", NODE)["spec"]["renewTime"])


def test_a_node_registers_and_keeps_its_lease_and_status_fresh(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            found = node.registry.get(NODES, None, NODE)
            ready = next(entry for entry in found["status"]["conditions"] if entry["type"] == "Ready")
            assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")
            assert found["status"]["allocatable"]["nvidia.com/gpu"] == "8"
            assert found["status"]["nodeInfo"]["bootID"] == node.kubelet.boot_id
            assert lease(node) == "2026-01-01T00:00:00.000000Z"
            await node.advance(5)
            assert lease(node) == "2026-01-01T00:00:05.000000Z"
            found = node.registry.get(NODES, None, NODE)
            ready = next(entry for entry in found["status"]["conditions"] if entry["type"] == "Ready")
            assert ready["lastHeartbeatTime"] == "2026-01-01T00:00:05Z"
            assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z"

    asyncio.run(play())


def test_a_lost_node_neither_beats_nor_acts_while_its_processes_go_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"))
            await node.settle()
            await node.kubelet.lose()
            node.registry.delete(PODS, "default", "a")
            node.create("b", container("train"))
            await node.advance(120)
            assert lease(node) == "2026-01-01T00:00:00.000000Z"
            assert node.status("a")["phase"] == "Running"
            assert node.status("b")["phase"] == "Pending"
            (worker,) = node.kubelet.workers
            assert worker.name == "a"
            assert not worker.done

    asyncio.run(play())


def test_a_returned_node_acts_on_what_it_missed(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_seconds=4)) as node:
            node.create("deleted", container("train"))
            node.create("forced", container("train"))
            node.create("kept", container("train"))
            await node.settle()
            await node.kubelet.lose()
            node.registry.delete(PODS, "default", "deleted")
            node.registry.delete(PODS, "default", "forced", grace_period=0)
            node.create("new", container("train"))
            await node.advance(60)
            await node.kubelet.restore()
            await node.settle()
            assert node.status("new")["phase"] == "Running"
            assert node.status("deleted")["phase"] == "Running"
            await node.advance(4)
            assert node.pod("deleted") is None
            assert {worker.name for worker in node.kubelet.workers} == {"kept", "new"}
            assert node.status("kept")["phase"] == "Running"

    asyncio.run(play())


def test_what_ended_on_a_lost_node_is_reported_when_it_returns_with_its_own_time(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(seconds=10, exit_code=3)) as node:
            node.create("a", container("train"))
            await node.settle()
            await node.kubelet.lose()
            await node.advance(60)
            assert node.status("a")["phase"] == "Running"
            await node.kubelet.restore()
            await node.settle()
            assert node.status("a")["phase"] == "Failed"
            assert node.state("a")["terminated"]["finishedAt"] == "2026-01-01T00:00:10Z"

    asyncio.run(play())


def test_a_returned_node_reports_its_pods_ready_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"))
            await node.settle()
            await node.kubelet.lose()
            unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            media = "application/strategic-merge-patch+json"
            node.registry.patch(PODS, "default", "a", unready, media, subresource="status")
            await node.kubelet.restore()
            await node.settle()
            assert node.conditions("a")["Ready"] == ("True", "")

    asyncio.run(play())


def test_a_returned_node_leaves_a_pod_that_others_have_ended_as_it_is(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"))
            await node.settle()
            await node.kubelet.reboot()
            pod = node.registry.get(PODS, "default", "a")
            pod["status"]["phase"] = "Failed"
            failed = node.registry.update(PODS, "default", "a", pod, subresource="status")
            await node.settle()
            await node.kubelet.lose()
            await node.kubelet.restore()
            assert node.status("a")["phase"] == failed["status"]["phase"]

    asyncio.run(play())


def test_a_node_whose_object_was_deleted_comes_back_only_when_it_returns(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            before = node.registry.get(NODES, None, NODE)["metadata"]["uid"]
            await node.kubelet.lose()
            node.registry.delete(NODES, None, NODE)
            await node.advance(60)
            assert node.registry.list(NODES).items == []
            await node.kubelet.restore()
            assert node.registry.get(NODES, None, NODE)["metadata"]["uid"] != before

    asyncio.run(play())


def test_a_running_kubelet_does_not_make_its_deleted_node_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.registry.delete(NODES, None, NODE)
            await node.advance(60)
            assert node.registry.list(NODES).items == []

    asyncio.run(play())


def test_a_reboot_ends_what_ran_and_brings_another_boot_id(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("never", container("train"))
            node.create("always", container("train"), restartPolicy="Always")
            await node.settle()
            before = node.kubelet.boot_id
            await node.kubelet.reboot()
            await node.settle()
            assert node.registry.get(NODES, None, NODE)["status"]["nodeInfo"]["bootID"] != before
            assert node.status("never")["phase"] == "Failed"
            terminated = node.state("never")["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (255, "Unknown")
            (entry,) = node.status("always")["containerStatuses"]
            assert entry["restartCount"] == 1
            assert "running" in entry["state"]

    asyncio.run(play())


def test_a_lost_node_that_reboots_lets_a_deleted_pod_go(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"))
            await node.settle()
            await node.kubelet.lose()
            node.registry.delete(PODS, "default", "a")
            await node.advance(60)
            await node.kubelet.reboot()
            await node.settle()
            assert node.pod("a") is None

    asyncio.run(play())
