"""What is played on both clusters, and compared: each scenario acts through HTTP, and waits for what it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, NODES, PODS, TRAINING_RUNTIMES, TRAINJOBS
from tests.support.gang import NAME, RUNS_UNTIL_TOLD, Gang, true_conditions
from tests.support.refusals import play_refusals
from tests.support.stage import Stage, path_of

__all__ = ["LEFT_OUT", "SCENARIOS", "Scenario"]

Object = dict[str, Any]
Scenario = Callable[[Stage], Awaitable[None]]

_STOPS_SLOWLY: Final = ("sh", "-c", "trap 'sleep 2; exit 143' TERM; while :; do sleep 0.1; done")
_DEADLINE_SECONDS: Final = 8
_ZONE: Final = "topology.kubernetes.io/zone"


async def _running(
    stage: Stage, argv: tuple[str, ...] = RUNS_UNTIL_TOLD, failure_policy: Object | None = None, **fields: Any
) -> Gang:
    """A gang that was started gated, and opened, and now runs."""
    gang = Gang(stage, argv, **fields)
    await gang.start(failure_policy)
    await gang.open()
    await gang.runs()
    return gang


async def complete(stage: Stage) -> None:
    """Gated start, open, both ranks run and finish."""
    gang = await _running(stage)
    await gang.completes()


async def exit_code(stage: Stage) -> None:
    """Rank 1 exits 3; the Job controller stops rank 0."""
    gang = await _running(stage)
    await gang.exits(1, 3)
    await gang.ends("Failed")


async def out_of_memory(stage: Stage) -> None:
    """Rank 0 is OOMKilled; the Job controller stops rank 1."""
    gang = await _running(stage)
    await gang.runs_out_of_memory(0)
    await gang.ends("Failed")


async def jobset_restart(stage: Stage) -> None:
    """failurePolicy maxRestarts 1: the gang fails twice, once too often."""
    gang = await _running(stage, failure_policy={"maxRestarts": 1})
    await gang.exits(1, 3)
    await gang.runs(restart=1)
    await gang.exits(0, 4)
    await gang.ends("Failed")


async def suspend_and_resume(stage: Stage) -> None:
    """Hold, wait until nothing remains, release with A raised, complete."""
    gang = await _running(stage, _STOPS_SLOWLY)
    await gang.hold()
    await gang.nothing_remains()
    await gang.release()
    await gang.runs()
    await gang.completes()


async def node_lost_then_out_of_service(stage: Stage) -> None:
    """The node of rank 1 is lost; nothing acts until an operator taints it out-of-service; then the node returns."""
    gang = await _running(stage)
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


async def deadline(stage: Stage) -> None:
    """activeDeadlineSeconds passes while both ranks run."""
    gang = await _running(stage, time_limit=_DEADLINE_SECONDS)
    await gang.ends("Failed")
    await gang.nothing_remains()


async def cancel(stage: Stage) -> None:
    """Cancel with UID precondition, Background, with a wrong UID first and once more in the end."""
    gang = await _running(stage, _STOPS_SLOWLY)
    wrong = {"uid": "00000000-0000-0000-0000-000000000000"}
    await stage.delete("cancel with a wrong UID", TRAINJOBS, NAME, preconditions=wrong, propagationPolicy="Background")
    await gang.cancel()
    await gang.nothing_remains()
    await stage.delete("cancel again", TRAINJOBS, NAME, propagationPolicy="Background")


async def unschedulable(stage: Stage) -> None:
    """No node is large enough."""
    gang = Gang(stage, resources_per_node={"cpu": "64", "memory": "256Mi"})
    await gang.start()
    await gang.open()
    await stage.until(
        "both ranks are unschedulable",
        lambda: [reason for pod in stage.objects(PODS) for reason in _reasons(pod)] == ["Unschedulable"] * 2,
    )
    await stage.still()
    await gang.cancel()
    await gang.nothing_remains()


def _reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions") or () if each.get("reason")]


async def eviction(stage: Stage) -> None:
    """Rank 1 is evicted through the API."""
    gang = await _running(stage)
    pod = gang.pod(1)["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": stage.namespace}}
    await stage.act("evict rank 1", "POST", path_of(PODS, stage.namespace, pod) + "/eviction", body)
    await gang.ends("Failed")


async def jobset_deleted_after_failed(stage: Stage) -> None:
    """Failed, then the JobSet is deleted by hand: Trainer erases Failed and runs the job again."""
    gang = await _running(stage)
    await gang.exits(1, 3)
    await gang.ends("Failed")
    before = stage.objects(JOBSETS)[0]["metadata"]["uid"]
    await stage.delete("the JobSet is deleted by hand", JOBSETS, NAME, propagationPolicy="Background")
    await stage.until(
        "there is another JobSet",
        lambda: any(each["metadata"]["uid"] != before for each in stage.objects(JOBSETS)),
    )
    await gang.runs()
    await gang.cancel()
    await gang.nothing_remains()


async def node_deleted(stage: Stage) -> None:
    """The Node object of rank 1 is deleted while its process goes on; pod GC; then the node registers again."""
    gang = await _running(stage)
    node = gang.pod(1)["spec"]["nodeName"]
    await stage.fault(f"the Node object {node} is deleted", lambda: stage.faults.delete_node(node))
    await gang.ends("Failed")
    await stage.fault(f"{node} returns", lambda: stage.faults.return_node(node))
    await stage.until(f"{node} is Ready and has no taints", lambda: _healthy(stage, node))


async def node_lost_that_returns(stage: Stage) -> None:
    """The node of rank 1 is lost until its pod is marked for deletion, then returns and stops it."""
    gang = await _running(stage, _STOPS_SLOWLY)
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
    gang = await _running(stage)
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
    for node in others:
        await _cordon(stage, node, cordoned=True)
    await stage.create("fill a Node", PODS, _filling_pod())
    await stage.until("the pod runs", lambda: _phases(stage) == ["Running"])
    await gang.start()
    await gang.open()
    await stage.until("the rank waits", lambda: any("Unschedulable" in _reasons(pod) for pod in stage.objects(PODS)))
    await stage.still()
    await stage.delete("make room", PODS, "filling")
    await stage.until(f"the rank runs on {first}", lambda: stage.objects(JOBS)[0]["status"].get("ready") == 1)
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


async def runtime_copy_deleted(stage: Stage) -> None:
    """The runtime copy goes while the job runs: every further change of the TrainJob is refused, but it runs on."""
    gang = await _running(stage)
    await stage.delete("someone deletes the runtime copy", TRAINING_RUNTIMES, NAME)
    await stage.still()
    path = path_of(TRAINJOBS, stage.namespace, NAME)
    body = {"metadata": {"annotations": {"x": "y"}}}
    await stage.act("annotate", "PATCH", path, body, content_type="application/merge-patch+json")
    await gang.completes()


async def refusals(stage: Stage) -> None:
    """The exact Status bodies of what the webhooks and the API server refuse."""
    await play_refusals(stage)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    complete,
    exit_code,
    out_of_memory,
    jobset_restart,
    suspend_and_resume,
    node_lost_then_out_of_service,
    node_lost_that_returns,
    node_deleted,
    deadline,
    cancel,
    unschedulable,
    room_comes_free,
    nodes_in_a_zone,
    eviction,
    jobset_deleted_after_failed,
    runtime_copy_deleted,
    refusals,
)

LEFT_OUT: Final[Mapping[Scenario, tuple[str, ...]]] = {
    deadline: (r"(JobSet|Job|Pod) .*, number 2: only on the real cluster", r"TrainJob .*: status\.jobsStatus.*"),
    jobset_deleted_after_failed: (r"Event on the real cluster alone: .*JobCreationFailed.*",),
}
"""Differences that only now and then are there: what real controllers do that look at what is no longer so.

After a deadline Trainer 2.3 can take the TrainJob for one that has not ended: it makes the JobSet anew, reads that no
Job is there as yet, and deletes it. JobSet can try to make a Job while the one of that name is still being deleted.
"""
