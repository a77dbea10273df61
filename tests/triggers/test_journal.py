from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from airflow_dispatch.core.observation import Cause, CauseKind, Execution, Observation, State
from airflow_dispatch.triggers.journal import Journal

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUNNING = Observation(
    ref="ml/dj-x-s1",
    job_id="X",
    submission=1,
    attempt=1,
    uid="u-1",
    state=State.RUNNING,
    execution=Execution(admission=1, restart=0, number=1, epoch=1_000_001, token="t"),
)
LOST = msgspec.structs.replace(
    RUNNING, cause=Cause(kind=CauseKind.NODE_LOST, detail="pod p: node node-1 Ready=Unknown (NodeStatusUnknown)")
)


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def log(self, level: int, message: str, *args: object) -> None:
        self.lines.append((level, message % args))


def seen(observation: Observation, minutes: float) -> tuple[Observation, datetime]:
    now = START + timedelta(minutes=minutes)
    return msgspec.structs.replace(observation, seen_at=now), now


def test_a_line_when_something_changed_and_never_otherwise() -> None:
    log = Recorder()
    journal = Journal(log)

    changes = [journal.observe(*seen(RUNNING, minute)) for minute in range(60)]

    assert changes == [True] + [False] * 59
    assert [level for level, _ in log.lines] == [logging.INFO]


@pytest.mark.parametrize("told", ["job is completing: Completions", "job is failing: BackoffLimitExceeded"])
def test_between_the_end_of_the_job_and_of_its_trainjob_nothing_is_told(told: str) -> None:
    log = Recorder()
    journal = Journal(log)
    journal.observe(*seen(RUNNING, 0))
    journal.observe(*seen(msgspec.structs.replace(RUNNING, cause=Cause(detail=told)), 1))
    assert not journal.observe(*seen(RUNNING, 1.1))
    assert [text for _, text in log.lines] == ["running: admission 1", f"running: {told}"]


def test_a_gang_that_starts_again_after_its_job_failed_is_told() -> None:
    log = Recorder()
    journal = Journal(log)
    journal.observe(*seen(msgspec.structs.replace(RUNNING, cause=Cause(detail="job is failing: x")), 0))
    again = Execution(admission=1, restart=1, number=2, epoch=1_000_002, token="t")
    assert journal.observe(*seen(msgspec.structs.replace(RUNNING, execution=again), 1))
    assert log.lines[-1][1] == "running: admission 1, restart 1"


def test_a_stall_comes_again_every_ten_minutes_with_its_age() -> None:
    log = Recorder()
    journal = Journal(log)
    journal.observe(*seen(LOST, 0))
    first = len(log.lines)

    for minute in range(1, 21):
        journal.observe(*seen(LOST, minute))

    assert [level for level, _ in log.lines[first:]] == [logging.WARNING] * 2
    assert [text.rpartition("; ")[2] for _, text in log.lines[first:]] == [
        "unchanged for 10 min",
        "unchanged for 20 min",
    ]


def test_another_process_goes_on_where_this_one_stopped() -> None:
    before = Journal(Recorder())
    before.observe(*seen(LOST, 0))
    log = Recorder()
    after = Journal(log)

    after.resume(json.loads(json.dumps(before.published())))
    after.observe(*seen(LOST, 5))
    after.observe(*seen(LOST, 10))

    assert [text.rpartition("; ")[2] for _, text in log.lines] == ["unchanged for 10 min"]
    assert after.last_line == before.last_line


@pytest.mark.parametrize("published", [{}, {"observation": None}, {"observation": {"state": "odd"}}])
def test_what_can_not_be_read_of_another_process_is_ignored(published: dict[str, object]) -> None:
    log = Recorder()
    journal = Journal(log)

    journal.resume(published)
    journal.observe(*seen(RUNNING, 0))

    assert len(log.lines) == 1


def test_a_job_that_ran_before_it_was_first_looked_at_has_run_since_it_began() -> None:
    log = Recorder()
    journal = Journal(log)
    completed = msgspec.structs.replace(
        RUNNING, state=State.ENDED, cause=Cause(kind=CauseKind.COMPLETED, detail="done")
    )

    observation, now = seen(RUNNING, 0)
    journal.observe(observation, now, START - timedelta(minutes=3))
    journal.observe(*seen(completed, 1))

    assert journal.last_line == "ended: completed after 4 min: done"
