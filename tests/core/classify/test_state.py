"""Contract, section 3."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify, end_of
from airflow_dispatch.core.observation import Cause, CauseKind, Observation, Provenance, State
from tests.support.builders import JOB_ID, NAME, UID, Scenario, at, pod, scenario


def healthy() -> Scenario:
    return scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running())


@pytest.mark.row("3/6-running")
def test_running_job_is_observed_whole() -> None:
    found = healthy().observe(now=30)

    assert found == Observation(
        ref=f"ml/{NAME}",
        job_id=JOB_ID,
        submission=1,
        attempt=1,
        uid=UID,
        state=State.RUNNING,
        execution=found.execution,
    )
    assert found.execution is not None
    assert found.execution.epoch == 1_000_001
    assert found.execution.token == f"{JOB_ID}.1.1.1.0"
    assert found.seen_at == at(30)


@pytest.mark.row("3/1")
def test_complete_is_reported_with_its_words_and_time() -> None:
    job = scenario()
    job.trainjob.with_condition("Complete", "AllJobsCompleted", "done", since=20)

    found = job.observe()

    assert found.state is State.ENDED
    assert found.cause == Cause(
        kind=CauseKind.COMPLETED, provenance=Provenance.REPORTED, detail="AllJobsCompleted: done", at=at(20)
    )


def test_words_of_a_condition_without_message_are_its_reason() -> None:
    job = scenario()
    job.trainjob.with_condition("Complete", "AllJobsCompleted")
    assert job.cause() == ("completed", "reported", "AllJobsCompleted")


def test_complete_beats_failed() -> None:
    job = healthy()
    job.trainjob.with_condition("Complete", "C").with_condition("Failed", "DeadlineExceeded")
    assert job.cause()[0] == "completed"


@pytest.mark.row("3/0")
def test_verdict_stands_when_the_end_was_erased() -> None:
    job = healthy()
    job.trainjob.annotated(
        verdict='{"kind":"out-of-memory","provenance":"derived","detail":"pod a: OOM","at":"2026-01-01T00:00:05Z"}'
    )

    found = job.observe()

    assert found.state is State.ENDED
    assert (found.cause.kind, found.cause.provenance, found.cause.at) == ("out-of-memory", "derived", at(5))
    assert found.cause.detail.startswith("pod a: OOM; remaining pods: a on node-0")


def test_verdict_gives_way_to_an_end_that_shows() -> None:
    job = healthy()
    job.trainjob.annotated(verdict='{"kind":"timeout"}').with_condition("Complete", "C")
    assert job.cause()[0] == "completed"


@pytest.mark.parametrize("text", ["", "{", '{"kind":"surprising"}', "\ud800"])
def test_unreadable_verdict_still_ends_the_object(text: str) -> None:
    job = scenario()
    job.trainjob.annotated(verdict=text)
    found = job.observe()
    assert found.state is State.ENDED
    assert found.cause.kind is CauseKind.UNKNOWN
    assert found.cause.detail == f"verdict is {text}"


@pytest.mark.row("3/0")
def test_end_seen_by_the_hub_counts_as_a_verdict() -> None:
    job = scenario()
    job.seen_end = Cause(kind=CauseKind.TIMEOUT, provenance=Provenance.REPORTED, detail="DeadlineExceeded")
    assert job.observe().state is State.ENDED
    assert job.cause() == ("timeout", "reported", "DeadlineExceeded")


def test_note_that_a_verdict_holds_already_is_not_said_twice() -> None:
    job = scenario()
    job.runtime = None
    job.seen_end = Cause(kind=CauseKind.UNKNOWN, detail="X; runtime copy is gone")
    assert job.cause()[2] == "X; runtime copy is gone"


def test_end_is_remembered_without_notes() -> None:
    job = healthy()
    job.runtime = None
    assert end_of(job.snapshot(), at(30)) is None
    job.trainjob.with_condition("Failed", "DeadlineExceeded", "too long", since=9)
    assert end_of(job.snapshot(), at(30)) == Cause(
        kind=CauseKind.TIMEOUT, provenance=Provenance.REPORTED, detail="DeadlineExceeded: too long", at=at(9)
    )


@pytest.mark.row("3/3")
@pytest.mark.parametrize("mode", ["plain", "kueue"])
def test_own_gate_in_the_annotation_gates(mode: str) -> None:
    job = scenario(mode=mode).suspended()
    job.trainjob.annotation(names.ANNOTATION_KUEUE_GATED_BY, f"example.com/other, {names.GATE}")
    assert job.observe().state is State.GATED


@pytest.mark.row("3/3")
def test_plain_job_that_was_never_opened_is_gated() -> None:
    job = scenario().suspended()
    job.trainjob.annotated(opened=None)
    assert job.observe().state is State.GATED


def test_plain_job_that_was_never_opened_but_unsuspended_is_not_gated() -> None:
    job = scenario()
    job.trainjob.annotated(opened=None)
    assert job.observe().state is State.RUNNING


def test_gate_of_another_party_leaves_it_pending() -> None:
    job = scenario(mode="kueue").suspended()
    job.trainjob.annotation(names.ANNOTATION_KUEUE_GATED_BY, "example.com/other")
    found = job.observe()
    assert found.state is State.PENDING
    assert found.cause.detail == "gated by example.com/other"


def test_gate_outranks_a_hold_and_the_instance_is_told_all_the_same() -> None:
    job = scenario().suspended()
    job.trainjob.annotated(opened=None, hold_instance="3")
    found = job.observe()
    assert (found.state, found.hold_instance) == (State.GATED, 3)


@pytest.mark.row("3/4")
def test_hold_of_ours() -> None:
    job = scenario().suspended()
    job.trainjob.annotated(hold_instance="2")
    found = job.observe()
    assert (found.state, found.hold_instance, found.admin_held) == (State.HELD, 2, False)
    assert found.cause == Cause()


def test_hold_in_kueue_mode_is_read_from_the_workload_alone() -> None:
    job = scenario(mode="kueue").suspended()
    job.trainjob.annotated(hold_instance="2")
    assert job.observe().hold_instance == 0
    assert job.workload is not None
    job.workload.annotated(hold_instance="4").spec(active=False)
    found = job.observe()
    assert (found.state, found.hold_instance) == (State.HELD, 4)


@pytest.mark.row("7/hold")
@pytest.mark.parametrize("text", ["0", "01", "+1", "-1", "1.0", "one", "", " 1"])
def test_malformed_hold_is_no_hold_and_foreign(text: str) -> None:
    job = scenario()
    job.trainjob.annotated(hold_instance=text)
    found = job.observe()
    assert (found.state, found.hold_instance, found.foreign) == (State.RUNNING, 0, True)
    assert found.cause.detail == f"hold-instance is {text}"


def test_admitted_but_still_suspended_is_pending_not_held() -> None:
    job = scenario(mode="kueue").suspended(since=25)
    assert job.observe().state is State.PENDING


def test_suspended_condition_alone_keeps_it_from_running() -> None:
    job = scenario()
    job.trainjob.with_condition("Suspended", "Suspended")
    assert job.observe().state is State.PENDING


@pytest.mark.row("3/6-pending")
def test_workload_without_admission_is_pending_though_unsuspended() -> None:
    job = scenario(mode="kueue")
    assert job.workload is not None
    job.workload.with_condition("Admitted", "NoReservation", status="False")
    assert job.observe().state is State.PENDING


@pytest.mark.row("3/unknown-condition")
def test_unknown_conditions_make_a_calm_cause_unknown_and_leave_the_state() -> None:
    job = healthy()
    job.trainjob.with_condition("Zebra", "Z", "zz").with_condition("Alien", "A").with_condition("Off", status="False")
    found = job.observe()
    assert found.state is State.RUNNING
    assert job.cause() == ("unknown", "", "TrainJob Alien: A; TrainJob Zebra: Z: zz")


def test_unknown_condition_does_not_hide_a_cause() -> None:
    job = healthy()
    job.trainjob.with_condition("Alien", "A")
    job.nodes = [job.nodes[0]]
    assert job.cause()[0] == "node-lost"


def test_name_that_is_not_ours_is_observed_without_identity() -> None:
    job = healthy()
    job.trainjob.metadata["name"] = "somebody-elses"
    found = classify(job.snapshot(), at(30))
    assert (found.job_id, found.submission, found.execution) == ("", 0, None)
