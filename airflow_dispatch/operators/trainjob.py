"""Operators that run multi-node training as Kubeflow TrainJobs.

Importing this module loads neither a Kubernetes client nor the adapter: a DAG file is parsed often.
"""

# ruff: noqa: PLC0415 - what runs is imported when it runs, to keep parsing cheap
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError, TaskDeferralTimeout

from airflow_dispatch.exceptions import TrainJobInterruptedError, TrainJobTimeoutError
from airflow_dispatch.hooks.bridge import Bridge
from airflow_dispatch.hooks.reference import JobReference
from airflow_dispatch.operators.submit import SubmitTrainJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_dispatch.triggers.trainjob import TrainJobTrigger

__all__ = ["OpenTrainJobOperator", "SubmitTrainJobOperator", "TrainJobOperator"]

BACKSTOP: Final = timedelta(seconds=60)
"""How much later than the trigger's own deadline Airflow gives up a trigger that does not answer."""


class TrainJobOperator(SubmitTrainJobOperator):
    """Runs a TrainJob to its end: submits it gated, opens it, waits, and returns its outcome.

    The task defers once for the whole job. While it waits on the triggerer, every change and stall is in its log, with
    rank 0's output. A TrainJob that completed gives its outcome as the task's XCom (an observation as plain JSON, with
    ``ref``, ``cause`` and the rest); any other end raises the subclass of
    :class:`~airflow_dispatch.exceptions.TrainJobError` that stands for its cause.

    The task's ``execution_timeout`` limits the whole try, queueing included; when it has passed, the job is cancelled
    and :class:`~airflow_dispatch.exceptions.TrainJobTimeoutError` raised.

    Beside the parameters of :class:`SubmitTrainJobOperator`:

    :param deferrable: wait on the triggerer, which is the default whatever ``[operators] default_deferrable`` says;
        False: wait in the worker, through the same code.
    :param on_kill_action: what becomes of the job when a person, or ``dagrun_timeout``, ends the task while it waits:
        ``cancel`` (default) deletes it, ``leave`` leaves it running. A worker or triggerer that stops or restarts, and
        a task that is cleared, never end a job.
    :param stream_output: show rank 0's output in the task's log, at most 100 lines each five seconds.
    """

    def __init__(
        self,
        *,
        deferrable: bool = True,
        on_kill_action: str = "cancel",
        stream_output: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_kill_action not in ("cancel", "leave"):
            raise ValueError(f"on_kill_action {on_kill_action!r} is neither 'cancel' nor 'leave'")
        self.deferrable = deferrable
        self.on_kill_action = on_kill_action
        self.stream_output = stream_output

    def execute(self, context: Context) -> dict[str, Any]:
        """Submits, opens and waits; raises what the classes describe."""
        try:
            return self._run(context)
        except TrainJobInterruptedError:
            self._after_stop(context)
            raise
        except AirflowTaskTimeout as error:
            self._cancel(context)
            raise TrainJobTimeoutError(
                f"execution_timeout of {self.execution_timeout} has passed on the worker; the job is cancelled"
            ) from error

    def _run(self, context: Context) -> dict[str, Any]:
        from airflow.sdk.serde import serialize

        from airflow_dispatch.core.observation import State
        from airflow_dispatch.triggers.outcome import event_of

        # What Airflow could not store shows before anything is sent, not after.
        serialize(self._trigger(JobReference("", ""), context).serialize()[1])
        observation = self._submit(context, opens=True)
        if observation.state is State.ENDED:
            return self.execute_complete(context, event_of(observation))
        trigger = self._trigger(JobReference.of(observation), context)
        if self.deferrable:
            timeout = None if self.execution_timeout is None else self.execution_timeout + BACKSTOP
            self.defer(trigger=trigger, method_name=self.execute_complete.__name__, timeout=timeout)
        return self.execute_complete(context, self._bridge.run(trigger.wait(context["ti"])))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ends the task as the trigger's event says; the object itself need not be there any more.

        ``event`` has the shape described in :mod:`airflow_dispatch.triggers.event`.
        """
        from airflow_dispatch.operators.outcome import settle
        from airflow_dispatch.triggers.outcome import raise_or_return

        if event is not None:
            self._bridge.run(settle(self._hook(), event, str(context["ti"].id), self.log))
        return raise_or_return(event, self.log)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow's entry on resume, also when it gave the trigger up: then with what was last known of the job."""
        from airflow_dispatch.triggers.status import STATUS_KEY

        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            last = context["ti"].xcom_pull(key=STATUS_KEY) or {}
            self._cancel(context)
            raise TrainJobTimeoutError(
                f"execution_timeout of {self.execution_timeout} has passed and the triggerer did not answer; "
                f"last known: {last.get('line') or 'nothing'}",
                last.get("observation"),
            ) from error
        except TaskDeferralError:
            last = context["ti"].xcom_pull(key=STATUS_KEY) or {}
            self.log.warning(
                "the trigger broke, the job is left as it is; last known: %s", last.get("line") or "nothing"
            )
            raise

    def _trigger(self, reference: JobReference, context: Context) -> TrainJobTrigger:
        from airflow_dispatch.triggers.trainjob import TrainJobTrigger

        task_instance = context["ti"]
        limit = None if self.execution_timeout is None else self.execution_timeout.total_seconds()
        return TrainJobTrigger(
            kubernetes_conn_id=self.kubernetes_conn_id,
            namespace=reference.namespace,
            name=reference.name,
            uid=reference.uid,
            job_id=reference.job_id,
            submission=reference.submission,
            owner=str(task_instance.id),
            opens=True,
            deadline_epoch=None if limit is None else task_instance.start_date.timestamp() + limit,
            time_limit=limit,
            on_kill_action=self.on_kill_action,
            stream_output=self.stream_output,
        )

    def _after_stop(self, context: Context) -> None:
        """The worker was told to stop: the job ends only when a person, or a time limit, has ended the task."""
        from airflow_dispatch.triggers.status import TaskReference, killed_by_a_person

        if self.on_kill_action != "cancel":
            return
        task_instance = context["ti"]
        state = TaskReference.of(task_instance, str(task_instance.id)).state_now()
        if killed_by_a_person(state):
            self.log.warning("the task was marked %s", state)
            self._cancel(context)

    def _cancel(self, context: Context) -> None:
        from airflow_dispatch.operators.outcome import cancel_live
        from airflow_dispatch.operators.submission import job_id

        hook = self._hook()
        self._bridge.run(cancel_live(hook, job_id(hook, context), self.log), even_if_stopped=True)


class OpenTrainJobOperator(BaseOperator):
    """Opens a TrainJob that another task has submitted: from then on it runs, or queues.

    Opening one that is open already does nothing. Returns the observation as plain JSON. Raises
    :class:`~airflow_dispatch.core.errors.PodsRemain` while pods of an earlier execution may still run: give the task
    retries; ``NotFound`` when there is no such TrainJob, and ``Refused`` when it is another one by now.

    :param job: which one: what :class:`SubmitTrainJobOperator` returned (``submit.output``), or
        ``<namespace>/<name>``, or a name; templated.
    :param namespace: the namespace of a ``job`` that is only a name; None: the connection's; templated.
    :param kubernetes_conn_id: the ``kubernetes`` connection that names the cluster; templated.
    """

    template_fields: Sequence[str] = ("job", "namespace", "kubernetes_conn_id")
    ui_color = "#dbe7f5"

    def __init__(
        self,
        *,
        job: str | Mapping[str, Any] | XComArg,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job  # rendered by the time it is read
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self._bridge = Bridge()

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 (Airflow's signature)
        """Opens the job."""
        from airflow_dispatch.hooks.dispatch import DispatchHook
        from airflow_dispatch.operators.submission import open_job
        from airflow_dispatch.triggers.outcome import to_xcom

        named = DispatchHook(self.kubernetes_conn_id, namespace=self.namespace or None)
        reference = JobReference.parse(self.job, named.namespace)
        hook = DispatchHook(self.kubernetes_conn_id, namespace=reference.namespace)
        observation = self._bridge.run(open_job(hook, reference))
        self.log.info("opened %s: %s", observation.ref, observation.state.value)
        return to_xcom(observation)

    def on_kill(self) -> None:
        """Stops what the worker does; see :meth:`SubmitTrainJobOperator.on_kill`."""
        self._bridge.stop()
