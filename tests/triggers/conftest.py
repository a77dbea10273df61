"""An API server that plays a cluster: objects are written by the test, the product reads them over HTTPS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apiserver import Live
from tests.support.played import PlayedCluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    with Live(tmp_path) as live:
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": live.kubeconfig}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        played = PlayedCluster(live)
        played.create_trainjob()
        yield played
