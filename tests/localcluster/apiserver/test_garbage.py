from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import CONFIGMAPS, JOBSETS, NAMESPACES, PODS, TRAINJOBS
from tests.support.apiserver import Collector

Object = dict[str, Any]


def owned(registry: Registry, name: str, *owners: Object, block: bool = True) -> Object:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    body = {"metadata": {"name": name, "ownerReferences": references}}
    return registry.create(JOBSETS, "default", body)


def trainjob(registry: Registry, name: str = "t") -> Object:
    return registry.create(TRAINJOBS, "default", {"metadata": {"name": name}, "spec": {"runtimeRef": {"name": "r"}}})


def left(registry: Registry) -> list[str]:
    found = registry.list(TRAINJOBS).items + registry.list(JOBSETS).items
    return [f"{obj['kind']}/{obj['metadata']['name']}" for obj in found]


def test_background_deletes_the_owner_first_then_all_below(registry: Registry, collector: Collector) -> None:
    owned(registry, "grandchild", owned(registry, "child", trainjob(registry)))
    registry.delete(TRAINJOBS, "default", "t", propagation="Background")
    assert left(registry) == ["JobSet/child", "JobSet/grandchild"]
    collector.run()
    assert left(registry) == []


def test_foreground_waits_for_dependents_that_block(registry: Registry, collector: Collector) -> None:
    child = owned(registry, "child", trainjob(registry))
    child["metadata"]["finalizers"] = ["example.org/hold"]
    registry.update(JOBSETS, "default", "child", child)
    waiting = registry.delete(TRAINJOBS, "default", "t", propagation="Foreground")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    collector.run()
    assert left(registry) == ["TrainJob/t", "JobSet/child"]
    child = registry.get(JOBSETS, "default", "child")
    child["metadata"]["finalizers"] = []
    registry.update(JOBSETS, "default", "child", child)
    collector.run()
    assert left(registry) == []


def test_foreground_does_not_wait_for_dependents_that_do_not_block(registry: Registry, collector: Collector) -> None:
    child = owned(registry, "child", trainjob(registry), block=False)
    child["metadata"]["finalizers"] = ["example.org/hold"]
    registry.update(JOBSETS, "default", "child", child)
    registry.delete(TRAINJOBS, "default", "t", propagation="Foreground")
    collector.run()
    assert left(registry) == ["JobSet/child"]
    assert "deletionTimestamp" in registry.get(JOBSETS, "default", "child")["metadata"]


def test_orphan_leaves_dependents_without_their_reference(registry: Registry, collector: Collector) -> None:
    owned(registry, "child", trainjob(registry))
    registry.delete(TRAINJOBS, "default", "t", propagation="Orphan")
    collector.run()
    assert left(registry) == ["JobSet/child"]
    assert "ownerReferences" not in registry.get(JOBSETS, "default", "child")["metadata"]


def test_an_object_lives_while_one_owner_lives(registry: Registry, collector: Collector) -> None:
    first, second = trainjob(registry, "one"), trainjob(registry, "two")
    owned(registry, "child", first, second)
    registry.delete(TRAINJOBS, "default", "one", propagation="Background")
    collector.run()
    references = registry.get(JOBSETS, "default", "child")["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["two"]
    registry.delete(TRAINJOBS, "default", "two", propagation="Background")
    collector.run()
    assert left(registry) == []


def test_an_object_born_of_a_dead_owner_is_collected(registry: Registry, collector: Collector) -> None:
    owner = trainjob(registry)
    registry.delete(TRAINJOBS, "default", "t", propagation="Background")
    trainjob(registry)
    owned(registry, "late", owner)
    collector.run()
    assert left(registry) == ["TrainJob/t"]


def test_a_terminating_namespace_is_emptied_then_goes(registry: Registry, collector: Collector) -> None:
    registry.create(NAMESPACES, None, {"metadata": {"name": "ml"}})
    registry.create(CONFIGMAPS, "ml", {"metadata": {"name": "c"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    registry.create(PODS, "ml", pod)
    registry.bind("ml", "p", "node-0")
    assert registry.delete(NAMESPACES, None, "ml")["status"]["phase"] == "Terminating"
    collector.run()
    assert registry.list(CONFIGMAPS, "ml").items == []
    assert registry.exists(NAMESPACES, None, "ml")
    with pytest.raises(ApiError, match="because it is being terminated"):
        registry.create(CONFIGMAPS, "ml", {"metadata": {"name": "d"}})
    registry.delete(PODS, "ml", "p", grace_period=0)
    collector.run()
    assert not registry.exists(NAMESPACES, None, "ml")
