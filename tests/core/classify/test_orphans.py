"""Contract, section 7, last row."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import orphans
from airflow_dispatch.core.objects import Job, JobSet, TrainingRuntime, TrainJob
from airflow_dispatch.core.observation import Cause, CauseKind, Execution, Observation, State
from airflow_dispatch.core.snapshot import Leftovers
from tests.support.builders import (
    JOB_ID,
    NAME,
    ObjectBuilder,
    PodBuilder,
    at,
    job,
    jobset,
    node,
    pod,
    runtime,
    trainjob,
)

UNKNOWN = Cause(kind=CauseKind.UNKNOWN, detail="no TrainJob of its UID")


def find(
    *pods: PodBuilder,
    owner: ObjectBuilder | None = None,
    jobsets: tuple[ObjectBuilder, ...] = (),
    jobs: tuple[ObjectBuilder, ...] = (),
    runtimes: tuple[ObjectBuilder, ...] = (),
) -> list[Observation]:
    leftovers = Leftovers(
        namespace="ml",
        trainjobs=(msgspec.convert(owner.raw, TrainJob),) if owner else (),
        jobsets=tuple(msgspec.convert(each.raw, JobSet) for each in jobsets),
        jobs=tuple(msgspec.convert(each.raw, Job) for each in jobs),
        runtimes=tuple(msgspec.convert(each.raw, TrainingRuntime) for each in runtimes),
        pods=tuple(each.build() for each in pods),
        nodes={"node-0": node("node-0").build()},
    )
    return orphans(leftovers, at(30))


@pytest.mark.row("7/orphan")
def test_everything_of_a_trainjob_that_is_gone_is_its_own_object() -> None:
    found = find(pod("a").on("node-0").running(), jobsets=(jobset(),), jobs=(job(),), runtimes=(runtime(),))

    execution = Execution(admission=1, restart=0, number=1, epoch=1_000_001, token=f"{JOB_ID}.1.0.1.0")
    common: dict[str, Any] = {"job_id": JOB_ID, "submission": 1, "attempt": 0, "cause": UNKNOWN, "foreign": True}
    assert found == [
        Observation(ref=f"ml/jobset/{NAME}", uid="jobset-uid", state=State.RUNNING, execution=execution, **common),
        Observation(ref="ml/pod/a", uid="uid-a", state=State.RUNNING, execution=execution, **common),
        Observation(ref=f"ml/trainingruntime/{NAME}", uid="runtime-uid", state=State.ENDED, **common),
    ]


def test_what_a_live_trainjob_owns_is_no_orphan() -> None:
    everything = find(pod("a"), owner=trainjob(), jobsets=(jobset(),), jobs=(job(),), runtimes=(runtime(),))
    assert everything == []


def test_another_trainjob_of_the_name_makes_nobody_less_of_an_orphan() -> None:
    again = trainjob()
    again.metadata["uid"] = "another"
    found = find(pod("a"), owner=again, jobsets=(jobset(),), jobs=(job(),), runtimes=(runtime(),))
    assert [each.ref.split("/")[1] for each in found] == ["jobset", "pod", "trainingruntime"]


@pytest.mark.row("7/orphan")
def test_pod_whose_owners_are_gone_is_judged_by_its_age() -> None:
    again = trainjob().created(10)
    assert [each.ref for each in find(pod("old").created(9), pod("new").created(10), owner=again)] == ["ml/pod/old"]


def test_finished_pod_is_an_ended_orphan() -> None:
    (found,) = find(pod("a").on("node-0").terminated(0))
    assert found.state is State.ENDED


def test_runtime_copy_that_waits_for_its_trainjob_is_an_orphan_only_without_it() -> None:
    copy = runtime()
    copy.metadata["ownerReferences"] = []
    assert find(owner=trainjob(), runtimes=(copy,)) == []
    assert [each.ref for each in find(runtimes=(copy,))] == [f"ml/trainingruntime/{NAME}"]


def test_pod_without_the_jobset_label_is_known_by_ours() -> None:
    (found,) = find(pod("a").label(names.LABEL_JOBSET_NAME, None).labelled(submission="7"))
    assert (found.job_id, found.submission) == (JOB_ID, 7)


def test_objects_of_others_are_left_alone() -> None:
    stranger = pod("a").label(names.LABEL_JOBSET_NAME, "theirs").labelled(job_id=None, submission=None)
    liar = pod("b").label(names.LABEL_JOBSET_NAME, None).labelled(job_id="not a ulid")
    other = jobset()
    other.metadata["name"] = "theirs"
    copy = runtime()
    copy.metadata["name"] = "torch-distributed"
    assert find(stranger, liar, jobsets=(other,), runtimes=(copy,)) == []


def test_execution_of_a_jobset_is_of_its_own_pods() -> None:
    theirs = job()
    theirs.metadata["uid"] = "other-job"
    theirs.owned_by("JobSet", "other-jobset")
    found = find(
        pod("a"), pod("b", admission=5).owned_by("Job", "other-job"), jobsets=(jobset(),), jobs=(job(), theirs)
    )
    by_ref = {each.ref: each.execution for each in found}
    execution = by_ref[f"ml/jobset/{NAME}"]
    assert execution is not None
    assert execution.admission == 1
