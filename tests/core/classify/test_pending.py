"""Contract, section 6.2."""

from __future__ import annotations

import pytest

from airflow_dispatch.core.observation import State
from tests.support.builders import Scenario, at, node, pod, scenario, workload
from tests.support.rows import showing


def evicted(reason: str, message: str = "words") -> Scenario:
    job = scenario(mode="kueue").suspended(since=20)
    job.workload = workload().with_condition("Evicted", reason, message, since=15)
    return job


@pytest.mark.row("6.2/1")
def test_row_1_preempted_tells_both_conditions() -> None:
    job = evicted("Preempted", "by another")
    assert job.workload is not None
    job.workload.with_condition("Preempted", "InClusterQueue", "why")
    assert job.observe().state is State.PENDING
    assert job.observe().cause.at == at(15)
    assert job.cause() == (
        "preempted",
        "reported",
        "Workload Evicted: Preempted: by another; Preempted: InClusterQueue: why",
    )


def test_row_1_without_a_preempted_condition() -> None:
    assert evicted("Preempted").cause()[2] == "Workload Evicted: Preempted: words"


@pytest.mark.row("6.2/2")
def test_row_2_node_failures() -> None:
    assert evicted("NodeFailures").cause() == ("node-lost", "reported", "Workload Evicted: NodeFailures: words")


@pytest.mark.row("6.2/3")
@pytest.mark.parametrize(
    "reason", ["PodsReadyTimeout", "ClusterQueueStopped", "LocalQueueStopped", "FlavorMigration", "AdmissionCheck"]
)
def test_row_3_no_capacity(reason: str) -> None:
    assert evicted(reason).cause() == ("no-capacity", "reported", f"Workload Evicted: {reason}: words")


@pytest.mark.row("6.2/3-broken")
def test_row_3_gang_that_broke_is_told_by_its_disruption() -> None:
    job = evicted("PodsReadyTimeout")
    lost = pod("a").on("node-0").running().disrupted("DeletionByTaintManager", since=10)
    job.captured = [lost.phase("Failed").captured(node("node-0").lost())]
    kind, provenance, detail = job.cause()
    assert (kind, provenance) == ("node-lost", "derived")
    assert detail.startswith("pod a: DeletionByTaintManager; node node-0 tainted node.kubernetes.io/unreachable")


@pytest.mark.row("6.2/3-broken")
def test_row_3_gang_in_recovery_without_evidence_is_unknown() -> None:
    job = evicted("PodsReadyTimeout")
    assert job.workload is not None
    job.workload.with_condition("PodsReady", "WaitForRecovery", status="False")
    assert job.cause() == ("unknown", "", "Workload Evicted: PodsReadyTimeout: words")


@pytest.mark.row("6.2/4")
def test_row_4_anything_else_is_unknown() -> None:
    assert evicted("Surprise").cause() == ("unknown", "", "Workload Evicted: Surprise: words")


def test_row_4_deactivation_that_is_over_lets_row_5_speak() -> None:
    job = evicted("Deactivated")
    assert job.workload is not None
    job.workload.with_condition("QuotaReserved", "Pending", "no room", status="False")
    assert job.cause() == ("no-capacity", "reported", "Workload QuotaReserved: Pending: no room")


def test_row_4_deactivation_that_is_not_requeued_stays_unknown() -> None:
    job = evicted("DeactivatedDueToRequeuingLimitExceeded")
    assert job.workload is not None
    job.workload.with_condition("Requeued", "X", status="False")
    assert job.cause()[0] == "unknown"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        showing("6.2/5", "Pending", "no-capacity"),
        showing("6.2/5", "Inadmissible", "no-capacity"),
        showing("6.2/5-never", "Misconfigured", "rejected"),
        showing("6.2/5-never", "NoMatchingFlavor", "rejected"),
        showing("6.2/5-never", "ExceedsMaxQuota", "rejected"),
        ("AdmissionGated", "none"),
        ("PendingEvaluation", "none"),
    ],
)
def test_row_5_quota(reason: str, kind: str) -> None:
    job = scenario(mode="kueue").suspended()
    job.workload = workload().with_condition("QuotaReserved", reason, "words", status="False")
    assert job.cause()[0] == kind


@pytest.mark.parametrize("message", ["AdmissionGatedBy cleared for x", "evicted words"])
def test_row_5_not_before_kueue_has_looked(message: str) -> None:
    job = scenario(mode="kueue").suspended()
    job.workload = workload().with_condition("QuotaReserved", "Pending", message, status="False")
    job.workload.with_condition("Evicted", "Deactivated", "evicted words", status="False")
    assert job.cause() == ("none", "", "")


def held_then_released(since: float) -> Scenario:
    job = scenario(mode="kueue").suspended(since=20)
    gone = pod("a").on("node-0").terminated(143).disrupted("EvictionByEvictionAPI", "evicting", since=since)
    job.captured = [gone.captured(node("node-0"))]
    return job


@pytest.mark.row("6.2/6")
def test_row_6_disruption_before_the_suspension() -> None:
    kind, provenance, detail = held_then_released(since=20).cause()
    assert (kind, provenance) == ("preempted", "derived")
    assert detail == (
        "pod a: EvictionByEvictionAPI: evicting; other ranks: a non-zero-exit (exit code 143 (signal 15))"
    )


def test_row_6_not_a_disruption_after_the_suspension() -> None:
    assert held_then_released(since=21).cause() == ("none", "", "")


@pytest.mark.row("6.2/7")
def test_row_6_not_an_exit_alone() -> None:
    job = scenario(mode="kueue").suspended(since=20)
    job.captured = [pod("a").on("node-0").terminated(143).captured(node("node-0"))]
    assert job.cause() == ("none", "", "")
