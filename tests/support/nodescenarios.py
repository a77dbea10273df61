"""What is played on both clusters with their Nodes: lost, deleted, cordoned, labelled.

Each leaves the Nodes as it has found them, but those that it has lost when it fails.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE
from airflow_dispatch.localcluster.resources import JOBS, NODES, PODS
from tests.support.gang import RUNS_UNTIL_TOLD, Gang, Scenario, reasons, running, true_conditions
from tests.support.stage import Stage, path_of

__all__ = ["TOUCH_NODES"]

Object = dict[str, Any]

_STOPS_SLOWLY: Final = ("sh", "-c", "trap 'sleep 2; exit 143' TERM; while :; do sleep 0.1; done")
_ZONE: Final = "topology.kubernetes.io/zone"


async def node_lost_then_out_of_service(stage: Stage) -> None:
    """The node of rank 1 is lost; nothing acts until an operator taints it out-of-service; then the node returns."""
    gang = await running(stage)
    node = gang.pod(1)["spec"]["nodeName"]
    await stage.fault(f"{node} stops heartbeating; its processes go on", lambda: stage.faults.lose_node(node))
    await stage.until("rank 1 has DisruptionTarget and a deletionTimestamp", lambda: _disrupted(stage))
    await stage.still()
    await stage.fault(f"an operator taints {node} out-of-service", lambda: stage.faults.out_of_service(node))
    await gang.ends("Failed")
    await stage.fault(f"{node} is taken back into service", lambda: stage.faults.in_service(node))
    await stage.fault(f"{node} returns", lambda: stage.faults.return_node(node))
    await stage.until(f"{node} is Ready and has no taints", lambda: _healthy(stage, node))


def _disrupted(stage: Stage) -> bool:
    return any(
        "deletionTimestamp" in pod["metadata"] and "DisruptionTarget" in true_conditions([pod])
        for pod in stage.objects(PODS)
    )


def _healthy(stage: Stage, name: str) -> bool:
    return not _tainted(stage, name) and "Ready" in true_conditions([_node(stage, name)])


async def node_deleted(stage: Stage) -> None:
    """The Node object of rank 1 is deleted while its process goes on; pod GC; then the node registers again."""
    gang = await running(stage)
    node = gang.pod(1)["spec"]["nodeName"]
    await stage.fault(f"the Node object {node} is deleted", lambda: stage.faults.delete_node(node))
    await gang.ends("Failed")
    await stage.fault(f"{node} returns", lambda: stage.faults.return_node(node))
    await stage.until(f"{node} is Ready and has no taints", lambda: _healthy(stage, node))


async def node_lost_that_returns(stage: Stage) -> None:
    """The node of rank 1 is lost until its pod is marked for deletion, then returns and stops it."""
    gang = await running(stage, _STOPS_SLOWLY)
    node = gang.pod(1)["spec"]["nodeName"]
    await stage.fault(f"{node} stops heartbeating; its processes go on", lambda: stage.faults.lose_node(node))
    await stage.until("rank 1 has DisruptionTarget and a deletionTimestamp", lambda: _disrupted(stage))
    await stage.still()
    await stage.fault(f"{node} returns", lambda: stage.faults.return_node(node))
    await gang.ends("Failed")
    await stage.until(f"{node} is Ready and has no taints", lambda: _healthy(stage, node))


async def nodes_in_a_zone(stage: Stage) -> None:
    """Nodes have a zone, and pods on them get it too."""
    for node in stage.objects(NODES):
        await _label(stage, node["metadata"]["name"], "west")
    gang = await running(stage)
    for node in stage.objects(NODES):
        await _label(stage, node["metadata"]["name"], None)
    await gang.cancel()
    await gang.nothing_remains()


async def _label(stage: Stage, node: str, zone: str | None) -> None:
    body = {"metadata": {"labels": {_ZONE: zone}}}
    path = path_of(NODES, stage.namespace, node)
    await stage.act("label a Node", "PATCH", path, body, content_type="application/merge-patch+json")


async def room_comes_free(stage: Stage) -> None:
    """One rank waits while two Nodes are cordoned and a pod fills the third; then that pod goes."""
    gang = Gang(stage, num_nodes=1)
    first, *others = [node["metadata"]["name"] for node in stage.objects(NODES)]
    try:
        for node in others:
            await _cordon(stage, node, cordoned=True)
        await stage.create("fill a Node", PODS, _filling_pod())
        await stage.until("the pod runs", lambda: _phases(stage) == ["Running"])
        await gang.start()
        await gang.open()
        await stage.until("the rank waits", lambda: any("Unschedulable" in reasons(pod) for pod in stage.objects(PODS)))
        await stage.still()
        await stage.delete("make room", PODS, "filling")
        await stage.until(f"the rank runs on {first}", lambda: stage.objects(JOBS)[0]["status"].get("ready") == 1)
    finally:
        for node in others:
            await _cordon(stage, node, cordoned=False)
    await gang.cancel()
    await gang.nothing_remains()


def _phases(stage: Stage) -> list[str]:
    return [str(pod["status"].get("phase")) for pod in stage.objects(PODS)]


def _filling_pod() -> Object:
    container = {
        "name": "c",
        "image": PYTHON_IMAGE,
        "command": list(RUNS_UNTIL_TOLD),
        "resources": {"requests": {"cpu": "16"}},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filling"}, "spec": {"containers": [container]}}


async def _cordon(stage: Stage, node: str, *, cordoned: bool) -> None:
    body = {"spec": {"unschedulable": cordoned or None}}
    path = path_of(NODES, stage.namespace, node)
    await stage.act("cordon or uncordon", "PATCH", path, body, content_type="application/merge-patch+json")
    await stage.until(f"{node} is tainted, or no longer", lambda: _tainted(stage, node) == cordoned)


def _tainted(stage: Stage, name: str) -> bool:
    return bool(_node(stage, name)["spec"].get("taints"))


def _node(stage: Stage, name: str) -> Object:
    (node,) = (each for each in stage.objects(NODES) if each["metadata"]["name"] == name)
    return node


TOUCH_NODES: Final[tuple[Scenario, ...]] = (
    node_lost_then_out_of_service,
    node_lost_that_returns,
    node_deleted,
    room_comes_free,
    nodes_in_a_zone,
)
"""These have to be played one after the other."""
