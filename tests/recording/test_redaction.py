"""What a recording does not tell."""

from __future__ import annotations

import copy
from typing import Any

from airflow_dispatch.recording.redaction import REDACTED, redacted

SECRET = "hunter2"


def trainjob() -> dict[str, Any]:
    """Secrets wherever a user can put them."""
    container = {
        "name": "node",
        "env": [
            {"name": "PASSWORD", "value": SECRET},
            {"name": "DISPATCH_JOB_ID", "value": "01K6NJRFAE13R8H0C3SWZGBJ7R"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}},
        ],
        "command": ["sh", "-c", SECRET],
        "args": [f"--token={SECRET}"],
        "livenessProbe": {
            "exec": {"command": [SECRET]},
            "httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]},
        },
    }
    pod = {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"vault/password": SECRET}},
        "spec": {"containers": [container], "volumes": [{"csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}}]},
    }
    return {
        "kind": "TrainJob",
        "metadata": {
            "name": "job",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": SECRET,
                "note": SECRET,
                "dispatch.phpboyscout.uk/opened": "true",
                "kueue.x-k8s.io/admission-gated-by": "other/gate",
                "jobset.sigs.k8s.io/exclusive-topology": "zone",
            },
        },
        "spec": {
            "trainer": {"env": [{"name": "KEY", "value": SECRET}], "args": [SECRET]},
            "runtimePatches": [
                {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"template": pod}]}}}}
            ],
        },
    }


def test_no_secret_of_a_job_is_left() -> None:
    shown = redacted(trainjob())
    assert SECRET not in repr(shown)
    assert "managedFields" not in shown["metadata"]


def test_what_a_rule_or_a_reader_needs_stays() -> None:
    shown = redacted(trainjob())
    assert shown["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/last-applied-configuration": REDACTED,
        "note": REDACTED,
        "dispatch.phpboyscout.uk/opened": "true",
        "kueue.x-k8s.io/admission-gated-by": "other/gate",
        "jobset.sigs.k8s.io/exclusive-topology": "zone",
    }
    pod = shown["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]
    assert pod["metadata"]["labels"] == {"team": "vision"}
    (container,) = pod["spec"]["containers"]
    assert container["env"] == [
        {"name": "PASSWORD", "value": REDACTED},
        {"name": "DISPATCH_JOB_ID", "value": "01K6NJRFAE13R8H0C3SWZGBJ7R"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}},
    ]
    assert container["args"] == [REDACTED]


def test_secrets_and_config_maps_keep_their_keys_alone() -> None:
    for kind in ("Secret", "ConfigMap"):
        item = {"kind": kind, "metadata": {"name": "x"}, "data": {"a": SECRET}, "stringData": {"b": SECRET}}
        assert redacted(item) == {
            "kind": kind,
            "metadata": {"name": "x"},
            "data": {"a": REDACTED},
            "stringData": {"b": REDACTED},
        }


def test_the_object_itself_is_left_as_it_is() -> None:
    item = trainjob()
    before = copy.deepcopy(item)
    redacted(item)
    assert item == before


def test_objects_of_odd_shapes_pass() -> None:
    for odd in ({}, {"metadata": 5}, {"kind": "Node", "status": []}, {"spec": {"env": "x", "annotations": [1]}}):
        assert redacted(odd) == odd
    assert redacted({"env": [5, {"name": "A"}], "args": "x"}) == {"env": [5, {"name": "A"}], "args": REDACTED}
