"""Contract, section 5."""

from __future__ import annotations

import pytest

from airflow_dispatch.core.observation import State
from tests.support.builders import Scenario, scenario, workload
from tests.support.rows import showing


def deactivated() -> Scenario:
    job = scenario(mode="kueue").suspended()
    job.workload = workload(active=False)
    return job


@pytest.mark.row("3/5", "5/suspended")
def test_plain_job_suspended_by_someone_else() -> None:
    found = scenario().suspended().observe()
    assert (found.state, found.admin_held) == (State.HELD, True)
    assert (found.cause.kind, found.cause.detail) == ("none", "TrainJob is suspended")


@pytest.mark.row("3/5", "5/deactivated")
def test_workload_deactivated_by_an_administrator() -> None:
    job = deactivated()
    assert (job.observe().state, job.observe().admin_held) == (State.HELD, True)
    assert job.cause() == ("none", "", "Workload is deactivated")


@pytest.mark.row("5/deactivated")
@pytest.mark.parametrize(("reason", "status"), [("Deactivated", "True"), ("DeactivatedDueToX", "False")])
def test_eviction_that_is_not_kueues_own_deactivation_is_a_persons(reason: str, status: str) -> None:
    job = deactivated()
    assert job.workload is not None
    job.workload.with_condition("Evicted", reason, status=status)
    assert job.observe().admin_held
    assert job.cause() == ("none", "", "Workload is deactivated")


@pytest.mark.parametrize(
    ("reason", "kind", "provenance"),
    [
        showing("5/execution-time", "DeactivatedDueToMaximumExecutionTimeExceeded", "timeout", "reported"),
        showing("5/requeuing", "DeactivatedDueToRequeuingLimitExceeded", "no-capacity", "reported"),
        showing("5/other-deactivation", "DeactivatedDueToAdmissionCheck", "unknown", ""),
    ],
)
def test_kueues_own_deactivation_is_no_persons_hold(reason: str, kind: str, provenance: str) -> None:
    job = deactivated()
    assert job.workload is not None
    job.workload.with_condition("Evicted", reason, "words")
    found = job.observe()
    assert (found.state, found.admin_held) == (State.HELD, False)
    assert job.cause() == (kind, provenance, f"Workload Evicted: {reason}: words")


def test_suspended_plain_job_in_kueue_mode_is_not_held() -> None:
    assert scenario(mode="kueue").suspended().observe().state is State.PENDING
