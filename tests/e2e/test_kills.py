"""Who ends a task, and who must not: people, triggerers that stop, triggerers that die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demo.airflow import Airflow
from demo.services import free_port, wait_for
from tests.support.e2e import Cluster, Run

pytestmark = pytest.mark.timeout(120)


def test_marking_a_deferred_task_failed_ends_its_trainjob(
    cluster: Cluster, airflow: Airflow, start: Callable[[str], Run]
) -> None:
    run = start("train")
    run.until_logged("rank 0 | step 1")
    [uid] = cluster.uids_of(run)
    airflow.mark("train", run.run_id, "train", "failed")

    def deleted() -> bool:
        return any(seen.type == "DELETED" and seen.uid == uid for seen in cluster.trainjobs)

    wait_for("the TrainJob's end", deleted, [cluster.service], 30)
    wait_for("the pods' end", lambda: not cluster.pods(run), [cluster.service], 45)
    run.until_logged("the task was marked failed")


def test_a_triggerer_that_is_restarted_ends_nothing(
    cluster: Cluster, airflow: Airflow, start: Callable[[str], Run]
) -> None:
    run = start("train")
    run.until_logged("rank 0 | step 1")
    airflow.stop_part("triggerer")
    assert run.state() == "deferred"
    airflow.start_part("triggerer")
    _goes_on_and_ends_well(cluster, run)


def test_a_triggerer_that_is_killed_is_replaced_and_the_outcome_is_right(
    cluster: Cluster, airflow: Airflow, start: Callable[[str], Run]
) -> None:
    run = start("train")
    run.until_logged("rank 0 | step 1")
    airflow.kill_part("triggerer")
    port = {"AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port())}
    airflow.start_part("triggerer", environment=port)
    _goes_on_and_ends_well(cluster, run)


def _goes_on_and_ends_well(cluster: Cluster, run: Run) -> None:
    """The output goes on in the log, the task succeeds, and one TrainJob existed, never touched by a kill."""
    step = int((run.folder / "checkpoint").read_text()) + 1
    run.until_logged(f"rank 0 | step {step}")
    run.until_deferred()
    run.tell("finish")
    run.until("success")
    assert len(cluster.uids_of(run)) == 1
    assert sum("ended: completed" in line for line in run.lines()) in (1, 2)
    assert not [line for line in run.lines() if "cancelled" in line]
