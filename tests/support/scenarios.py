"""What is played on both clusters, and compared: each scenario acts through HTTP, and waits for what it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_dispatch.localcluster.resources import JOBSETS, PODS, TRAINING_RUNTIMES, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import SAFE_RUNTIME, UNSAFE_RUNTIME
from tests.support.gang import NAME, Gang, Scenario, reasons, running, true_conditions
from tests.support.refusals import play_refusals
from tests.support.stage import Stage, path_of

__all__ = ["LEAVE_NODES_ALONE", "LEFT_OUT", "LEFT_OUT_ANYWHERE"]


_STOPS_SLOWLY: Final = ("sh", "-c", "trap 'sleep 2; exit 143' TERM; while :; do sleep 0.1; done")
_STOPS_VERY_SLOWLY: Final = ("sh", "-c", "trap 'sleep 8; exit 143' TERM; while :; do sleep 0.1; done")
_DEADLINE_SECONDS: Final = 8


async def complete(stage: Stage) -> None:
    """Gated start, open, both ranks run and finish."""
    gang = await running(stage)
    await gang.completes()


async def exit_code(stage: Stage) -> None:
    """Rank 1 exits 3; the Job controller stops rank 0."""
    gang = await running(stage)
    await gang.exits(1, 3)
    await gang.ends("Failed")


async def out_of_memory(stage: Stage) -> None:
    """Rank 0 is OOMKilled; the Job controller stops rank 1."""
    gang = await running(stage)
    await gang.runs_out_of_memory(0)
    await gang.ends("Failed")


async def jobset_restart(stage: Stage) -> None:
    """failurePolicy maxRestarts 1: the gang fails twice, once too often."""
    gang = await running(stage, failure_policy={"maxRestarts": 1})
    await gang.exits(1, 3)
    await gang.runs(restart=1)
    await gang.exits(0, 4)
    await gang.ends("Failed")


async def suspend_and_resume(stage: Stage) -> None:
    """Hold, wait until nothing remains, release with A raised, complete."""
    gang = await running(stage, _STOPS_SLOWLY)
    await gang.hold()
    await gang.nothing_remains()
    await gang.release()
    await gang.runs()
    await gang.completes()


async def released_while_pods_terminate(stage: Stage) -> None:
    """Hold, and release as soon as Trainer takes it: the Job of a safe runtime waits for the pods that terminate."""
    await _release_early(stage, SAFE_RUNTIME)


async def released_while_pods_terminate_unsafe(stage: Stage) -> None:
    """The same with the runtime that Trainer ships: two executions run at once."""
    await _release_early(stage, UNSAFE_RUNTIME)


async def _release_early(stage: Stage, runtime: str) -> None:
    gang = await running(stage, _STOPS_VERY_SLOWLY, runtime=runtime)
    await gang.hold()
    await stage.until("it is suspended, and nothing counts as active", lambda: _idle(stage))
    await gang.release()
    await gang.runs()
    await gang.nothing_terminates()
    await gang.completes()


def _idle(stage: Stage) -> bool:
    counts = [each for obj in stage.objects(TRAINJOBS) for each in obj.get("status", {}).get("jobsStatus") or ()]
    return "Suspended" in true_conditions(stage.objects(TRAINJOBS)) and [each["active"] for each in counts] == [0]


async def restarts_in_place(stage: Stage) -> None:
    """Under the runtime that Trainer ships a container that fails is started again in its pod."""
    gang = await running(stage, runtime=UNSAFE_RUNTIME)
    await gang.exits(1, 3)
    await stage.until(
        "the container of rank 1 runs again",
        lambda: gang.pod(1)["status"]["containerStatuses"][0]["restartCount"] == 1,
    )
    await stage.still()
    await gang.completes()


async def failure_policy_rule(stage: Stage) -> None:
    """A rule fails the JobSet at once though restarts are left."""
    rule = {"name": "giveup", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}
    gang = await running(stage, failure_policy={"maxRestarts": 3, "rules": [rule]})
    await gang.exits(0, 1)
    await gang.ends("Failed")


async def deadline(stage: Stage) -> None:
    """activeDeadlineSeconds passes while both ranks run."""
    gang = await running(stage, time_limit=_DEADLINE_SECONDS)
    await gang.ends("Failed")
    await gang.nothing_remains()


async def cancel(stage: Stage) -> None:
    """Cancel with UID precondition, Background, with a wrong UID first and once more in the end."""
    gang = await running(stage, _STOPS_SLOWLY)
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
        lambda: [reason for pod in stage.objects(PODS) for reason in reasons(pod)] == ["Unschedulable"] * 2,
    )
    await stage.still()
    await gang.cancel()
    await gang.nothing_remains()


async def eviction(stage: Stage) -> None:
    """Rank 1 is evicted through the API."""
    gang = await running(stage)
    pod = gang.pod(1)["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": stage.namespace}}
    await stage.act("evict rank 1", "POST", path_of(PODS, stage.namespace, pod) + "/eviction", body)
    await gang.ends("Failed")


async def force_deleted_pod(stage: Stage) -> None:
    """Someone force-deletes rank 1, which runs on: its kubelet kills it."""
    gang = await running(stage, _STOPS_SLOWLY)
    await stage.delete("force-delete rank 1", PODS, gang.pod(1)["metadata"]["name"], gracePeriodSeconds=0)
    await gang.ends("Failed")


async def jobset_deleted_after_failed(stage: Stage) -> None:
    """Failed, then the JobSet is deleted by hand: Trainer erases Failed and runs the job again."""
    gang = await running(stage)
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


async def suspended_after_failed(stage: Stage) -> None:
    """Failed, then suspended, then the JobSet is deleted by hand: what is made anew stays still."""
    gang = await running(stage)
    await gang.exits(1, 3)
    await gang.ends("Failed")
    await gang.hold()
    await stage.still()
    await stage.delete("the JobSet is deleted by hand", JOBSETS, NAME, propagationPolicy="Background")
    await stage.until("Failed is erased", lambda: "Failed" not in true_conditions(stage.objects(TRAINJOBS)))
    await stage.still()


async def runtime_copy_deleted(stage: Stage) -> None:
    """The runtime copy goes while the job runs: every further change of the TrainJob is refused, but it runs on."""
    gang = await running(stage)
    await stage.delete("someone deletes the runtime copy", TRAINING_RUNTIMES, NAME)
    await stage.still()
    path = path_of(TRAINJOBS, stage.namespace, NAME)
    body = {"metadata": {"annotations": {"x": "y"}}}
    await stage.act("annotate", "PATCH", path, body, content_type="application/merge-patch+json")
    await gang.completes()


async def refusals(stage: Stage) -> None:
    """The exact Status bodies of what the webhooks and the API server refuse."""
    await play_refusals(stage)


LEAVE_NODES_ALONE: Final[tuple[Scenario, ...]] = (
    complete,
    exit_code,
    out_of_memory,
    jobset_restart,
    failure_policy_rule,
    suspend_and_resume,
    released_while_pods_terminate,
    released_while_pods_terminate_unsafe,
    restarts_in_place,
    deadline,
    cancel,
    unschedulable,
    eviction,
    force_deleted_pod,
    jobset_deleted_after_failed,
    suspended_after_failed,
    runtime_copy_deleted,
    refusals,
)
"""These can be played side by side."""

_COUNTS: Final = r"TrainJob .*: status\.jobsStatus.*"

LEFT_OUT_ANYWHERE: Final = (r"Event on the real cluster alone: .*already exists.*JobCreationFailed.*",)
"""JobSet can try to make a Job that is there already and that its cache does not show yet."""

LEFT_OUT: Final[Mapping[Scenario, tuple[str, ...]]] = {
    deadline: (r"(JobSet|Job|Pod) .*, number 2: only on the real cluster", _COUNTS),
    jobset_deleted_after_failed: (r"Event on the real cluster alone: .*JobCreationFailed.*", _COUNTS),
    suspended_after_failed: (r"Event on the real cluster alone: .*JobCreationFailed.*", _COUNTS),
}
"""Differences that only now and then are there: what real controllers do that look at what is no longer so.

After a deadline Trainer 2.3 can take the TrainJob for one that has not ended: it makes the JobSet anew and deletes it.
JobSet can try to make a Job while the one of that name is still being deleted. Of a JobSet that was made anew Trainer
can read counts that are not there as yet.
"""
