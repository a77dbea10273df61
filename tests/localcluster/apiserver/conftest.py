"""A registry under virtual time, and a live server in a thread of its own for clients that block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from tests.support.apiserver import Collector, Live, Object, ScriptedLogs, pod


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def registry(clock: VirtualClock) -> Registry:
    return Registry(clock)


@pytest.fixture
def collector(registry: Registry) -> Collector:
    return Collector(registry)


@pytest.fixture
def scripted_logs() -> ScriptedLogs:
    return ScriptedLogs()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with Live(tmp_path) as running:
        yield running


@pytest.fixture
def make_pod() -> Callable[..., Object]:
    return pod
