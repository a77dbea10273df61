from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.patch import APPLY, MERGE
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import CONFIGMAPS, TRAINJOBS

Object = dict[str, Any]


def applied(registry: Registry, manager: str, data: Object, *, force: bool = False) -> Object:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    return registry.patch(CONFIGMAPS, "default", "c", body, APPLY, field_manager=manager, force=force)


def test_apply_makes_what_is_missing_and_repeats_without_a_write(registry: Registry) -> None:
    assert applied(registry, "one", {"a": "1"})["data"] == {"a": "1"}
    before = registry.resource_version
    applied(registry, "one", {"a": "1"})
    assert registry.resource_version == before


def test_a_field_no_longer_named_goes_unless_another_manager_owns_it(registry: Registry) -> None:
    applied(registry, "one", {"mine": "1", "ours": "2"})
    applied(registry, "two", {"ours": "2", "theirs": "3"})
    assert applied(registry, "one", {})["data"] == {"ours": "2", "theirs": "3"}


def test_a_field_of_another_manager_conflicts_until_it_is_forced(registry: Registry) -> None:
    applied(registry, "one", {"a": "1"})
    with pytest.raises(ApiError) as refused:
        applied(registry, "two", {"a": "2"})
    assert refused.value.status()["message"] == 'Apply failed with 1 conflict: conflict with "one" using v1: .data.a'
    assert refused.value.status()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one" using v1', "field": ".data.a"}
    ]
    assert applied(registry, "two", {"a": "2"}, force=True)["data"] == {"a": "2"}
    assert applied(registry, "one", {})["data"] == {"a": "2"}


def test_an_ordinary_write_takes_a_field_over(registry: Registry) -> None:
    applied(registry, "one", {"a": "1"})
    registry.patch(CONFIGMAPS, "default", "c", {"data": {"a": "2"}}, MERGE, field_manager="editor")
    with pytest.raises(ApiError, match='conflict with "editor"'):
        applied(registry, "one", {"a": "1"})


def test_lists_with_a_key_are_owned_by_element(registry: Registry) -> None:
    def body(manager: str, admission: str) -> Object:
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "t"},
            "spec": {"runtimePatches": [{"manager": manager, "time": admission}]},
        }

    first = {**body("a.b/one", "1"), "spec": {**body("a.b/one", "1")["spec"], "runtimeRef": {"name": "r"}}}
    registry.patch(TRAINJOBS, "default", "t", first, APPLY, field_manager="one")
    merged = registry.patch(TRAINJOBS, "default", "t", body("a.b/two", "2"), APPLY, field_manager="two")
    assert [entry["manager"] for entry in merged["spec"]["runtimePatches"]] == ["a.b/one", "a.b/two"]
    without = {**body("a.b/two", "2"), "spec": {}}
    left = registry.patch(TRAINJOBS, "default", "t", without, APPLY, field_manager="two")
    assert [entry["manager"] for entry in left["spec"]["runtimePatches"]] == ["a.b/one"]


def test_a_refused_apply_changes_no_ownership(registry: Registry) -> None:
    applied(registry, "one", {"a": "1"})
    with pytest.raises(ApiError):
        applied(registry, "two", {"a": "2", "b": "3"})
    assert applied(registry, "one", {"a": "9"})["data"] == {"a": "9"}


def test_apply_needs_a_manager(registry: Registry) -> None:
    with pytest.raises(ApiError, match="fieldManager: Required value: is required for apply patch"):
        applied(registry, "", {"a": "1"})
