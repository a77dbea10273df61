"""Contract, section 8."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.observation import State
from tests.support.builders import (
    JOB_UID,
    JOBSET_UID,
    UID,
    Scenario,
    event,
    job,
    node,
    pod,
    runtime_patch,
    scenario,
    workload,
)
from tests.support.rows import showing


def running() -> Scenario:
    return scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running())


@pytest.mark.row("8/deleted")
def test_being_deleted() -> None:
    found = running()
    found.trainjob.deleted(5, grace=0)
    assert found.notes() == ["TrainJob is being deleted since 2026-01-01T00:00:05Z"]


@pytest.mark.row("8/gates")
def test_gates_of_others_on_both_objects() -> None:
    found = scenario(mode="kueue").suspended()
    found.trainjob.annotation(names.ANNOTATION_KUEUE_GATED_BY, f"{names.GATE},one/x")
    found.workload = workload().annotation(names.ANNOTATION_KUEUE_GATED_BY, f"one/x,two/y,{names.GATE}")
    assert found.notes() == ["gated by one/x, two/y"]


@pytest.mark.row("8/workload")
def test_no_workload_yet() -> None:
    found = scenario(mode="kueue").suspended()
    found.workload = None
    assert found.notes() == ["no Workload yet"]
    found.trainjob.with_condition("Complete", "C")
    assert found.notes() == ["C"]


@pytest.mark.row("8/checks")
def test_checks_that_are_not_ready_in_their_own_order() -> None:
    found = scenario(mode="kueue").suspended()
    checks = [
        {"name": "z", "state": "Pending", "message": ""},
        {"name": "r", "state": "Ready", "message": "m"},
        {"name": "a", "state": "Retry", "message": "no machines"},
    ]
    found.workload = workload().status(admissionChecks=checks)
    assert found.notes() == ["admission check z Pending", "admission check a Retry: no machines"]


@pytest.mark.row("8/gate-without-effect")
def test_gate_that_means_nothing() -> None:
    found = scenario(mode="kueue")
    found.trainjob.annotation(names.ANNOTATION_KUEUE_GATED_BY, names.GATE)
    assert found.observe().state is State.GATED
    assert found.notes() == ["runs although it is gated"]


# ---------------------------------------------------------------- what may still run


@pytest.mark.row("8/remaining")
def test_remaining_pods_in_order_of_name_with_their_nodes() -> None:
    found = running().suspended()
    found.pods += [pod("c", index=2).on("gone").running(), pod("d", index=3).phase("Pending")]
    found.nodes = [node("node-0"), node("node-1").lost().tainted(names.TAINT_OUT_OF_SERVICE)]
    assert found.notes()[1:] == [
        "remaining pods: a on node-0 (Ready=True), b on node-1 (Ready=Unknown, out-of-service), c on gone (gone), d"
    ]


def test_remaining_pods_on_nodes_that_may_not_be_read() -> None:
    found = running().suspended()
    found.nodes, found.nodes_readable = [], False
    assert found.notes()[1:] == ["remaining pods: a on node-0 (not readable), b on node-1 (not readable)"]


def test_finished_pod_does_not_remain() -> None:
    found = scenario(pod("a").on("node-0").terminated(0), pod("b", index=1).on("node-1").terminated(3)).suspended()
    assert found.notes() == ["TrainJob is suspended"]


def test_failed_pod_whose_container_was_never_confirmed_remains_until_its_node_is_settled() -> None:
    found = scenario(pod("a").on("node-0").running().phase("Failed")).suspended()
    assert found.notes()[1] == "remaining pods: a on node-0 (Ready=True)"
    found.nodes = [node("node-0").tainted(names.TAINT_OUT_OF_SERVICE)]
    assert "remaining" not in found.observe().cause.detail
    found.nodes = []
    assert "remaining" not in found.observe().cause.detail


def test_pod_that_kueue_ended_by_force_remains() -> None:
    found = scenario(pod("a").on("node-0").phase("Failed").with_condition("KueueFailureRecovery", "R")).suspended()
    assert found.notes()[1] == "remaining pods: a on node-0 (Ready=True)"


def vanished_from(before: str = "node-0") -> Scenario:
    found = scenario().suspended()
    found.captured = [pod("a").on("node-0").running().captured(node(before).lost())]
    found.nodes = [node("node-0").lost()]
    return found


@pytest.mark.row("8/remaining")
def test_pod_that_vanished_while_it_ran_remains() -> None:
    assert vanished_from().notes()[1] == "remaining pods: a on node-0 (vanished, Ready=Unknown)"


def test_vanished_pod_is_settled_by_its_node() -> None:
    for settled in ([], [node("node-0").tainted(names.TAINT_OUT_OF_SERVICE)], [node("node-0").rebooted()]):
        found = vanished_from()
        found.nodes = settled
        assert found.notes() == ["TrainJob is suspended"]


def test_deleted_pod_whose_end_a_kubelet_reported_does_not_remain() -> None:
    found = scenario().suspended()
    found.captured = [pod("a").on("node-0").terminated(143).captured(node("node-0"))]
    assert found.notes() == ["TrainJob is suspended"]


def test_remembered_pod_remains_and_is_named_once() -> None:
    found = vanished_from()
    found.vanished = [found.captured[0]]
    assert found.notes()[1] == "remaining pods: a on node-0 (vanished, Ready=Unknown)"


@pytest.mark.row("8/earlier-execution")
def test_pods_of_an_earlier_execution_beside_a_running_one() -> None:
    found = running()
    found.trainjob.spec(runtimePatches=[runtime_patch(admission="2")])
    found.pods.append(pod("new", admission=2).on("node-0").running())
    assert found.notes() == ["earlier execution: a on node-0 (Ready=True), b on node-1 (Ready=True)"]


# ---------------------------------------------------------------- controllers that are behind


@pytest.mark.row("8/no-jobset")
def test_no_jobset_yet() -> None:
    found = scenario()
    found.jobset = found.job = None
    assert found.notes() == ["no JobSet yet"]
    found.events = [
        event("TrainJobResourcesCreationFailed", "old", kind="TrainJob", uid=UID, seen=1, name="z"),
        event("TrainJobResourcesCreationFailed", "new", kind="TrainJob", uid=UID, seen=2, name="a"),
    ]
    assert found.notes() == ["no JobSet yet: new"]
    assert found.suspended().notes() == ["TrainJob is suspended"]


@pytest.mark.row("8/no-job")
def test_no_job_yet() -> None:
    found = scenario()
    found.job = None
    assert found.notes() == ["no Job yet"]
    found.events = [event("JobCreationFailed", "why", kind="JobSet", uid=JOBSET_UID)]
    assert found.notes() == ["no Job yet: why"]


@pytest.mark.row("8/no-pods")
def test_no_pods_yet_needs_an_event() -> None:
    found = scenario()
    assert found.notes() == []
    found.events = [event("FailedCreate", "of another", kind="Job", uid="another")]
    assert found.notes() == []
    found.events.append(event("FailedCreate", "why", kind="Job", uid=JOB_UID))
    assert found.notes() == ["no pods yet: why"]


@pytest.mark.parametrize(
    ("now", "notes"),
    [
        (70, []),
        showing("8/admitted-suspended", 71, ["admitted since 2026-01-01T00:00:10Z, still suspended"]),
    ],
)
def test_admitted_and_still_suspended(now: float, notes: list[str]) -> None:
    found = scenario(mode="kueue").suspended(since=5)
    found.workload = workload(admitted=True).with_condition("Admitted", "Admitted", since=10)
    assert found.notes(now) == notes


@pytest.mark.parametrize(
    ("now", "notes"),
    [(70, []), showing("8/jobset-not-suspended", 71, ["JobSet not suspended yet"])],
)
def test_jobset_not_suspended(now: float, notes: list[str]) -> None:
    found = scenario()
    found.trainjob.spec(suspend=True).with_condition("Suspended", "Suspended", since=10)
    assert found.notes(now)[1:] == notes


@pytest.mark.row("8/jobset-not-suspended")
def test_jobset_not_suspended_since_the_hold_and_why() -> None:
    found = scenario()
    found.trainjob.spec(suspend=True).annotated(hold_instance="1", hold_since="2026-01-01T00:00:10Z")
    found.events = [event("TrainJobResourcesCreationFailed", "why", kind="TrainJob", uid=UID)]
    assert found.notes(71) == ["JobSet not suspended yet: why"]
    found.trainjob.annotated(hold_since="yesterday")
    assert found.notes(71) == []


@pytest.mark.row("8/completing")
def test_job_is_completing() -> None:
    found = running()
    assert found.job is not None
    found.job.with_condition("SuccessCriteriaMet", "CompletionsReached", "m")
    assert found.notes() == ["job is completing: CompletionsReached: m"]
    found.job.with_condition("Complete", "CompletionsReached")
    assert found.notes() == []


@pytest.mark.row("8/failing")
def test_job_is_failing() -> None:
    found = running()
    assert found.job is not None
    found.job.with_condition("FailureTarget", "BackoffLimitExceeded", "m")
    assert found.notes() == ["job is failing: BackoffLimitExceeded: m"]
    found.trainjob.with_condition("Failed", "DeadlineExceeded")
    assert "job is failing" not in found.observe().cause.detail


# ---------------------------------------------------------------- pods


@pytest.mark.row("8/being-deleted")
def test_pod_that_somebody_deletes() -> None:
    found = running()
    found.pods[1].deleted(20)
    assert found.notes() == ["pod b is being deleted, due 2026-01-01T00:00:50Z"]


def test_deletion_that_has_its_reason_is_not_told() -> None:
    disrupted = running()
    disrupted.pods[1].deleted(20).disrupted("EvictionByEvictionAPI")
    replaced = running()
    replaced.pods[1].deleted(20)
    replaced.pods.append(pod("c", index=1).on("node-1").running().created(21))
    failing = running()
    failing.pods[1].deleted(20)
    assert failing.job is not None
    failing.job.with_condition("FailureTarget", "R")
    suspending = running()
    suspending.pods[1].deleted(20)
    suspending.job = job(suspend=True)
    earlier = running()
    earlier.pods[1].deleted(20).annotated(admission="0")
    for found in (disrupted, replaced, failing, suspending, earlier):
        assert "is being deleted" not in found.observe().cause.detail


@pytest.mark.row("8/sidecars")
def test_sidecar_that_outlives_the_trainer() -> None:
    found = scenario(pod("a").on("node-0").running("logger").running("proxy").ended("node", 0))
    assert found.notes() == ["pod a: node exited 0, logger, proxy still runs"]


@pytest.mark.row("8/waiting")
def test_container_that_waits_for_something() -> None:
    found = scenario(pod("a").on("node-0").waiting("ImagePullBackOff", "Back-off"), pod("b", index=1).waiting("X"))
    assert found.notes() == ["pod a ImagePullBackOff: Back-off", "pod b X"]


@pytest.mark.row("8/waiting")
def test_init_container_that_waits() -> None:
    found = scenario(pod("a").on("node-0").init_container("fetch", {"waiting": {"reason": "ErrImagePull"}}))
    assert found.notes() == ["pod a ErrImagePull"]


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_pod_that_is_being_created_is_not_told(reason: str) -> None:
    assert scenario(pod("a").on("node-0").waiting(reason)).notes() == []


@pytest.mark.row("8/failed")
def test_pod_that_failed_and_says_nothing_known() -> None:
    found = scenario(pod("a").on("node-0").phase("Failed", "Odd", "m"), pod("b", index=1).phase("Failed", "Odder"))
    assert found.notes() == ["pod a failed: Odd: m", "pod b failed: Odder"]


@pytest.mark.row("8/restarting")
def test_jobset_restarting() -> None:
    found = running()
    assert found.jobset is not None
    found.jobset.with_condition("RestartingJobSet", "R", "m")
    assert found.notes() == ["JobSet restarting: R: m"]
    found.jobset.with_condition("RestartingJobSet", "JobsReady", status="False")
    assert found.notes() == []


@pytest.mark.row("8/completed-ranks")
def test_resumed_gang_lacks_the_ranks_that_had_completed() -> None:
    found = scenario(pod("a", admission=2).on("node-0").running())
    found.trainjob.spec(runtimePatches=[runtime_patch(admission="2")])
    found.job = job(completed="1,3-5", completions=6)
    assert found.notes() == ["4 of 6 ranks had already completed"]


def test_rank_that_completed_in_this_admission_is_not_lacking() -> None:
    found = scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").terminated(0))
    found.job = job(completed="1")
    assert found.notes() == []


def test_pending_job_tells_all_completed_ranks() -> None:
    found = scenario(mode="kueue").suspended()
    found.job = job(suspend=True, completed="0-999999999,x,5-3,", completions=3)
    assert found.notes() == ["1000000000 of 3 ranks had already completed"]


def test_notes_stand_after_cause_and_contradictions_in_the_tables_order() -> None:
    found = running()
    found.nodes = [node("node-0")]
    found.runtime = None
    found.trainjob.deleted(5, grace=0).annotation(names.ANNOTATION_KUEUE_GATED_BY, "one/x")
    found.pods[0].waiting("Odd", container="sidecar")
    assert found.notes() == [
        "pod b: node node-1 is gone",
        "runtime copy is gone",
        "TrainJob is being deleted since 2026-01-01T00:00:05Z",
        "gated by one/x",
        "pod a Odd",
    ]
