"""What a call of the adapter has seen, as the product's own records."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.identity import Submission as Identity
from airflow_dispatch.core.objects import Job, JobSet, TrainJob
from airflow_dispatch.core.objects import Node as NodeRecord
from airflow_dispatch.core.snapshot import CapturedPod, Leftovers, Snapshot
from tests.core.cessation.model.world import FRESH, NEVER, Entry, Machine, Owner, Pod, Stage, Submission
from tests.support import builders
from tests.support.builders import JOB_ID, NAMESPACE, NodeBuilder, ObjectBuilder, PodBuilder

_RAISED, _BEFORE, _AFTER = 100, 50, 150
"""Seconds on the model's clock: the last raise of A, and a suspension on either side of it."""

Built = TypeVar("Built", ObjectBuilder, PodBuilder)


class Seen(NamedTuple):
    """What a call knows when it asks the rule for submission ``own``; ``held``: it is the second look."""

    own: int
    submissions: tuple[Submission, ...]
    pods: tuple[Pod, ...]
    ledger: tuple[Entry, ...]
    node: Machine
    held: bool


def identity(number: int) -> Identity:
    return Identity(JOB_ID, number + 1)


def snapshot(seen: Seen) -> Snapshot:
    """Everything of the submission that is to be admitted."""
    at = seen.submissions[seen.own]
    assert at.trainjob is not None
    trainjob = builders.trainjob(admission=str(at.trainjob.admission), suspend=True)
    trainjob.annotated(admission_floor=str(at.trainjob.admission))
    trainjob.raw["spec"]["runtimePatches"][0]["time"] = builders.stamp(_RAISED)
    jobset, job = _jobset(seen.own, at.jobset), _job(seen.own, at.job)
    return Snapshot(
        namespace=NAMESPACE,
        trainjob=msgspec.convert(_of(trainjob, seen.own).raw, TrainJob),
        jobset=jobset,
        jobs=(job,) if job is not None else (),
        pods=tuple(_pod(pod, index).build() for index, pod in enumerate(seen.pods) if pod.submission == seen.own),
        vanished=tuple(_vanished(each, index) for index, each in enumerate(seen.ledger) if each.submission == seen.own),
        nodes=_nodes(seen),
    )


def leftovers(seen: Seen) -> Leftovers:
    """Everything of the job."""
    numbered = list(enumerate(seen.submissions))
    return Leftovers(
        namespace=NAMESPACE,
        jobsets=tuple(found for number, at in numbered if (found := _jobset(number, at.jobset)) is not None),
        jobs=tuple(made for number, at in numbered if (made := _job(number, at.job)) is not None),
        pods=tuple(_pod(pod, index).build() for index, pod in enumerate(seen.pods)),
        vanished=tuple(
            (identity(each.submission).name, _vanished(each, index)) for index, each in enumerate(seen.ledger)
        ),
        nodes=_nodes(seen),
    )


def _of(built: Built, number: int) -> Built:
    """The builders are of submission 1."""
    name = identity(number).name
    metadata = built.metadata
    metadata["name"] = metadata["name"].replace(builders.NAME, name)
    metadata["uid"] += f"-{number}"
    built.labelled(job_id=JOB_ID, submission=str(number + 1))
    built.label(names.LABEL_JOBSET_NAME, name)
    return built


def _jobset(number: int, owner: Owner | None) -> JobSet | None:
    if owner is None:
        return None
    template = {"metadata": {"annotations": {names.ANNOTATION_ADMISSION: str(owner.admission)}}}
    built = builders.jobset(suspend=owner.suspend)
    built.spec(replicatedJobs=[{"name": "node", "template": {"spec": {"template": template}}}])
    return msgspec.convert(_owner(number, built, owner).raw, JobSet)


def _job(number: int, owner: Owner | None) -> Job | None:
    return msgspec.convert(_owner(number, builders.job(suspend=owner.suspend), owner).raw, Job) if owner else None


def _owner(number: int, built: ObjectBuilder, owner: Owner) -> ObjectBuilder:
    if owner.suspended != NEVER:
        built.with_condition("Suspended", since=_AFTER if owner.suspended == FRESH else _BEFORE)
    if owner.failed:
        built.with_condition("Failed", "BackoffLimitExceeded")
    return _of(built, number)


def _pod(pod: Pod, index: int) -> PodBuilder:
    built = builders.pod(f"pod-{index}", index=pod.rank, admission=pod.admission).on(f"node-{pod.node}")
    if pod.stage in (Stage.RUNNING, Stage.STOPPING, Stage.WRITTEN_OFF):
        built.running()
    if pod.stage in (Stage.BOUND_DELETED, Stage.STOPPING):
        built.deleted(_AFTER)
    if pod.stage is Stage.WRITTEN_OFF:
        built.phase("Failed")
    if pod.stage is Stage.ENDED:
        built.terminated(1)
    return _of(built, pod.submission)


def _vanished(entry: Entry, index: int) -> CapturedPod:
    """A remembered pod, with its Node as it was when the pod was first seen running."""
    pod = Pod(entry.submission, entry.admission, entry.rank, entry.node, Stage.RUNNING, alive=False)
    node = builders.node(f"node-{entry.node}")
    return _pod(pod, 1000 + index).captured(node if entry.same_boot else _booted(node, "before"))


def _nodes(seen: Seen) -> dict[str, NodeRecord]:
    found = {"node-0": builders.node("node-0").build()}
    if seen.node is not Machine.GONE:
        node = builders.node("node-1")
        if seen.node is not Machine.UP:
            node.lost()
        if seen.node is Machine.OUT_OF_SERVICE:
            node.tainted(names.TAINT_OUT_OF_SERVICE)
        found["node-1"] = node.build()
    return found


def _booted(node: NodeBuilder, boot: str) -> NodeBuilder:
    node.raw["status"]["nodeInfo"]["bootID"] = boot
    return node
