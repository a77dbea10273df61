"""The work queues: order, retries, pauses, lag."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.controllers import ControllerManager
from airflow_dispatch.localcluster.resources import CONFIGMAPS, Resource


class Noting:
    """Notes the keys that it is asked to reconcile."""

    name = "noting"
    watches: tuple[Resource, ...] = (CONFIGMAPS,)

    def __init__(self, again: float | None = None, failures: int = 0) -> None:
        self.seen: list[str] = []
        self.called = asyncio.Event()
        self._again = again
        self._failures = failures

    def keys_for(self, resource: Resource, obj: Any, old: Any) -> Iterator[str]:
        del resource
        yield (obj or old)["metadata"]["name"]

    def reconcile(self, key: str) -> float | None:
        self.seen.append(key)
        self.called.set()
        if self._failures:
            self._failures -= 1
            raise ValueError("broken")
        return self._again


def _parts(controller: Noting, **options: Any) -> tuple[Registry, VirtualClock, ControllerManager]:
    clock = VirtualClock()
    registry = Registry(clock)
    return registry, clock, ControllerManager(registry, clock, [controller], **options)


def _write(registry: Registry, name: str) -> None:
    registry.create(CONFIGMAPS, "default", {"metadata": {"name": name}})


def test_each_key_that_was_written_is_reconciled_once() -> None:
    controller = Noting()
    registry, _, manager = _parts(controller)
    _write(registry, "a")
    registry.patch(CONFIGMAPS, "default", "a", {"data": {"x": "y"}}, "application/merge-patch+json")
    _write(registry, "b")
    assert not manager.idle
    manager.drain()
    assert controller.seen == ["a", "b"]
    assert manager.idle


def test_a_paused_controller_does_nothing_until_it_goes_on() -> None:
    controller = Noting()
    registry, _, manager = _parts(controller)
    manager.pause("noting")
    _write(registry, "a")
    manager.drain()
    assert controller.seen == []
    assert manager.idle
    manager.resume("noting")
    manager.drain()
    assert controller.seen == ["a"]


def test_a_key_comes_back_when_it_asked_to() -> None:
    controller = Noting(again=3)
    registry, clock, manager = _parts(controller)
    _write(registry, "a")
    manager.drain()
    clock.step(clock.now() + timedelta(seconds=2.9))
    manager.drain()
    assert controller.seen == ["a"]
    clock.step(clock.now() + timedelta(seconds=0.2))
    manager.drain()
    assert controller.seen == ["a", "a"]


def test_a_key_that_fails_is_tried_again_later_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    controller = Noting(failures=1)
    registry, clock, manager = _parts(controller)
    _write(registry, "a")
    manager.drain()
    assert controller.seen == ["a"]
    assert "noting: a: failed" in caplog.text
    clock.step(clock.now() + timedelta(seconds=1))
    manager.drain()
    assert controller.seen == ["a", "a"]
    assert manager.idle


def test_lag_is_how_late_a_controller_hears_of_a_write() -> None:
    controller = Noting()
    registry, clock, manager = _parts(controller, lag=2.0)
    _write(registry, "a")
    manager.drain()
    assert controller.seen == []
    clock.step(clock.now() + timedelta(seconds=2))
    manager.drain()
    assert controller.seen == ["a"]


def test_running_begins_with_what_exists_already() -> None:
    controller = Noting()
    clock = VirtualClock()
    registry = Registry(clock)
    _write(registry, "a")
    manager = ControllerManager(registry, clock, [controller])

    async def main() -> None:
        running = asyncio.create_task(manager.run())
        await asyncio.wait_for(controller.called.wait(), 5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    assert "a" in controller.seen
