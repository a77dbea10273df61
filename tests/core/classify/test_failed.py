"""Contract, section 4."""

from __future__ import annotations

import pytest

from airflow_dispatch.core.classify.failed import BY_PODS
from tests.support.builders import node, pod, scenario
from tests.support.rows import showing


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        showing("4/deadline", "DeadlineExceeded", "timeout"),
        showing("4/runtime", "TrainingRuntimeNotSupported", "rejected"),
    ],
)
def test_reason_that_says_why_is_reported(reason: str, kind: str) -> None:
    job = scenario(pod("a").on("node-0").terminated(3))
    job.trainjob.with_condition("Failed", reason, "words")
    assert job.cause() == (kind, "reported", f"{reason}: words")


@pytest.mark.row("3/2", "4/pods")
@pytest.mark.parametrize("reason", sorted(BY_PODS))
def test_reason_that_only_says_that_ranks_failed_asks_the_pods(reason: str) -> None:
    job = scenario(pod("a").on("node-0").terminated(3))
    job.trainjob.with_condition("Failed", reason, "words")
    assert job.cause() == ("non-zero-exit", "derived", f"pod a: exit code 3; {reason}: words")


@pytest.mark.row("4/pods")
def test_captured_pod_is_evidence_like_a_live_one() -> None:
    job = scenario()
    job.captured = [pod("a").on("node-0").terminated(137, "OOMKilled").captured(node("node-0"))]
    job.trainjob.with_condition("Failed", "FailedJobs", "words")
    assert job.cause()[:2] == ("out-of-memory", "derived")


@pytest.mark.row("4/pods-without-finding")
def test_pods_without_finding_leave_it_unknown() -> None:
    job = scenario(pod("a").on("node-0").terminated(0))
    job.trainjob.with_condition("Failed", "FailedJobs", "words")
    assert job.cause() == ("unknown", "", "FailedJobs: words")


@pytest.mark.row("4/no-pods")
def test_no_pod_at_all_is_said() -> None:
    job = scenario()
    job.trainjob.with_condition("Failed", "FailedJobs", "words")
    assert job.cause() == ("unknown", "", "FailedJobs: words; no pod evidence was captured")


@pytest.mark.row("4/other")
def test_reason_that_nobody_knows_is_unknown_whatever_pods_say() -> None:
    job = scenario(pod("a").on("node-0").terminated(3))
    job.trainjob.with_condition("Failed", "Surprise", "words")
    assert job.cause() == ("unknown", "", "Surprise: words")


def test_exit_of_an_earlier_execution_is_not_why_it_ended() -> None:
    job = scenario(pod("old").on("node-0").terminated(3), pod("new", restart=1).on("node-0").terminated(0))
    job.trainjob.with_condition("Failed", "FailedJobs", "words")
    assert job.cause() == ("unknown", "", "FailedJobs: words")
