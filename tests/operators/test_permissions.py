"""A user who may not do everything: the message says which verb on which resource, and nothing is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core.errors import Forbidden
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import shipped_runtimes
from airflow_dispatch.operators.trainjob import TrainJobOperator
from tests.support.apiserver import Live
from tests.support.tasks import TaskInstance, context_of

ALLOWED: list[tuple[str, str, list[str]]] = [
    ("trainer.kubeflow.org", "trainjobs", ["get", "list", "watch", "create", "update", "delete"]),
    ("trainer.kubeflow.org", "trainingruntimes", ["get", "list", "create", "update", "delete"]),
    ("trainer.kubeflow.org", "clustertrainingruntimes", ["get", "list"]),
    ("jobset.x-k8s.io", "jobsets", ["get", "list"]),
    ("batch", "jobs", ["list"]),
    ("", "pods", ["list"]),
    ("", "events", ["list"]),
    ("", "nodes", ["get"]),
    ("", "configmaps", ["get"]),
]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with Live(tmp_path) as live:
        for runtime in shipped_runtimes():
            live.call(partial(live.registry.create, CLUSTER_TRAINING_RUNTIMES, None, runtime))
        yield live


@pytest.mark.parametrize(
    ("verb", "resource", "named"),
    [
        ("create", "trainjobs", "create trainjobs"),
        ("list", "pods", "list pods"),
        ("get", "clustertrainingruntimes", "get clustertrainingruntimes"),
        ("create", "trainingruntimes", "create trainingruntimes"),
    ],
)
def test_a_missing_permission_is_named(
    verb: str, resource: str, named: str, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[dict[str, Any]] = [
        {
            "apiGroups": [group],
            "resources": [plural],
            "verbs": [each for each in verbs if (plural, each) != (resource, verb)],
        }
        for group, plural, verbs in ALLOWED
    ]
    kubeconfig = live.call(lambda: live.server.add_user("ana", rules))
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    operator = TrainJobOperator(task_id="train", argv=["true"], num_nodes=1)

    with pytest.raises(Forbidden, match=named):
        operator.execute(context_of(TaskInstance()))

    assert live.call(lambda: live.registry.list(TRAINJOBS, "default")).items == []
    assert live.call(lambda: live.registry.list(TRAINING_RUNTIMES, "default")).items == []
