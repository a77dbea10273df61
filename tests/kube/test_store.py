"""What the watches brought: which objects belong together, and what is known of pods that are gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.objects import Event, Job, Metadata, Node, Object, Pod, TrainJob, Workload
from airflow_dispatch.core.snapshot import NodeAbsence, NodeView, Snapshot
from airflow_dispatch.kube.decoding import Unreadable
from airflow_dispatch.kube.evidence import CAPTURED_PER_TRAINJOB
from airflow_dispatch.kube.store import Store
from tests.support.builders import (
    JOB_NAME,
    NAME,
    NAMESPACE,
    NodeBuilder,
    at,
    job,
    node,
    pod,
    stamp,
    trainjob,
    workload,
)

GONE, NOT_READABLE = NodeAbsence.GONE, NodeAbsence.NOT_READABLE


def store_of(*nodes: NodeBuilder) -> Store:
    """A store with the TrainJob, and with these Nodes and no other."""
    store = Store(NAMESPACE)
    store.apply("ADDED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    store.replace_all("Node", [each.build() for each in nodes])
    return store


def seen(store: Store) -> Snapshot:
    snapshot = store.snapshot(NAME)
    assert snapshot is not None
    return snapshot


def captured_node(store: Store) -> NodeView:
    (captured,) = seen(store).captured
    return captured.node


def event_about(kind: str, name: str, number: int = 0) -> Event:
    raw = {"metadata": {"name": f"event-{number}", "uid": f"event-{number}"}, "reason": "FailedCreate"}
    return msgspec.convert({**raw, "involvedObject": {"kind": kind, "name": name}}, Event)


def record(kind: type[Object], raw: dict[str, Any], **labels: str) -> Object:
    raw["metadata"]["labels"] |= labels
    return msgspec.convert(raw, kind)


# ---------------------------------------------------------------- what belongs together


def test_a_snapshot_has_what_belongs_to_its_trainjob_and_nothing_else() -> None:
    store = store_of(node("node-0"), node("node-1"))
    of_jobset = {names.LABEL_JOBSET_NAME: NAME}
    mine = record(Job, job().raw, **of_jobset)
    other = job().raw
    other["metadata"] |= {"name": "other", "uid": "other"}
    for kind, item in (
        ("Pod", pod("a").on("node-0").build()),
        ("Pod", pod("b").label(names.LABEL_JOBSET_NAME, None).build()),  # by our labels alone
        ("Pod", pod("c").labelled(job_id=None, submission=None).build()),  # by JobSet's label alone
        ("Pod", pod("d").labelled(submission="2").label(names.LABEL_JOBSET_NAME, None).build()),
        ("Job", mine),
        ("Job", record(Job, other, **{names.LABEL_JOBSET_NAME: "other"})),
        ("Event", event_about("TrainJob", NAME, 1)),
        ("Event", event_about("Job", JOB_NAME, 2)),
        ("Event", event_about("Job", "other", 3)),
        ("Workload", msgspec.convert(workload().raw, Workload)),
    ):
        store.apply("ADDED", kind, item)

    snapshot = seen(store)

    assert [each.metadata.name for each in snapshot.pods] == ["a", "b", "c"]
    assert snapshot.jobs == (mine,)
    assert [each.metadata.name for each in snapshot.events] == ["event-1", "event-2"]
    assert snapshot.workload is not None
    assert list(snapshot.nodes) == ["node-0"]


def test_what_changes_an_object_touches_the_trainjobs_that_it_belongs_to() -> None:
    store = store_of(node("node-0"))
    mine = record(Job, job().raw, **{names.LABEL_JOBSET_NAME: NAME})
    assert store.apply("ADDED", "Job", mine) == {NAME}
    assert store.apply("ADDED", "Event", event_about("Job", JOB_NAME)) == {NAME}
    assert store.apply("ADDED", "Node", node("node-0").lost().build()) == set()
    assert store.apply("ADDED", "Pod", pod("a").on("node-0").build()) == {NAME}
    assert store.apply("MODIFIED", "Node", node("node-0").build()) == {NAME}
    assert store.apply("DELETED", "Pod", pod("a").on("node-0").build()) == {NAME}
    assert store.apply("MODIFIED", "Node", node("node-0").build()) == set()


def test_a_pod_that_changes_hands_touches_both_and_leaves_the_first() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").build())
    moved = pod("a").label(names.LABEL_JOBSET_NAME, "other").labelled(job_id=None)
    assert store.apply("MODIFIED", "Pod", moved.build()) == {NAME, "other"}
    assert seen(store).pods == ()


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("Pod", pod("a").label(names.LABEL_JOBSET_NAME, None).labelled(job_id=None, submission=None).build()),
        ("Job", msgspec.convert(job().raw, Job)),
        ("Event", event_about("Pod", "a")),
    ],
)
def test_what_no_rule_reads_is_not_kept(kind: str, item: Object) -> None:
    store = store_of()
    store.apply("ADDED", kind, item)
    assert item.metadata.name not in store._objects[kind]


def test_a_job_costs_the_same_among_thousands() -> None:
    """Counted, not timed: how often any object of another job is looked at."""
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", pod("a").on("node-0").build())
    looked_at: list[str] = []

    class Watched(dict[str, Object]):
        def __getitem__(self, key: str) -> Object:
            looked_at.append(key)
            return super().__getitem__(key)

        def values(self) -> Any:
            looked_at.extend(self)
            return super().values()

        def items(self) -> Any:
            looked_at.extend(self)
            return super().items()

    for number in range(100):
        other = pod(f"p{number}").label(names.LABEL_JOBSET_NAME, f"j{number}").labelled(job_id=None).on("node-1")
        store.apply("ADDED", "Pod", other.build())
        raw = job().raw
        raw["metadata"] |= {"name": f"job-{number}", "uid": f"job-{number}"}
        store.apply("ADDED", "Job", record(Job, raw, **{names.LABEL_JOBSET_NAME: f"j{number}"}))
        store.apply("ADDED", "Event", event_about("TrainJob", f"j{number}", number))
    for kind, of_kind in list(store._objects.items()):
        store._objects[kind] = Watched(of_kind)

    seen(store)
    store.apply("MODIFIED", "Node", node("node-0").lost().build())

    assert [name for name in looked_at if name not in ("a", NAME, "node-0")] == []


# ---------------------------------------------------------------- the evidence of deleted pods


def test_the_node_counts_as_it_was_when_the_disruption_was_first_seen() -> None:
    store = store_of(node("node-0").lost())
    disrupted = pod("a").on("node-0").disrupted("DeletionByTaintManager").build()
    store.apply("ADDED", "Pod", disrupted)
    store.apply("MODIFIED", "Node", node("node-0").build())
    store.apply("DELETED", "Pod", disrupted)
    assert captured_node(store) == node("node-0").lost().build()


def test_without_a_disruption_it_counts_as_it_was_when_the_deletion_was_first_seen() -> None:
    store = store_of(node("node-0").tainted("karpenter.sh/disrupted"))
    deleted = pod("a").on("node-0").deleted(5).build()
    store.apply("ADDED", "Pod", pod("a").on("node-0").build())
    store.apply("MODIFIED", "Pod", deleted)
    store.apply("DELETED", "Node", node("node-0").build())
    store.apply("DELETED", "Pod", deleted)
    assert captured_node(store) == node("node-0").tainted("karpenter.sh/disrupted").build()


def test_a_disruption_after_the_deletion_counts_more() -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", pod("a").on("node-0").deleted(5).build())
    store.apply("DELETED", "Node", node("node-0").build())
    collected = pod("a").on("node-0").deleted(5).disrupted("DeletionByPodGC").build()
    store.apply("MODIFIED", "Pod", collected)
    store.apply("ADDED", "Node", node("node-0").build())
    store.apply("DELETED", "Pod", collected)
    assert captured_node(store) is GONE


def test_a_pod_that_vanishes_unannounced_has_its_node_as_it_is_then() -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", pod("a").on("node-0").build())
    store.apply("MODIFIED", "Node", node("node-0").lost().build())
    store.apply("DELETED", "Pod", pod("a").on("node-0").build())
    assert captured_node(store) == node("node-0").lost().build()


@pytest.mark.parametrize(("added", "counts"), [(10, True), (11, False)])
def test_a_taint_that_stood_before_the_disruption_counts_though_it_is_seen_after_it(
    added: int, *, counts: bool
) -> None:
    store = store_of(node("node-0"))
    disrupted = pod("a").on("node-0").disrupted("DeletionByTaintManager", since=10).build()
    store.apply("ADDED", "Pod", disrupted)
    lost = node("node-0").lost()
    lost.raw["spec"]["taints"][0]["timeAdded"] = stamp(added)
    store.apply("MODIFIED", "Node", lost.build())
    store.apply("DELETED", "Pod", disrupted)
    assert captured_node(store) == (lost if counts else node("node-0")).build()


def test_what_a_list_no_longer_has_is_captured_as_it_was_last_seen() -> None:
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", pod("a").on("node-0").running().build())
    assert store.replace_all("Pod", [pod("b").build()]) == {NAME}
    assert [each.pod.metadata.name for each in seen(store).captured] == ["a"]
    assert [each.metadata.name for each in seen(store).pods] == ["b"]


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").build())
    second = pod("a")
    second.metadata["uid"] = "second"
    store.apply("ADDED", "Pod", second.build())
    assert [each.pod.metadata.uid for each in seen(store).captured] == ["uid-a"]
    store.apply("DELETED", "Pod", pod("a").build())  # the first one's, late
    assert [each.metadata.uid for each in seen(store).pods] == ["second"]


def test_the_newest_256_deleted_pods_are_kept() -> None:
    store = store_of()
    for number in range(CAPTURED_PER_TRAINJOB + 3):
        store.apply("ADDED", "Pod", pod(f"p{number}").build())
        store.apply("DELETED", "Pod", pod(f"p{number}").build())
    kept = seen(store).captured
    assert len(kept) == 256
    assert kept[0].pod.metadata.name == "p3"


def test_nothing_is_left_of_a_trainjob_that_is_gone_with_its_pods() -> None:
    store = store_of(node("node-0"))
    disrupted = pod("a").on("node-0").disrupted("DeletionByTaintManager").build()
    store.apply("ADDED", "Pod", disrupted)
    store.apply("ADDED", "Pod", pod("b").on("node-2").build())
    store.apply("DELETED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    assert store.snapshot(NAME) is None
    store.apply("DELETED", "Pod", disrupted)
    store.apply("DELETED", "Pod", pod("b").on("node-2").build())
    assert store.bound_nodes() == set()
    assert store.unseen_nodes == frozenset()
    assert (store._evidence._captured, store._evidence._seen) == ({}, {})
    assert all(not index._names and not index._keys for index in (*store._indexes.values(), store._pods_by_node))


# ---------------------------------------------------------------- Nodes that are not known


def test_a_node_that_no_stream_has_shown_is_not_gone() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").on("new").build())
    assert store.unseen_nodes == {"new"}
    assert seen(store).node_of(seen(store).pods[0]) is NOT_READABLE
    assert store.leftovers().node_of(seen(store).pods[0]) is NOT_READABLE
    assert store.apply("ADDED", "Node", node("new").build()) == {NAME}
    assert seen(store).node_of(seen(store).pods[0]) == node("new").build()
    store.apply("DELETED", "Node", node("new").build())
    assert seen(store).node_of(seen(store).pods[0]) is GONE


def test_a_list_of_nodes_tells_which_are_gone() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").on("old").build())
    assert store.replace_all("Node", []) == {NAME}
    assert seen(store).node_of(seen(store).pods[0]) is GONE
    store.apply("MODIFIED", "Pod", pod("a").on("old").running().build())
    assert store.unseen_nodes == frozenset()


@pytest.mark.parametrize("deleted", [False, True])
def test_evidence_waits_for_a_node_that_has_not_been_seen(*, deleted: bool) -> None:
    store = store_of()
    disrupted = pod("a").on("node-0").disrupted("DeletionByTaintManager").build()
    store.apply("ADDED", "Pod", disrupted)
    if deleted:
        store.apply("DELETED", "Pod", disrupted)
        assert captured_node(store) is NOT_READABLE
    store.replace_all("Node", [node("node-0").lost().build()])
    store.apply("DELETED", "Pod", disrupted)
    assert captured_node(store) == node("node-0").lost().build()


def test_without_permission_no_node_is_readable() -> None:
    store = store_of()
    store.nodes_readable = False
    store.apply("ADDED", "Pod", pod("a").on("node-0").build())
    assert seen(store).node_of(seen(store).pods[0]) is NOT_READABLE
    store.apply("DELETED", "Pod", pod("a").on("node-0").build())
    assert captured_node(store) is NOT_READABLE


def test_the_nodes_of_deleted_pods_are_asked_for_too() -> None:
    """Whether such a pod may still run hangs on its Node; one that is not got would be taken for gone."""
    store = store_of(node("node-0"))
    store.apply("ADDED", "Pod", pod("a").on("node-0").running().build())
    store.apply("DELETED", "Pod", pod("a").on("node-0").running().build())
    assert store.bound_nodes() == {"node-0"}


# ---------------------------------------------------------------- odd objects


def odd(kind: str, name: str, uid: str) -> Unreadable:
    return Unreadable(metadata=Metadata(name=name, uid=uid), kind=kind, problem="not as documented")


def test_what_can_no_longer_be_read_stays_as_it_was_and_can_still_be_deleted() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").build())
    store.apply("MODIFIED", "Pod", odd("Pod", "a", "uid-a"))
    assert [each.metadata.name for each in seen(store).pods] == ["a"]
    assert store.apply("DELETED", "Pod", odd("Pod", "a", "uid-a")) == {NAME}
    assert seen(store).pods == ()
    assert [each.pod.metadata.name for each in seen(store).captured] == ["a"]


def test_an_odd_object_in_the_place_of_another_ends_that_one() -> None:
    store = store_of()
    store.apply("ADDED", "Pod", pod("a").build())
    store.apply("ADDED", "Pod", odd("Pod", "a", "another"))
    assert seen(store).pods == ()


# ---------------------------------------------------------------- ends that are erased


def test_an_end_that_was_erased_is_remembered_until_the_trainjob_goes() -> None:
    store = store_of()
    failed = trainjob().with_condition("Failed", "DeadlineExceeded", "too late", since=20)
    store.apply("MODIFIED", "TrainJob", msgspec.convert(failed.raw, TrainJob))
    assert seen(store).seen_end is None
    store.apply("MODIFIED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    end = seen(store).seen_end
    assert end is not None
    assert (end.kind, end.detail, end.at) == ("timeout", "DeadlineExceeded: too late", at(20))
    store.apply("DELETED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    store.apply("ADDED", "TrainJob", msgspec.convert(trainjob().raw, TrainJob))
    assert seen(store).seen_end is None


def test_names_of_a_job_come_lowest_submission_first() -> None:
    store = Store(NAMESPACE)
    job_id = "01K6NJRFAE13R8H0C3SWZGBJ7R"
    for number in (10, 2, 1):
        name = names.object_name(job_id, number)
        store.apply("ADDED", "TrainJob", TrainJob(metadata=Metadata(name=name, uid=name)))
    labelled = Metadata(name="by-label", uid="l", labels={names.LABEL_JOB_ID: job_id})
    store.apply("ADDED", "TrainJob", TrainJob(metadata=labelled))
    store.apply("ADDED", "TrainJob", TrainJob(metadata=Metadata(name="other", uid="o")))
    assert store.names_of_job(job_id) == ["by-label", *(names.object_name(job_id, number) for number in (1, 2, 10))]
    assert set(store.trainjob_names()) == {*store.names_of_job(job_id), "other"}


def test_records_of_the_wrong_kind_are_left_out() -> None:
    store = store_of()
    stray = Node(metadata=Metadata(name=NAME, uid="n", creation_timestamp=datetime.now(UTC)))
    assert store.apply("ADDED", "JobSet", stray) == set()
    assert seen(store).jobset is None
    assert isinstance(pod("a").build(), Pod)
