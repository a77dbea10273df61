"""The work of a classification grows with the number of pods, and no faster: counted in calls, never in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.snapshot import Snapshot
from tests.support.builders import PodBuilder, Scenario, at, job, node, pod, scenario

SMALL, FACTOR = 32, 4


def gang(size: int, change: Callable[[PodBuilder], object]) -> Scenario:
    """Ranks that run, each on a Node of its own, each of them changed."""
    found = scenario(*(pod(f"rank-{index}", index=index).on(f"node-{index}").running() for index in range(size)))
    found.nodes = [node(f"node-{index}") for index in range(size)]
    for built in found.pods:
        change(built)
    return found


def running(size: int) -> Scenario:
    return gang(size, lambda built: built)


def failing(size: int) -> Scenario:
    return gang(size, lambda built: built.terminated(1))


def failed(size: int) -> Scenario:
    found = failing(size)
    found.trainjob.with_condition("Failed", "FailedJobs")
    return found


def deleted(size: int) -> Scenario:
    return gang(size, lambda built: built.deleted(20))


def draining(size: int) -> Scenario:
    return deleted(size).suspended()


def half_completed(size: int) -> Scenario:
    """Every second rank had completed before the gang was resumed."""
    found = running(size)
    found.pods = found.pods[1::2]
    found.job = job(completions=size, completed=",".join(str(index) for index in range(0, size, 2)))
    return found


def captured(size: int) -> Scenario:
    found = running(size)
    found.captured = [pod(f"old-{i}", index=i).on(f"node-{i}").terminated(3).captured() for i in range(size)]
    return found


def calls_of(snapshot: Snapshot) -> int:
    """How many functions one classification calls, in Python and in C, once its caches are warm."""
    classify(snapshot, at(30))
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        classify(snapshot, at(30))
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", [running, failing, failed, deleted, draining, half_completed, captured])
def test_work_grows_no_faster_than_the_gang(kind: Callable[[int], Scenario]) -> None:
    few, many = calls_of(kind(SMALL).snapshot()), calls_of(kind(SMALL * FACTOR).snapshot())
    assert many <= few * FACTOR
