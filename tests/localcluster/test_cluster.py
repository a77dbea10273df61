"""The whole cluster: everything together, in real time and under virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from airflow_dispatch.localcluster import (
    PYTHON_IMAGE,
    SAFE_RUNTIME,
    UNSAFE_RUNTIME,
    LocalCluster,
    NodeSpec,
    Script,
    VirtualClock,
)
from airflow_dispatch.localcluster.client import Api, HttpApi
from airflow_dispatch.localcluster.resources import (
    CLUSTER_TRAINING_RUNTIMES,
    JOBSETS,
    NODES,
    PODS,
    TRAINJOBS,
    Resource,
)

RANK = """
import os, socket
rank, world = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
port = int(os.environ["PET_MASTER_PORT"])
if rank == 0:
    with socket.create_server((os.environ["POD_IP"], port)) as server:
        peer, _ = server.accept()
        with peer:
            print("rank 0 heard", peer.recv(100).decode(), flush=True)
else:
    while True:
        try:
            with socket.create_connection((os.environ["PET_MASTER_ADDR"], port)) as peer:
                peer.sendall(b"rank 1")
            break
        except OSError:
            pass
"""


def trainjob(name: str, *argv: str, nodes: int = 2, image: str = PYTHON_IMAGE) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": SAFE_RUNTIME},
            "trainer": {
                "image": image,
                "command": list(argv),
                "numNodes": nodes,
                "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            },
        },
    }


def condition(obj: dict[str, Any], kind: str) -> str:
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((entry["status"] for entry in conditions if entry["type"] == kind), "absent")


async def seen(api: Api, resource: Resource, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The object, as soon as something holds of it."""
    async with asyncio.timeout(30):
        listing = await api.list(resource, "default" if resource.namespaced else None)
        for item in listing.items:
            if item["metadata"]["name"] == name and holds(item):
                return item
        events = api.watch(resource, listing.resource_version, "default" if resource.namespaced else None)
        async with aclosing(events):
            async for _, item in events:
                if item["metadata"]["name"] == name and holds(item):
                    return item
    raise AssertionError(f"the watch on {resource.plural} ended")


def virtual(nodes: int = 2, script: Callable[..., Script] = lambda _: Script()) -> LocalCluster:
    return LocalCluster(nodes=nodes, clock=VirtualClock(), runtime="scripted", script=script)


@pytest.mark.parametrize("kubelets_over_http", [False, True])
def test_two_ranks_meet_by_name_and_the_trainjob_completes(*, kubelets_over_http: bool) -> None:
    async def play() -> None:
        async with (
            LocalCluster(nodes=2, kubelets_over_http=kubelets_over_http) as cluster,
            await HttpApi.connect(cluster.kubeconfig) as api,
        ):
            await api.create(TRAINJOBS, "default", trainjob("pair", "python", "-c", RANK))
            done = await seen(api, TRAINJOBS, "pair", lambda job: condition(job, "Complete") == "True")
            assert condition(done, "Failed") == "absent"
            pods = (await api.list(PODS, "default")).items
            assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
            rank0 = next(pod for pod in pods if "-node-0-0-" in pod["metadata"]["name"])
            worker = cluster.kubelets[rank0["spec"]["nodeName"]].worker(rank0["metadata"]["uid"])
            assert worker is not None
            log = worker.log("node", previous=False)
            assert log is not None
            assert "rank 0 heard rank 1" in log.path.read_text()

    asyncio.run(play())


def test_a_rank_that_exits_three_fails_the_trainjob() -> None:
    async def play() -> None:
        async with LocalCluster(nodes=1) as cluster, await HttpApi.connect(cluster.kubeconfig) as api:
            await api.create(TRAINJOBS, "default", trainjob("broken", sys.executable, "-c", "exit(3)", nodes=1))
            await seen(api, TRAINJOBS, "broken", lambda job: condition(job, "Failed") == "True")
            (pod,) = (await api.list(PODS, "default")).items
            assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    asyncio.run(play())


def test_it_comes_with_ready_nodes_and_both_runtimes() -> None:
    async def play() -> None:
        async with virtual(nodes=3) as cluster:
            await cluster.settle()
            nodes = cluster.registry.list(NODES).items
            assert [(node["metadata"]["name"], condition(node, "Ready")) for node in nodes] == [
                ("node-0", "True"),
                ("node-1", "True"),
                ("node-2", "True"),
            ]
            names = [item["metadata"]["name"] for item in cluster.registry.list(CLUSTER_TRAINING_RUNTIMES).items]
            assert names == [SAFE_RUNTIME, UNSAFE_RUNTIME]

    asyncio.run(play())


def test_under_virtual_time_a_job_runs_when_the_clock_is_moved() -> None:
    async def play() -> None:
        async with virtual(script=lambda _: Script(seconds=3600)) as cluster:
            cluster.registry.create(TRAINJOBS, "default", trainjob("long", "train", image="any/image:1"))
            await cluster.advance(60)
            phases = [pod["status"]["phase"] for pod in cluster.registry.list(PODS, "default").items]
            assert phases == ["Running", "Running"]
            await cluster.advance(3600)
            job = cluster.registry.get(TRAINJOBS, "default", "long")
            assert condition(job, "Complete") == "True"
            assert condition(cluster.registry.get(JOBSETS, "default", "long"), "Completed") == "True"

    asyncio.run(play())


def test_a_lost_node_turns_unknown_and_its_pod_is_stuck_until_out_of_service() -> None:
    async def play() -> None:
        async with virtual() as cluster:
            cluster.registry.create(TRAINJOBS, "default", trainjob("pair", "train", image="any/image:1"))
            await cluster.advance(2)
            pods = cluster.registry.list(PODS, "default").items
            assert {pod["status"]["phase"] for pod in pods} == {"Running"}
            lost = pods[1]["spec"]["nodeName"]
            await cluster.faults.lose_node(lost)
            await cluster.advance(6)
            assert condition(cluster.registry.get(NODES, None, lost), "Ready") == "Unknown"
            await cluster.advance(30)
            name = pods[1]["metadata"]["name"]
            stuck = cluster.registry.get(PODS, "default", name)
            assert "deletionTimestamp" in stuck["metadata"]
            assert condition(stuck, "DisruptionTarget") == "True"
            await cluster.advance(60)
            assert stuck["metadata"]["uid"] == cluster.registry.get(PODS, "default", name)["metadata"]["uid"]
            await cluster.faults.out_of_service(lost)
            await cluster.advance(60)
            job = cluster.registry.get(TRAINJOBS, "default", "pair")
            assert condition(job, "Failed") == "True"

    asyncio.run(play())


def test_pods_end_as_they_are_told() -> None:
    async def play() -> None:
        async with virtual() as cluster:
            for name in ("exits", "oom"):
                cluster.registry.create(TRAINJOBS, "default", trainjob(name, "train", nodes=1, image="any:1"))
            await cluster.advance(2)
            pods = {pod["metadata"]["name"].partition("-")[0]: pod for pod in cluster.registry.list(PODS).items}
            await cluster.faults.pod_exit(pods["exits"]["metadata"]["name"], 3)
            await cluster.faults.pod_oom(pods["oom"]["metadata"]["name"])
            await cluster.settle()
            ended = {
                key: cluster.registry.get(PODS, "default", pod["metadata"]["name"])["status"]["containerStatuses"][0]
                for key, pod in pods.items()
            }
            assert ended["exits"]["state"]["terminated"]["exitCode"] == 3
            assert ended["oom"]["state"]["terminated"]["exitCode"] == 137
            assert ended["oom"]["state"]["terminated"]["reason"] == "OOMKilled"

    asyncio.run(play())


def test_unknown_nodes_and_pods_are_named() -> None:
    async def play() -> None:
        async with virtual() as cluster:
            with pytest.raises(LookupError, match="there is no node 'node-9'; there are node-0, node-1"):
                await cluster.faults.lose_node("node-9")
            with pytest.raises(LookupError, match="no node runs a pod default/nothing"):
                await cluster.faults.pod_exit("nothing", 1)
            with pytest.raises(LookupError, match='pods "nothing" not found'):
                await cluster.faults.force_delete("nothing")

    asyncio.run(play())


def test_the_taint_of_a_node_out_of_service_can_be_taken_off() -> None:
    async def play() -> None:
        async with virtual() as cluster:
            await cluster.faults.out_of_service("node-1")
            await cluster.faults.out_of_service("node-1")
            taints = cluster.registry.get(NODES, None, "node-1")["spec"]["taints"]
            assert [taint["key"] for taint in taints] == ["node.kubernetes.io/out-of-service"]
            await cluster.faults.in_service("node-1")
            assert not cluster.registry.get(NODES, None, "node-1")["spec"].get("taints")

    asyncio.run(play())


def test_only_a_virtual_clock_can_be_moved() -> None:
    async def play() -> None:
        async with LocalCluster(nodes=[NodeSpec("only")]) as cluster:
            with pytest.raises(TypeError, match="virtual clock"):
                await cluster.advance(1)

    asyncio.run(play())


def test_it_runs_in_a_thread_for_callers_without_an_event_loop() -> None:
    with LocalCluster.in_thread(nodes=2) as cluster:
        assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
        cluster.faults.lose_node("node-1")
        assert cluster.read(lambda inner: inner.kubelets["node-1"].lost)
        cluster.faults.return_node("node-1")
        with pytest.raises(LookupError):
            cluster.faults.reboot_node("node-9")
        assert cluster.url.startswith("https://127.0.0.1:")


def test_a_cluster_that_cannot_start_raises_in_the_callers_thread() -> None:
    with (
        LocalCluster.in_thread(nodes=1) as first,
        pytest.raises(OSError, match="address already in use"),
        LocalCluster.in_thread(nodes=1, port=int(first.url.rpartition(":")[2])),
    ):
        raise AssertionError("it started")
