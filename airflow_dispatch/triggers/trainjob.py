"""The trigger: waits for a TrainJob on the triggerer, and fires one event."""

# ruff: noqa: PLC0415 - what runs is imported when it runs, to keep parsing cheap
from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["TrainJobTrigger"]

_KILL_SECONDS: Final = 20.0
"""Airflow gives ``on_kill`` thirty seconds by default."""


class TrainJobTrigger(BaseTrigger):
    """Waits until a TrainJob has ended, and logs what it does into the task's log.

    Airflow stores the arguments in its database as they are, so they are plain JSON values without any secret: the
    cluster is named by its connection, which the triggerer must know. Each has a default, and unknown ones are
    ignored, so rows written by an older or newer version can be read.

    :param kubernetes_conn_id: the connection that names the cluster.
    :param namespace: the TrainJob's namespace.
    :param name: the TrainJob's name.
    :param uid: its UID: an object of that name with another UID is another object.
    :param job_id: its JobID.
    :param submission: its submission number.
    :param owner: the ``ti.id`` of the try that waits; empty: nothing is published as XCom.
    :param opens: open the job when it is still gated.
    :param deadline_epoch: seconds since 1970 at which the task's ``execution_timeout`` is over; None: no limit.
    :param time_limit: the ``execution_timeout`` in seconds, for the message.
    :param on_kill_action: ``cancel``: a person who ends the task ends the job; ``leave``: the job goes on.
    :param stream_output: show rank 0's output in the task's log.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str = "default",
        name: str = "",
        uid: str = "",
        job_id: str = "",
        submission: int = 0,
        owner: str = "",
        opens: bool = False,
        deadline_epoch: float | None = None,
        time_limit: float | None = None,
        on_kill_action: str = "leave",
        stream_output: bool = True,
        **_ignored: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.job_id = job_id
        self.submission = submission
        self.owner = owner
        self.opens = opens
        self.deadline_epoch = deadline_epoch
        self.time_limit = time_limit
        self.on_kill_action = on_kill_action
        self.stream_output = stream_output
        self._fired = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class's path and the arguments above."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "kubernetes_conn_id": self.kubernetes_conn_id,
                "namespace": self.namespace,
                "name": self.name,
                "uid": self.uid,
                "job_id": self.job_id,
                "submission": self.submission,
                "owner": self.owner,
                "opens": self.opens,
                "deadline_epoch": self.deadline_epoch,
                "time_limit": self.time_limit,
                "on_kill_action": self.on_kill_action,
                "stream_output": self.stream_output,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fires one event, as :mod:`airflow_dispatch.triggers.event` describes it, and returns at once."""
        event = await self.wait()
        self._fired = True
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def wait(self, task_instance: Any = None) -> dict[str, Any]:
        """The wait itself, for a worker that does not defer too; ``task_instance`` is then the worker's."""
        # Their first import takes more than a second: not in the event loop that all triggers share.
        await asyncio.to_thread(importlib.import_module, "airflow_dispatch.triggers.follow")
        from airflow_dispatch.hooks.dispatch import DispatchHook
        from airflow_dispatch.triggers.follow import Follower, Waited

        waited = Waited(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            job_id=self.job_id,
            submission=self.submission,
            opens=self.opens,
            deadline=None if self.deadline_epoch is None else datetime.fromtimestamp(self.deadline_epoch, UTC),
            time_limit=self.time_limit,
            stream_output=self.stream_output,
        )
        hook = DispatchHook(self.kubernetes_conn_id, namespace=self.namespace)
        return await Follower(hook, waited, self.log, self._task(task_instance)).wait()

    async def on_kill(self) -> None:
        """Cancels the job, by name and UID, when a person or ``dagrun_timeout`` has ended the task.

        Airflow also calls this when a stalled triggerer has lost its triggers to another one and when a task is
        cleared, so the task's state decides; when it can't be read, nothing is done.
        """
        if self._fired or self.on_kill_action != "cancel":
            return
        from airflow_dispatch.triggers.status import killed_by_a_person

        task = self._task(None)
        if task is None:
            self.log.warning("%s is left as it is: whether the task was ended by a person can't be told", self._ref)
            return
        async with asyncio.timeout(_KILL_SECONDS):
            state = await task.state()
            if not killed_by_a_person(state):
                self.log.info("%s is left as it is: the task is %s", self._ref, state or "to be run again")
                return
            await self._cancel(state)

    async def _cancel(self, state: str | None) -> None:
        from airflow_dispatch.core.errors import DispatchError
        from airflow_dispatch.core.observation import State
        from airflow_dispatch.hooks.dispatch import DispatchHook

        try:
            async with DispatchHook(self.kubernetes_conn_id, namespace=self.namespace).adapter() as adapter:
                seen = await adapter.inspect(self.name)
                if seen is None or seen.uid != self.uid or seen.state is State.ENDED:
                    self.log.info("%s has ended already; the task was marked %s", self._ref, state)
                    return
                await adapter.cancel(self.name, uid=self.uid)
        except DispatchError as error:
            self.log.warning("%s could not be cancelled, it may run on: %s", self._ref, error)
            return
        self.log.warning("cancelled %s: the task was marked %s", self._ref, state)

    @property
    def _ref(self) -> str:
        return f"{self.namespace}/{self.name}"

    def _task(self, task_instance: Any) -> Any:
        """Where to publish and whose state to read; None under ``dag.test()``, which sets no task instance."""
        from airflow_dispatch.triggers.status import TaskReference

        instance = task_instance or self.task_instance
        return None if instance is None or not self.owner else TaskReference.of(instance, self.owner)
