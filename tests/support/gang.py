"""A TrainJob of two ranks on a stage: what is done to it, and what is waited for.

The acts are those of the contract's sections 9, 10 and 12, as in the recordings in ``tests/golden``.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.identity import parse_job_id
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, PODS, TRAINING_RUNTIMES, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import SAFE_RUNTIME, shipped_runtimes
from tests.support.stage import Stage

__all__ = ["JOB_ID", "NAME", "RUNS_UNTIL_TOLD", "Gang", "Scenario", "reasons", "running", "true_conditions"]

Object = dict[str, Any]
Scenario = Callable[[Stage], Awaitable[None]]

JOB_ID: Final = parse_job_id("01K6NJRFAE13R8H0C3SWZGBJ7R")
NAME: Final = names.object_name(JOB_ID, 1)
RUNS_UNTIL_TOLD: Final = ("sleep", "600")


class Gang:
    """One TrainJob of two ranks, and what a scenario does with it."""

    def __init__(
        self, stage: Stage, argv: tuple[str, ...] = RUNS_UNTIL_TOLD, *, runtime: str = SAFE_RUNTIME, **fields: Any
    ) -> None:
        self.stage = stage
        self._job = TrainingJob.validated(
            job_id=JOB_ID,
            argv=argv,
            runtime=runtime,
            image=PYTHON_IMAGE,
            **{"num_nodes": 2, "resources_per_node": {"cpu": "1", "memory": "256Mi"}, **fields},
        )

    # ------------------------------------------------------------ acts

    async def start(self, failure_policy: Object | None = None) -> None:
        """Creates runtime copy and TrainJob, gated, and notes the JobSet's UID."""
        shipped = {runtime["metadata"]["name"]: runtime for runtime in shipped_runtimes()}
        runtime = shipped[self._job.runtime]
        runtime["metadata"]["resourceVersion"] = "1"
        if failure_policy is not None:
            runtime["spec"]["template"]["spec"]["failurePolicy"] = failure_policy
        copied = manifest.copy_of(runtime, JOB_ID, 1)
        await self.stage.create("create runtime copy", TRAINING_RUNTIMES, copied)
        body = manifest.trainjob(self._job, 1, 1, replicated_job="node")
        made = await self.stage.create("create TrainJob", TRAINJOBS, body)
        owners = manifest.owned_by(NAME, made["metadata"]["uid"])
        await self.stage.change(
            "own the runtime copy", TRAINING_RUNTIMES, NAME, lambda obj: obj["metadata"].update(ownerReferences=owners)
        )
        await self.stage.until("Trainer counts the Job as suspended", lambda: self._counted("suspended"))
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

    async def completes(self) -> None:
        """One rank after the other exits with 0."""
        await self.exits(0, 0)
        await self.stage.until(
            "rank 0 is counted", lambda: self.stage.objects(JOBS)[0]["status"].get("completedIndexes")
        )
        await self.exits(1, 0)
        await self.ends("Complete")

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
        return phases.count("Running") == 2 and self._counted("ready") and self._counted("active")

    def _counted(self, what: str) -> bool:
        """Trainer counts the one Job among these: what pods, Job and JobSet had to say has come to the TrainJob."""
        counts = [
            each for obj in self.stage.objects(TRAINJOBS) for each in obj.get("status", {}).get("jobsStatus") or ()
        ]
        return [each[what] for each in counts] == [1]

    async def ends(self, kind: str) -> None:
        """The TrainJob has ended, no pod is on its way out, and nobody writes any more."""
        await self.stage.until(f"trainjobs {kind}=True", lambda: kind in true_conditions(self.stage.objects(TRAINJOBS)))
        await self.nothing_terminates()

    async def nothing_terminates(self) -> None:
        await self.stage.until("no pod terminates", lambda: not self._terminating())
        await self.stage.still()

    def _terminating(self) -> list[Object]:
        return [pod for pod in self.stage.objects(PODS) if "deletionTimestamp" in pod["metadata"]]

    async def nothing_remains(self) -> None:
        await self.stage.until("no pod remains", lambda: not self.stage.objects(PODS))
        await self.stage.still()


def true_conditions(objects: list[Object]) -> set[str]:
    """The types of all conditions that are True."""
    conditions = [each for obj in objects for each in obj.get("status", {}).get("conditions") or ()]
    return {each["type"] for each in conditions if each["status"] == "True"}


def reasons(obj: Object) -> list[str]:
    """The reasons of all conditions that have one."""
    return [each["reason"] for each in obj.get("status", {}).get("conditions") or () if each.get("reason")]


async def running(
    stage: Stage, argv: tuple[str, ...] = RUNS_UNTIL_TOLD, failure_policy: Object | None = None, **fields: Any
) -> Gang:
    """A gang that was started gated, and opened, and now runs."""
    gang = Gang(stage, argv, **fields)
    await gang.start(failure_policy)
    await gang.open()
    await gang.runs()
    return gang
