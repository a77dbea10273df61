from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_dispatch.core.observation import Cause, CauseKind, Observation, State
from airflow_dispatch.triggers.event import gone, make_event, timed_out

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ended(detail: str) -> Observation:
    return Observation(
        ref="ml/dj-01k6njrfae0000000000000000-s1",
        job_id="01K6NJRFAE0000000000000000",
        submission=1,
        attempt=1,
        uid="u-1",
        state=State.ENDED,
        cause=Cause(kind=CauseKind.NODE_LOST, detail=detail, at=NOW),
        seen_at=NOW,
    )


def test_an_event_carries_outcome_line_and_output() -> None:
    event = make_event("ended", ended("why"), "ended: node-lost: why", ["a", "b"])

    assert event["outcome"]["cause"] == {
        "kind": "node-lost",
        "provenance": "",
        "detail": "why",
        "at": "2026-11-30T12:00:00Z",
    }
    assert (event["status"], event["line"], event["output"]) == ("ended", "ended: node-lost: why", ["a", "b"])


@pytest.mark.parametrize("character", ["x", "é", "\N{GRINNING FACE}"])
def test_an_event_stays_below_8_kib_whatever_it_carries(character: str) -> None:
    detail = f"first {character * 20_000} last"

    event = make_event("ended", ended(detail), detail, [character * 2000] * 50)

    assert len(json.dumps(event)) < 8 * 1024
    assert event["outcome"]["cause"]["detail"].startswith("first")
    assert event["outcome"]["cause"]["detail"].endswith("last")


def test_the_newest_output_lines_are_the_ones_that_stay() -> None:
    event = make_event("ended", ended("why"), "line", [f"{number} {'x' * 400}" for number in range(50)])

    assert event["output"][-1].startswith("49 ")
    assert 1 < len(event["output"]) < 50


def test_a_job_that_was_deleted_ended_for_an_unknown_cause() -> None:
    assert gone("ml/dj-x-s1", "X", 1, "u-1", NOW).cause == Cause(kind=CauseKind.UNKNOWN, detail="TrainJob was deleted")


def test_a_time_out_says_what_the_job_was_doing() -> None:
    waiting = Observation(
        ref="ml/dj-x-s1",
        job_id="X",
        submission=1,
        attempt=1,
        uid="u-1",
        state=State.PENDING,
        cause=Cause(kind=CauseKind.NO_CAPACITY, detail="pod p: Unschedulable: no room"),
    )

    outcome = timed_out(waiting, 90.0, NOW)

    assert outcome.state is State.ENDED
    assert outcome.cause == Cause(
        kind=CauseKind.TIMEOUT,
        detail="execution_timeout of 90 s has passed; the job was pending, no-capacity; pod p: Unschedulable: no room",
    )
