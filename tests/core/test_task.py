"""The table of section 13."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.objects import TrainJob
from airflow_dispatch.core.observation import Cause, CauseKind
from airflow_dispatch.core.task import (
    Action,
    Decision,
    Submitted,
    before_open,
    decide,
    format_origin,
    format_verdict,
    open_beside,
    parse_origin,
    parse_verdict,
    spec_digest,
    submissions_of,
)
from tests.support.rows import showing

ORIGIN = TaskKey("airflow", "dag", "run", "task", -1)
GOOD: dict[str, Any] = {"job_id": "01K6NJRFAE13R8H0C3SWZGBJ7R", "argv": ["true"], "runtime": "torch"}


def submitted(number: int = 1, digest: str | None = "v1:same", **fields: Any) -> Submitted:
    return Submitted(number, f"uid-{number}", digest=digest, origin=ORIGIN, **fields)


LIVE = submitted()
OTHER = submitted(digest="v1:other")
OPENED = submitted(opened=True)
UNDEAD = submitted(reported=True)
ENDED = submitted(finished=True)
GONE = submitted(deleting=True)
REPORTED = submitted(finished=True, reported=True)


@pytest.mark.parametrize(
    ("present", "try_number", "highest", "expected"),
    [
        showing("13/none", [], 1, 0, Decision(Action.START, 1)),
        showing("13/none", [], 3, 0, Decision(Action.START, 3)),
        showing("13/none", [], 1, 4, Decision(Action.START, 5)),
        showing("13/none", [submitted(2, deleting=True)], 1, 0, Decision(Action.START, 3)),
        showing("13/same", [LIVE], 2, 1, Decision(Action.ADOPT, 1)),
        showing("13/same", [OPENED], 2, 1, Decision(Action.ADOPT, 1)),
        showing("13/same", [submitted(digest="v2:unknown")], 2, 1, Decision(Action.ADOPT, 1)),
        showing("13/same", [submitted(digest=None)], 2, 1, Decision(Action.ADOPT, 1)),
        showing("13/changed", [OTHER], 2, 1, Decision(Action.REPLACE, 2, (OTHER,))),
        showing("13/not-reported", [ENDED], 2, 1, Decision(Action.VERDICT, 1)),
        showing("13/not-reported", [ENDED._replace(digest="v1:other")], 2, 1, Decision(Action.VERDICT, 1)),
        showing("13/reported", [REPORTED], 2, 1, Decision(Action.START, 2)),
        showing("13/reported", [UNDEAD], 2, 1, Decision(Action.START, 2, (UNDEAD,))),
        showing("13/same", [LIVE, submitted(2)], 2, 2, Decision(Action.ADOPT, 2, (LIVE,))),
        showing("13/same", [OPENED, submitted(2)], 2, 2, Decision(Action.ADOPT, 1, (submitted(2),))),
        showing("13/same", [OPENED, submitted(2, finished=True)], 2, 2, Decision(Action.ADOPT, 1)),
        showing("13/same", [OPENED, submitted(2, deleting=True)], 2, 2, Decision(Action.ADOPT, 1)),
        showing("13/same", [OPENED, submitted(2, opened=True)], 2, 2, Decision(Action.ADOPT, 2, (OPENED,))),
        showing(
            "13/changed",
            [OPENED._replace(digest="v1:other"), submitted(2)],
            2,
            2,
            Decision(Action.REPLACE, 3, (submitted(2), OPENED._replace(digest="v1:other"))),
        ),
        showing("13/not-reported", [LIVE, submitted(2, finished=True)], 2, 2, Decision(Action.VERDICT, 2, (LIVE,))),
        showing("13/same", [UNDEAD, submitted(2, opened=True)], 2, 2, Decision(Action.ADOPT, 2, (UNDEAD,))),
        showing("13/same", [submitted(2), LIVE], 2, 2, Decision(Action.ADOPT, 2, (LIVE,))),
    ],
)
def test_the_newest_submission_decides(
    present: list[Submitted], try_number: int, highest: int, expected: Decision
) -> None:
    found = decide(present, digest="v1:same", origin=ORIGIN, try_number=try_number, highest=highest)
    assert found == expected


OWN = submitted(2)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], Decision(Action.ADOPT, 2)),
        ([REPORTED], Decision(Action.ADOPT, 2)),
        ([ENDED], Decision(Action.ADOPT, 2)),
        ([GONE], Decision(Action.ADOPT, 2)),
        ([LIVE], Decision(Action.ADOPT, 2, (LIVE,))),
        ([OPENED], Decision(Action.ADOPT, 1, (OWN,))),
        ([OPENED._replace(digest="v1:other")], Decision(Action.ADOPT, 1, (OWN,))),
        ([submitted(3)], Decision(Action.ADOPT, 3, (OWN,))),
        ([submitted(3, opened=True)], Decision(Action.ADOPT, 3, (OWN,))),
        ([OPENED, submitted(3)], Decision(Action.ADOPT, 1, (submitted(3), OWN))),
        ([LIVE, submitted(3)], Decision(Action.ADOPT, 3, (LIVE, OWN))),
        ([UNDEAD], Decision(Action.ADOPT, 2, (UNDEAD,))),
        ([UNDEAD._replace(opened=True)], Decision(Action.ADOPT, 2, (UNDEAD._replace(opened=True),))),
    ],
)
def test_one_submission_is_left_before_any_is_opened(others: list[Submitted], expected: Decision) -> None:
    assert before_open(OWN, others) == expected


def test_whoever_looks_first_the_same_submission_stays() -> None:
    gated = [submitted(number) for number in (1, 2, 3)]
    for opened in (None, 0, 1, 2):
        given = [each._replace(opened=index == opened) for index, each in enumerate(gated)]
        stays = {
            before_open(own, [each for each in given if each is not own]).submission for own in given if not own.opened
        }
        assert stays == {3 if opened is None else opened + 1}
        assert decide(given, digest="v1:same", origin=ORIGIN, try_number=1, highest=3).submission in stays


def test_only_a_gated_one_is_deleted_in_the_version_that_was_read() -> None:
    assert LIVE._replace(version="7").guard == "7"
    assert OPENED._replace(version="7").guard is None
    assert UNDEAD._replace(version="7").guard is None


def test_a_release_waits_for_another_one_that_is_open_alone() -> None:
    opened = submitted(2, opened=True)
    assert open_beside(1, [OPENED, LIVE, submitted(3), REPORTED, ENDED._replace(opened=True), opened]) == [opened]


def trainjob(name: str, *, status: dict[str, Any] | None = None, **metadata: Any) -> TrainJob:
    raw = {"metadata": {"name": name, "uid": "u", "resourceVersion": "7", **metadata}, "status": status or {}}
    return msgspec.convert(raw, TrainJob)


def test_submissions_are_read_from_the_job_s_trainjobs_alone() -> None:
    name = f"dj-{GOOD['job_id'].lower()}-s"
    annotations = {
        names.ANNOTATION_OPENED: "true",
        names.ANNOTATION_KUEUE_GATED_BY: "example.com/gate",
        names.ANNOTATION_REPORTED: "ti",
        names.ANNOTATION_SPEC_DIGEST: "v1:same",
        names.ANNOTATION_ORIGIN: format_origin(ORIGIN),
    }
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    closed = {**annotations, names.ANNOTATION_KUEUE_GATED_BY: f"example.com/gate, {names.GATE}"}
    found = submissions_of(
        [
            trainjob(f"{name}12", annotations=annotations, status=failed),
            trainjob(f"{name}2", annotations=closed, deletionTimestamp="2026-01-01T00:00:00Z"),
            trainjob("another"),
            trainjob("dj-01k6njrfae13r8h0c3swzgbj7s-s3"),
        ],
        GOOD["job_id"],
    )
    assert found == [
        Submitted(2, "u", "7", deleting=True, reported=True, digest="v1:same", origin=ORIGIN),
        Submitted(12, "u", "7", opened=True, finished=True, reported=True, digest="v1:same", origin=ORIGIN),
    ]


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
