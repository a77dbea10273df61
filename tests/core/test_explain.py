"""What the task log says of an observation."""

from __future__ import annotations

import logging

import msgspec
import pytest

from airflow_dispatch.core.explain import Line, duration, hints, lines, sentence
from airflow_dispatch.core.observation import Cause, CauseKind, Execution, Observation, State
from tests.support.builders import JOB_ID, NAME, Scenario, at, node, pod, scenario

LOST_HINT = "nothing restarts until node-1 is back, rebooted, deleted or tainted node.kubernetes.io/out-of-service"


def observed(state: State, kind: CauseKind = CauseKind.NONE, detail: str = "", *, seen: float = 0) -> Observation:
    return Observation(
        ref=f"ml/{NAME}",
        job_id=JOB_ID,
        submission=1,
        attempt=1,
        uid="uid",
        state=state,
        cause=Cause(kind=kind, detail=detail),
        seen_at=at(seen),
    )


def gang() -> Scenario:
    return scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (40.9, "40 s"),
        (192, "3 min 12 s"),
        (600, "10 min"),
        (3840, "1 h 4 min"),
        (11400, "3 h 10 min"),
        (3600, "1 h"),
        (86400 * 2 + 3600 * 3 + 59, "2 d 3 h"),
    ],
)
def test_duration_is_said_as_a_person_says_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_running_job_says_its_execution() -> None:
    assert lines(gang().observe()) == [Line(logging.INFO, "running: admission 1")]


def test_restart_is_said() -> None:
    restarted = msgspec.structs.replace(
        observed(State.RUNNING), execution=Execution(admission=2, restart=1, number=3, epoch=1_000_003, token="t")
    )
    assert sentence(restarted) == "running: admission 2, restart 1"


def test_queue_time_stands_on_the_line_that_ends_it() -> None:
    before = observed(State.PENDING, CauseKind.NO_CAPACITY, "words")
    after = observed(State.RUNNING, seen=720)
    assert sentence(after, before, at(0)) == "running; queued 12 min"


def test_run_time_stands_on_the_line_that_ends_it() -> None:
    before = observed(State.RUNNING)
    after = observed(State.PENDING, CauseKind.PREEMPTED, "Workload Evicted: Preempted: words", seen=11400)
    assert lines(after, before, at(0)) == [
        Line(logging.INFO, "pending: preempted: Workload Evicted: Preempted: words; ran 3 h 10 min")
    ]


def test_completed_job_says_how_long_it_ran() -> None:
    after = observed(State.ENDED, CauseKind.COMPLETED, "AllJobsCompleted", seen=192)
    assert sentence(after, observed(State.RUNNING), at(0)) == "ended: completed after 3 min 12 s: AllJobsCompleted"


def test_change_within_a_state_says_no_duration() -> None:
    before = observed(State.PENDING)
    after = observed(State.PENDING, CauseKind.NO_CAPACITY, "words", seen=60)
    assert sentence(after, before, at(0)) == "pending: no-capacity: words"


def test_unchanged_stall_repeats_in_one_line_with_its_age() -> None:
    before = observed(State.PENDING, CauseKind.NO_CAPACITY, "many words")
    after = observed(State.PENDING, CauseKind.NO_CAPACITY, "many words", seen=600)
    assert lines(after, before, at(0)) == [Line(logging.INFO, "pending: no-capacity: …; unchanged for 10 min")]


def test_lost_node_is_a_warning_that_says_what_to_do() -> None:
    job = gang()
    job.nodes = [node("node-0"), node("node-1").lost()]
    assert lines(job.observe()) == [
        Line(logging.WARNING, "running: node-lost: pod b: node node-1 Ready=Unknown (NodeStatusUnknown)"),
        Line(logging.WARNING, f"  {LOST_HINT}"),
    ]


def test_node_that_is_gone_asks_for_nothing_but_patience() -> None:
    job = gang()
    job.nodes = [node("node-0")]
    (hint,) = hints(job.observe())
    assert hint.startswith("node-1 is gone: ")


def test_pod_that_remains_on_a_lost_node_says_what_to_do() -> None:
    job = gang().suspended()
    job.nodes = [node("node-0"), node("node-1").lost()]
    found = lines(job.observe())
    assert {line.level for line in found} == {logging.WARNING}
    assert found[1].text == f"  {LOST_HINT}"


def test_remaining_pods_on_healthy_nodes_need_no_hand() -> None:
    job = gang().suspended()
    assert LOST_HINT not in hints(job.observe())


def test_a_hold_says_what_ends_it() -> None:
    job = scenario().suspended()
    job.trainjob.annotated(hold_instance="2")
    first, hint = lines(job.observe())
    assert first == Line(logging.WARNING, "held: hold 2, no pod remains")
    assert hint.text == "  it stays so until hold 2 is released"


def test_hold_of_someone_else_says_whose_turn_it_is() -> None:
    first, hint = lines(scenario().suspended().observe())
    assert first.text == "held: TrainJob is suspended"
    assert hint.text == "  it stays so until whoever suspended it resumes it"


def test_kueues_own_deactivation_says_the_ways_out() -> None:
    (hint,) = hints(observed(State.HELD, CauseKind.NO_CAPACITY, "Workload Evicted: DeactivatedDueToX"))
    assert hint.startswith("Kueue gave it up: ")


def test_image_that_cannot_be_pulled_is_a_warning() -> None:
    job = scenario(pod("a").on("node-0").waiting("ImagePullBackOff", "m"), pod("b").waiting("ErrImagePull", "m"))
    found = lines(job.observe())
    assert [line.level for line in found] == [logging.WARNING] * 2
    assert found[1].text == "  check the image's name, and that the namespace may pull it"


def test_foreign_object_is_a_warning() -> None:
    job = gang()
    job.runtime = None
    first, hint = lines(job.observe())
    assert first == Line(logging.WARNING, "running: runtime copy is gone")
    assert hint.text.startswith("  someone else changed something")


def test_end_is_an_error_only_when_it_is_a_failure() -> None:
    assert lines(observed(State.ENDED, CauseKind.COMPLETED, "w")) == [Line(logging.INFO, "ended: completed: w")]
    assert lines(observed(State.ENDED, CauseKind.NON_ZERO_EXIT, "w")) == [
        Line(logging.ERROR, "ended: non-zero-exit: w")
    ]


@pytest.mark.parametrize("kind", [CauseKind.OUT_OF_MEMORY, CauseKind.TIMEOUT, CauseKind.REJECTED])
def test_end_that_a_change_would_mend_says_which(kind: CauseKind) -> None:
    assert len(hints(observed(State.ENDED, kind, "w"))) == 1


def test_node_that_was_lost_needs_no_hand_once_it_is_over() -> None:
    assert hints(observed(State.ENDED, CauseKind.NODE_LOST, "pod b: X; node node-1 tainted k")) == []


def test_a_pod_that_vanished_says_what_to_do() -> None:
    job = gang()
    job.suspended()
    job.pods = []
    job.captured = [pod("b").on("node-1").running().captured(node("node-1").lost())]
    job.nodes = [node("node-1").lost()]
    seen = job.observe()
    first, hint = lines(seen)[:2]
    assert first.level == logging.WARNING
    assert "remaining pods: b on node-1 (vanished, Ready=Unknown)" in first.text
    assert "until its node is rebooted, deleted or tainted" in hint.text
    assert hint.text.endswith(f"airflow-dispatch confirm-ceased {seen.job_id} --who WHO --reason WHY")
