from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.thread import ClusterThread

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "example_dags"

# dag.test() brings up much of Airflow; what that warns of is not ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", autouse=True)
def database() -> None:
    initdb()


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with LocalCluster.in_thread(nodes=2) as running:
        assert isinstance(running, ClusterThread)
        yield running.kubeconfig


@pytest.fixture
def run(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one of the tests' DAGs and returns its Dag run."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    bag = DagBag(str(TESTS / "dags"))
    return lambda name: bag.dags[name].test()


def test_every_example_dag_can_be_imported() -> None:
    bag = DagBag(str(EXAMPLES))

    assert bag.import_errors == {}
    assert set(bag.dags) >= {"train_digits", "rank_exits_with_3", "node_lost"}


@pytest.mark.parametrize("name", ["deferred", "in_the_worker", "in_parts"])
def test_a_dag_trains_with_real_processes(run: Any, name: str) -> None:
    assert run(name).state == "success"


def test_a_rank_that_fails_fails_the_task(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    finished = run("fails")

    output = "".join(capfd.readouterr())
    assert finished.state == "failed"
    assert "TrainJobNonZeroExitError" in output
    assert "exit code 3" in output
