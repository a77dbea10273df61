"""Jobs through a real Airflow to their ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from demo.airflow import Airflow
from tests.support.e2e import Cluster, Run

pytestmark = pytest.mark.timeout(120)


def _in_order(lines: list[str], *words: str) -> None:
    """Each of ``words`` stands in a later line than the one before it."""
    rest = iter(lines)
    for word in words:
        assert any(word in line for line in rest), f"{word!r} is missing, or too early, in:\n" + "\n".join(lines)


def test_a_job_that_goes_well_is_told_in_order_and_returns_its_outcome(
    cluster: Cluster, airflow: Airflow, start: Callable[[str], Run]
) -> None:
    run = start("train")
    run.until_logged("rank 0 | step 2")
    _holds_no_secret(airflow, cluster)
    run.until_deferred()
    run.tell("finish")
    run.until("success")

    lines = run.lines()
    ran = "running: admission 1"
    _in_order(lines, "submitted default/dj-", "opened", ran, "rank 0 | step 1", "rank 0 | done", "ended: completed")
    assert [line for line in lines if line.startswith("rank 0 | step ")][:2] == ["rank 0 | step 1", "rank 0 | step 2"]
    outcome = airflow.xcom("train", run.run_id, "train")
    assert (outcome["state"], outcome["cause"]["kind"]) == ("ended", "completed")
    assert len(cluster.uids_of(run)) == 1
    assert outcome["uid"] == cluster.uids_of(run)[0]
    _holds_no_secret(airflow, cluster)


def _holds_no_secret(airflow: Airflow, cluster: Cluster) -> None:
    """Neither Airflow's database, XComs and trigger rows first of all, nor any log holds the way into the cluster."""
    with closing(sqlite3.connect(f"file:{airflow.home / 'airflow.db'}?mode=ro", uri=True)) as database:
        rows = [*database.execute("select * from trigger"), *database.execute("select * from xcom")]
        assert rows
        database_text = "\n".join(database.iterdump())
    logs = "\n".join(
        path.read_text(errors="replace")
        for path in (*(airflow.home / "logs").rglob("*"), *airflow.home.glob("*.log"))
        if path.is_file()
    )
    for secret in cluster.secrets:
        assert secret not in database_text
        assert secret not in logs


def test_a_rank_that_exits_with_3_is_the_cause_and_the_other_rank_a_consequence(
    cluster: Cluster, start: Callable[[str], Run]
) -> None:
    run = start("train")
    run.until_logged("rank 0 | step 2")
    run.until_deferred()
    first, second = (pod["metadata"]["name"] for pod in cluster.pods(run))
    run.tell("exit-1", "3")
    run.until("failed")

    said = [line for line in run.lines() if line.startswith("ended: non-zero-exit: ")]
    assert said, run.text()
    assert f"pod {second}: exit code 3" in said[0]
    assert f"other ranks: {first} non-zero-exit (exit code 143 (signal 15))" in said[0]
    text = run.text()
    assert "TrainJobNonZeroExitError" in text
    assert "exiting with 3" in text
    assert len(cluster.uids_of(run)) == 1


def test_submit_open_and_sensor_are_tasks_of_their_own(cluster: Cluster, start: Callable[[str], Run]) -> None:
    run = start("in_parts")
    run.until("success", "open")
    run.until_logged("running: admission 1", "watch")
    run.until_deferred("watch")
    run.tell("finish")
    run.until("success", "watch")
    assert "gated" in run.text("submit")
    assert "opened default/dj-" in run.text("open")
    assert "ended: completed" in run.text("watch")
    assert "rank 0 |" not in run.text("watch")
    assert run.airflow.xcom("in_parts", run.run_id, "watch")["cause"]["kind"] == "completed"
    assert len(cluster.uids_of(run)) == 1


REFUSED = {
    "no_nodes": "num_nodes 0 is not a whole number of at least 1",
    "reserved_env": "env 'DISPATCH_X': names under DISPATCH_ are dispatch's own",
    "argv_is_text": "argv 'python3 train.py' is no list",
    "quantity": "resources_per_node 'memory': 'lots' is no quantity",
    "reserved_label": "labels 'kueue.x-k8s.io/queue-name'",
    "unknown_runtime": "no-such-runtime",
    "unsafe_runtime": "torch-distributed-unsafe",
    "unknown_connection": "connection 'no_such_connection' is not known on host",
    "missing_kubeconfig": "/no/such/kubeconfig",
}


def test_bad_input_is_said_clearly_and_makes_nothing(cluster: Cluster, start: Callable[[str], Run]) -> None:
    run = start("refused")
    for task, words in REFUSED.items():
        run.until("failed", task)
        assert words in run.text(task), run.text(task)
    assert cluster.uids_of(run) == []


def test_the_pod_operator_of_the_cncf_provider_runs_on_the_local_cluster(start: Callable[[str], Run]) -> None:
    run = start("pod")
    run.until_deferred("pod")
    run.tell("finish")
    run.until("success", "pod")
    assert "hello from 42" in run.text("pod")
