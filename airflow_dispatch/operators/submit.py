"""The operator that submits a TrainJob and does not wait: the base of the one that does."""

# ruff: noqa: PLC0415 - what runs is imported when it runs, to keep parsing cheap
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator

from airflow_dispatch.hooks.bridge import Bridge
from airflow_dispatch.hooks.reference import JobReference

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_dispatch.core.observation import Observation
    from airflow_dispatch.hooks.dispatch import DispatchHook

__all__ = ["SubmitTrainJobOperator"]

REFERENCE_KEY: Final = "dispatch_job"
"""XCom of the task instance: which TrainJob it has submitted or adopted."""


class SubmitTrainJobOperator(BaseOperator):
    """Submits a TrainJob, gated: nothing runs until it is opened.

    The job's identity is that of the task instance (contract, section 13): however often the task is tried, on
    whichever worker, it finds and adopts its own job instead of making a second one. Returns the job's reference as
    XCom, also under the key ``dispatch_job``: ``ref`` (``<namespace>/<name>``), ``namespace``, ``name``, ``uid``,
    ``job_id`` and ``submission``.

    Raises :class:`~airflow_dispatch.core.errors.InvalidJob` for a job that can't run, before anything is sent;
    ``ConfigurationError`` when no cluster is named or it can't be read, and when this deployment has no name;
    ``Forbidden`` naming the verb and the resource; ``Unreachable`` when the cluster does not answer.

    All parameters that describe the job are templated.

    :param argv: the command of every rank, a list: program and arguments, run as they are without a shell.
    :param runtime: name of the ClusterTrainingRuntime, or of a TrainingRuntime in the job's namespace, to build on.
    :param image: container image of the ranks; None: the runtime's.
    :param num_nodes: how many ranks, one pod each; at least 1; None: the runtime's.
    :param num_proc_per_node: processes that each rank starts; at least 1; None: the runtime's.
    :param resources_per_node: resources of each rank in Kubernetes' quantities, such as
        ``{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1}``, requested and limited alike; or apart, under the keys
        ``requests`` and ``limits``; None: the runtime's.
    :param env: environment variables of the ranks, text to text. Names under ``DISPATCH_`` are taken.
    :param work_dir: the absolute path of the directory in which ``argv`` starts; None: the image's.
    :param time_limit: the longest the job may run once it runs, a timedelta or whole seconds of at least 1, kept by
        Trainer (``activeDeadlineSeconds``). The task's ``execution_timeout`` limits the whole try, queueing included.
    :param labels: labels of the TrainJob. Prefixes of dispatch, Kueue, Trainer and JobSet are refused.
    :param annotations: annotations of the TrainJob, likewise.
    :param unsafe_runtime: what to do with a runtime that could start a second execution beside a running one:
        ``refuse``, ``harden`` the job's own copy, or ``allow``; None: the connection's, else ``refuse``.
    :param namespace: where the job lives; None: the connection's.
    :param kubernetes_conn_id: the ``kubernetes`` connection that names the cluster. Worker and triggerer must know it.
    """

    template_fields: Sequence[str] = (
        "argv",
        "runtime",
        "image",
        "num_nodes",
        "num_proc_per_node",
        "resources_per_node",
        "env",
        "work_dir",
        "labels",
        "annotations",
        "namespace",
        "kubernetes_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "argv": "json",
        "resources_per_node": "json",
        "env": "json",
        "labels": "json",
        "annotations": "json",
    }
    ui_color = "#dbe7f5"

    def __init__(
        self,
        *,
        argv: Sequence[str],
        runtime: str = "torch-distributed",
        image: str | None = None,
        num_nodes: int | str | None = None,
        num_proc_per_node: int | str | None = None,
        resources_per_node: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        work_dir: str | None = None,
        time_limit: timedelta | float | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        unsafe_runtime: str | None = None,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.argv = argv
        self.runtime = runtime
        self.image = image
        self.num_nodes = num_nodes
        self.num_proc_per_node = num_proc_per_node
        self.resources_per_node = resources_per_node
        self.env = env
        self.work_dir = work_dir
        self.time_limit = time_limit
        self.labels = labels
        self.annotations = annotations
        self.unsafe_runtime = unsafe_runtime
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self._bridge = Bridge()

    def execute(self, context: Context) -> dict[str, Any]:
        """Submits the job and returns its reference; raises what the class describes."""
        return JobReference.of(self._submit(context, opens=False)).to_xcom()

    def on_kill(self) -> None:
        """Stops what the worker does. Airflow lets ``execute`` go on after this, so it raises by itself."""
        self._bridge.stop()

    def _hook(self) -> DispatchHook:
        from airflow_dispatch.hooks.dispatch import DispatchHook

        return DispatchHook(self.kubernetes_conn_id, namespace=self.namespace or None)

    def _submit(self, context: Context, *, opens: bool) -> Observation:
        """Submits; publishes before it which try this is, and after it which job it has."""
        from airflow_dispatch.operators.submission import job_of, submit
        from airflow_dispatch.triggers.status import OWNER_KEY

        task_instance = context["ti"]
        hook = self._hook()
        job = job_of(self, hook, context)
        task_instance.xcom_push(key=OWNER_KEY, value=str(task_instance.id))
        observation = self._bridge.run(submit(hook, job, task_instance, self.log, opens=opens))
        task_instance.xcom_push(key=REFERENCE_KEY, value=JobReference.of(observation).to_xcom())
        return observation
