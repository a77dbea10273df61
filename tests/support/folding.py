"""The plainest fold of watch events into snapshots: one process that has watched from the beginning and seen all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import end_of
from airflow_dispatch.core.objects import (
    Event,
    Job,
    JobSet,
    Metadata,
    Node,
    Object,
    Pod,
    TrainingRuntime,
    TrainJob,
    Workload,
)
from airflow_dispatch.core.observation import Cause
from airflow_dispatch.core.snapshot import CapturedPod, Leftovers, NodeAbsence, NodeView, Snapshot

T = TypeVar("T", bound=Object)

KINDS: dict[str, type[Object]] = {
    kind.__name__: kind for kind in (TrainJob, TrainingRuntime, JobSet, Job, Pod, Node, Event, Workload)
}


class Fold:
    """The objects of one namespace as they stand, and what was kept of deleted pods."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._captured: list[CapturedPod] = []
        self._node_at_disruption: dict[str, NodeView] = {}
        self._node_at_deletion: dict[str, NodeView] = {}
        self._ends: dict[str, Cause] = {}

    def apply(self, event: str, raw: dict[str, Any]) -> None:
        """One watch event."""
        if raw["kind"] not in KINDS:
            return
        record = msgspec.convert(raw, KINDS[raw["kind"]])
        known = self._objects[raw["kind"]]
        if isinstance(record, TrainJob):
            self._remember_end(record.metadata)
        if isinstance(record, Pod):
            self._remember_node(record, gone=event == "DELETED")
        if event != "DELETED":
            known[record.metadata.name] = record
            return
        known.pop(record.metadata.name, None)
        if isinstance(record, Pod):
            uid = record.metadata.uid
            node = self._node_at_disruption.get(uid, self._node_at_deletion[uid])
            self._captured.append(CapturedPod(pod=record, node=node))

    def snapshot(self, name: str) -> Snapshot:
        """What a classification of this TrainJob reads."""
        trainjob = self._of(TrainJob)[name]
        jobset = self._of(JobSet).get(name)
        runtime = self._of(TrainingRuntime).get(name)
        uid = trainjob.metadata.uid
        workloads = self._of(Workload).values()
        return Snapshot(
            namespace=self.namespace,
            trainjob=trainjob,
            jobset=jobset,
            jobs=tuple(each for each in self._of(Job).values() if jobset and _owned(each, jobset.metadata.uid)),
            runtime=runtime,
            workload=next((each for each in workloads if each.metadata.label(names.LABEL_KUEUE_JOB_UID) == uid), None),
            pods=tuple(each for each in self._of(Pod).values() if _of_jobset(each, name)),
            captured=tuple(each for each in self._captured if _of_jobset(each.pod, name)),
            nodes=self._of(Node),
            events=tuple(self._of(Event).values()),
            seen_end=self._ends.get(uid),
        )

    def leftovers(self) -> Leftovers:
        """What orphans are looked for in."""
        return Leftovers(
            namespace=self.namespace,
            trainjobs=tuple(self._of(TrainJob).values()),
            jobsets=tuple(self._of(JobSet).values()),
            jobs=tuple(self._of(Job).values()),
            runtimes=tuple(self._of(TrainingRuntime).values()),
            pods=tuple(self._of(Pod).values()),
            nodes=self._of(Node),
        )

    def _of(self, kind: type[T]) -> dict[str, T]:
        return {name: each for name, each in self._objects[kind.__name__].items() if isinstance(each, kind)}

    def _remember_end(self, metadata: Metadata) -> None:
        """Before a TrainJob changes: the end that it shows now, which it may be about to lose."""
        if metadata.name in self._objects["TrainJob"]:
            end = end_of(self.snapshot(metadata.name), datetime.now(UTC))
            if end is not None:
                self._ends[metadata.uid] = end

    def _remember_node(self, pod: Pod, *, gone: bool) -> None:
        conditions = (pod.status.conditions if pod.status else None) or []
        name = pod.spec.node_name
        node: NodeView = self._of(Node).get(name, NodeAbsence.GONE) if name else NodeAbsence.GONE
        if any(each.type == "DisruptionTarget" and each.status == "True" for each in conditions):
            self._node_at_disruption.setdefault(pod.metadata.uid, node)
        if gone or pod.metadata.deletion_timestamp is not None:
            self._node_at_deletion.setdefault(pod.metadata.uid, node)


def _owned(owned: Object, uid: str) -> bool:
    return any(owner.uid == uid for owner in owned.metadata.owner_references or ())


def _of_jobset(pod: Pod, name: str) -> bool:
    return pod.metadata.label(names.LABEL_JOBSET_NAME) == name
