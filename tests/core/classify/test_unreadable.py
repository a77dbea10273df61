"""Contract, section 2: an odd object is never an error, it is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.observation import CauseKind, Observation, Provenance, State
from tests.support.builders import NAME, Scenario, at, pod, scenario

ODD = "Expected `object`, got `int` - at `$.status`"


def observed(job: Scenario, **odd: Any) -> Observation:
    """With these parts of the snapshot in the place of those that could be read."""
    return classify(msgspec.structs.replace(job.snapshot(), **odd), at(30))


def with_problem(item: Any) -> Any:
    return msgspec.structs.replace(item, problem=ODD)


@pytest.mark.row("3/unreadable", "8/unreadable")
def test_an_odd_trainjob_that_shows_no_cause_is_unknown() -> None:
    job = scenario(pod("a").on("node-0").running())
    found = observed(job, trainjob=with_problem(job.snapshot().trainjob))
    assert (found.state, found.cause.kind, found.cause.provenance) == (
        State.RUNNING,
        CauseKind.UNKNOWN,
        Provenance.NONE,
    )
    assert found.cause.detail == f"TrainJob {NAME} can't be read in full: {ODD}"


@pytest.mark.row("8/unreadable")
def test_an_odd_object_does_not_hide_a_cause() -> None:
    job = scenario()
    job.trainjob.with_condition("Complete", "Done")
    found = observed(job, trainjob=with_problem(job.snapshot().trainjob))
    assert (found.state, found.cause.kind) == (State.ENDED, CauseKind.COMPLETED)
    assert found.cause.detail == f"Done; TrainJob {NAME} can't be read in full: {ODD}"


@pytest.mark.row("8/unreadable")
def test_every_object_that_a_rule_reads_is_told_in_order_of_kind_and_name() -> None:
    job = scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running(), mode="kueue")
    read = job.snapshot()
    found = observed(
        job,
        trainjob=with_problem(read.trainjob),
        jobset=with_problem(read.jobset),
        jobs=tuple(map(with_problem, read.jobs)),
        runtime=with_problem(read.runtime),
        workload=with_problem(read.workload),
        pods=tuple(map(with_problem, reversed(read.pods))),
        nodes={name: with_problem(each) for name, each in read.nodes.items()},
    )
    told = [note.removesuffix(f" can't be read in full: {ODD}") for note in found.cause.detail.split("; ")]
    assert told == [
        f"Job {NAME}-node-0",
        f"JobSet {NAME}",
        "Node node-0",
        "Node node-1",
        "Pod a",
        "Pod b",
        f"TrainJob {NAME}",
        f"TrainingRuntime {NAME}",
        f"Workload trainjob-{NAME}",
    ]
