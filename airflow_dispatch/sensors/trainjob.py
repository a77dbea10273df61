"""The sensor: waits for a TrainJob that another task submitted.

Importing this module loads neither a Kubernetes client nor the adapter: a DAG file is parsed often.
"""

# ruff: noqa: PLC0415 - what runs is imported when it runs, to keep parsing cheap
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_dispatch.hooks.bridge import Bridge
from airflow_dispatch.hooks.reference import JobReference

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_dispatch.hooks.dispatch import DispatchHook
    from airflow_dispatch.triggers.journal import Journal

__all__ = ["TrainJobSensor"]


class TrainJobSensor(BaseSensorOperator):
    """Waits until another task's TrainJob has ended; what it does meanwhile is in this task's own log too.

    Succeeds when the job completed, with its outcome as XCom. Any other end raises the subclass of
    :class:`~airflow_dispatch.exceptions.TrainJobError` that stands for its cause; with ``soft_fail`` the task is
    skipped instead. It changes nothing on the cluster: a sensor that times out or is killed leaves the job alone.

    :param job: which one: what :class:`~airflow_dispatch.operators.trainjob.SubmitTrainJobOperator` returned
        (``submit.output``), or ``<namespace>/<name>``, or a name; templated.
    :param namespace: the namespace of a ``job`` that is only a name; None: the connection's; templated.
    :param kubernetes_conn_id: the ``kubernetes`` connection that names the cluster; templated.
    :param deferrable: wait on the triggerer, which is the default whatever ``[operators] default_deferrable`` says;
        False: poke, or reschedule, each ``poke_interval``.
    :param stream_output: show rank 0's output in this task's log as well, when deferrable; default False.

    ``timeout`` is the longest it waits.
    """

    template_fields: Sequence[str] = ("job", "namespace", "kubernetes_conn_id")
    ui_color = "#e4e0f4"

    def __init__(
        self,
        *,
        job: str | Mapping[str, Any] | XComArg,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        deferrable: bool = True,
        stream_output: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job  # rendered by the time it is read
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self.deferrable = deferrable
        self.stream_output = stream_output
        self._bridge = Bridge()
        self._journal: Journal | None = None

    def execute(self, context: Context) -> Any:
        """Waits; returns the outcome of a job that completed."""
        if self.deferrable and not self._has_ended():
            self._defer(context)
        return super().execute(context)

    def _has_ended(self) -> bool:
        """Whether there is nothing left to wait for: then no triggerer is needed."""
        from airflow_dispatch.core.errors import Unreachable
        from airflow_dispatch.core.observation import State

        reference = self._reference()
        try:
            seen = self._bridge.run(self._look(reference))
        except Unreachable as error:
            self.log.warning("the cluster can't be reached from the worker, the triggerer tries again: %s", error)
            return False
        return seen is None or reference.uid not in ("", seen.uid) or seen.state is State.ENDED

    def _defer(self, context: Context) -> NoReturn:
        from airflow_dispatch.triggers.status import OWNER_KEY
        from airflow_dispatch.triggers.trainjob import TrainJobTrigger

        reference = self._reference()
        owner = str(context["ti"].id)
        context["ti"].xcom_push(key=OWNER_KEY, value=owner)
        self.defer(
            trigger=TrainJobTrigger(
                kubernetes_conn_id=self.kubernetes_conn_id,
                namespace=reference.namespace,
                name=reference.name,
                uid=reference.uid,
                job_id=reference.job_id,
                submission=reference.submission,
                owner=owner,
                on_kill_action="leave",
                stream_output=self.stream_output,
            ),
            method_name=self.execute_complete.__name__,
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Ends the task as the trigger's event says, see :mod:`airflow_dispatch.triggers.event`."""
        from airflow_dispatch.triggers.outcome import raise_or_return

        return raise_or_return(event, self.log)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002 (Airflow's signature)
        """One look at the job: logs what changed since the last one."""
        from airflow_dispatch.core.observation import State
        from airflow_dispatch.triggers.event import gone
        from airflow_dispatch.triggers.journal import Journal
        from airflow_dispatch.triggers.outcome import event_of, raise_or_return

        reference, now = self._reference(), datetime.now(UTC)
        seen = self._bridge.run(self._look(reference))
        if seen is None or (reference.uid and seen.uid != reference.uid):
            seen = gone(reference.ref, reference.job_id, reference.submission, reference.uid, now)
        self._journal = self._journal or Journal(self.log)
        self._journal.observe(seen, now)
        if seen.state is not State.ENDED:
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=raise_or_return(event_of(seen), self.log, repeat=False))

    def on_kill(self) -> None:
        """Stops what the worker does, and nothing else."""
        self._bridge.stop()

    async def _look(self, reference: JobReference) -> Any:
        async with self._hook(reference.namespace).adapter() as adapter:
            return await adapter.inspect(reference.name)

    def _reference(self) -> JobReference:
        return JobReference.parse(self.job, self._hook(self.namespace or None).namespace)

    def _hook(self, namespace: str | None) -> DispatchHook:
        from airflow_dispatch.hooks.dispatch import DispatchHook

        return DispatchHook(self.kubernetes_conn_id, namespace=namespace)
