"""When the current execution began: durations in the log count from there."""

from __future__ import annotations

from airflow_dispatch.core.classify import began
from tests.support.builders import PodBuilder, at, pod, scenario, stamp


def _started(builder: PodBuilder, seconds: float) -> PodBuilder:
    builder.raw["status"]["startTime"] = stamp(seconds)
    return builder


def test_the_first_pod_of_the_current_execution_counts() -> None:
    earlier = _started(pod("a", admission=1), 1)
    slow, fast = _started(pod("b", index=0, admission=2), 9), _started(pod("c", index=1, admission=2), 7)

    assert began(scenario(earlier, slow, fast).snapshot(), at(30)) == at(7)


def test_nothing_has_begun_before_a_kubelet_took_a_pod_up() -> None:
    assert began(scenario(pod("a")).snapshot(), at(30)) is None
