"""Objects that lack what controllers write sooner or later: a new object has no status, an odd one lacks anything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from airflow_dispatch.core.classify import began, classify
from airflow_dispatch.core.classify.conditions import end, stamp
from airflow_dispatch.core.classify.events import event_time
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.ranks import completed, count
from airflow_dispatch.core.objects import ConditionsStatus, Event
from airflow_dispatch.core.observation import State
from tests.support.builders import PodBuilder, at, condition, pod, scenario, trainjob


def bare(built: PodBuilder) -> PodBuilder:
    """As it is at first: without a status."""
    del built.raw["status"]
    return built


def test_a_pod_without_a_status_says_nothing_and_may_run() -> None:
    held = scenario(bare(pod("a")), bare(pod("b", index=None).on("node-0"))).suspended()
    assert held.notes() == ["TrainJob is suspended", "remaining pods: a, b on node-0 (Ready=True)"]
    failed = scenario(bare(pod("a")))
    failed.trainjob.with_condition("Failed", "FailedJobs")
    assert failed.cause()[0] == "unknown"
    assert began(failed.snapshot(), at(30)) is None


def test_a_jobset_that_is_gone_or_new_has_restarted_no_pod() -> None:
    job = scenario(pod("a").on("node-0").terminated(3))
    job.jobset = None
    assert job.cause() == ("non-zero-exit", "derived", "pod a: exit code 3; no JobSet yet")
    snapshot = scenario(pod("a").on("node-0").terminated(3)).snapshot()
    assert snapshot.jobset is not None
    snapshot.jobset.status = None
    assert classify(snapshot, at(30)).cause.detail == "pod a: exit code 3"


def test_a_node_without_conditions_is_not_known_to_be_ready() -> None:
    job = scenario(pod("a").on("node-0").running()).suspended()
    job.nodes[0].raw["status"]["conditions"] = []
    assert job.notes()[-1] == "remaining pods: a on node-0 (Ready=Unknown)"
    taken = scenario(pod("a").on("node-0").disrupted("DeletionByTaintManager").terminated(143))
    taken.nodes[0].raw["status"]["conditions"] = []
    assert taken.cause()[0] == "preempted"


def test_a_pod_without_an_index_comes_after_those_that_have_one() -> None:
    job = scenario(pod("a", index=None).on("gone").running(), pod("b", index=5).on("gone").running())
    assert job.cause()[2] == "pod b: node gone is gone"


def test_a_job_without_status_or_completions_has_completed_nothing() -> None:
    job = scenario(pod("a").on("node-0").running())
    assert job.job is not None
    job.job.status(completedIndexes="0,3").spec(completions=None)
    assert job.notes() == ["1 of 0 ranks had already completed"]
    snapshot = job.snapshot()
    snapshot.jobs[0].status = None
    assert classify(snapshot, at(30)).cause.detail == ""


def test_a_queued_job_without_a_workload_has_no_hold() -> None:
    job = scenario(mode="kueue")
    job.workload = None
    job.trainjob.spec(suspend=True).with_condition("Suspended", status="False")
    assert job.observe(now=100).state is State.PENDING
    assert job.notes(now=100) == ["no Workload yet"]


def test_two_objects_of_one_name_are_two_pods() -> None:
    replaced = pod("a").terminated(3)
    replaced.metadata["uid"] = "before"
    job = scenario(pod("a").running())
    job.captured = [replaced.captured()]
    assert [view.live for view in Facts(job.snapshot(), at(30)).pods] == [True, False]


def test_a_pod_that_carries_no_uid_is_known_by_its_name() -> None:
    nameless, other = pod("a").running(), pod("b").running()
    nameless.metadata["uid"] = other.metadata["uid"] = ""
    assert len(Facts(scenario(nameless, other).snapshot(), at(30)).pods) == 2


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"series": {"lastObservedTime": at(4)}, "lastTimestamp": at(3), "eventTime": at(2)}, 4),
        ({"series": {}, "lastTimestamp": at(3), "eventTime": at(2)}, 3),
        ({"eventTime": at(2)}, 2),
        ({}, 1),
    ],
)
def test_an_event_was_last_seen_when_its_newest_field_says(fields: dict[str, object], seconds: int) -> None:
    created = {"metadata": {"creationTimestamp": at(1)}}
    assert event_time(msgspec.convert(created | fields, Event)) == at(seconds)


def test_an_event_without_any_time_is_the_oldest() -> None:
    assert event_time(msgspec.convert({"metadata": {}}, Event)) == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("conditions", "kind"),
    [
        ([], None),
        ([condition("Complete", status="False"), condition("Failed", status="Unknown")], None),
        ([condition("Suspended"), condition("Failed")], "Failed"),
        ([condition("Failed"), condition("Complete")], "Complete"),
    ],
)
def test_an_end_is_complete_or_failed_when_true(conditions: list[dict[str, object]], kind: str | None) -> None:
    found = end(msgspec.convert({"conditions": conditions}, ConditionsStatus))
    assert (found.type if found is not None else None) == kind
    assert end(None) is None


def test_a_time_is_written_in_utc() -> None:
    assert stamp(datetime(2026, 1, 1, 2, 0, 0, 900_000, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T00:00:00Z"


def test_intervals_are_counted_with_both_ends() -> None:
    assert count(completed("0,2-4,x,5-3,7-")) == 4


def test_an_empty_patch_of_ours_is_no_admission() -> None:
    job = scenario()
    job.trainjob = trainjob(admission=None)
    assert "runtime patch was changed" in job.notes()


def test_a_failed_pod_without_reason_or_message_is_told_by_its_name() -> None:
    assert scenario(pod("a").on("node-0").phase("Failed")).notes() == ["pod a failed"]


def test_node_names_of_a_pod_that_is_bound_to_none_are_not_written() -> None:
    job = scenario(pod("a").disrupted("DeletionByTaintManager", since=1).terminated(143))
    assert job.cause()[2] == "pod a: DeletionByTaintManager; other ranks: a non-zero-exit (exit code 143 (signal 15))"
