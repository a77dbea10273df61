from __future__ import annotations

import asyncio
import json
import re
import socket

import pytest

from airflow_dispatch.core.errors import ConfigurationError
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.kube.config import ClusterConfig


def connection(extra: dict[str, object]) -> str:
    return json.dumps({"conn_type": "kubernetes", "extra": extra})


def test_worker_and_triggerer_come_to_the_same_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", connection({"kube_config_path": "/etc/kube", "cluster_context": "a"}))

    worker = DispatchHook("gpu").connection
    triggerer = asyncio.run(DispatchHook("gpu").load())

    assert worker == triggerer
    assert worker.cluster == ClusterConfig(kubeconfig="/etc/kube", context="a", in_cluster=False)


def test_an_unknown_connection_names_itself_and_the_host() -> None:
    with pytest.raises(ConfigurationError, match=f"'elsewhere' is not known on host {socket.gethostname()}"):
        _ = DispatchHook("elsewhere").connection


def test_the_default_connection_need_not_be_defined() -> None:
    assert DispatchHook().connection.namespace == "default"


def test_a_namespace_of_the_caller_goes_before_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", connection({"kube_config_path": "/etc/kube", "namespace": "ml"}))

    assert DispatchHook("gpu").namespace == "ml"
    assert DispatchHook("gpu", namespace="other").namespace == "other"


def test_the_deployments_name_comes_from_the_connection_then_the_configuration_then_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", connection({"dispatch_deployment": "staging"}))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    names = [DispatchHook("gpu").deployment, DispatchHook().deployment]
    monkeypatch.delenv("AIRFLOW__DISPATCH__DEPLOYMENT")
    names.append(DispatchHook().deployment)

    assert names == ["staging", "tests", "https://airflow.example.com"]


def test_a_deployment_without_any_name_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__DISPATCH__DEPLOYMENT")

    with pytest.raises(ConfigurationError, match=re.escape("set [dispatch] deployment")):
        _ = DispatchHook().deployment
