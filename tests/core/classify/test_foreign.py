"""Contract, section 7."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from tests.support.builders import Scenario, jobset, node, pod, runtime, runtime_patch, scenario


def only_note(job: Scenario) -> str:
    """The one note of an object that is foreign for it."""
    found = job.observe()
    assert found.foreign
    (note,) = job.notes()
    return note


def running() -> Scenario:
    return scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running())


def test_untouched_object_is_not_foreign() -> None:
    assert not running().observe().foreign


@pytest.mark.row("7/labels")
def test_label_that_differs() -> None:
    job = running()
    job.trainjob.labelled(job_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert only_note(job) == "label job-id is 01ARZ3NDEKTSV4RRFFQ69G5FAV"
    job = running()
    job.trainjob.labelled(submission="2")
    assert only_note(job) == "label submission is 2"


def test_labels_and_comment_that_were_removed_contradict_nothing() -> None:
    job = running()
    job.trainjob.labelled(job_id=None, submission=None).annotated(comment=None)
    found = job.observe()
    assert (found.foreign, found.attempt) == (False, 0)


@pytest.mark.row("7/comment")
@pytest.mark.parametrize("text", ["hello", "dispatch:s=2;a=1", "dispatch:s=1;a=0"])
def test_comment_not_of_its_form_or_of_another_submission(text: str) -> None:
    job = running()
    job.trainjob.annotated(comment=text)
    assert only_note(job) == f"comment is {text}"


@pytest.mark.row("7/patch")
@pytest.mark.parametrize(
    "patches",
    [
        [],
        [{**runtime_patch(), "manager": "kueue.x-k8s.io"}],
        [runtime_patch(job_id="other")],
        [runtime_patch(submission=None)],
        [runtime_patch(admission=None)],
        [{"manager": names.PATCH_MANAGER, "trainingRuntimeSpec": {"template": 3}}],
        [{"manager": names.PATCH_MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [None]}}}}],
    ],
)
def test_patch_that_was_changed(patches: list[object]) -> None:
    job = running()
    job.trainjob.spec(runtimePatches=patches)
    assert only_note(job) == "runtime patch was changed"


def test_patches_of_others_are_theirs() -> None:
    job = running()
    job.trainjob.spec(runtimePatches=[{"manager": "kueue.x-k8s.io"}, runtime_patch()])
    assert not job.observe().foreign


@pytest.mark.row("7/floor")
@pytest.mark.parametrize(("text", "floor"), [("1", "2"), ("x", "1"), ("-1", "1"), ("x", None)])
def test_admission_below_the_floor(text: str, floor: str | None) -> None:
    job = running()
    job.trainjob.spec(runtimePatches=[runtime_patch(admission=text)]).annotated(admission_floor=floor)
    assert only_note(job) == f"admission {text} is below the floor {floor or 0}"


@pytest.mark.row("7/jobset")
def test_jobset_that_was_replaced() -> None:
    job = running()
    job.jobset = jobset()
    job.jobset.metadata["uid"] = "another"
    assert only_note(job) == "JobSet was replaced"
    job.trainjob.annotated(jobset_uid=None)
    assert not job.observe().foreign


@pytest.mark.row("7/runtime")
def test_runtime_copy() -> None:
    job = running()
    job.runtime = None
    assert only_note(job) == "runtime copy is gone"
    job.runtime = runtime(generation=2)
    assert only_note(job) == "runtime copy was edited (generation 2)"
    job.runtime = runtime().owned_by("TrainJob", "another")
    assert only_note(job) == "runtime copy is owned by another"


def test_runtime_copy_that_is_not_owned_yet_is_ours() -> None:
    job = running()
    assert job.runtime is not None
    job.runtime.metadata["ownerReferences"] = []
    assert not job.observe().foreign


@pytest.mark.row("7/pods")
def test_pod_of_the_jobset_with_another_identity() -> None:
    job = running()
    job.pods[1].labelled(job_id="other")
    assert only_note(job) == "pod b has job-id other"
    job = running()
    job.pods[1].labelled(submission="7")
    assert only_note(job) == "pod b has submission 7"


def test_pod_without_our_labels_is_not_another() -> None:
    job = running()
    job.pods[1].labelled(job_id=None, submission=None)
    assert not job.observe().foreign


@pytest.mark.row("7/run-twice")
def test_execution_that_has_run_twice_is_told_once_by_its_lowest_index() -> None:
    job = running()
    job.captured = [
        pod("z").on("node-0").terminated(3).created(-5).captured(node("node-0")),
        pod("y", index=1).on("node-1").terminated(3).created(-5).captured(node("node-1")),
    ]
    assert only_note(job) == "execution 1.0 has run twice: z, a"


def test_pod_that_never_started_has_not_run() -> None:
    job = running()
    job.captured = [pod("z").phase("Failed", "OutOfcpu").created(-5).captured(node("node-0"))]
    assert not job.observe().foreign


@pytest.mark.row("7/run-twice")
def test_each_execution_that_ran_twice_has_its_note() -> None:
    job = scenario(
        pod("a").on("node-0").terminated(0),
        pod("b").on("node-0").terminated(0),
        pod("c", admission=2).on("node-0").terminated(0),
        pod("d", admission=2).on("node-0").terminated(0),
    )
    assert job.notes() == ["execution 1.0 has run twice: a, b", "execution 2.0 has run twice: c, d"]


def test_restart_under_another_counter_is_no_second_run() -> None:
    job = scenario(pod("a").on("node-0").terminated(3), pod("b", restart=1).on("node-0").running())
    assert not job.observe().foreign


def test_notes_stand_in_the_tables_order() -> None:
    job = running()
    job.runtime = None
    job.trainjob.labelled(submission="9").annotated(comment="x", hold_instance="x")
    assert job.notes() == ["label submission is 9", "comment is x", "runtime copy is gone", "hold-instance is x"]
