"""What becomes of Nodes that fall silent, are tainted or go, and of the pods on them."""

from __future__ import annotations

from typing import Any

from airflow_dispatch.localcluster.resources import LEASES, NODES, PODS
from tests.support.bed import NAMESPACE, Bed

UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


def _running(**options: Any) -> Bed:
    """One pod that runs on one Node, whose heartbeats have just stopped."""
    bed = Bed(**options)
    bed.node("node-0")
    bed.job(completions=1, parallelism=1, backoffLimit=0, podReplacementPolicy="Failed")
    bed.run_all()
    return bed


def _pod(bed: Bed) -> dict[str, Any]:
    (pod,) = bed.pods()
    return pod


def _disruption(bed: Bed) -> tuple[str, str] | None:
    for each in _pod(bed)["status"].get("conditions") or ():
        if each["type"] == "DisruptionTarget":
            return each["reason"], each["message"]
    return None


def _taint(bed: Bed, *taints: dict[str, Any]) -> None:
    node = bed.registry.get(NODES, None, "node-0")
    node["spec"]["taints"] = [*(node["spec"].get("taints") or ()), *taints]
    bed.registry.update(NODES, None, "node-0", node)
    bed.advance()


def test_a_silent_node_turns_unknown_and_its_pods_not_ready() -> None:
    bed = _running()
    bed.advance(4)
    assert bed.get(NODES, "node-0")["spec"].get("taints") is None
    bed.advance(1.5)
    node = bed.get(NODES, "node-0")
    assert {each["status"] for each in node["status"]["conditions"]} == {"Unknown"}
    assert {each["reason"] for each in node["status"]["conditions"]} == {"NodeStatusUnknown"}
    assert {each["message"] for each in node["status"]["conditions"]} == {"Kubelet stopped posting node status."}
    assert [(each["key"], each["effect"]) for each in node["spec"]["taints"]] == [
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
    ]
    assert all(each["timeAdded"] for each in node["spec"]["taints"])
    ready = next(each for each in _pod(bed)["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "False"
    assert "deletionTimestamp" not in _pod(bed)["metadata"]


def test_placing_is_refused_before_what_runs_is_evicted_and_allowed_before_too() -> None:
    bed = _running()
    seen: list[list[str]] = []

    def note(resource: Any, _: str, new: Any, old: Any) -> None:
        if resource == NODES and (new["spec"].get("taints") or []) != (old["spec"].get("taints") or []):
            seen.append([each["effect"] for each in new["spec"].get("taints") or ()])

    bed.registry.listen(note)
    bed.advance(7)
    bed.beat("node-0")
    bed.advance(2)
    assert seen == [["NoSchedule"], ["NoSchedule", "NoExecute"], ["NoExecute"], []]


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned() -> None:
    bed = Bed()
    bed.node("node-0", unschedulable=True)
    bed.advance()
    assert [each["key"] for each in bed.get(NODES, "node-0")["spec"]["taints"]] == ["node.kubernetes.io/unschedulable"]
    bed.registry.patch(NODES, None, "node-0", {"spec": {"unschedulable": None}}, "application/merge-patch+json")
    bed.advance()
    assert "taints" not in bed.get(NODES, "node-0")["spec"]


def test_a_lease_counts_as_a_heartbeat() -> None:
    bed = _running()
    for second in range(8):
        renewed = bed.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"metadata": {"name": "node-0"}, "spec": {"renewTime": renewed}}
        _lease(bed, lease, first=second == 0)
        bed.advance(1)
    assert bed.get(NODES, "node-0")["status"]["conditions"][-1]["status"] == "True"


def _lease(bed: Bed, lease: dict[str, Any], *, first: bool) -> None:
    if first:
        bed.registry.create(LEASES, "kube-node-lease", lease)
    else:
        body = {"spec": lease["spec"]}
        bed.registry.patch(LEASES, "kube-node-lease", "node-0", body, "application/merge-patch+json")


def test_a_node_that_returns_in_time_loses_its_taints_and_keeps_its_pods() -> None:
    bed = _running()
    bed.advance(7)
    bed.beat("node-0")
    bed.advance(2)
    assert "taints" not in bed.get(NODES, "node-0")["spec"]
    assert "deletionTimestamp" not in _pod(bed)["metadata"]


def test_pods_are_evicted_when_their_toleration_is_over() -> None:
    bed = _running(toleration=4)
    bed.advance(8.5)
    assert _disruption(bed) is None
    bed.advance(1.5)
    assert _disruption(bed) == ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    assert "deletionTimestamp" in _pod(bed)["metadata"]
    (event,) = bed.events("TaintManagerEviction")
    name = _pod(bed)["metadata"]["name"]
    assert event["message"] == f"Marking for deletion Pod default/{name}"
    (condition,) = (each for each in _pod(bed)["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert condition["observedGeneration"] == 1
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"}


def test_a_pod_that_is_being_deleted_becomes_a_disruption_target_too() -> None:
    bed = _running(toleration=4)
    bed.advance(6)
    bed.registry.delete(PODS, NAMESPACE, _pod(bed)["metadata"]["name"])
    assert _disruption(bed) is None
    bed.advance(5)
    assert _disruption(bed) == ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    assert len(bed.events("TaintManagerEviction")) == 1


def test_a_taint_that_is_not_tolerated_evicts_at_once() -> None:
    bed = _running()
    _taint(bed, {"key": "example.com/repair", "effect": "NoExecute"})
    assert _disruption(bed) is not None
    assert "deletionTimestamp" in _pod(bed)["metadata"]


def test_out_of_service_evicts_at_once_and_removes_what_nobody_can_confirm() -> None:
    bed = _running(toleration=300)
    bed.advance(7)
    _taint(bed, OUT_OF_SERVICE)
    assert "deletionTimestamp" in _pod(bed)["metadata"]
    assert _pod(bed)["status"]["phase"] == "Running"
    bed.advance(3)
    assert bed.pods() == []


def test_out_of_service_on_a_ready_node_leaves_the_pod_to_its_kubelet() -> None:
    bed = _running(grace=1000)
    _taint(bed, OUT_OF_SERVICE)
    bed.advance(10)
    assert "deletionTimestamp" in _pod(bed)["metadata"]


def test_pods_of_a_node_that_is_gone_fail() -> None:
    bed = _running()
    phases: list[tuple[str, str]] = []

    def note(resource: Any, _: str, new: Any, old: Any) -> None:
        if resource == PODS and new is not None and old is not None:
            reasons = [each.get("reason", "") for each in new["status"]["conditions"]]
            phases.append((new["status"]["phase"], reasons[-1]))

    bed.registry.listen(note)
    bed.registry.delete(NODES, None, "node-0")
    bed.advance(3)
    assert _pod(bed)["status"]["phase"] == "Running"
    bed.advance(3)
    assert ("Failed", "DeletionByPodGC") in phases
    assert bed.pods() == []


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    bed = _running()
    bed.registry.delete(NODES, None, "node-0")
    bed.advance(3)
    bed.node("node-0")
    bed.advance(3)
    assert _pod(bed)["status"]["phase"] == "Running"
