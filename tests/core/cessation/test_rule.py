"""When an empty list of pods is believed (contract, section 12)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.cessation import SECOND_LOOK_SECONDS, Answer, ask
from airflow_dispatch.core.objects import Job, JobSet, Pod, TrainJob
from airflow_dispatch.core.snapshot import Snapshot

NAME = "dj-01k6njrfae13r8h0c3swzgbj7r-s1"
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
RAISED = "2026-01-01T00:00:10Z"
AFTER = "2026-01-01T00:00:20Z"
BEFORE = "2026-01-01T00:00:05Z"


def template(admission: str) -> dict[str, Any]:
    metadata = {"annotations": {names.ANNOTATION_ADMISSION: admission}}
    return {"name": "node", "template": {"spec": {"template": {"metadata": metadata}}}}


def trainjob(admission: str = "2") -> TrainJob:
    patch = {
        "manager": names.PATCH_MANAGER,
        "time": RAISED,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [template(admission)]}}},
    }
    return msgspec.convert({"metadata": {"name": NAME}, "spec": {"suspend": True, "runtimePatches": [patch]}}, TrainJob)


def conditions(kind: str | None, since: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": since}]} if kind else {}


def jobset(*, suspend: bool = True, admission: str = "2", kind: str | None = "Suspended", since: str = AFTER) -> JobSet:
    spec = {"suspend": suspend, "replicatedJobs": [template(admission)]}
    return msgspec.convert({"metadata": {"name": NAME}, "spec": spec, "status": conditions(kind, since)}, JobSet)


def job(*, suspend: bool = True, kind: str | None = "Suspended", since: str = AFTER) -> Job:
    raw = {"metadata": {"name": "job"}, "spec": {"suspend": suspend}, "status": conditions(kind, since)}
    return msgspec.convert(raw, Job)


def answer(owner: JobSet | None, *jobs: Job, held_for: float = 0, admission: str = "2", pods: Any = ()) -> Answer:
    snapshot = Snapshot(namespace="ml", trainjob=trainjob(admission), jobset=owner, jobs=jobs, pods=tuple(pods))
    return ask(snapshot, NOW, held_for=held_for)


@pytest.mark.row("12/may-run", "12/remaining")
def test_a_pod_that_may_run_is_named() -> None:
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}, Pod)
    assert answer(jobset(), job(), pods=[pod]) == Answer(("p on n (gone)",))


@pytest.mark.row("12/never-admitted")
def test_an_object_that_was_never_admitted_needs_the_list_alone() -> None:
    assert answer(None, admission="0").nothing_runs
    assert answer(jobset(suspend=False), admission="0").nothing_runs


@pytest.mark.row("12/finished")
@pytest.mark.parametrize("kind", ["Completed", "Failed"])
def test_a_finished_jobset_is_believed(kind: str) -> None:
    assert answer(jobset(suspend=False, kind=kind), job(suspend=False, kind=None)).nothing_runs


@pytest.mark.row("12/settled")
def test_a_suspension_that_all_confirm_since_the_last_admission_is_believed() -> None:
    assert answer(jobset(), job()).nothing_runs
    assert answer(jobset(), job(suspend=False, kind="Complete")).nothing_runs


@pytest.mark.row("12/behind")
@pytest.mark.parametrize(
    ("owner", "of_it", "why"),
    [
        (jobset(suspend=False), job(), "JobSet is not suspended"),
        (jobset(), job(suspend=False), "Job job is not suspended"),
        (jobset(admission="1"), job(), "does not carry admission 2"),
        (jobset(kind=None), job(), "does not confirm"),
        (jobset(), job(kind=None), "does not confirm"),
        (None, job(), "its Jobs are not"),
    ],
)
def test_controllers_that_are_behind_are_waited_for(owner: JobSet | None, of_it: Job, why: str) -> None:
    found = answer(owner, of_it, held_for=3600)
    assert why in found.unsettled
    assert found.second_look is None


@pytest.mark.row("12/second-look")
@pytest.mark.parametrize(
    ("owner", "jobs"),
    [(jobset(since=BEFORE), [job()]), (jobset(), [job(since=BEFORE)]), (jobset(since=RAISED), [job()]), (None, [])],
)
def test_what_can_t_be_dated_is_believed_at_the_second_look(owner: JobSet | None, jobs: list[Job]) -> None:
    assert answer(owner, *jobs).second_look == SECOND_LOOK_SECONDS
    assert answer(owner, *jobs, held_for=SECOND_LOOK_SECONDS - 1).second_look == 1
    assert answer(owner, *jobs, held_for=SECOND_LOOK_SECONDS).nothing_runs


def test_a_raised_floor_says_that_it_was_admitted() -> None:
    """Somebody may have set the patch back to 0; the floor remembers."""
    raised = trainjob("0")
    raised.metadata.annotations = {names.ANNOTATION_ADMISSION_FLOOR: "1"}
    found = ask(Snapshot(namespace="ml", trainjob=raised, jobset=jobset(suspend=False, admission="0")), NOW)
    assert found == Answer(unsettled="its JobSet is not suspended yet")
    raised.metadata.annotations = {names.ANNOTATION_ADMISSION_FLOOR: "0"}
    assert ask(Snapshot(namespace="ml", trainjob=raised), NOW).nothing_runs


@pytest.mark.parametrize(
    ("owner", "jobs", "why"),
    [
        (jobset(suspend=False), [], "its JobSet is not suspended yet"),
        (None, [job()], "its Jobs are not"),
        (None, [], "its JobSet is gone"),
        (jobset(since=BEFORE), [], "its suspension may be older than its last admission"),
    ],
)
def test_the_answer_says_why_an_empty_list_is_not_believed(owner: JobSet | None, jobs: list[Job], why: str) -> None:
    found = answer(owner, *jobs)
    assert found.unsettled.endswith(why)
    assert found.unsettled.startswith("its ")
    assert not found.nothing_runs


def test_a_failed_job_needs_no_suspension() -> None:
    assert answer(jobset(), job(suspend=False, kind="Failed")).nothing_runs


def test_pods_and_a_suspension_that_is_settled_still_say_no() -> None:
    assert not Answer(("p",)).nothing_runs
    assert not Answer(unsettled="why").nothing_runs
    assert Answer().nothing_runs


def test_a_suspension_or_a_raise_without_a_time_needs_the_second_look() -> None:
    undated = jobset()
    assert undated.status is not None
    assert undated.status.conditions is not None
    undated.status.conditions[0].last_transition_time = None
    assert answer(undated).second_look == SECOND_LOOK_SECONDS
    raised = trainjob()
    assert raised.spec.runtime_patches is not None
    raised.spec.runtime_patches[0].time = None
    assert ask(Snapshot(namespace="ml", trainjob=raised, jobset=jobset()), NOW).second_look == SECOND_LOOK_SECONDS


def test_a_trainjob_without_our_patch_is_never_settled() -> None:
    bare = msgspec.convert({"metadata": {"name": NAME}}, TrainJob)
    found = ask(Snapshot(namespace="ml", trainjob=bare, jobset=jobset()), NOW)
    assert found == Answer(unsettled="its JobSet does not carry admission None yet")
    odd = jobset()
    odd.spec.replicated_jobs = [{"template": 7}, {"template": {"spec": []}}]
    assert not ask(Snapshot(namespace="ml", trainjob=trainjob(), jobset=odd), NOW).nothing_runs
