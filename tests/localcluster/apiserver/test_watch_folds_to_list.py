from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS
from tests.support.apiserver import Object

MERGE = "application/merge-patch+json"
ACTIONS = st.tuples(st.sampled_from(["create", "label", "delete"]), st.sampled_from("abc"), st.sampled_from("xy"))


def act(registry: Registry, action: str, name: str, label: str) -> None:
    exists = registry.exists(CONFIGMAPS, "default", name)
    metadata: Object = {"name": name, "labels": {"app": label}}
    if action == "create" and not exists:
        registry.create(CONFIGMAPS, "default", {"metadata": metadata})
    elif action == "label" and exists:
        registry.patch(CONFIGMAPS, "default", name, {"metadata": metadata}, MERGE)
    elif action == "delete" and exists:
        registry.delete(CONFIGMAPS, "default", name)


@settings(deadline=None)
@given(before=st.lists(ACTIONS, max_size=6), after=st.lists(ACTIONS, max_size=12))
def test_a_list_and_the_watch_from_it_add_up_to_the_later_list(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    registry = Registry(VirtualClock())
    for action in before:
        act(registry, *action)
    listing = registry.list(CONFIGMAPS, "default", "app=x")
    folded = {obj["metadata"]["name"]: obj for obj in listing.items}
    for action in after:
        act(registry, *action)
    subscription = registry.subscribe(CONFIGMAPS, "default", listing.resource_version, "app=x")
    while (event := subscription.poll()) is not None:
        name = event.object["metadata"]["name"]
        assert (name in folded) is (event.type != "ADDED")
        if event.type == "DELETED":
            del folded[name]
        else:
            folded[name] = event.object
    assert folded == {obj["metadata"]["name"]: obj for obj in registry.list(CONFIGMAPS, "default", "app=x").items}
