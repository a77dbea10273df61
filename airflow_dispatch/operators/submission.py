"""The first part of a job's life, on the worker: submit it, and open it.

Loaded by the operators when they run, never when a DAG file is parsed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_dispatch.core.errors import InvalidJob, PodsRemain
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Observation, State
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.hooks.reference import JobReference
from airflow_dispatch.triggers.journal import Log

if TYPE_CHECKING:
    from airflow_dispatch.operators.submit import SubmitTrainJobOperator

__all__ = ["job_id", "job_of", "open_job", "origin_of", "submit"]


def origin_of(hook: DispatchHook, task_instance: Any) -> TaskKey:
    """What makes this task instance the same one in every try (contract, section 13)."""
    index = task_instance.map_index
    return TaskKey(
        deployment=hook.deployment,
        dag_id=task_instance.dag_id,
        run_id=task_instance.run_id,
        task_id=task_instance.task_id,
        map_index=-1 if index is None else index,
    )


def job_id(hook: DispatchHook, context: Any) -> str:
    """The JobID of this task instance: the same in every try, on every worker."""
    return job_id_of(origin_of(hook, context["ti"]), context["dag_run"].run_after)


def job_of(operator: SubmitTrainJobOperator, hook: DispatchHook, context: Any) -> TrainingJob:
    """The job that an operator's rendered parameters describe.

    Raises :class:`InvalidJob` when it can't run, and :class:`ConfigurationError` when this deployment has no name.
    """
    return TrainingJob.validated(
        job_id=job_id(hook, context),
        argv=operator.argv,
        runtime=operator.runtime,
        image=operator.image,
        num_nodes=_number("num_nodes", operator.num_nodes),
        num_proc_per_node=_number("num_proc_per_node", operator.num_proc_per_node),
        resources_per_node=operator.resources_per_node,
        env=operator.env,
        work_dir=operator.work_dir,
        time_limit=operator.time_limit,
        labels=operator.labels,
        annotations=operator.annotations,
        unsafe_runtime=operator.unsafe_runtime,
    )


async def submit(hook: DispatchHook, job: TrainingJob, task_instance: Any, log: Log, *, opens: bool) -> Observation:
    """Does what section 13 of the contract says for this try, and opens the job when ``opens``.

    Returns the TrainJob as it stands then: ended when the job of an earlier try has ended and nobody has taken its
    verdict yet. A job that can't be opened yet, since pods of an earlier execution may still run, stays gated.
    """
    async with hook.adapter() as adapter:
        submitted = await adapter.submit(job, origin_of(hook, task_instance), task_instance.try_number)
        observation = submitted.observation
        log.log(logging.INFO, "%s %s: %s, %s", submitted.action, observation.ref, _shape(job), observation.state.value)
        if opens and observation.state is State.GATED:
            try:
                observation = await adapter.open(JobReference.of(observation).name, uid=observation.uid)
            except PodsRemain as error:
                waiting = ", ".join(error.remaining)
                log.log(logging.WARNING, "not opened yet, waiting for pods of the previous execution: %s", waiting)
            else:
                if observation.uid != submitted.observation.uid:
                    log.log(logging.INFO, "adopted %s in its place, from another try at work", observation.ref)
                log.log(logging.INFO, "opened")
        return observation


async def open_job(hook: DispatchHook, reference: JobReference) -> Observation:
    """Opens a job that another task submitted."""
    async with hook.adapter() as adapter:
        return await adapter.open(reference.name, uid=reference.uid or None)


def _shape(job: TrainingJob) -> str:
    nodes = "" if job.num_nodes is None else f"{job.num_nodes} node{'' if job.num_nodes == 1 else 's'}, "
    return f"{nodes}runtime {job.runtime}"


def _number(name: str, value: int | str | None) -> int | None:
    """A number that may have come out of a template as text."""
    if not isinstance(value, str):
        return value
    try:
        return int(value) if value else None
    except ValueError:
        raise InvalidJob(f"{name} {value!r} is not a whole number") from None
