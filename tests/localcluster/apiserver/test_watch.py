from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry, Subscription
from airflow_dispatch.localcluster.apiserver.watches import WatchRequest, watch_events
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS, PODS

Object = dict[str, Any]
MERGE = "application/merge-patch+json"


def config(registry: Registry, name: str, **labels: str) -> Object:
    return registry.create(CONFIGMAPS, "default", {"metadata": {"name": name, "labels": labels}})


def relabel(registry: Registry, name: str, value: str | None) -> None:
    registry.patch(CONFIGMAPS, "default", name, {"metadata": {"labels": {"app": value}}}, MERGE)


def drained(subscription: Subscription) -> list[tuple[str, str]]:
    events = []
    while (event := subscription.poll()) is not None:
        events.append((event.type, event.object["metadata"]["name"]))
    return events


def test_without_a_version_what_exists_comes_first(registry: Registry) -> None:
    config(registry, "a")
    subscription = registry.subscribe(CONFIGMAPS, "default")
    config(registry, "b")
    assert drained(subscription) == [("ADDED", "a"), ("ADDED", "b")]


def test_from_a_version_only_what_changed_since(registry: Registry) -> None:
    config(registry, "a")
    since = registry.resource_version
    config(registry, "b")
    registry.delete(CONFIGMAPS, "default", "a")
    assert drained(registry.subscribe(CONFIGMAPS, "default", since)) == [("ADDED", "b"), ("DELETED", "a")]


def test_objects_that_leave_and_enter_the_selection(registry: Registry) -> None:
    config(registry, "a", app="x")
    subscription = registry.subscribe(CONFIGMAPS, None, registry.resource_version, "app=x")
    relabel(registry, "a", "y")
    relabel(registry, "a", "z")
    relabel(registry, "a", "x")
    registry.delete(CONFIGMAPS, "default", "a")
    assert drained(subscription) == [("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]


def test_a_field_selector_selects_by_node(registry: Registry, make_pod: Callable[..., Object]) -> None:
    subscription = registry.subscribe(PODS, None, registry.resource_version, field_selector="spec.nodeName=node-0")
    registry.create(PODS, "default", make_pod("p"))
    registry.create(PODS, "default", make_pod("q"))
    registry.bind("default", "p", "node-0")
    registry.bind("default", "q", "node-1")
    assert drained(subscription) == [("ADDED", "p")]


def test_the_last_event_of_an_object_has_the_version_of_its_end(registry: Registry) -> None:
    config(registry, "a")
    subscription = registry.subscribe(CONFIGMAPS, None, registry.resource_version)
    registry.delete(CONFIGMAPS, "default", "a")
    event = subscription.poll()
    assert event is not None
    assert event.object["metadata"]["resourceVersion"] == registry.resource_version
    assert "deletionTimestamp" not in event.object["metadata"]


def test_a_version_before_the_history_is_gone(clock: VirtualClock) -> None:
    registry = Registry(clock, history_limit=3)
    old = registry.resource_version
    for name in "abcd":
        config(registry, name)
    with pytest.raises(ApiError, match="too old resource version") as refused:
        registry.subscribe(CONFIGMAPS, None, old)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert len(drained(registry.subscribe(CONFIGMAPS, None, int(registry.resource_version) - 3))) == 3


def test_compaction_leaves_only_the_present(registry: Registry) -> None:
    since = registry.resource_version
    config(registry, "a")
    registry.compact()
    with pytest.raises(ApiError, match="too old"):
        registry.subscribe(CONFIGMAPS, None, since)
    assert drained(registry.subscribe(CONFIGMAPS, None, registry.resource_version)) == []


def test_a_version_of_the_future_is_refused(registry: Registry) -> None:
    with pytest.raises(ApiError, match="Too large resource version: 9999"):
        registry.subscribe(CONFIGMAPS, None, 9999)


def test_iteration_waits_for_events_and_ends_when_closed(registry: Registry) -> None:
    async def scenario() -> list[str]:
        subscription = registry.subscribe(CONFIGMAPS, None, registry.resource_version)
        asyncio.get_running_loop().call_soon(config, registry, "a")
        names = []
        async for event in subscription:
            names.append(event.object["metadata"]["name"])
            asyncio.get_running_loop().call_soon(subscription.close)
        return names

    assert asyncio.run(scenario()) == ["a"]


def test_pages_show_one_moment(registry: Registry) -> None:
    for name in "abcde":
        config(registry, name)
    first = registry.list(CONFIGMAPS, "default", limit=2)
    assert (first.remaining, len(first.items)) == (3, 2)
    registry.delete(CONFIGMAPS, "default", "c")
    config(registry, "bb")
    relabel(registry, "e", "new")
    second = registry.list(CONFIGMAPS, "default", limit=2, continue_token=first.continue_token)
    third = registry.list(CONFIGMAPS, "default", limit=2, continue_token=second.continue_token)
    names = [obj["metadata"]["name"] for listing in (first, second, third) for obj in listing.items]
    assert names == list("abcde")
    assert "labels" not in third.items[0]["metadata"]
    assert {first.resource_version} == {second.resource_version} == {third.resource_version}
    assert third.continue_token == ""


def test_a_page_whose_moment_is_compacted_is_expired(registry: Registry) -> None:
    for name in "abc":
        config(registry, name)
    token = registry.list(CONFIGMAPS, "default", limit=1).continue_token
    config(registry, "d")
    registry.compact()
    with pytest.raises(ApiError, match="The provided continue parameter is too old") as refused:
        registry.list(CONFIGMAPS, "default", limit=1, continue_token=token)
    assert refused.value.code == 410


async def _collected(registry: Registry, clock: VirtualClock, request: WatchRequest, until: float) -> list[Object]:
    """Everything the watch says while the clock moves on, second by second."""
    events: list[Object] = []

    async def read() -> None:
        async for event in watch_events(registry, request):
            events.append(event)  # noqa: PERF401 - kept event by event, the reader may be cancelled

    reader = asyncio.create_task(read())
    for _ in range(int(until)):
        for _ in range(10):
            await asyncio.sleep(0)
        clock.step(clock.now() + timedelta(seconds=1))
    for _ in range(10):
        await asyncio.sleep(0)
    done = reader.done()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    return [*events, {"type": "END"}] if done else events


def test_a_quiet_watch_gets_bookmarks_and_ends_at_its_timeout(registry: Registry, clock: VirtualClock) -> None:
    request = WatchRequest(
        CONFIGMAPS, "default", resource_version=registry.resource_version, bookmarks=True, timeout=150
    )
    events = asyncio.run(_collected(registry, clock, request, 151))
    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK", "END"]
    assert events[0]["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": registry.resource_version, "creationTimestamp": None},
    }


def test_without_leave_no_bookmarks(registry: Registry, clock: VirtualClock) -> None:
    request = WatchRequest(CONFIGMAPS, "default", resource_version=registry.resource_version, timeout=90)
    assert asyncio.run(_collected(registry, clock, request, 91)) == [{"type": "END"}]


def test_initial_events_end_with_a_marked_bookmark(registry: Registry, clock: VirtualClock) -> None:
    config(registry, "a")
    request = WatchRequest(
        CONFIGMAPS, "default", bookmarks=True, send_initial_events=True, version_match="NotOlderThan"
    )
    events = asyncio.run(_collected(registry, clock, request, 1))
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_initial_events_need_the_version_match(registry: Registry) -> None:
    del registry
    with pytest.raises(ApiError, match="sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"):
        WatchRequest(CONFIGMAPS, "default", send_initial_events=True).check()


def test_a_compacted_version_gives_one_error_event(registry: Registry, clock: VirtualClock) -> None:
    since = registry.resource_version
    config(registry, "a")
    registry.compact()
    request = WatchRequest(CONFIGMAPS, "default", resource_version=since)
    events = asyncio.run(_collected(registry, clock, request, 1))
    assert [event["type"] for event in events] == ["ERROR", "END"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["reason"] == "Expired"
