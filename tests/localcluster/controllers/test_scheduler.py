"""The scheduler: where pods go, and the words for why they don't."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.localcluster.resources import NODES
from tests.support.bed import Bed, container


def _reason(bed: Bed) -> str:
    (pod,) = bed.pods()
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    return str(condition["message"])


def _placed(bed: Bed) -> list[str | None]:
    return [pod["spec"].get("nodeName") for pod in bed.pods()]


def test_pods_are_spread_over_nodes_with_room() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.node("node-1")
    bed.job(parallelism=2, completions=2)
    assert sorted(filter(None, _placed(bed))) == ["node-0", "node-1"]
    (scheduled, _) = bed.events("Scheduled")
    assert scheduled["action"] == "Binding"


def test_without_nodes_it_says_so_and_binds_when_one_comes() -> None:
    bed = Bed()
    bed.job()
    assert _reason(bed) == "no nodes available to schedule pods"
    bed.node("node-0")
    bed.advance()
    assert _placed(bed) == ["node-0"]


def test_more_than_a_node_has_can_never_be_placed() -> None:
    bed = Bed()
    bed.node("node-0", cpu="4")
    bed.job(pod={"containers": [container(resources={"requests": {"cpu": "64"}})]})
    assert _reason(bed) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_more_than_is_left_is_placed_when_a_pod_ends() -> None:
    bed = Bed()
    bed.node("node-0", cpu="1")
    bed.job("first")
    bed.job("second")
    (waiting,) = [pod for pod in bed.pods() if not pod["spec"].get("nodeName")]
    message = waiting["status"]["conditions"][0]["message"]
    assert message.endswith("0/1 nodes are available: 1 No preemption victims found for incoming pod.")
    (running,) = [pod for pod in bed.pods() if pod["spec"].get("nodeName")]
    bed.report(running, "Succeeded")
    assert None not in _placed(bed)


def test_gpus_are_counted() -> None:
    bed = Bed()
    bed.node("node-0")
    gpu = container(resources={"limits": {"nvidia.com/gpu": "1"}})
    bed.job(parallelism=2, completions=2, pod={"containers": [gpu]})
    assert sorted(map(str, _placed(bed))) == ["None", "node-0"]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"unschedulable": True}, "1 node(s) were unschedulable"),
        (
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            "1 node(s) had untolerated taint(s)",
        ),
        ({"labels": {"zone": "b"}}, "1 node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_a_node_that_does_not_fit_is_named_by_its_reason(node: dict[str, Any], words: str) -> None:
    bed = Bed()
    bed.node("node-0", **node)
    bed.job(pod={"nodeSelector": {"zone": "a"}} if "labels" in node else {})
    assert words in _reason(bed)


def test_a_tolerated_taint_does_not_matter() -> None:
    bed = Bed()
    bed.node("node-0", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    bed.job(pod={"tolerations": [{"key": "k", "operator": "Exists"}]})
    assert _placed(bed) == ["node-0"]


@pytest.mark.parametrize(
    ("requirement", "chosen"),
    [
        ({"key": "zone", "operator": "In", "values": ["b"]}, "node-1"),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, "node-0"),
        ({"key": "gpu", "operator": "Exists"}, "node-1"),
        ({"key": "gpu", "operator": "DoesNotExist"}, "node-0"),
        ({"key": "size", "operator": "Gt", "values": ["5"]}, "node-1"),
        ({"key": "size", "operator": "Lt", "values": ["5"]}, "node-0"),
    ],
)
def test_required_node_affinity_selects(requirement: dict[str, Any], chosen: str) -> None:
    bed = Bed()
    bed.node("node-0", labels={"zone": "a", "size": "2"})
    bed.node("node-1", labels={"zone": "b", "size": "8", "gpu": "yes"})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    bed.job(pod={"affinity": affinity})
    assert _placed(bed) == [chosen]


def test_a_gated_pod_waits_without_a_word() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.job(pod={"schedulingGates": [{"name": "example.com/gate"}]})
    assert _placed(bed) == [None]
    assert "conditions" not in bed.pods()[0]["status"]


def test_a_node_that_becomes_schedulable_takes_what_waits() -> None:
    bed = Bed()
    bed.node("node-0", unschedulable=True)
    bed.job()
    node = bed.registry.get(NODES, None, "node-0")
    node["spec"]["unschedulable"] = False
    bed.registry.update(NODES, None, "node-0", node)
    bed.advance()
    assert _placed(bed) == ["node-0"]
