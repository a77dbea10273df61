from __future__ import annotations

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.patch import JSON, MERGE, STRATEGIC, apply_patch, merge, strategic
from airflow_dispatch.localcluster.resources import PODS, TRAINJOBS


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_json_merge_follows_rfc_7396(target: object, patch: object, result: object) -> None:
    assert merge(target, patch) == result


def test_json_patch_tests_before_it_writes() -> None:
    pod = {"metadata": {"labels": {"a": "b"}}}
    operations = [
        {"op": "test", "path": "/metadata/labels/a", "value": "b"},
        {"op": "add", "path": "/metadata/labels/c", "value": "d"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    assert apply_patch(PODS, pod, operations, JSON) == {"metadata": {"labels": {"c": "d"}}}
    operations[0]["value"] = "other"
    with pytest.raises(ApiError) as refused:
        apply_patch(PODS, pod, operations, JSON)
    assert refused.value.code == 422
    assert pod == {"metadata": {"labels": {"a": "b"}}}


def test_json_patch_of_a_path_that_is_missing_is_refused() -> None:
    with pytest.raises(ApiError, match="the server rejected our request"):
        apply_patch(PODS, {}, [{"op": "remove", "path": "/a/b"}], JSON)


def test_strategic_merge_merges_known_lists_by_key_and_puts_what_is_new_first() -> None:
    pod = {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}
    patch = {
        "containers": [
            {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]},
            {"name": "b", "$patch": "delete"},
            {"name": "c"},
        ]
    }
    assert strategic(pod, patch) == {
        "containers": [
            {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
            {"name": "c"},
        ]
    }


def test_strategic_merge_merges_conditions_by_type_and_replaces_taints() -> None:
    node = {
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"}]},
        "spec": {"taints": [{"key": "a"}]},
    }
    patch = {
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        "spec": {"taints": [{"key": "b"}]},
    }
    assert strategic(node, patch) == {
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "MemoryPressure", "status": "False"}]
        },
        "spec": {"taints": [{"key": "b"}]},
    }


def test_strategic_merge_obeys_its_directives() -> None:
    target = {
        "finalizers": ["a", "b"],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}],
        "nodeSelector": {"x": "y", "z": "z"},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {}},
    }
    patch = {
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "$setElementOrder/volumes": [{"name": "w"}, {"name": "v"}],
        "nodeSelector": {"$patch": "replace", "x": "q"},
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
    }
    assert strategic(target, patch) == {
        "finalizers": ["b"],
        "volumes": [{"name": "w"}, {"name": "v", "emptyDir": {}}],
        "nodeSelector": {"x": "q"},
        "strategy": {"type": "Recreate"},
    }


def test_strategic_merge_adds_to_finalizers_and_can_replace_a_keyed_list() -> None:
    target = {"finalizers": ["a"], "env": [{"name": "X"}]}
    patch = {"finalizers": ["b", "a"], "env": [{"$patch": "replace"}, {"name": "Y"}]}
    assert strategic(target, patch) == {"finalizers": ["a", "b"], "env": [{"name": "Y"}]}


def test_custom_kinds_refuse_strategic_merge_with_the_real_words() -> None:
    with pytest.raises(ApiError) as refused:
        apply_patch(TRAINJOBS, {}, {}, STRATEGIC)
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        "reason": "UnsupportedMediaType",
        "code": 415,
    }


def test_a_merge_patch_is_an_object() -> None:
    with pytest.raises(ApiError, match="not a JSON object"):
        apply_patch(PODS, {}, [1], MERGE)
