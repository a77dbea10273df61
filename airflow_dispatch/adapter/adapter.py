"""The adapter: one class whose methods are the verbs."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from airflow_dispatch.adapter import opening, writing
from airflow_dispatch.adapter.reading import read_namespace
from airflow_dispatch.adapter.settings import Settings
from airflow_dispatch.adapter.starting import start
from airflow_dispatch.core import names, task
from airflow_dispatch.core.cessation import SETTLING
from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.errors import NotFound, PodsRemain, Refused, Unreachable
from airflow_dispatch.core.identity import TaskKey, parse_name
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import TrainJob
from airflow_dispatch.core.observation import Cause, CauseKind, Observation
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.store import Store

__all__ = ["Adapter", "Submitted"]


class Submitted(NamedTuple):
    """What :meth:`Adapter.submit` did (``submitted``, ``adopted``, ...) and how the TrainJob stands."""

    action: str
    observation: Observation


class Adapter:
    """Acts on the training jobs of one namespace.

    Every update carries the UID and resourceVersion of what was read. Methods raise the errors of
    :mod:`airflow_dispatch.core.errors`; a verb that failed may be called again, and finishes what it began.
    """

    def __init__(self, client: KubeClient, namespace: str, settings: Settings = Settings()) -> None:  # noqa: B008
        self._client = client
        self._namespace = namespace
        self._settings = settings

    # ------------------------------------------------------------ read

    async def find(self, job_id: str) -> list[Observation]:
        """Every TrainJob of a job, the lowest submission first, then what is left of those that are gone."""
        store = await self._read()
        now = datetime.now(UTC)
        found = [classify(snapshot, now) for name in store.names_of_job(job_id) if (snapshot := store.snapshot(name))]
        return found + [orphan for orphan in orphans(store.leftovers(), now) if orphan.job_id == job_id]

    async def inspect(self, ref: str) -> Observation | None:
        """One object by its reference (``<namespace>/<name>``, a bare name, or an orphan's); None when it is gone."""
        parts = ref.split("/")
        store = await self._read()
        now = datetime.now(UTC)
        if len(parts) > 2:  # noqa: PLR2004
            return next((orphan for orphan in orphans(store.leftovers(), now) if orphan.ref == ref), None)
        snapshot = store.snapshot(parts[-1])
        return classify(snapshot, now) if snapshot is not None else None

    async def output(
        self,
        name: str,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: datetime | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[str]:
        """The lines that rank 0 of the current execution has written."""
        store = await self._read()
        snapshot = store.snapshot(name)
        observation = classify(snapshot, datetime.now(UTC)) if snapshot is not None else None
        if snapshot is None or observation is None or observation.execution is None:
            raise NotFound(f"{self._namespace}/{name} has no execution whose output could be read")
        admission = str(observation.execution.admission)
        for pod in snapshot.pods:
            current = pod.metadata.annotation(names.ANNOTATION_ADMISSION) == admission
            restart = pod.metadata.label(names.LABEL_RESTART_ATTEMPT) == str(observation.execution.restart)
            if current and restart and pod.metadata.label(names.LABEL_COMPLETION_INDEX) == "0":
                lines = self._client.log(
                    pod.metadata.name,
                    self._namespace,
                    container=names.TRAINER_CONTAINER,
                    follow=follow,
                    tail_lines=tail_lines,
                    since_time=since,
                    limit_bytes=limit_bytes,
                )
                async for line in lines:
                    yield line.decode(errors="replace")
                return
        raise NotFound(f"{self._namespace}/{name}: the pod of rank 0 is gone, and its output with it")

    # ------------------------------------------------------------ act

    async def start(
        self,
        job: TrainingJob,
        *,
        submission: int,
        attempt: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Observation:
        """Creates a submission's TrainJob, suspended and gated, or finds it; see :mod:`.starting`."""
        trainjob = await start(
            self._client,
            self._namespace,
            self._settings,
            job,
            submission=submission,
            attempt=attempt,
            annotations=annotations or {},
        )
        return await self._observe(trainjob["metadata"]["name"])

    async def open(self, name: str, *, uid: str | None = None) -> Observation:
        """Lets a gated TrainJob run, or queue; one that is open already is left as it is.

        Raises :class:`PodsRemain` while anything of this job, in whichever submission, may still run.
        """
        store = await self._read()
        snapshot = store.snapshot(name)
        if snapshot is None:
            raise NotFound(f"there is no TrainJob {self._namespace}/{name}")
        read = msgspec.to_builtins(snapshot.trainjob.metadata)
        if not opening.is_opened({"metadata": {"annotations": read.get("annotations") or {}}}):
            self._check_others(store, name)
        await self._update(name, functools.partial(opening.to_opened, jobset_uid=_jobset_uid(store, name)), uid)
        return await self._observe(name)

    async def hold(
        self,
        name: str,
        *,
        instance: int,
        who: str,
        reason: str,
        until: datetime | None = None,
        uid: str | None = None,
    ) -> Observation:
        """Suspends a TrainJob until the same instance is released; holding with a lower instance is refused."""
        if instance < 1:
            raise Refused(f"hold instance {instance} is not at least 1")
        keys = opening.hold_keys(instance, who, reason, datetime.now(UTC), until)
        await self._update(name, lambda trainjob: opening.to_held(trainjob, instance, keys), uid)
        return await self._observe(name)

    async def release(self, name: str, *, instance: int, uid: str | None = None) -> Observation:
        """Ends a hold, and lets the TrainJob run again once nothing of its earlier executions may still run."""
        store = await self._read()
        snapshot = store.snapshot(name)
        if snapshot is None:
            raise NotFound(f"there is no TrainJob {self._namespace}/{name}")
        settled = opening.needs_a_second_look(store, name)
        if settled:
            await asyncio.sleep(SETTLING.total_seconds())
            store = await self._read()
        opening.check_nothing_runs(store, f"{self._namespace}/{name}", [name], settled=settled)
        released = functools.partial(opening.to_released, instance=instance, jobset_uid=_jobset_uid(store, name))
        await self._update(name, released, uid)
        return await self._observe(name)

    async def cancel(self, name: str, *, uid: str | None = None) -> None:
        """Deletes a TrainJob, and nothing else of that name: one that is gone, or is another by now, is success."""
        try:
            await self._client.delete(paths.TRAINJOBS, name, self._namespace, uid=uid)
        except NotFound:
            return
        except Refused:
            if uid is None or await self._uid_of(name) == uid:
                raise

    async def report(self, name: str, uid: str, verdict: Cause, ti_id: str) -> None:
        """Notes on a TrainJob that has ended what its end was, and that try ``ti_id`` has taken it.

        A failed one is suspended in the same write: when its JobSet vanishes Trainer would run it again.
        """

        def change(trainjob: dict[str, Any]) -> bool:
            annotations = trainjob["metadata"].setdefault("annotations", {})
            if names.ANNOTATION_REPORTED in annotations:
                return False
            annotations[names.ANNOTATION_REPORTED] = ti_id
            annotations.setdefault(names.ANNOTATION_VERDICT, task.verdict(verdict))
            if verdict.kind is not CauseKind.COMPLETED:
                trainjob["spec"]["suspend"] = True
            return True

        try:
            await self._update(name, change, uid)
        except NotFound:
            return

    # ------------------------------------------------------------ a task's job

    async def submit(self, job: TrainingJob, origin: TaskKey, try_number: int, ti_id: str) -> Submitted:
        """What a try of an Airflow task does (contract, section 13): adopts its job, starts it, or takes its verdict.

        ``ti_id`` is the try's own identity. The new submission is not opened here.
        """
        del ti_id
        digest = task.spec_digest(job)
        store = await self._read()
        trainjobs = self._trainjobs(store, job.job_id)
        for trainjob in trainjobs:
            task.check_origin(trainjob, origin)
        decision = task.decide(trainjobs, digest)
        newest = decision.trainjob
        if decision.action is task.Action.TAKE_VERDICT and newest is not None:
            return Submitted(decision.action.value, await self._observe(newest.metadata.name))
        annotations = {names.ANNOTATION_SPEC_DIGEST: digest, names.ANNOTATION_ORIGIN: task.origin(origin)}
        if decision.action is task.Action.ADOPT and newest is not None:
            submission = parse_name(newest.metadata.name)
            number = submission.number if submission is not None else 1
            await self._finish_start(job, number, newest, annotations)
            return Submitted(decision.action.value, await self._observe(newest.metadata.name))
        for trainjob in trainjobs:
            if decision.action is task.Action.REPLACE or not _suspended(trainjob):
                await self.cancel(trainjob.metadata.name, uid=trainjob.metadata.uid)
        leftovers = store.leftovers()
        everything = (*trainjobs, *leftovers.jobsets, *leftovers.runtimes, *leftovers.pods)
        number = task.next_submission(job.job_id, try_number, everything)
        observation = await self.start(job, submission=number, attempt=try_number, annotations=annotations)
        return Submitted(task.Action.START.value, observation)

    # ------------------------------------------------------------ the inside

    async def _read(self) -> Store:
        return await read_namespace(self._client, self._namespace, self._settings.site)

    async def _observe(self, name: str) -> Observation:
        store = await self._read()
        snapshot = store.snapshot(name)
        if snapshot is None:
            raise NotFound(f"TrainJob {self._namespace}/{name} was deleted")
        return classify(snapshot, datetime.now(UTC))

    async def _update(self, name: str, change: writing.Change, uid: str | None) -> dict[str, Any]:
        return await writing.update(self._client, paths.TRAINJOBS, self._namespace, name, change, uid=uid)

    async def _uid_of(self, name: str) -> str | None:
        try:
            return (await self._client.read(paths.TRAINJOBS, name, self._namespace)).metadata.uid
        except NotFound:
            return None

    async def _finish_start(
        self, job: TrainingJob, number: int, newest: TrainJob, annotations: Mapping[str, str]
    ) -> None:
        """Repeats what a start that was cut off may have left undone: the copy's owner."""
        comment = newest.metadata.annotation(names.ANNOTATION_COMMENT) or ""
        attempt = int(comment.rpartition("=")[2] or 1)
        await start(
            self._client,
            self._namespace,
            self._settings,
            job,
            submission=number,
            attempt=attempt,
            annotations=annotations,
        )

    def _trainjobs(self, store: Store, job_id: str) -> list[TrainJob]:
        snapshots = (store.snapshot(name) for name in store.names_of_job(job_id))
        return [snapshot.trainjob for snapshot in snapshots if snapshot is not None]

    def _check_others(self, store: Store, name: str) -> None:
        """No other submission of the job is live, and nothing of any may still run (contract, section 12)."""
        ref = f"{self._namespace}/{name}"
        submission = parse_name(name)
        if submission is None:
            raise Refused(f"{ref} is no name of a submission")
        own, others = name, [each for each in store.names_of_job(submission.job_id) if each != name]
        for other in self._trainjobs(store, submission.job_id):
            gone = other.metadata.deletion_timestamp is not None
            ended = other.metadata.annotation(names.ANNOTATION_REPORTED) is not None
            if other.metadata.name != own and not gone and not ended:
                raise Unreachable(f"{ref}: submission {other.metadata.name} of the same job is still live")
        opening.check_nothing_runs(store, ref, [own, *others], settled=True)
        running = [
            orphan.ref
            for orphan in orphans(store.leftovers(), datetime.now(UTC))
            if orphan.job_id == submission.job_id and "/pod/" in orphan.ref and orphan.state.value == "running"
        ]
        if running:
            raise PodsRemain(ref, running)


def _jobset_uid(store: Store, name: str) -> str | None:
    snapshot = store.snapshot(name)
    return snapshot.jobset.metadata.uid if snapshot is not None and snapshot.jobset is not None else None


def _suspended(trainjob: TrainJob) -> bool:
    return bool(trainjob.spec.suspend)
