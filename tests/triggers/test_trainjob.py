from __future__ import annotations

import asyncio
import inspect
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.serde import deserialize, serialize

from airflow_dispatch.triggers.status import KILLED_STATES, TaskReference
from airflow_dispatch.triggers.trainjob import TrainJobTrigger
from tests.support.lines import Lines
from tests.support.played import NAME, PlayedCluster

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def event_of(trigger: TrainJobTrigger, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
    """The events of a trigger, which must be one, while the test does something to the cluster."""

    async def run() -> list[dict[str, Any]]:
        async def collect() -> list[dict[str, Any]]:
            return [event.payload async for event in trigger.run()]

        waiting = asyncio.create_task(collect())
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile)
        return await asyncio.wait_for(waiting, 30)

    (event,) = asyncio.run(run())
    return event


def test_its_arguments_are_plain_json_and_come_back_as_they_were() -> None:
    path, kwargs = TrainJobTrigger(name=NAME, uid="u-1", deadline_epoch=1.5, opens=True).serialize()

    assert path == "airflow_dispatch.triggers.trainjob.TrainJobTrigger"
    assert deserialize(json.loads(json.dumps(serialize(kwargs)))) == kwargs
    assert TrainJobTrigger(**kwargs).serialize() == (path, kwargs)


def test_every_argument_has_a_default_and_unknown_ones_are_ignored() -> None:
    parameters = inspect.signature(TrainJobTrigger).parameters.values()

    assert all(each.default is not each.empty for each in parameters if each.kind is each.KEYWORD_ONLY)
    assert "future" not in TrainJobTrigger(name=NAME, future=True).serialize()[1]


def test_a_job_that_has_completed_gives_its_outcome_at_once(cluster: PlayedCluster) -> None:
    cluster.condition("Complete", "AllJobsCompleted", "jobset completed successfully")

    event = event_of(cluster.trigger())

    assert event["status"] == "ended"
    assert event["outcome"]["cause"]["kind"] == "completed"
    assert event["line"].startswith("ended: completed")
    assert "jobset completed successfully" in event["line"]


def test_rank_0s_output_is_in_the_log_set_apart(cluster: PlayedCluster) -> None:
    name = cluster.pod(0, RUNNING, "Running")
    trigger, lines = cluster.trigger(), Lines()
    trigger._log = lines  # type: ignore[assignment]

    def complete_when_shown() -> None:
        lines.wait_for("rank 0 | node 3")
        cluster.condition("Complete", "AllJobsCompleted", "done")

    event_of(trigger, complete_when_shown)

    shown = [line for line in lines.texts if line.startswith("rank 0 | ")]
    assert shown == ["rank 0 | node 0", "rank 0 | node 1", "rank 0 | node 2", f"rank 0 | node 3 of {name}"]


def test_the_tasks_time_is_up(cluster: PlayedCluster) -> None:
    event = event_of(cluster.trigger(deadline_epoch=time.time() + 0.5, time_limit=60.0))

    assert event["status"] == "timeout"
    assert event["outcome"]["cause"]["kind"] == "timeout"
    assert "execution_timeout of 60 s has passed" in event["line"]
    assert cluster.exists


def test_a_triggerer_that_does_not_know_the_connection_says_which_host_it_is() -> None:
    event = event_of(TrainJobTrigger(kubernetes_conn_id="elsewhere", namespace="ml", name=NAME, uid="u-1"))

    assert event["status"] == "error"
    assert f"connection 'elsewhere' is not known on host {socket.gethostname()}" in event["line"]


def test_a_kubeconfig_that_is_not_there_is_named_with_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    missing = tmp_path / "missing"
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(missing)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))

    event = event_of(TrainJobTrigger(name=NAME, uid="u-1"))

    assert event["status"] == "error"
    assert f"no kubeconfig at {missing} on host {socket.gethostname()}" in event["line"]


class Instance:
    """A trigger's task instance as far as it is looked at."""

    dag_id, run_id, task_id, map_index = "dag", "run", "train", -1


def kill(trigger: TrainJobTrigger, state: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskReference, "state_now", lambda _: state)
    trigger._task_instance = Instance()
    asyncio.run(trigger.on_kill())


@pytest.mark.parametrize("state", sorted(KILLED_STATES))
def test_a_person_who_ends_the_task_ends_the_job(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    kill(cluster.trigger(owner="try-1", on_kill_action="cancel"), state, monkeypatch)

    assert not cluster.exists


@pytest.mark.parametrize("state", ["deferred", "running", None, "scheduled", "queued", "restarting", "up_for_retry"])
def test_a_task_that_goes_on_elsewhere_leaves_its_job_alone(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    kill(cluster.trigger(owner="try-1", on_kill_action="cancel"), state, monkeypatch)

    assert cluster.exists


@pytest.mark.parametrize(
    "changes", [{"on_kill_action": "leave"}, {"uid": "another"}, {"owner": ""}], ids=["leave", "other uid", "no task"]
)
def test_what_was_killed_is_not_cancelled_when(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    kill(cluster.trigger(**{"owner": "try-1", "on_kill_action": "cancel", **changes}), "failed", monkeypatch)

    assert cluster.exists


def test_a_trigger_that_has_fired_cancels_nothing(cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.condition("Complete", "AllJobsCompleted", "done")
    trigger = cluster.trigger(owner="", on_kill_action="cancel")
    event_of(trigger)
    trigger.owner = "try-1"

    kill(trigger, "success", monkeypatch)

    assert cluster.exists


def test_cleanup_touches_nothing(cluster: PlayedCluster) -> None:
    asyncio.run(cluster.trigger(on_kill_action="cancel").cleanup())

    assert cluster.exists
