from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_dispatch.core.errors import ConfigurationError
from airflow_dispatch.hooks.connection import read_connection
from airflow_dispatch.kube.config import ClusterConfig

_KUBECONFIG = {"apiVersion": "v1", "clusters": [], "users": [{"name": "u", "user": {"token": "sesame"}}]}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"in_cluster": True}, ClusterConfig(in_cluster=True)),
        ({"in_cluster": "true"}, ClusterConfig(in_cluster=True)),
        ({"kube_config_path": "/etc/kube"}, ClusterConfig(kubeconfig="/etc/kube", in_cluster=False)),
        ({"kube_config": _KUBECONFIG}, ClusterConfig(kubeconfig_dict=_KUBECONFIG, in_cluster=False)),
        ({"kube_config": json.dumps(_KUBECONFIG)}, ClusterConfig(kubeconfig_dict=_KUBECONFIG, in_cluster=False)),
        (
            {"kube_config_path": "/etc/kube", "cluster_context": "gpu", "namespace": "ml", "disable_verify_ssl": True},
            ClusterConfig(kubeconfig="/etc/kube", context="gpu", namespace="ml", verify_tls=False, in_cluster=False),
        ),
        ({"extra__kubernetes__kube_config_path": "/etc/old"}, ClusterConfig(kubeconfig="/etc/old", in_cluster=False)),
        ({"kube_config_path": "", "in_cluster": False}, ClusterConfig(in_cluster=False)),
    ],
)
def test_each_way_to_name_a_cluster(extra: dict[str, Any], expected: ClusterConfig) -> None:
    assert read_connection("k8s", extra, in_pod=False).cluster == expected


@pytest.mark.parametrize("in_pod", [True, False])
def test_without_any_it_is_the_service_account_in_a_pod_and_else_the_default_kubeconfig(*, in_pod: bool) -> None:
    assert read_connection("k8s", {}, in_pod=in_pod).cluster == ClusterConfig(in_cluster=in_pod)


def test_a_refusal_of_in_cluster_is_heeded_in_a_pod() -> None:
    assert read_connection("k8s", {"in_cluster": False}, in_pod=True).cluster == ClusterConfig(in_cluster=False)


def test_two_ways_at_once_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'k8s' names the cluster in 2 ways: in_cluster, kube_config_path"):
        read_connection("k8s", {"in_cluster": True, "kube_config_path": "/etc/kube"})


def test_the_namespace_is_default_when_none_is_given() -> None:
    assert read_connection("k8s", {}, in_pod=False).namespace == "default"


def test_dispatch_settings() -> None:
    connection = read_connection(
        "k8s",
        {
            "dispatch_deployment": "staging",
            "dispatch_labels": {"team": "ml"},
            "dispatch_node_loss_taints": ["example.com/broken"],
            "dispatch_unsafe_runtime": "harden",
        },
        in_pod=False,
    )

    assert connection.deployment == "staging"
    assert connection.labels == {"team": "ml"}
    assert connection.node_loss_taints == ("example.com/broken",)
    assert connection.unsafe_runtime == "harden"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"in_cluster": "perhaps"}, "'in_cluster' must be true or false"),
        ({"kube_config_path": 7}, "'kube_config_path' must be text"),
        ({"kube_config": "[1, 2]"}, "'kube_config' must be a kubeconfig"),
        ({"kube_config": "{"}, "'kube_config' must be a kubeconfig"),
        ({"dispatch_labels": {"team": 1}}, "'dispatch_labels' must be an object whose values are text"),
        ({"dispatch_node_loss_taints": "a,b"}, "'dispatch_node_loss_taints' must be a list of text"),
        ({"dispatch_unsafe_runtime": "maybe"}, "'dispatch_unsafe_runtime' must be one of refuse, harden, allow"),
    ],
)
def test_a_field_that_can_not_be_read_is_named(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_connection("k8s", extra, in_pod=False)


def test_no_secret_shows_in_an_error_or_a_representation() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_connection("k8s", {"kube_config": '{"token": "sesame'}, in_pod=False)

    assert "sesame" not in str(caught.value)
    assert caught.value.__context__ is None or "sesame" not in str(caught.value.__context__)
    assert "sesame" not in repr(read_connection("k8s", {"kube_config": _KUBECONFIG}, in_pod=False))
