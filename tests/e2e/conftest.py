"""One local cluster and one Airflow for all tests here, each of its parts a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.airflow import Airflow
from demo.services import start_cluster
from tests.support.e2e import Cluster, Run

SETTINGS = {
    # A triggerer that was killed is given up after seconds, not after half a minute.
    "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
    "CORE__PARALLELISM": "8",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        service, state = start_cluster(folder, real=request.config.getoption("--real"))
        stack.callback(service.stop)
        cluster = Cluster(service, state, folder / "cluster.json")
        cluster.follow()
        yield cluster


@pytest.fixture(scope="session")
def airflow(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": cluster.state["kubeconfig"]}}
    missing = {"conn_type": "kubernetes", "extra": {"kube_config_path": "/no/such/kubeconfig"}}
    connections = {"kubernetes_default": connection, "missing_kubeconfig": missing}
    home = tmp_path_factory.mktemp("airflow")
    airflow = Airflow(home, Path(__file__).parent / "dags", connections, SETTINGS)
    try:
        airflow.start()
        yield airflow
    finally:
        airflow.stop()


@pytest.fixture
def start(airflow: Airflow, tmp_path: Path) -> Callable[[str], Run]:
    """Starts a Dag run whose ranks look into this test's own folder."""

    def start(dag_id: str) -> Run:
        return Run.start(airflow, dag_id, tmp_path)

    return start


@pytest.fixture(autouse=True)
def _real_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that tests run find the cluster by their arguments alone."""
    for name in [name for name in os.environ if name.startswith("KUBE") and name != "KUBEFLOW_PYTHON"]:
        monkeypatch.delenv(name)
