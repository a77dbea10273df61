"""What is left of a job's other submissions when one of them is to be opened (contract, section 12)."""

from __future__ import annotations

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.cessation import ceased, of_other_submissions
from airflow_dispatch.core.identity import Submission
from airflow_dispatch.core.objects import Job, JobSet, TrainJob
from airflow_dispatch.core.snapshot import Leftovers
from tests.support.builders import (
    JOB_ID,
    NAME,
    NAMESPACE,
    ObjectBuilder,
    PodBuilder,
    job,
    jobset,
    node,
    pod,
    scenario,
    trainjob,
)

SECOND = Submission(JOB_ID, 2)


def left(
    *pods: PodBuilder,
    jobsets: tuple[ObjectBuilder, ...] = (),
    jobs: tuple[ObjectBuilder, ...] = (),
    trainjobs: tuple[ObjectBuilder, ...] = (),
) -> tuple[str, ...]:
    """What stands in the way of the second submission."""
    leftovers = Leftovers(
        namespace=NAMESPACE,
        trainjobs=tuple(msgspec.convert(each.raw, TrainJob) for each in trainjobs),
        jobsets=tuple(msgspec.convert(each.raw, JobSet) for each in jobsets),
        jobs=tuple(msgspec.convert(each.raw, Job) for each in jobs),
        pods=tuple(each.build() for each in pods),
        nodes={"node-0": node("node-0").build()},
    )
    return of_other_submissions(leftovers, SECOND)


def owned(built: ObjectBuilder, by: str = NAME) -> ObjectBuilder:
    return built.label(names.LABEL_JOBSET_NAME, by)


@pytest.mark.row("12/submissions")
def test_pods_that_may_run_are_named_in_order_and_with_their_nodes() -> None:
    found = left(pod("b").on("node-0").running(), pod("a").on("gone"), pod("c").on("node-0").terminated(0))
    assert found == ("a on gone (gone)", "b on node-0 (Ready=True)")


def test_a_pod_that_has_failed_on_a_node_that_is_gone_runs_no_more() -> None:
    unconfirmed = pod("a").running().phase("Failed")
    assert left(unconfirmed.on("node-0")) == ("a on node-0 (Ready=True)",)
    assert left(unconfirmed.on("gone")) == ()


def test_a_pod_without_the_jobset_s_label_is_known_by_ours() -> None:
    stripped = pod("a").label(names.LABEL_JOBSET_NAME, None)
    assert left(stripped) == ("a",)
    assert left(stripped.labelled(submission="2")) == ()
    assert left(stripped.labelled(submission="two")) == ()
    assert left(stripped.labelled(submission="1", job_id=None)) == ()
    assert left(stripped.labelled(submission=None, job_id=JOB_ID)) == ()


def test_a_jobset_of_a_foreign_name_is_judged_by_our_labels() -> None:
    assert left(pod("a").label(names.LABEL_JOBSET_NAME, "theirs")) == ("a",)


def test_own_pods_and_those_of_other_jobs_do_not_count() -> None:
    own = pod("own").label(names.LABEL_JOBSET_NAME, SECOND.name)
    other = pod("other").label(names.LABEL_JOBSET_NAME, names.object_name("01K6NJRFAE13R8H0C3SWZGBJ7S", 1))
    assert left(own, other) == ()


def test_a_jobset_and_a_job_that_may_make_pods_count_as_long_as_they_are_there() -> None:
    assert left(jobsets=(jobset(),), jobs=(owned(job()),)) == (f"JobSet {NAME}", f"Job {NAME}-node-0")


@pytest.mark.parametrize("kind", ["Completed", "Failed"])
def test_a_finished_jobset_makes_no_pods(kind: str) -> None:
    assert left(jobsets=(jobset().with_condition(kind),)) == ()
    assert left(jobsets=(jobset().with_condition(kind, status="False"),)) == (f"JobSet {NAME}",)


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_finished_job_makes_no_pods(kind: str) -> None:
    assert left(jobs=(owned(job()).with_condition(kind),)) == ()
    assert left(jobs=(owned(job()).with_condition(kind, status="False"),)) == (f"Job {NAME}-node-0",)


def test_what_is_suspended_makes_no_pods_while_its_trainjob_stays() -> None:
    suspended, jobs = (jobset(suspend=True),), (owned(job(suspend=True)),)
    assert left(jobsets=suspended, jobs=jobs, trainjobs=(trainjob(suspend=True),)) == ()


def test_what_is_suspended_counts_until_it_has_gone_with_its_trainjob() -> None:
    suspended, jobs = (jobset(suspend=True),), (owned(job(suspend=True)),)
    going = trainjob(suspend=True)
    going.metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    both = (f"JobSet {NAME}", f"Job {NAME}-node-0")
    assert left(jobsets=suspended, jobs=jobs, trainjobs=(going,)) == both
    assert left(jobsets=suspended, jobs=jobs) == both


def test_own_jobset_and_jobs_and_those_of_nobody_do_not_count() -> None:
    own = jobset()
    own.metadata["name"] = SECOND.name
    assert left(jobsets=(own,), jobs=(owned(job(), SECOND.name), job())) == ()


def test_ceased_is_unanswered_without_pods_and_where_nodes_may_not_be_read() -> None:
    assert ceased(scenario().snapshot()) is None
    assert ceased(scenario(pod("a")).snapshot()) is None
    unreadable = scenario(pod("a").on("gone"))
    unreadable.nodes_readable = False
    assert ceased(unreadable.snapshot()) is None


@pytest.mark.row("10/ceased")
def test_ceased_needs_every_node_of_live_and_captured_pods() -> None:
    found = scenario(pod("a").on("gone"))
    assert ceased(found.snapshot()) is True
    found.captured = [pod("b").on("node-0").captured()]
    assert ceased(found.snapshot()) is False
    found.nodes = [node("node-0").tainted(names.TAINT_OUT_OF_SERVICE)]
    assert ceased(found.snapshot()) is True
