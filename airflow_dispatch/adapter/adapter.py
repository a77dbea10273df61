"""The adapter: one object whose methods are the verbs; each verb has its module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from airflow_dispatch.adapter import (
    cancelling,
    confirming,
    finding,
    hardening,
    holding,
    opening,
    output,
    preflight,
    starting,
    submitting,
    watching,
)
from airflow_dispatch.adapter.report import Finding
from airflow_dispatch.adapter.target import Settings, Target
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, Observation
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube.client import KubeClient

__all__ = ["Adapter"]


class Adapter:
    """What can be done with jobs in one namespace.

    Every method raises from the tree in :mod:`airflow_dispatch.core.errors`. Updates carry UID and resourceVersion;
    what may be repeated is repeated a few times, after reading what became of it.
    """

    def __init__(self, client: KubeClient, namespace: str, settings: Settings | None = None) -> None:
        self._target = Target(client, namespace, settings or Settings())

    async def start(
        self, job: TrainingJob, *, submission: int, attempt: int, annotations: Mapping[str, str] | None = None
    ) -> Observation:
        """Creates the submission, suspended and gated, or finds it; raises :class:`InvalidJob` before any write."""
        return await starting.start(self._target, job, submission, attempt, annotations or {})

    async def open(self, name: str, *, uid: str | None = None) -> Observation:
        """Opens a submission; raises :class:`PodsRemain` while anything else of the job may still run."""
        return await opening.open_trainjob(self._target, name, uid)

    async def hold(
        self, name: str, *, instance: int, who: str, reason: str, until: datetime | None = None, uid: str | None = None
    ) -> Observation:
        """Suspends a submission until :meth:`release`; a lower instance than the one in force is refused."""
        return await holding.hold(self._target, name, holding.Hold(instance, who, reason, until), uid)

    async def release(self, name: str, *, instance: int, uid: str | None = None) -> Observation:
        """Ends a hold; raises :class:`PodsRemain` while pods of the held execution may still run."""
        return await opening.release(self._target, name, instance, uid)

    async def cancel(self, name: str, *, uid: str | None = None) -> None:
        """Deletes a submission; one that is gone, or another object by now, is success."""
        await cancelling.cancel(self._target, name, uid)

    async def find(self, job_id: str) -> list[Observation]:
        """Everything of a job: its TrainJobs, lowest submission first, then orphans."""
        return await finding.find(self._target, job_id)

    async def find_all(self) -> list[Observation]:
        """Everything of every job in the namespace."""
        return await finding.find_all(self._target)

    async def inspect(self, ref_or_name: str) -> Observation | None:
        """One object by reference or name, or None."""
        return await finding.inspect(self._target, ref_or_name)

    def watch(self, job_id: str) -> AsyncIterator[Observation]:
        """Observations of a job's objects as they change, through watches that all callers share."""
        return watching.watch(self._target, job_id)

    async def remember_jobset(self, snapshot: Snapshot) -> None:
        """To be called by who watches: notes the JobSet's UID at its first sight, so that a replacement shows."""
        await watching.remember_jobset(self._target, snapshot)

    def output(
        self,
        name: str,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: datetime | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[str]:
        """The lines of rank 0's log in the current execution; raises :class:`NotFound` when it has no pod."""
        return output.output(self._target, name, output.Wanted(follow, tail_lines, since, limit_bytes))

    async def ceased(self, ref_or_name: str) -> bool | None:
        """Whether every Node it ran on is gone or out of service; None when that can't be known."""
        return await finding.ceased(self._target, ref_or_name)

    async def confirm_ceased(self, job: str, *, who: str, reason: str) -> tuple[str, ...]:
        """Notes an operator's word that the job's vanished pods have ended, and answers which; refuses without any."""
        return await confirming.confirm_ceased(self._target, job, who, reason)

    async def preflight(
        self, runtime: str | None = None, *, role: str | None = None, kueue: bool = False
    ) -> list[Finding]:
        """What keeps a job from running here, on this runtime or on any; writes nothing.

        ``role`` is ``worker`` or ``triggerer``, to ask for the permissions of one of them alone.
        """
        return await preflight.preflight(self._target, preflight.Asked(runtime, role, kueue))

    async def hardened_runtime(self, name: str) -> dict[str, Any]:
        """The safe twin of a runtime, to be created by an administrator; raises :class:`InvalidJob`."""
        return await hardening.hardened_runtime(self._target, name)

    async def submit(self, job: TrainingJob, origin: TaskKey, try_number: int) -> submitting.Submitted:
        """What a try of an Airflow task does first (section 13): start, adopt, replace, or take an end as it is."""
        return await submitting.submit(self._target, job, origin, try_number)

    async def report(self, name: str, uid: str, verdict: Cause, ti_id: str) -> None:
        """Notes on the submission which verdict was taken, and by which task instance."""
        await submitting.report(self._target, name, uid, verdict, ti_id)
