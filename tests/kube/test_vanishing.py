"""Which pods a store finds to have vanished while they may still run, and what it knows of their machines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_dispatch.core import ledger, names
from airflow_dispatch.core.cessation import ask
from airflow_dispatch.core.ledger import Confirmation, Entry
from airflow_dispatch.core.objects import Pod, TrainJob
from airflow_dispatch.core.snapshot import Machine, NodeAbsence, Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.evidence import CAPTURED_PER_TRAINJOB
from airflow_dispatch.kube.store import KINDS, Store
from tests.support.builders import JOB_ID, NAME, NAMESPACE, NodeBuilder, PodBuilder, at, node, pod, trainjob
from tests.support.recordings import Recording, recording

RAN_ON_NODE_0 = Entry(train_job=NAME, pod="a", node="node-0", node_uid="uid-node-0", boot_id="boot-node-0", admission=1)


def store_of(*nodes: NodeBuilder) -> Store:
    store = Store(NAMESPACE)
    store.apply("ADDED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    store.replace_all("Node", [each.build() for each in nodes])
    return store


def play(store: Store, *states: PodBuilder) -> None:
    """A pod's states, of which the last is what it was when its object went."""
    for state in states:
        store.apply("MODIFIED", "Pod", state.build())
    store.apply("DELETED", "Pod", states[-1].build())


def vanished(store: Store) -> dict[str, Entry]:
    return store.take_vanished().get(JOB_ID, {})


def seen(store: Store) -> Snapshot:
    snapshot = store.snapshot(NAME)
    assert snapshot is not None
    return snapshot


def running(name: str = "a") -> PodBuilder:
    return pod(name).on("node-0").running()


def unreadable_status() -> PodBuilder:
    built = running()
    built.raw["status"] = None
    return built


def test_a_pod_that_goes_while_it_runs_is_told_once_with_where_it_ran() -> None:
    store = store_of(node("node-0"))
    play(store, running())
    assert vanished(store) == {"uid-a": RAN_ON_NODE_0}
    assert store.take_vanished() == {}


@pytest.mark.parametrize(
    "states",
    [
        (running().deleted(5),),
        (running().deleted(5).phase("Failed"),),  # as pod garbage collection and Kueue write it
        (running(), unreadable_status()),
        (pod("a").on("node-0").container("sidecar", {"running": {}}).ended("node", 0),),
        (pod("a").on("node-0").init_container("fetch", {"running": {}}),),
    ],
    ids=["terminating", "failed by a controller", "status can't be read", "sidecar", "init container"],
)
def test_no_kubelet_has_said_that_it_ended(states: tuple[PodBuilder, ...]) -> None:
    store = store_of(node("node-0"))
    play(store, *states)
    assert vanished(store) == {"uid-a": RAN_ON_NODE_0}


@pytest.mark.parametrize(
    "states",
    [
        (running(), running().deleted(5), pod("a").on("node-0").terminated(143).deleted(5)),
        (running(), pod("a").on("node-0").terminated(0)),
        (pod("a").on("node-0").waiting("ContainerCreating"),),
        (pod("a").on("node-0"), unreadable_status()),
        (pod("a").running(),),
    ],
    ids=["stopped", "succeeded", "never ran", "never seen running", "bound to no node"],
)
def test_what_has_ended_or_never_ran_is_not_remembered(states: tuple[PodBuilder, ...]) -> None:
    store = store_of(node("node-0"))
    play(store, *states)
    assert store.take_vanished() == {}


@pytest.mark.parametrize(
    "now",
    [
        lambda store: store.apply("DELETED", "Node", node("node-0").build()),
        lambda store: store.apply("MODIFIED", "Node", node("node-0").tainted(names.TAINT_OUT_OF_SERVICE).build()),
        lambda store: store.apply("MODIFIED", "Node", node("node-0").rebooted().build()),
    ],
    ids=["gone", "out of service", "rebooted"],
)
def test_what_its_machine_can_not_run_any_more_is_not_remembered(now: Any) -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", running().build())
    now(store)
    play(store, running().deleted(5))
    assert store.take_vanished() == {}


def test_a_reboot_is_told_from_where_the_pod_was_first_seen_running() -> None:
    """It is seen again after the reboot, before its kubelet has spoken; that it is there does not make it run there."""
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", running().build())
    store.apply("MODIFIED", "Node", node("node-0").rebooted().build())
    store.apply("MODIFIED", "Pod", running().deleted(5).build())
    store.apply("MODIFIED", "Node", node("node-0").build())  # as if the machine had never gone
    store.apply("DELETED", "Pod", running().deleted(5).build())
    assert vanished(store)["uid-a"] == RAN_ON_NODE_0


def test_a_machine_that_is_seen_after_its_pod_is_the_one_it_ran_on() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", running().build())
    store.apply("ADDED", "Node", node("node-0").build())
    store.apply("MODIFIED", "Node", node("node-0").lost().build())
    play(store, running().deleted(5))
    assert vanished(store)["uid-a"] == RAN_ON_NODE_0


def test_the_first_machine_that_is_seen_counts_though_it_was_rebooted_before_the_pod_is_heard_of_again() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", running().build())
    store.apply("ADDED", "Node", node("node-0").build())
    store.apply("MODIFIED", "Node", node("node-0").rebooted().build())
    store.apply("DELETED", "Pod", running().build())
    assert store.take_vanished() == {}


def test_a_machine_that_may_not_be_read_is_left_open() -> None:
    store = store_of()
    store.nodes_readable = False
    play(store, running())
    assert vanished(store)["uid-a"] == msgspec.structs.replace(RAN_ON_NODE_0, node_uid="", boot_id="")


def test_a_list_that_no_longer_has_it_tells_it_too() -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", running().build())
    store.apply("ADDED", "Pod", pod("b").on("node-0").terminated(0).build())
    store.replace_all("Pod", [])
    assert vanished(store) == {"uid-a": RAN_ON_NODE_0}


def test_a_pod_of_the_same_name_does_not_hide_it() -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", running().build())
    second = running()
    second.metadata["uid"] = "second"
    store.apply("ADDED", "Pod", second.build())
    assert vanished(store) == {"uid-a": RAN_ON_NODE_0}


def test_a_pod_of_no_job_of_ours_is_nobody_s() -> None:
    store = store_of(node("node-0"))
    play(store, running().label(names.LABEL_JOBSET_NAME, "set").labelled(job_id=None))
    assert store.take_vanished() == {}


def test_the_newest_256_are_kept_each_with_its_node_and_its_machine() -> None:
    nodes = [node(f"node-{number}") for number in range(CAPTURED_PER_TRAINJOB + 3)]
    store = store_of(*nodes)
    for number in range(CAPTURED_PER_TRAINJOB + 3):
        play(store, pod(f"p{number}").on(f"node-{number}").running())
    kept = seen(store).captured
    assert len(kept) == 256
    assert [each.pod.metadata.name for each in kept] == [f"p{number}" for number in range(3, 259)]
    assert [each.node for each in kept] == [each.build() for each in nodes[3:]]
    assert kept[0].machine == Machine("uid-node-3", "boot-node-3")
    assert len(vanished(store)) == 259


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    store = store_of(node("node-0"))
    store.apply("DELETED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    play(store, running())
    assert (store._evidence._ran_on, store._evidence._captured) == ({}, {})


# ---------------------------------------------------------------- the ledger in a snapshot


def kept(*, confirmed: bool = False) -> ledger.Ledger:
    data = ledger.remember(None, {"uid-a": RAN_ON_NODE_0, "odd": RAN_ON_NODE_0}, at(0))
    assert data is not None
    data["odd"] = "nonsense"
    if confirmed:
        data, _ = ledger.confirm({"data": data}, Confirmation(who="ana", why="off", at=at(0)))
    return ledger.read({"data": data}, job_id=JOB_ID, namespace=NAMESPACE)


def test_a_snapshot_has_what_the_ledger_says_of_its_trainjob() -> None:
    store = store_of(node("node-0"))
    assert store.take_ledger(kept()) == {NAME}
    assert store.take_ledger(kept()) == set()
    snapshot = seen(store)
    assert [each.pod.metadata.uid for each in snapshot.vanished] == ["uid-a"]
    assert snapshot.nodes["node-0"] == node("node-0").build()
    assert (snapshot.confirmed, len(snapshot.unreadable)) == (frozenset(), 1)
    assert [owner for owner, _ in store.leftovers().vanished] == [NAME]
    store.take_ledger(kept(confirmed=True))
    snapshot = seen(store)
    assert (snapshot.vanished, snapshot.unreadable) == ((), ())
    assert snapshot.confirmed == {"uid-a"}
    assert store.leftovers().vanished == ()


def test_a_node_of_which_only_the_ledger_speaks_is_not_gone_before_it_was_looked_for() -> None:
    store = store_of()
    store.take_ledger(kept())
    assert store.unseen_nodes == {"node-0"}
    (remembered,) = seen(store).vanished
    assert seen(store).node_of(remembered.pod) is NodeAbsence.NOT_READABLE
    assert store.bound_nodes() == {"node-0"}
    store.node_is_gone("node-0")
    assert seen(store).node_of(remembered.pod) is NodeAbsence.GONE


# ---------------------------------------------------------------- recordings of the real controllers

RESOURCES = {each.kind: each for each in vars(paths).values() if isinstance(each, paths.Resource)}

UNREPORTED = {
    "p08b-release-lost-node-safe-runtime": [],  # the stuck pod is there to the end
    "p25-force-deleted-pod": ["node-0-1-247vw on node-0"],
    "p29-stale-check": [
        "node-0-1-gztvq on node-1",
        "node-0-0-h2d7j on node-0",
        "node-0-1-2g69h on node-1",
        "node-0-0-pgsw8 on node-0",
        "node-0-0-c7d52 on node-0",
        "node-0-1-7g8tg on node-2",
        "node-0-0-jk4jw on node-0",
        "node-0-1-7nsdc on node-1",
        "node-0-1-whhxw on node-1",
        "node-0-1-llmjc on node-1",
        "node-0-0-ltm4d on node-0",
    ],
}
"""In p29 the recorder's kubelet lets go of pods that were deleted while they started without saying how they ended."""


def replay(played: Recording, until: float) -> Store:
    """A store that has watched from the beginning."""
    store = Store(played.head["namespace"])
    for event, raw in played.events(until):
        if raw["kind"] in KINDS:
            store.apply(event, raw["kind"], decode_record(RESOURCES[raw["kind"]], msgspec.json.encode(raw)))
    return store


@pytest.mark.parametrize("scenario", UNREPORTED)
def test_of_a_recording_those_vanished_whose_end_no_kubelet_has_reported(scenario: str) -> None:
    played = recording("plain", scenario)
    store = replay(played, float("inf"))
    found = store.take_vanished().get(played.head["job_id"], {})
    assert [f"{each.pod.removeprefix(played.name + '-')} on {each.node}" for each in found.values()] == UNREPORTED[
        scenario
    ]
    last = {raw["metadata"]["uid"]: (event, raw) for event, raw in played.events(float("inf")) if raw["kind"] == "Pod"}
    for uid in found:
        event, raw = last[uid]
        assert event == "DELETED"
        assert msgspec.convert(raw, Pod).status.container_statuses[0].state.running is not None  # type: ignore[union-attr, index]


def test_the_force_deleted_pod_of_the_recording_is_named_until_its_machine_is_rebooted() -> None:
    played = recording("plain", "p25-force-deleted-pod")
    store = replay(played, played.time_of("contract 12, first bullet: list empty, JobSet suspended, Suspended=True"))
    ((job_id, found),) = store.take_vanished().items()
    data = ledger.remember(None, found, at(0))
    fresh = _without_evidence(store, played.name)
    fresh.take_ledger(ledger.read({"data": data}, job_id=job_id, namespace=fresh.namespace))
    fresh.replace_all("Node", list(store.leftovers().nodes.values()))
    answer = _ask(fresh, played.name)
    assert answer == (f"{played.name}-node-0-1-247vw on node-0 (vanished, Ready=Unknown)",)
    lost = store.leftovers().nodes["node-0"]
    assert lost.status is not None
    assert lost.status.node_info is not None
    lost.status.node_info.boot_id = "another"
    assert _ask(fresh, played.name) == ()


def _without_evidence(store: Store, name: str) -> Store:
    """What another process reads now: it has captured nothing."""
    snapshot = store.snapshot(name)
    assert snapshot is not None
    fresh = Store(store.namespace)
    fresh.replace_all("TrainJob", [snapshot.trainjob])
    fresh.replace_all("JobSet", [snapshot.jobset] if snapshot.jobset else [])
    fresh.replace_all("Job", snapshot.jobs)
    fresh.replace_all("Pod", snapshot.pods)
    return fresh


def _ask(store: Store, name: str) -> tuple[str, ...]:
    snapshot = store.snapshot(name)
    assert snapshot is not None
    return ask(snapshot, at(0)).remaining
