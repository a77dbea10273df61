"""Airflow's side of a job's life: operators on a worker, triggers on a triggerer, each under its own account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.exceptions import (
    TrainJobNonZeroExitError,
    TrainJobTimeoutError,
    TrainJobUnknownError,
    TrainJobWatchError,
)
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import TRAINJOBS
from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.triggers.trainjob import TrainJobTrigger
from tests.suite.workspace import Workspace
from tests.support.accounts import TRIGGERER, WORKER
from tests.support.lines import Lines
from tests.support.tasks import TaskInstance, context_of

Event = dict[str, Any]
SECONDS = 60.0

SLEEP = ["sleep", "300"]


class Airflow:
    """A worker and a triggerer of one Airflow: the same connection id, and each its own service account."""

    def __init__(self, workspace: Workspace, environment: pytest.MonkeyPatch) -> None:
        self.workspace = workspace
        self._environment = environment
        self.lines = Lines()

    def execute(self, operator: Any, task_instance: TaskInstance) -> Any:
        """What a worker does first."""
        self.workspace.act_as(WORKER, self._environment)
        return operator.execute(context_of(task_instance))

    def defer(self, operator: TrainJobOperator, task_instance: TaskInstance | None = None) -> TrainJobTrigger:
        """The trigger that it defers to, as another process makes it from what was stored."""
        with pytest.raises(TaskDeferred) as deferred:
            self.execute(operator, task_instance or TaskInstance())
        trigger = TrainJobTrigger(**deferred.value.trigger.serialize()[1])
        trigger._log = self.lines  # type: ignore[assignment]
        return trigger

    def wait(
        self, *triggers: TrainJobTrigger, meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None
    ) -> Any:
        """The event that each fires on the triggerer, while something is done to the cluster."""
        self.workspace.act_as(TRIGGERER, self._environment)

        async def event(trigger: TrainJobTrigger) -> Event:
            (fired,) = [each async for each in trigger.run()]
            payload: Event = fired.payload
            return payload

        async def main() -> list[Event]:
            waiting = [asyncio.create_task(event(trigger)) for trigger in triggers]
            if meanwhile is not None:
                await meanwhile()
            return await asyncio.wait_for(asyncio.gather(*waiting), SECONDS)

        events = asyncio.run(main())
        return events[0] if len(triggers) == 1 else events

    def complete(self, operator: TrainJobOperator, task_instance: TaskInstance, event: Event) -> dict[str, Any]:
        """What a worker does last."""
        self.workspace.act_as(WORKER, self._environment)
        return operator.execute_complete(context_of(task_instance), event)

    def trainjobs(self) -> list[dict[str, Any]]:
        """All TrainJobs of the namespace, lowest submission first."""

        async def main() -> list[dict[str, Any]]:
            async with await KubeClient.connect(self.workspace.config) as client:
                found = (await client.list(TRAINJOBS, self.workspace.namespace)).items
                return [await client.get(TRAINJOBS, each.metadata.name, each.metadata.namespace) for each in found]

        return sorted(asyncio.run(main()), key=lambda each: str(each["metadata"]["name"]))

    def cancel_all(self) -> None:
        """Leaves nothing running on the nodes that the next test needs."""

        async def main(found: list[dict[str, Any]]) -> None:
            async with self.workspace.administrator() as administrator:
                for each in found:
                    await administrator.cancel(each["metadata"]["name"])

        asyncio.run(main(self.trainjobs()))

    def marks(self) -> dict[str, str]:
        """The annotations of the only TrainJob."""
        (trainjob,) = self.trainjobs()
        found: dict[str, str] = trainjob["metadata"]["annotations"]
        return found

    def wait_until_cancelled(self, name: str) -> None:
        """Returns when a TrainJob is gone: its deletion waits for the controllers."""

        async def main() -> None:
            async with asyncio.timeout(SECONDS), self.workspace.administrator() as administrator:
                while await administrator.inspect(name) is not None:  # noqa: ASYNC110 (each look is a request)
                    await asyncio.sleep(0.05)

        asyncio.run(main())


@pytest.fixture
def airflow(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    running = Airflow(workspace, monkeypatch)
    yield running
    running.cancel_all()


def operator(*argv: str, **fields: Any) -> TrainJobOperator:
    values = {"task_id": "train", "num_nodes": 2, "resources_per_node": {"cpu": "1", "memory": "256Mi"}, **fields}
    return TrainJobOperator(argv=list(argv), **values)


def test_a_task_submits_defers_once_and_returns_the_outcome(airflow: Airflow) -> None:
    task, task_instance = operator("sh", "-c", "echo from rank $PET_NODE_RANK; sleep 1"), TaskInstance()

    trigger = airflow.defer(task, task_instance)
    (trainjob,) = airflow.trainjobs()
    event = airflow.wait(trigger)
    result = airflow.complete(task, task_instance, event)

    assert trainjob["spec"]["suspend"] is False
    assert trainjob["spec"]["trainer"]["numNodes"] == 2
    assert (trigger.name, trigger.uid) == (trainjob["metadata"]["name"], trainjob["metadata"]["uid"])
    assert task_instance.pushed["dispatch_owner"] == trigger.owner == "try-1"
    assert task_instance.pushed["dispatch_job"]["uid"] == trigger.uid
    assert airflow.lines.has("rank 0 | from rank 0")
    assert event["line"].startswith("ended: completed after")
    assert result["cause"]["kind"] == "completed"
    assert airflow.marks()[names.ANNOTATION_REPORTED] == "try-1"


def test_a_rank_that_fails_raises_its_cause_and_brings_its_last_lines(airflow: Airflow) -> None:
    script = 'if [ "$PET_NODE_RANK" = 1 ]; then echo no gradient; sleep 1; exit 3; fi; exec sleep 60'
    task, task_instance = operator("sh", "-c", script), TaskInstance()

    event = airflow.wait(airflow.defer(task, task_instance))
    with pytest.raises(TrainJobNonZeroExitError, match="exit code 3") as failed:
        airflow.complete(task, task_instance, event)

    (trainjob,) = airflow.trainjobs()
    assert failed.value.outcome["cause"]["detail"].startswith(f"pod {trainjob['metadata']['name']}-node-0-1-")
    assert event["output"] == ["no gradient"]
    assert trainjob["spec"]["suspend"] is True
    assert trainjob["metadata"]["annotations"][names.ANNOTATION_REPORTED] == "try-1"


def test_a_try_after_a_crash_adopts_its_own_job(airflow: Airflow) -> None:
    first = airflow.defer(operator(*SLEEP))
    again = airflow.defer(operator(*SLEEP), TaskInstance(try_number=2))

    assert len(airflow.trainjobs()) == 1
    assert first.uid == again.uid


def test_mapped_task_instances_have_jobs_of_their_own(airflow: Airflow) -> None:
    triggers = [airflow.defer(operator("true"), TaskInstance(map_index=index)) for index in range(2)]

    assert len({trigger.job_id for trigger in triggers}) == len(airflow.trainjobs()) == 2
    assert [event["outcome"]["cause"]["kind"] for event in airflow.wait(*triggers)] == ["completed"] * 2


def test_two_triggers_may_wait_for_one_job_at_once(airflow: Airflow) -> None:
    trigger = airflow.defer(operator("sleep", "1"))
    twin = TrainJobTrigger(**trigger.serialize()[1])

    first, second = airflow.wait(trigger, twin)

    assert [first["status"], second["status"]] == ["ended", "ended"]
    assert first["outcome"]["uid"] == second["outcome"]["uid"] == trigger.uid


def test_without_deferring_the_worker_waits_through_the_same_code(airflow: Airflow) -> None:
    first = airflow.defer(operator("true"))
    airflow.wait(first)

    result = airflow.execute(operator("true", deferrable=False), TaskInstance(try_number=2))

    assert result["cause"]["kind"] == "completed"
    assert airflow.marks()[names.ANNOTATION_REPORTED] == "try-2"


def test_a_changed_job_is_opened_by_the_trigger_once_nothing_of_the_old_one_runs(airflow: Airflow) -> None:
    stubborn = operator("sh", "-c", 'trap "sleep 5; exit 0" TERM; while :; do sleep 0.2; done', num_nodes=1)
    name = airflow.defer(stubborn).name
    asyncio.run(airflow.workspace.until_started(name, 1))

    changed = airflow.defer(operator("true", num_nodes=1), TaskInstance(try_number=2))
    gated = [each["spec"]["suspend"] for each in airflow.trainjobs()]
    event = airflow.wait(changed)

    assert gated == [True]
    assert changed.submission == 2
    assert event["outcome"]["cause"]["kind"] == "completed"
    assert airflow.lines.has("waiting for pods of the previous execution to go: ")
    assert airflow.lines.has("opened")


def test_a_job_that_is_deleted_meanwhile_is_gone(airflow: Airflow) -> None:
    task, task_instance = operator(*SLEEP), TaskInstance()
    trigger = airflow.defer(task, task_instance)

    async def delete() -> None:
        await airflow.workspace.until_started(trigger.name, 2)
        async with airflow.workspace.administrator() as administrator:
            await administrator.cancel(trigger.name)

    event = airflow.wait(trigger, meanwhile=delete)

    assert event["status"] == "gone"
    assert event["outcome"]["job_id"] == trigger.job_id
    with pytest.raises(TrainJobUnknownError, match="TrainJob was deleted"):
        airflow.complete(task, task_instance, event)


def test_another_object_of_the_same_name_is_not_the_job(airflow: Airflow) -> None:
    trigger = airflow.defer(operator(*SLEEP))
    trigger.uid = "another"

    assert airflow.wait(trigger)["status"] == "gone"


def test_a_time_out_ends_the_job(airflow: Airflow) -> None:
    task, task_instance = operator(*SLEEP, execution_timeout=timedelta(minutes=1)), TaskInstance()
    trigger = airflow.defer(task, task_instance)
    trigger.deadline_epoch = time.time() + 0.5

    event = airflow.wait(trigger)
    with pytest.raises(TrainJobTimeoutError, match="execution_timeout of 60 s has passed"):
        airflow.complete(task, task_instance, event)

    airflow.wait_until_cancelled(trigger.name)


def test_a_trigger_that_could_not_watch_leaves_the_job(airflow: Airflow) -> None:
    task, task_instance = operator(*SLEEP), TaskInstance()
    airflow.defer(task, task_instance)
    broken: Event = {"status": "error", "outcome": None, "line": "can't be watched: connection", "output": []}

    with pytest.raises(TrainJobWatchError, match="can't be watched"):
        airflow.complete(task, task_instance, broken)

    assert len(airflow.trainjobs()) == 1


def test_submitting_alone_leaves_the_job_gated_until_another_task_opens_it(airflow: Airflow) -> None:
    submit = SubmitTrainJobOperator(task_id="submit", argv=SLEEP)
    reference = airflow.execute(submit, TaskInstance(task_id="submit"))
    gated = airflow.marks().get(names.ANNOTATION_OPENED)

    opened = airflow.execute(OpenTrainJobOperator(task_id="open", job=reference), TaskInstance(task_id="open"))

    assert gated is None
    assert opened["ref"] == reference["ref"]
    assert airflow.marks()[names.ANNOTATION_OPENED] == "true"


def test_an_unknown_runtime_is_refused_before_anything_is_written(airflow: Airflow) -> None:
    with pytest.raises(InvalidJob, match="'nothing-like-it' is not known here; there are: torch-distributed"):
        airflow.execute(operator("true", runtime="nothing-like-it"), TaskInstance())

    assert airflow.trainjobs() == []
