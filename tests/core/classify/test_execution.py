"""Contract, section 6.4."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.observation import Execution
from tests.support.builders import JOB_ID, PodBuilder, node, pod, scenario


def execution(*pods: PodBuilder) -> Execution | None:
    return scenario(*pods).observe().execution


@pytest.mark.row("6.4/current")
def test_highest_sum_wins() -> None:
    found = execution(pod("a", admission=2, restart=0), pod("b", admission=1, restart=2))
    assert found == Execution(admission=1, restart=2, number=3, epoch=1_000_003, token=f"{JOB_ID}.1.1.1.2")


@pytest.mark.row("6.4/current")
def test_higher_admission_wins_a_tie() -> None:
    found = execution(pod("a", admission=1, restart=1), pod("b", admission=2, restart=0))
    assert found is not None
    assert (found.admission, found.restart) == (2, 0)


@pytest.mark.row("6.4/current")
def test_captured_pod_counts_like_a_live_one() -> None:
    job = scenario(pod("a", admission=1))
    job.captured = [pod("b", admission=2).captured(node("node-0"))]
    found = job.observe().execution
    assert found is not None
    assert found.admission == 2


@pytest.mark.parametrize("text", [None, "", "01", "-1", "x", "999999999999"])
def test_pod_that_lacks_a_counter_counts_towards_none(text: str | None) -> None:
    assert execution(pod("a").label(names.LABEL_RESTART_ATTEMPT, text)) is None
    assert execution(pod("a").annotated(admission=text)) is None


def test_no_pods_no_execution() -> None:
    assert execution() is None
