"""What a recording store writes down brings another store to the same observations."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.ledger import Entry, Ledger
from airflow_dispatch.core.objects import Node
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.core.snapshot import NodeAbsence, NodeView
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.observing import observations
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.recording.format import Head, Line, Recording, encode, parse
from airflow_dispatch.recording.recorder import RecordingStore, Tape
from airflow_dispatch.recording.replaying import replay
from tests.support.builders import JOB_ID, NAME, NAMESPACE, UID

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["default"]}]


class Moments:
    """A tape in memory, and what was observed beside it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.started = datetime.now(UTC)
        self.lines: list[Head | Line] = []
        self.seen: list[tuple[float, list[Observation]]] = []

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def recording(self, namespace: str) -> Recording:
        """As it comes back from a file."""
        return parse(b"".join(encode(line) for line in [Head(namespace=namespace, started=self.started), *self.lines]))


def job() -> TrainingJob:
    return TrainingJob.validated(job_id=JOB_ID, argv=["train"], runtime="torch-distributed", num_nodes=2)


async def watch_until_ended(hub: Hub, moments: Moments) -> Observation:
    """Notes what a hub shows after each change, until the job has ended and its pods have settled."""
    async with asyncio.timeout(60), contextlib.aclosing(hub.changes(JOB_ID)) as changes:
        async for _ in changes:
            t = moments.seconds()
            found = observations(hub.store, moments.started + timedelta(seconds=t), JOB_ID)
            moments.seen.append((t, found))
            if found and found[0].state is State.ENDED:
                return found[0]
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("may_read_nodes", [True, False])
def test_every_moment_of_a_lost_node_replays_as_the_hub_saw_it(may_read_nodes: bool, tmp_path: Path) -> None:
    moments = Moments()

    async def main() -> Observation:
        async with LocalCluster(runtime="scripted", directory=tmp_path) as cluster:
            kubeconfig = cluster.kubeconfig if may_read_nodes else cluster.server.add_user("user", EVERYTHING)
            admin, config = ClusterConfig(kubeconfig=str(cluster.kubeconfig)), ClusterConfig(kubeconfig=str(kubeconfig))
            tape = Tape(moments.lines.append, moments.seconds)
            async with (
                await KubeClient.connect(admin) as acting,
                await KubeClient.connect(config, decode=tape.decode) as client,
            ):
                adapter = Adapter(acting, "default")
                hub = Hub(client, "default")
                hub.store = RecordingStore("default", tape, JOB_ID)
                running = asyncio.create_task(hub.run())
                try:
                    seen = await adapter.start(job(), submission=1, attempt=1)
                    watching = asyncio.create_task(watch_until_ended(hub, moments))
                    await adapter.open(NAME, uid=seen.uid)
                    node = await node_of_rank(hub, 1)
                    await cluster.faults.lose_node(node)
                    await cluster.faults.out_of_service(node)
                    return await watching
                finally:
                    running.cancel()
                    await asyncio.wait([running])

    ended = asyncio.run(main())

    assert ended.cause.kind is (CauseKind.NODE_LOST if may_read_nodes else CauseKind.UNKNOWN)
    recording = moments.recording("default")
    for t, live in moments.seen:
        assert observations(replay(recording, t).store, recording.clock(t), JOB_ID) == live, t
    assert len(moments.seen) > 5


async def node_of_rank(hub: Hub, rank: int) -> str:
    """The Node of a rank, once it runs there."""
    async with asyncio.timeout(30), contextlib.aclosing(hub.changes(JOB_ID)) as changes:
        async for _ in changes:
            snapshot = hub.snapshot(NAME)
            for pod in snapshot.pods if snapshot is not None else ():
                label = pod.metadata.label("batch.kubernetes.io/job-completion-index")
                if label == str(rank) and pod.status is not None and pod.status.phase == "Running":
                    return str(pod.spec.node_name)
    raise AssertionError("the watch ended")


# ---------------------------------------------------------------- lists


class Bench:
    """A recording store that is fed by hand."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.tape = Tape(self.moments.lines.append, self.moments.seconds)
        self.store = RecordingStore(NAMESPACE, self.tape, JOB_ID)

    def record(self, resource: Resource, name: str, version: int = 1, **fields: Any) -> Any:
        metadata = {"name": name, "namespace": NAMESPACE, "resourceVersion": str(version), **fields.pop("metadata", {})}
        metadata.setdefault("uid", f"uid of {name}")
        return self.tape.decode(resource, msgspec.json.encode({"metadata": metadata, **fields}))

    def pod(self, name: str, version: int = 1, node: str = "node-1") -> Any:
        labels = {"jobset.sigs.k8s.io/jobset-name": NAME}
        return self.record(paths.PODS, name, version, metadata={"labels": labels}, spec={"nodeName": node})

    @property
    def written(self) -> list[tuple[str | None, str]]:
        """Event and name of each line."""
        found: list[tuple[str | None, str]] = []
        for line in self.moments.lines:
            assert isinstance(line, Line)
            metadata = msgspec.json.decode(line.object)["metadata"] if line.event else {}
            found.append((line.event, metadata.get("name", "")))
        return found


def test_a_list_is_written_as_the_changes_that_it_comes_to() -> None:
    bench = Bench()
    bench.store.replace_all("TrainJob", [bench.record(paths.TRAINJOBS, NAME, metadata={"uid": UID})])
    bench.store.replace_all("Pod", [bench.pod("a"), bench.pod("b"), bench.pod("c")])
    bench.moments.lines.clear()
    bench.store.replace_all("Pod", [bench.pod("b"), bench.pod("c", 2), bench.pod("d")])
    assert bench.written == [("DELETED", "a"), ("MODIFIED", "c"), ("ADDED", "d")]


def test_nodes_are_written_when_a_pod_is_bound_and_when_more_than_a_heartbeat_changes() -> None:
    bench = Bench()

    def node(version: int, status: str, beat: int) -> Any:
        ready = {"type": "Ready", "status": status, "lastHeartbeatTime": f"2026-01-01T00:00:{beat:02}Z"}
        return bench.record(paths.NODES, "node-1", version, status={"conditions": [ready]})

    bench.store.apply("ADDED", "Node", bench.record(paths.NODES, "node-2"))
    bench.store.apply("ADDED", "Node", node(1, "True", 1))
    assert bench.written == []
    bench.store.apply("ADDED", "Pod", bench.pod("a"))
    bench.store.apply("MODIFIED", "Node", node(2, "True", 2))
    bench.store.apply("MODIFIED", "Node", node(3, "Unknown", 2))
    bench.store.apply("DELETED", "Node", node(4, "Unknown", 2))
    assert bench.written == [("ADDED", "node-1"), ("ADDED", "a"), ("MODIFIED", "node-1"), ("DELETED", "node-1")]


def test_a_node_that_was_gone_before_it_was_seen_is_gone_in_the_replay_too() -> None:
    bench = Bench()
    bench.store.apply("ADDED", "TrainJob", bench.record(paths.TRAINJOBS, NAME, metadata={"uid": UID}))
    bench.store.apply("ADDED", "Pod", bench.pod("a"))
    unseen = replay(bench.moments.recording(NAMESPACE), 60)
    assert unseen.store.unseen_nodes == {"node-1"}
    bench.store.node_is_gone("node-1")
    gone = replay(bench.moments.recording(NAMESPACE), 60)
    assert not gone.store.unseen_nodes


def test_other_jobs_are_left_out() -> None:
    bench = Bench()
    bench.store.apply("ADDED", "TrainJob", bench.record(paths.TRAINJOBS, "other"))
    bench.store.apply("ADDED", "Pod", bench.record(paths.PODS, "other-0"))
    bench.store.apply("DELETED", "TrainJob", bench.record(paths.TRAINJOBS, "other"))
    assert bench.written == []


def test_an_object_that_can_be_read_in_part_is_on_the_tape_and_says_so_in_the_replay() -> None:
    bench = Bench()
    bench.store.apply("ADDED", "TrainJob", bench.record(paths.TRAINJOBS, NAME, spec="none"))
    recording = bench.moments.recording(NAMESPACE)
    (seen,) = observations(replay(recording, 60).store, recording.clock(60))
    assert f"TrainJob {NAME} can't be read in full: Expected `object`, got `str` - at `$.spec`" in seen.cause.detail


def test_a_ledger_of_vanished_pods_is_on_the_tape_when_it_says_something_else() -> None:
    bench = Bench()
    bench.store.apply("ADDED", "TrainJob", bench.record(paths.TRAINJOBS, NAME, metadata={"uid": UID}))
    vanished = Entry(train_job=NAME, pod="a", node="node-1")
    for found in (vanished, vanished):
        bench.store.take_ledger(Ledger(job_id=JOB_ID, namespace=NAMESPACE, entries={"uid of a": found}))
    assert len(bench.moments.lines) == 2
    snapshot = replay(bench.moments.recording(NAMESPACE), 60).store.snapshot(NAME)
    assert snapshot is not None
    assert [each.pod.metadata.name for each in snapshot.vanished] == ["a"]


def test_a_permission_that_goes_and_comes_back_is_on_the_tape() -> None:
    bench = Bench()
    bench.store.apply("ADDED", "TrainJob", bench.record(paths.TRAINJOBS, NAME, metadata={"uid": UID}))
    bench.store.replace_all("Node", [bench.record(paths.NODES, "node-1")])
    bench.store.apply("ADDED", "Pod", bench.pod("a"))
    bench.store.nodes_denied()
    assert node_of_pod(bench, "a") is NodeAbsence.NOT_READABLE
    bench.store.replace_all("Node", [])
    assert node_of_pod(bench, "a") is NodeAbsence.GONE
    bench.store.replace_all("Node", [bench.record(paths.NODES, "node-1", 2)])
    assert isinstance(node_of_pod(bench, "a"), Node)


def node_of_pod(bench: Bench, name: str) -> NodeView | None:
    """A pod's Node as the store has it, which a replay must have too."""
    found = []
    for store in (bench.store, replay(bench.moments.recording(NAMESPACE), 60).store):
        snapshot = store.snapshot(NAME)
        assert snapshot is not None
        (pod,) = (each for each in snapshot.pods if each.metadata.name == name)
        found.append(snapshot.node_of(pod))
    live, replayed = found
    assert replayed == live
    return live
