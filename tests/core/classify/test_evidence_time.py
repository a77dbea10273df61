"""Contract, section 6.3: ``cause.at`` is the time of the evidence, never the clock."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from tests.support.builders import JOB_UID, Scenario, at, event, node, pod, scenario, workload

SEEN = 7


def failed(reason: str) -> Scenario:
    found = scenario()
    found.trainjob.with_condition("Failed", reason, since=SEEN)
    return found


def failed_with_silent_pods() -> Scenario:
    found = failed("FailedJobs")
    found.pods = [pod("a").terminated(0)]
    return found


def of_workload(kind: str, reason: str, *, status: str = "True", active: bool = True) -> Scenario:
    found = scenario(mode="kueue").suspended(since=20)
    found.workload = workload(active=active).with_condition(kind, reason, "m", status=status, since=SEEN)
    return found


def tainted() -> Scenario:
    found = scenario(pod("a").on("node-0").running())
    lost = node("node-0").tainted(names.TAINT_UNREACHABLE)
    lost.raw["spec"]["taints"][0]["timeAdded"] = "2026-01-01T00:00:07Z"
    found.nodes = [lost]
    return found


def refused(message: str) -> Scenario:
    found = scenario()
    found.events = [event("FailedCreate", message, kind="Job", uid=JOB_UID, seen=SEEN)]
    return found


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (failed("DeadlineExceeded"), "timeout"),
        (failed("FailedJobs"), "unknown"),
        (failed_with_silent_pods(), "unknown"),
        (failed("SomethingElse"), "unknown"),
        (of_workload("Evicted", "DeactivatedDueToX", active=False), "unknown"),
        (of_workload("Evicted", "SomethingElse"), "unknown"),
        (of_workload("QuotaReserved", "Pending", status="False"), "no-capacity"),
        (of_workload("QuotaReserved", "Misconfigured", status="False"), "rejected"),
        (tainted(), "node-lost"),
        (refused("exceeded quota"), "no-capacity"),
        (refused("pods are forbidden"), "rejected"),
    ],
)
def test_the_cause_has_the_time_of_its_evidence(found: Scenario, kind: str) -> None:
    cause = found.observe().cause
    assert (cause.kind, cause.at) == (kind, at(SEEN))
