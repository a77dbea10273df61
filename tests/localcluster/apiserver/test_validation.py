from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import CONFIGMAPS, JOBS, PODS, TRAINJOBS

Object = dict[str, Any]


def trainjob(**spec: Any) -> Object:
    return {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, **spec}}


def refusal(registry: Registry, body: Object, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        registry.create(TRAINJOBS, "default", body, **options)
    return refused.value


def test_strict_refuses_unknown_fields_with_the_real_body(registry: Registry) -> None:
    assert refusal(registry, trainjob(nonsense=1), field_validation="Strict").status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: unknown '
        'field "spec.nonsense"',
        "reason": "BadRequest",
        "code": 400,
    }


@pytest.mark.parametrize("mode", ["Ignore", "Warn"])
def test_the_other_modes_let_them_pass(registry: Registry, mode: str) -> None:
    registry.create(TRAINJOBS, "default", trainjob(nonsense=1), field_validation=mode)


def test_unknown_fields_are_found_below_lists_and_patches(registry: Registry) -> None:
    patch = {
        "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": {"image": "x"}}}}}]}
    }
    body = trainjob(runtimePatches=[{"manager": "a.b/c", "trainingRuntimeSpec": {"template": patch}}])
    found = refusal(registry, body, field_validation="Strict")
    assert (
        'unknown field "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec'
        '.template.spec.image"'
    ) in found.message


def test_a_wrong_type_in_a_custom_kind_is_invalid(registry: Registry) -> None:
    error = refusal(registry, trainjob(trainer={"numNodes": "two"}))
    assert error.code == 422
    assert error.message == (
        'TrainJob.trainer.kubeflow.org "t" is invalid: spec.trainer.numNodes: Invalid value: "string": '
        'spec.trainer.numNodes in body must be of type integer: "string"'
    )


def test_a_wrong_type_in_a_core_kind_is_a_bad_request(registry: Registry) -> None:
    with pytest.raises(ApiError, match="json: cannot unmarshal integer into Go struct field") as refused:
        registry.create(CONFIGMAPS, "default", {"metadata": {"name": "c"}, "data": {"a": 1}})
    assert refused.value.code == 400


def test_quantities_may_be_numbers_and_become_text(registry: Registry, make_pod: Callable[..., Object]) -> None:
    body = make_pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 1, "memory": "1Gi"}}
    made = registry.create(PODS, "default", body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"metadata": {}}, "metadata.name: Required value: name or generateName is required"),
        ({"metadata": {"name": "Upper"}}, 'metadata.name: Invalid value: "Upper": a lowercase RFC 1123 subdomain'),
        ({"metadata": {"name": "c", "labels": {"a": "b c"}}}, 'metadata.labels: Invalid value: "b c": a valid label'),
        ({"metadata": {"name": "c", "labels": {"a": "x" * 64}}}, "must be no more than 63 characters"),
        ({"metadata": {"name": "c" * 254}}, "must be no more than 253 characters"),
    ],
)
def test_names_and_labels(registry: Registry, body: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        registry.create(CONFIGMAPS, "default", body)
    assert refused.value.code == 422
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.containers: Required value"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image: Required value"),
        (
            {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]},
            'spec.containers[1].name: Duplicate value: "a"',
        ),
        (
            {"containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        ({"containers": [{"name": "a", "image": "i"}], "restartPolicy": "x"}, "spec.restartPolicy: Unsupported value"),
    ],
)
def test_pods(registry: Registry, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        registry.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})
    assert refused.value.code == 422
    assert words in refused.value.message


def test_a_job_needs_a_restart_policy_of_its_own(registry: Registry) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    with pytest.raises(ApiError, match=r"spec\.template\.spec\.restartPolicy: Unsupported value"):
        registry.create(JOBS, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})


def test_several_causes_are_listed(registry: Registry) -> None:
    with pytest.raises(ApiError) as refused:
        registry.create(PODS, "default", {"metadata": {"name": "p"}, "spec": {"containers": [{}]}})
    assert 'Pod "p" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image' in (
        refused.value.message
    )
    assert [cause["field"] for cause in refused.value.status()["details"]["causes"]] == [
        "spec.containers[0].name",
        "spec.containers[0].image",
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "Secret", "metadata": {"name": "c"}}, "does not match the expected kind"),
        ({"apiVersion": "v2", "metadata": {"name": "c"}}, "does not match the expected apiVersion"),
        ({"metadata": {"name": "c", "namespace": "other"}}, "does not match the namespace sent on the request"),
        ({"metadata": {"name": "c", "resourceVersion": "1"}}, "resourceVersion should not be set"),
    ],
)
def test_an_object_that_contradicts_its_request(registry: Registry, body: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        registry.create(CONFIGMAPS, "default", body)
    assert refused.value.code == 400
    assert words in refused.value.message
