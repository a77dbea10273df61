"""The table of section 13."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, CauseKind
from airflow_dispatch.core.task import (
    Action,
    Decision,
    Submitted,
    decide,
    format_origin,
    format_verdict,
    parse_origin,
    parse_verdict,
    spec_digest,
)

ORIGIN = TaskKey("airflow", "dag", "run", "task", -1)
GOOD: dict[str, Any] = {"job_id": "01K6NJRFAE13R8H0C3SWZGBJ7R", "argv": ["true"], "runtime": "torch"}


def submitted(number: int = 1, digest: str | None = "v1:same", **fields: Any) -> Submitted:
    return Submitted(number, f"uid-{number}", digest=digest, origin=ORIGIN, **fields)


LIVE = submitted()
OTHER = submitted(digest="v1:other")
UNDEAD = submitted(reported=True)


@pytest.mark.parametrize(
    ("present", "try_number", "highest", "expected"),
    [
        ([], 1, 0, Decision(Action.START, 1)),
        ([], 3, 0, Decision(Action.START, 3)),
        ([], 1, 4, Decision(Action.START, 5)),
        ([submitted(2, deleting=True)], 1, 0, Decision(Action.START, 3)),
        ([LIVE], 2, 1, Decision(Action.ADOPT, 1)),
        ([submitted(digest="v2:unknown")], 2, 1, Decision(Action.ADOPT, 1)),
        ([OTHER], 2, 1, Decision(Action.REPLACE, 2, (OTHER,))),
        ([submitted(finished=True)], 2, 1, Decision(Action.VERDICT, 1)),
        ([submitted(finished=True, digest="v1:other")], 2, 1, Decision(Action.VERDICT, 1)),
        ([submitted(finished=True, reported=True)], 2, 1, Decision(Action.START, 2)),
        ([UNDEAD], 2, 1, Decision(Action.START, 2, (UNDEAD,))),
        ([LIVE, submitted(2)], 2, 2, Decision(Action.ADOPT, 2, (LIVE,))),
    ],
)
def test_the_newest_submission_decides(
    present: list[Submitted], try_number: int, highest: int, expected: Decision
) -> None:
    found = decide(present, digest="v1:same", origin=ORIGIN, try_number=try_number, highest=highest)
    assert found == expected


def test_another_task_s_submission_is_refused() -> None:
    with pytest.raises(Refused, match="another task's"):
        decide([LIVE], digest="v1:same", origin=ORIGIN._replace(dag_id="x"), try_number=1, highest=1)


def test_defaults_do_not_count_in_the_digest() -> None:
    job = TrainingJob.validated(**GOOD)
    assert spec_digest(job) == spec_digest(TrainingJob.validated(**GOOD, env={}))
    assert spec_digest(job) != spec_digest(TrainingJob.validated(**GOOD, env={"A": "1"}))


def test_annotations_are_read_as_they_were_written() -> None:
    cause = Cause(kind=CauseKind.TIMEOUT, detail="é" * 2000)
    read = parse_verdict(format_verdict(cause))
    assert read is not None
    assert (read.kind, len(read.detail.encode())) == (CauseKind.TIMEOUT, 1024)
    assert parse_origin(format_origin(ORIGIN)) == ORIGIN
    assert (parse_verdict("{"), parse_origin("[]"), parse_origin(None)) == (None, None, None)
