from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.definitions._internal.types import NOTSET
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError, TaskDeferralTimeout, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import ConfigurationError, InvalidJob
from airflow_dispatch.exceptions import (
    TrainJobInterruptedError,
    TrainJobNodeLostError,
    TrainJobTimeoutError,
    TrainJobUnknownError,
)
from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.triggers.trainjob import TrainJobTrigger
from tests.support.played import PlayedCluster
from tests.support.tasks import TaskInstance, context_of

ARGV = ["python", "train.py"]


def operator(**kwargs: Any) -> TrainJobOperator:
    return TrainJobOperator(**{"task_id": "train", "argv": ARGV, "num_nodes": 2, **kwargs})


def defer(task: TrainJobOperator, task_instance: TaskInstance) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context_of(task_instance))
    return caught.value


def outcome(cluster: PlayedCluster, kind: str, detail: str = "why") -> dict[str, Any]:
    (trainjob,) = cluster.trainjobs
    metadata = trainjob["metadata"]
    return {
        "ref": f"default/{metadata['name']}",
        "uid": metadata["uid"],
        "cause": {"kind": kind, "provenance": "reported", "detail": detail, "at": None},
    }


def event(cluster: PlayedCluster, kind: str, status: str = "ended", output: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "status": status,
        "outcome": outcome(cluster, kind),
        "line": f"ended: {kind}: why",
        "output": list(output),
    }


def marks(cluster: PlayedCluster) -> Mapping[str, str]:
    (trainjob,) = cluster.trainjobs
    found: Mapping[str, str] = trainjob["metadata"]["annotations"]
    return found


def test_it_submits_opens_and_defers_once(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()

    deferred = defer(operator(execution_timeout=timedelta(minutes=5)), task_instance)

    (trainjob,) = cluster.trainjobs
    assert trainjob["spec"]["suspend"] is False
    assert marks(cluster)[names.ANNOTATION_OPENED] == "true"
    assert trainjob["spec"]["trainer"]["args"] == ARGV
    assert trainjob["spec"]["trainer"]["numNodes"] == 2
    assert deferred.method_name == "execute_complete"
    assert deferred.timeout == timedelta(minutes=6)
    assert isinstance(deferred.trigger, TrainJobTrigger)
    kwargs = deferred.trigger.serialize()[1]
    assert (kwargs["name"], kwargs["uid"]) == (trainjob["metadata"]["name"], trainjob["metadata"]["uid"])
    assert kwargs["owner"] == "try-1"
    assert kwargs["deadline_epoch"] == task_instance.start_date.timestamp() + 300
    assert task_instance.pushed["dispatch_owner"] == "try-1"
    assert task_instance.pushed["dispatch_job"]["uid"] == kwargs["uid"]


def test_a_job_that_had_ended_is_not_waited_for(cluster: PlayedCluster) -> None:
    defer(operator(), TaskInstance())
    (trainjob,) = cluster.trainjobs
    cluster.condition("Complete", "AllJobsCompleted", "done", trainjob["metadata"]["name"])

    result = operator().execute(context_of(TaskInstance(try_number=2)))

    assert result["cause"]["kind"] == "completed"
    assert marks(cluster)[names.ANNOTATION_REPORTED] == "try-2"


def test_success_returns_the_outcome_and_reports_the_verdict(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    defer(operator(), task_instance)

    result = operator().execute_complete(context_of(task_instance), event(cluster, "completed"))

    assert result == outcome(cluster, "completed")
    assert marks(cluster)[names.ANNOTATION_REPORTED] == "try-1"
    assert '"completed"' in marks(cluster)[names.ANNOTATION_VERDICT]


def test_a_failure_raises_the_class_of_its_cause_with_the_whole_line(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    defer(operator(), task_instance)
    failed = event(cluster, "node-lost", output=("Traceback", "ValueError: nan"))

    with pytest.raises(TrainJobNodeLostError, match="ended: node-lost: why") as caught:
        operator().execute_complete(context_of(task_instance), failed)

    assert caught.value.outcome == failed["outcome"]
    assert marks(cluster)[names.ANNOTATION_REPORTED] == "try-1"


def test_a_job_that_is_gone_by_then_changes_nothing_of_the_verdict(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    defer(operator(), task_instance)
    failed = event(cluster, "node-lost")
    cluster.delete_trainjobs()

    with pytest.raises(TrainJobNodeLostError):
        operator().execute_complete(context_of(task_instance), failed)


def test_a_cluster_that_is_gone_by_then_changes_nothing_of_the_verdict(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_instance = TaskInstance()
    defer(operator(), task_instance)
    completed = event(cluster, "completed")
    monkeypatch.setenv(
        "AIRFLOW_CONN_KUBERNETES_DEFAULT", '{"conn_type": "kubernetes", "extra": {"kube_config_path": "/no"}}'
    )

    assert operator().execute_complete(context_of(task_instance), completed) == completed["outcome"]


def test_a_time_out_cancels_the_job(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    defer(operator(), task_instance)

    with pytest.raises(TrainJobTimeoutError):
        operator().execute_complete(context_of(task_instance), event(cluster, "timeout", status="timeout"))

    assert cluster.trainjobs == []


def test_no_event_at_all_is_an_unknown_end() -> None:
    with pytest.raises(TrainJobUnknownError, match="without an event"):
        operator().execute_complete(context_of(TaskInstance()), None)


def test_a_triggerer_that_does_not_answer_in_time_ends_the_job_with_what_was_last_known(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    task = operator(execution_timeout=timedelta(minutes=5))
    defer(task, task_instance)
    task_instance.pushed["dispatch_status"] = {"line": "pending: no-capacity", "observation": None}

    with pytest.raises(TrainJobTimeoutError, match="last known: pending: no-capacity") as caught:
        task.resume_execution("__fail__", {"error": "Trigger timeout"}, context_of(task_instance))

    assert isinstance(caught.value.__cause__, TaskDeferralTimeout)
    assert cluster.trainjobs == []


def test_a_trigger_that_broke_leaves_the_job(cluster: PlayedCluster) -> None:
    task_instance = TaskInstance()
    task = operator()
    defer(task, task_instance)

    with pytest.raises(TaskDeferralError):
        task.resume_execution("__fail__", {"error": "Trigger failure"}, context_of(task_instance))

    assert len(cluster.trainjobs) == 1


@pytest.mark.parametrize(("state", "left"), [("failed", 0), ("running", 1), (None, 1)])
def test_a_worker_that_is_told_to_stop_cancels_only_what_a_person_has_ended(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch, state: str | None, left: int
) -> None:
    states = {} if state is None else {"run-1": {"train": state}}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: states))
    defer(operator(), TaskInstance())
    task = operator(deferrable=False)
    task.on_kill()

    with pytest.raises(TrainJobInterruptedError):
        task.execute(context_of(TaskInstance(try_number=2)))

    assert len(cluster.trainjobs) == left


def test_a_time_out_on_the_worker_cancels_the_job(cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    defer(operator(), TaskInstance())

    async def late(*_: object) -> None:
        raise AirflowTaskTimeout

    monkeypatch.setattr(TrainJobTrigger, "wait", late)
    with pytest.raises(TrainJobTimeoutError, match="0:05:00"):
        operator(deferrable=False, execution_timeout=timedelta(minutes=5)).execute(context_of(TaskInstance()))

    assert cluster.trainjobs == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"argv": "python train.py"}, "argv"),
        ({"argv": []}, "argv"),
        ({"num_nodes": 0}, "num_nodes 0"),
        ({"num_nodes": "two"}, "num_nodes 'two'"),
        ({"env": {"DISPATCH_EPOCH": "1"}}, "DISPATCH_"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "kueue.x-k8s.io/"),
        ({"resources_per_node": {"cpu": "much"}}, "cpu"),
    ],
)
def test_a_job_that_can_not_run_is_refused_before_anything_is_sent(
    cluster: PlayedCluster, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        operator(**wrong).execute(context_of(TaskInstance()))

    assert cluster.trainjobs == []


def test_a_deployment_without_a_name_is_refused(cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__DISPATCH__DEPLOYMENT")

    with pytest.raises(ConfigurationError, match="has no name"):
        operator().execute(context_of(TaskInstance()))

    assert cluster.trainjobs == []


def test_an_action_on_kill_that_does_not_exist_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="neither"):
        operator(on_kill_action="explode")


def test_numbers_may_come_out_of_templates(cluster: PlayedCluster) -> None:
    defer(operator(num_nodes="3"), TaskInstance())

    assert cluster.trainjobs[0]["spec"]["trainer"]["numNodes"] == 3


def test_every_templated_field_is_an_attribute() -> None:
    for task in (
        operator(),
        SubmitTrainJobOperator(task_id="s", argv=ARGV),
        OpenTrainJobOperator(task_id="o", job="x"),
    ):
        assert all(getattr(task, field, NOTSET) is not NOTSET for field in task.template_fields)


def test_an_operator_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(operator())).argv == ARGV
