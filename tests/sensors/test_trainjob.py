from __future__ import annotations

import pytest
from airflow.sdk import PokeReturnValue
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_dispatch.core.errors import InvalidJob, Unreachable
from airflow_dispatch.exceptions import TrainJobUnknownError
from airflow_dispatch.sensors.trainjob import TrainJobSensor
from tests.support.played import NAME, PlayedCluster
from tests.support.tasks import TaskInstance, context_of


def poked(sensor: TrainJobSensor) -> PokeReturnValue:
    return sensor.poke(context_of(TaskInstance(task_id="watch")))


def test_it_defers_and_may_neither_open_nor_cancel(cluster: PlayedCluster) -> None:
    cluster.create_trainjob()
    sensor = TrainJobSensor(task_id="watch", job={"ref": f"default/{NAME}", "uid": cluster.uid}, timeout=60)

    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(context_of(TaskInstance(task_id="watch")))

    kwargs = caught.value.trigger.serialize()[1]
    assert (kwargs["name"], kwargs["uid"]) == (NAME, cluster.uid)
    assert (kwargs["opens"], kwargs["on_kill_action"]) == (False, "leave")
    assert caught.value.timeout.total_seconds() == 60


def test_a_job_that_has_ended_needs_no_triggerer(cluster: PlayedCluster) -> None:
    cluster.create_trainjob()
    cluster.condition("Complete", "AllJobsCompleted", "done")
    sensor = TrainJobSensor(task_id="watch", job=NAME, timeout=60)

    task_instance = TaskInstance(task_id="watch")
    assert sensor.execute(context_of(task_instance))["cause"]["kind"] == "completed"


def test_a_cluster_that_the_worker_can_not_reach_is_left_to_the_triggerer(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_trainjob()
    sensor = TrainJobSensor(task_id="watch", job={"ref": f"default/{NAME}", "uid": cluster.uid}, timeout=60)

    async def unreachable(*_: object) -> None:
        raise Unreachable("503")

    monkeypatch.setattr(sensor, "_look", unreachable)
    with pytest.raises(TaskDeferred):
        sensor.execute(context_of(TaskInstance(task_id="watch")))


def test_a_poke_says_whether_the_job_has_ended(cluster: PlayedCluster) -> None:
    cluster.create_trainjob()
    sensor = TrainJobSensor(task_id="watch", job=NAME, deferrable=False)

    before = poked(sensor)
    cluster.condition("Complete", "AllJobsCompleted", "done")
    after = poked(sensor)

    assert not before.is_done
    assert after.is_done
    assert after.xcom_value is not None
    assert after.xcom_value["cause"]["kind"] == "completed"


def test_a_job_that_failed_raises_its_cause(cluster: PlayedCluster) -> None:
    cluster.create_trainjob()
    cluster.condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")

    with pytest.raises(TrainJobUnknownError, match="no pod evidence was captured"):
        poked(TrainJobSensor(task_id="watch", job=NAME, deferrable=False))


@pytest.mark.parametrize("uid", ["", "another"])
def test_a_job_that_is_not_there_was_deleted(cluster: PlayedCluster, uid: str) -> None:
    if uid:
        cluster.create_trainjob()
    sensor = TrainJobSensor(task_id="watch", job={"ref": f"default/{NAME}", "uid": uid}, deferrable=False)

    with pytest.raises(TrainJobUnknownError, match="TrainJob was deleted"):
        poked(sensor)


def test_with_soft_fail_a_failed_job_skips_the_task() -> None:
    sensor = TrainJobSensor(task_id="watch", job=NAME, soft_fail=True)
    failed = {
        "status": "ended",
        "outcome": {"ref": f"default/{NAME}", "cause": {"kind": "node-lost"}},
        "line": "ended: node-lost",
        "output": [],
    }

    with pytest.raises(AirflowSkipException):
        sensor.resume_execution("execute_complete", {"event": failed}, context_of(TaskInstance(task_id="watch")))


def test_a_job_that_is_no_name_is_refused(cluster: PlayedCluster) -> None:
    with pytest.raises(InvalidJob, match="names no TrainJob"):
        poked(TrainJobSensor(task_id="watch", job="train", deferrable=False))

    assert cluster.trainjobs == []
