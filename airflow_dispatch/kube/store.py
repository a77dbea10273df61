"""What the watches brought, in memory: current objects, and the last state of pods that are gone.

Pure: events in, snapshots out. A recording of a watch can be replayed through it as well as a live one.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

from airflow_dispatch.core import identity, names
from airflow_dispatch.core.classify import end_of
from airflow_dispatch.core.objects import (
    Event,
    Job,
    JobSet,
    Node,
    Object,
    Pod,
    TrainingRuntime,
    TrainJob,
    Workload,
)
from airflow_dispatch.core.observation import Cause
from airflow_dispatch.core.snapshot import CapturedPod, Leftovers, NodeAbsence, NodeView, Site, Snapshot

__all__ = ["KINDS", "Store"]

KINDS: Final = ("TrainJob", "JobSet", "Job", "Pod", "Node", "TrainingRuntime", "Workload", "Event")
CAPTURED_PER_TRAINJOB: Final = 256

_Record = TypeVar("_Record", bound=Object)


class Store:
    """The objects of one namespace, and the Nodes.

    A deleted pod's last state is kept against its TrainJob, the newest 256 of each, with the state of its Node when
    the pod's DisruptionTarget, else its deletion, was first seen (contract, sections 2 and 11). It goes when the
    TrainJob and everything of its name have gone.
    """

    def __init__(self, namespace: str, *, site: Site = Site()) -> None:  # noqa: B008 (frozen)
        self.namespace = namespace
        self.nodes_readable = True
        self._site = site
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._pods_by_owner: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._captured: dict[str, OrderedDict[str, CapturedPod]] = {}
        self._nodes_at_disruption: dict[str, NodeView] = {}
        self._ends: dict[str, Cause] = {}

    # ------------------------------------------------------------ in

    def apply(self, event_type: str, kind: str, item: Object) -> set[str]:
        """Takes one watch event; returns the names of the TrainJobs whose snapshot may differ now."""
        if event_type == "DELETED":
            return self._remove(kind, item)
        return self._put(kind, item)

    def replace_all(self, kind: str, items: Iterable[Object]) -> set[str]:
        """Takes a whole list; what is not on it has been deleted meanwhile, and is captured as it was last seen."""
        listed = list(items)
        uids = {item.metadata.uid for item in listed}
        touched: set[str] = set()
        for old in list(self._objects[kind].values()):
            if old.metadata.uid not in uids:
                touched |= self._remove(kind, old)
        for item in listed:
            touched |= self._put(kind, item)
        return touched

    # ------------------------------------------------------------ out

    def trainjob_names(self) -> Iterator[str]:
        """The names of all TrainJobs."""
        return iter(self._objects["TrainJob"])

    def names_of_job(self, job_id: str) -> list[str]:
        """The names of a job's TrainJobs, by name or label, lowest submission first."""
        prefix = f"dj-{job_id.lower()}-s"
        found = [
            name
            for name, item in self._objects["TrainJob"].items()
            if name.startswith(prefix) or item.metadata.label(names.LABEL_JOB_ID) == job_id
        ]
        return sorted(found, key=lambda name: (parsed.number if (parsed := identity.parse_name(name)) else 0, name))

    def snapshot(self, name: str) -> Snapshot | None:
        """Everything of the TrainJob of that name, or None when there is none."""
        trainjob = self._objects["TrainJob"].get(name)
        if not isinstance(trainjob, TrainJob):
            return None
        jobset = self._get("JobSet", name, JobSet)
        jobs = tuple(job for job in self._all("Job", Job) if job.metadata.label(names.LABEL_JOBSET_NAME) == name)
        pods = tuple(
            pod for key in self._pods_by_owner.get(name, ()) if isinstance(pod := self._objects["Pod"][key], Pod)
        )
        captured = tuple(self._captured.get(name, {}).values())
        bound = {pod.spec.node_name for pod in pods} | {each.pod.spec.node_name for each in captured}
        about = {name} | {job.metadata.name for job in jobs}
        return Snapshot(
            namespace=self.namespace,
            trainjob=trainjob,
            jobset=jobset,
            jobs=jobs,
            runtime=self._get("TrainingRuntime", name, TrainingRuntime),
            workload=self._workload(trainjob),
            pods=pods,
            captured=captured,
            nodes={node: item for node in bound if node and (item := self._get("Node", node, Node))},
            nodes_readable=self.nodes_readable,
            frozen_nodes={
                pod.metadata.uid: self._nodes_at_disruption[pod.metadata.uid]
                for pod in pods
                if pod.metadata.uid in self._nodes_at_disruption
            },
            events=tuple(
                event
                for event in self._all("Event", Event)
                if event.involved_object and event.involved_object.name in about
            ),
            seen_end=self._ends.get(trainjob.metadata.uid),
            site=self._site,
        )

    def bound_nodes(self) -> set[str]:
        """The names of the Nodes that live pods of TrainJobs are bound to."""
        return {pod.spec.node_name for pod in self._all("Pod", Pod) if pod.spec.node_name}

    def leftovers(self) -> Leftovers:
        """All of the namespace, to look for orphans in."""
        pods = tuple(self._all("Pod", Pod))
        return Leftovers(
            namespace=self.namespace,
            trainjobs=tuple(self._all("TrainJob", TrainJob)),
            jobsets=tuple(self._all("JobSet", JobSet)),
            jobs=tuple(self._all("Job", Job)),
            runtimes=tuple(self._all("TrainingRuntime", TrainingRuntime)),
            pods=pods,
            nodes={node.metadata.name: node for node in self._all("Node", Node)},
            nodes_readable=self.nodes_readable,
        )

    # ------------------------------------------------------------ the inside

    def _put(self, kind: str, item: Object) -> set[str]:
        key = item.metadata.name
        of_kind = self._objects[kind]
        old = of_kind.get(key)
        touched: set[str] = set()
        if old is not None and old.metadata.uid != item.metadata.uid:
            touched |= self._remove(kind, old)
        if isinstance(item, Pod) and not _owners(item):
            return touched if old is None else touched | self._remove(kind, old)
        if isinstance(old, TrainJob) and isinstance(item, TrainJob):
            self._note_erased_end(old, item)
        of_kind[key] = item
        if isinstance(item, Pod):
            for owner in _owners(item):
                self._pods_by_owner[owner][key] = None
            if _disrupted(item):
                self._nodes_at_disruption.setdefault(item.metadata.uid, self._node_view(item))
        return touched | self._touched_by(kind, item)

    def _note_erased_end(self, old: TrainJob, new: TrainJob) -> None:
        """Keeps the end that ``old`` shows and ``new`` does not: Trainer erases Failed when the JobSet disappears."""
        ended = _finished_at(old)
        if ended is None or _finished_at(new) is not None or old.metadata.uid in self._ends:
            return
        snapshot = self.snapshot(old.metadata.name)
        if snapshot is not None:
            end = end_of(snapshot, ended)
            if end is not None:
                self._ends[old.metadata.uid] = end

    def _remove(self, kind: str, item: Object) -> set[str]:
        key = item.metadata.name
        of_kind = self._objects[kind]
        if key not in of_kind or of_kind[key].metadata.uid != item.metadata.uid:
            return set()
        touched = self._touched_by(kind, item)
        del of_kind[key]
        if isinstance(item, Pod):
            self._capture(item)
        elif kind == "TrainJob":
            self._ends.pop(item.metadata.uid, None)
            self._forget_if_gone(key)
        return touched

    def _capture(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        node = self._nodes_at_disruption.pop(uid, None) or self._node_view(pod)
        for owner in _owners(pod):
            self._pods_by_owner[owner].pop(pod.metadata.name, None)
            kept = self._captured.setdefault(owner, OrderedDict())
            kept[uid] = CapturedPod(pod=pod, node=node)
            while len(kept) > CAPTURED_PER_TRAINJOB:
                kept.popitem(last=False)
            self._forget_if_gone(owner)

    def _forget_if_gone(self, name: str) -> None:
        """Drops the evidence of a TrainJob that is gone with all its pods."""
        if name not in self._objects["TrainJob"] and not self._pods_by_owner.get(name):
            self._captured.pop(name, None)
            self._pods_by_owner.pop(name, None)

    def _node_view(self, pod: Pod) -> NodeView:
        if not self.nodes_readable:
            return NodeAbsence.NOT_READABLE
        return self._get("Node", pod.spec.node_name or "", Node) or NodeAbsence.GONE

    def _touched_by(self, kind: str, item: Object) -> set[str]:
        name = item.metadata.name
        match item:
            case Pod():
                return set(_owners(item))
            case Job():
                return {owner} if (owner := item.metadata.label(names.LABEL_JOBSET_NAME)) else set()
            case Node():
                return self._bound_to(name)
            case Workload():
                return {each.name for each in item.metadata.owner_references or () if each.kind == "TrainJob"}
            case Event():
                about = item.involved_object.name if item.involved_object else None
                job = self._get("Job", about or "", Job)
                owner = job.metadata.label(names.LABEL_JOBSET_NAME) if job else about
                return {owner} if owner else set()
            case _:
                return {name} if kind != "Node" else self._bound_to(name)

    def _bound_to(self, node: str) -> set[str]:
        return {owner for pod in self._all("Pod", Pod) if pod.spec.node_name == node for owner in _owners(pod)}

    def _workload(self, trainjob: TrainJob) -> Workload | None:
        for workload in self._all("Workload", Workload):
            if workload.metadata.label(names.LABEL_KUEUE_JOB_UID) == trainjob.metadata.uid:
                return workload
        return None

    def _get(self, kind: str, name: str, record: type[_Record]) -> _Record | None:
        item = self._objects[kind].get(name)
        return item if isinstance(item, record) else None

    def _all(self, kind: str, record: type[_Record]) -> Iterator[_Record]:
        return (item for item in self._objects[kind].values() if isinstance(item, record))


def _owners(pod: Pod) -> set[str]:
    """The TrainJobs that a pod belongs to: by our two labels, and separately by JobSet's (contract, section 2)."""
    metadata = pod.metadata
    found = {metadata.label(names.LABEL_JOBSET_NAME)}
    job_id, submission = metadata.label(names.LABEL_JOB_ID), metadata.label(names.LABEL_SUBMISSION)
    if job_id and submission and submission.isdecimal():
        found.add(names.object_name(job_id, int(submission)))
    return {name for name in found if name}


def _finished_at(trainjob: TrainJob) -> datetime | None:
    for condition in (trainjob.status.conditions if trainjob.status else None) or ():
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition.last_transition_time or datetime.fromtimestamp(0, UTC)
    return None


def _disrupted(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status else None) or ()
    return any(condition.type == "DisruptionTarget" and condition.status == "True" for condition in conditions)
