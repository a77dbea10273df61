"""What is played on both clusters, and compared. Each scenario acts through HTTP, and waits for what it names.

The acts are those of the contract's sections 9, 10 and 12, as in the recordings in ``tests/golden``.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.identity import parse_job_id
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, NODES, PODS, TRAINING_RUNTIMES, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import SAFE_RUNTIME, shipped_runtimes
from tests.support.stage import Stage, path_of

__all__ = ["SCENARIOS", "Scenario"]

Object = dict[str, Any]
Scenario = Callable[[Stage], Awaitable[None]]

JOB_ID: Final = parse_job_id("01K6NJRFAE13R8H0C3SWZGBJ7R")
NAME: Final = names.object_name(JOB_ID, 1)
_RUNS_UNTIL_TOLD: Final = ("sleep", "600")
_STOPS_SLOWLY: Final = ("sh", "-c", "trap 'sleep 2; exit 143' TERM; while :; do sleep 0.1; done")
_DEADLINE_SECONDS: Final = 8


class Play:
    """One TrainJob of two ranks, and what a scenario does with it."""

    def __init__(self, stage: Stage, argv: tuple[str, ...] = _RUNS_UNTIL_TOLD, **fields: Any) -> None:
        self.stage = stage
        self._job = TrainingJob.validated(
            job_id=JOB_ID,
            argv=argv,
            runtime=SAFE_RUNTIME,
            **{"num_nodes": 2, "resources_per_node": {"cpu": "1", "memory": "256Mi"}, **fields},
        )

    # ------------------------------------------------------------ acts

    async def start(self, failure_policy: Object | None = None) -> None:
        """Creates runtime copy and TrainJob, gated, and notes the JobSet's UID."""
        runtime = copy.deepcopy(shipped_runtimes()[0])
        runtime["metadata"]["resourceVersion"] = "1"
        if failure_policy is not None:
            runtime["spec"]["template"]["spec"]["failurePolicy"] = failure_policy
        copied = manifest.copy_of(runtime, JOB_ID, 1)
        await self.stage.create("create runtime copy", TRAINING_RUNTIMES, copied)
        body = manifest.trainjob(self._job, 1, 1, replicated_job="node")
        made = await self.stage.create("create TrainJob", TRAINJOBS, body)
        owners = manifest.owned_by(made)
        await self.stage.change(
            "own the runtime copy", TRAINING_RUNTIMES, NAME, lambda obj: obj["metadata"].update(ownerReferences=owners)
        )
        await self.stage.until("the JobSet's Job is there, suspended", lambda: self.stage.objects(JOBS))
        await self.stage.still()
        uid = self.stage.objects(JOBSETS)[0]["metadata"]["uid"]
        await self.annotate("first sight of the JobSet: write jobset-uid", **{names.ANNOTATION_JOBSET_UID: uid})

    async def annotate(self, words: str, **annotations: str) -> None:
        def change(trainjob: Object) -> None:
            trainjob["metadata"]["annotations"].update(annotations)

        await self.stage.change(words, TRAINJOBS, NAME, change)

    async def open(self) -> None:
        """Takes the gate away and lets it run with A raised."""

        def change(trainjob: Object) -> None:
            annotations = trainjob["metadata"]["annotations"]
            del annotations[names.ANNOTATION_KUEUE_GATED_BY]
            annotations[names.ANNOTATION_OPENED] = "true"
            manifest.raise_admission(trainjob)
            trainjob["spec"]["suspend"] = False

        await self.stage.change("open (plain)", TRAINJOBS, NAME, change)

    async def hold(self) -> None:
        def change(trainjob: Object) -> None:
            trainjob["metadata"]["annotations"] |= {
                names.ANNOTATION_HOLD_INSTANCE: "1",
                names.ANNOTATION_HOLD_SINCE: "2026-01-01T00:00:00Z",
                names.ANNOTATION_HOLD_WHO: "ana@example.com",
                names.ANNOTATION_HOLD_REASON: "maintenance",
            }
            trainjob["spec"]["suspend"] = True

        await self.stage.change("hold (plain: TrainJob)", TRAINJOBS, NAME, change)

    async def release(self) -> None:
        def change(trainjob: Object) -> None:
            annotations = trainjob["metadata"]["annotations"]
            for key in [key for key in annotations if key.startswith(f"{names.PREFIX}hold-")]:
                del annotations[key]
            manifest.raise_admission(trainjob)
            trainjob["spec"]["suspend"] = False

        await self.stage.change("release (plain)", TRAINJOBS, NAME, change)

    async def cancel(self) -> None:
        (trainjob,) = self.stage.objects(TRAINJOBS)
        preconditions = {"uid": trainjob["metadata"]["uid"]}
        await self.stage.delete("cancel", TRAINJOBS, NAME, preconditions=preconditions, propagationPolicy="Background")

    async def exits(self, rank: int, code: int) -> None:
        pod = self.pod(rank)["metadata"]["name"]
        faults, namespace = self.stage.faults, self.stage.namespace
        words = f"rank {rank} exits {code}"
        await self.stage.fault(words, lambda: faults.pod_exit(pod, code, namespace=namespace))

    async def runs_out_of_memory(self, rank: int) -> None:
        pod = self.pod(rank)["metadata"]["name"]
        faults, namespace = self.stage.faults, self.stage.namespace
        await self.stage.fault(f"rank {rank} exits 137 OOMKilled", lambda: faults.pod_oom(pod, namespace=namespace))

    # ------------------------------------------------------------ what is waited for

    def pod(self, rank: int) -> Object:
        """The newest pod of a rank that is not being deleted."""
        found = [
            pod
            for pod in self.stage.objects(PODS)
            if pod["metadata"]["labels"][names.LABEL_COMPLETION_INDEX] == str(rank)
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    async def runs(self, restart: int = 0) -> None:
        """Both ranks of this execution run, and all controllers have said so."""
        await self.stage.until(f"both ranks run, J={restart}", functools.partial(self._both_run, str(restart)))
        await self.stage.still()

    def _both_run(self, restart: str) -> bool:
        phases = [
            pod["status"]["phase"]
            for pod in self.stage.objects(PODS)
            if pod["metadata"]["labels"][names.LABEL_RESTART_ATTEMPT] == restart
            and "deletionTimestamp" not in pod["metadata"]
        ]
        jobs = self.stage.objects(JOBS)
        return phases.count("Running") == 2 and bool(jobs) and jobs[0].get("status", {}).get("ready") == 2

    async def ends(self, kind: str) -> None:
        """The TrainJob has ended, and nobody writes any more."""
        await self.stage.until(f"trainjobs {kind}=True", lambda: kind in _true(self.stage.objects(TRAINJOBS)))
        await self.stage.still()

    async def nothing_remains(self) -> None:
        await self.stage.until("no pod remains", lambda: not self.stage.objects(PODS))
        await self.stage.still()


def _true(objects: list[Object]) -> set[str]:
    conditions = [each for obj in objects for each in obj.get("status", {}).get("conditions") or ()]
    return {each["type"] for each in conditions if each["status"] == "True"}


# ---------------------------------------------------------------- the scenarios


async def complete(stage: Stage) -> None:
    """Gated start, open, both ranks run and finish, cancel of what has ended."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    await play.exits(0, 0)
    await stage.still()
    await play.exits(1, 0)
    await play.ends("Complete")


async def exit_code(stage: Stage) -> None:
    """Rank 1 exits 3; the Job controller stops rank 0."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    await play.exits(1, 3)
    await play.ends("Failed")


async def out_of_memory(stage: Stage) -> None:
    """Rank 0 is OOMKilled; the Job controller stops rank 1."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    await play.runs_out_of_memory(0)
    await play.ends("Failed")


async def jobset_restart(stage: Stage) -> None:
    """failurePolicy maxRestarts 1: the gang fails twice, once too often."""
    play = Play(stage)
    await play.start(failure_policy={"maxRestarts": 1})
    await play.open()
    await play.runs()
    await play.exits(1, 3)
    await play.runs(restart=1)
    await play.exits(0, 4)
    await play.ends("Failed")


async def suspend_and_resume(stage: Stage) -> None:
    """Hold, wait until nothing remains, release with A raised, complete."""
    play = Play(stage, _STOPS_SLOWLY)
    await play.start()
    await play.open()
    await play.runs()
    await play.hold()
    await play.nothing_remains()
    await play.release()
    await play.runs()
    await play.exits(0, 0)
    await play.exits(1, 0)
    await play.ends("Complete")


async def node_lost_then_out_of_service(stage: Stage) -> None:
    """The node of rank 1 is lost; nothing acts until an operator taints it out-of-service; then the node returns."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    node = play.pod(1)["spec"]["nodeName"]
    await stage.fault(f"{node} stops heartbeating; its processes go on", lambda: stage.faults.lose_node(node))
    await stage.until("rank 1 has DisruptionTarget and a deletionTimestamp", lambda: _disrupted(stage))
    await stage.still()
    await stage.fault(f"an operator taints {node} out-of-service", lambda: stage.faults.out_of_service(node))
    await play.ends("Failed")
    await stage.fault(f"{node} is taken back into service", lambda: stage.faults.in_service(node))
    await stage.fault(f"{node} returns", lambda: stage.faults.return_node(node))
    await stage.until(f"{node} is Ready and has no taints", lambda: _healthy(stage, node))


def _disrupted(stage: Stage) -> bool:
    return any(
        "deletionTimestamp" in pod["metadata"] and "DisruptionTarget" in _true([pod]) for pod in stage.objects(PODS)
    )


def _healthy(stage: Stage, name: str) -> bool:
    (node,) = (each for each in stage.objects(NODES) if each["metadata"]["name"] == name)
    return "Ready" in _true([node]) and not node["spec"].get("taints")


async def deadline(stage: Stage) -> None:
    """activeDeadlineSeconds passes while both ranks run."""
    play = Play(stage, time_limit=_DEADLINE_SECONDS)
    await play.start()
    await play.open()
    await play.runs()
    await play.ends("Failed")
    await play.nothing_remains()


async def cancel(stage: Stage) -> None:
    """Cancel with UID precondition, Background, with a wrong UID first and once more in the end."""
    play = Play(stage, _STOPS_SLOWLY)
    await play.start()
    await play.open()
    await play.runs()
    wrong = {"uid": "00000000-0000-0000-0000-000000000000"}
    await stage.delete("cancel with a wrong UID", TRAINJOBS, NAME, preconditions=wrong, propagationPolicy="Background")
    await play.cancel()
    await play.nothing_remains()
    await stage.delete("cancel again", TRAINJOBS, NAME, propagationPolicy="Background")


async def unschedulable(stage: Stage) -> None:
    """No node is large enough."""
    play = Play(stage, resources_per_node={"cpu": "64", "memory": "256Mi"})
    await play.start()
    await play.open()
    await stage.until(
        "both ranks are unschedulable",
        lambda: [reason for pod in stage.objects(PODS) for reason in _reasons(pod)] == ["Unschedulable"] * 2,
    )
    await stage.still()
    await play.cancel()
    await play.nothing_remains()


def _reasons(obj: Object) -> list[str]:
    return [each["reason"] for each in obj.get("status", {}).get("conditions") or () if each.get("reason")]


async def eviction(stage: Stage) -> None:
    """Rank 1 is evicted through the API."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    pod = play.pod(1)["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": stage.namespace}}
    await stage.act("evict rank 1", "POST", path_of(PODS, stage.namespace, pod) + "/eviction", body)
    await play.ends("Failed")


async def jobset_deleted_after_failed(stage: Stage) -> None:
    """Failed, then the JobSet is deleted by hand: Trainer erases Failed and runs the job again."""
    play = Play(stage)
    await play.start()
    await play.open()
    await play.runs()
    await play.exits(1, 3)
    await play.ends("Failed")
    before = stage.objects(JOBSETS)[0]["metadata"]["uid"]
    await stage.delete("the JobSet is deleted by hand", JOBSETS, NAME, propagationPolicy="Background")
    await stage.until(
        "there is another JobSet",
        lambda: any(each["metadata"]["uid"] != before for each in stage.objects(JOBSETS)),
    )
    await play.runs()
    await play.cancel()
    await play.nothing_remains()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    complete,
    exit_code,
    out_of_memory,
    jobset_restart,
    suspend_and_resume,
    node_lost_then_out_of_service,
    deadline,
    cancel,
    unschedulable,
    eviction,
    jobset_deleted_after_failed,
)
