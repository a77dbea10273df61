"""What the watches brought, in memory: current objects, and the last state of pods that are gone.

Pure: events in, snapshots out. A recording of a watch can be replayed through it as well as a live one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

from airflow_dispatch.core import identity, ledger, names
from airflow_dispatch.core.classify import end_of
from airflow_dispatch.core.classify.conditions import end
from airflow_dispatch.core.ledger import Entry, Ledger
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
from airflow_dispatch.kube.evidence import Evidence
from airflow_dispatch.kube.index import Index

__all__ = ["KINDS", "Store"]

_RECORDS: Final[dict[str, type[Object]]] = {
    "TrainJob": TrainJob,
    "JobSet": JobSet,
    "Job": Job,
    "Pod": Pod,
    "Node": Node,
    "TrainingRuntime": TrainingRuntime,
    "Workload": Workload,
    "Event": Event,
}
KINDS: Final = tuple(_RECORDS)
_ABOUT: Final = frozenset({"TrainJob", "JobSet", "Job"})
"""What the Events that a rule reads are about; a namespace's pods have many more, which nothing reads."""

_Record = TypeVar("_Record", bound=Object)


class Store:
    """The objects of one namespace, and the Nodes.

    A deleted pod's last state is kept against its TrainJob, the newest 256 of each, with the state of its Node when
    the pod's DisruptionTarget, else its deletion, was first seen (contract, sections 2 and 11). It goes when the
    TrainJob and everything of its name have gone. Pods and Jobs of no JobSet, and Events about anything that no rule
    reads, are not kept. An object that can't be read any more stays as it was last read.
    """

    def __init__(self, namespace: str, *, site: Site = Site()) -> None:  # noqa: B008 (frozen)
        self.namespace = namespace
        self.nodes_readable = True
        self._site = site
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._indexes: dict[str, Index] = {kind: Index() for kind in ("Pod", "Job", "Event", "Workload")}
        self._pods_by_node = Index()
        self._unseen_nodes: set[str] = set()
        self._evidence = Evidence()
        self._vanished: dict[str, dict[str, Entry]] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._ends: dict[str, Cause] = {}

    # ------------------------------------------------------------ in

    def apply(self, event_type: str, kind: str, item: Object) -> set[str]:
        """Takes one watch event; returns the names of the TrainJobs whose snapshot may differ now."""
        if event_type == "DELETED":
            return self._remove(kind, item)
        return self._put(kind, item)

    def replace_all(self, kind: str, items: Iterable[Object]) -> set[str]:
        """Takes a whole list; what is not on it has been deleted meanwhile, and is captured as it was last seen."""
        if kind == "Node":
            self.nodes_readable = True
        listed = list(items)
        uids = {item.metadata.uid for item in listed}
        touched: set[str] = set()
        for old in list(self._objects[kind].values()):
            if old.metadata.uid not in uids:
                touched |= self._remove(kind, old)
        for item in listed:
            touched |= self._put(kind, item)
        if kind == "Node":
            for name in list(self._unseen_nodes):
                touched |= self.node_is_gone(name)
        return touched

    def nodes_denied(self) -> set[str]:
        """Takes that Nodes may not be read, or no longer: what was known of them need not be so now."""
        self.nodes_readable = False
        touched: set[str] = set()
        for node in list(self._all("Node", Node)):
            touched |= self._remove("Node", node)
        return touched

    def node_is_gone(self, name: str) -> set[str]:
        """Takes that there is no such Node, though pods are bound to it; returns what :meth:`apply` does."""
        self._settle(name, NodeAbsence.GONE)
        return self._bound_to(name)

    def take_ledger(self, found: Ledger) -> set[str]:
        """Takes what a job's ledger says; returns what :meth:`apply` does."""
        if self._ledgers.get(found.job_id) == found:
            return set()
        self._ledgers[found.job_id] = found
        self._unseen_nodes |= found.node_names - self._objects["Node"].keys()
        return set(self.names_of_job(found.job_id))

    def forget_ledger(self, job_id: str) -> None:
        """Drops what a job's ledger said."""
        self._ledgers.pop(job_id, None)

    # ------------------------------------------------------------ out

    def take_vanished(self) -> dict[str, dict[str, Entry]]:
        """The pods that vanished since this was last asked, by JobID and pod UID, to be written into the ledgers."""
        taken, self._vanished = self._vanished, {}
        return taken

    @property
    def unseen_nodes(self) -> frozenset[str]:
        """The Nodes that pods are bound to and that nothing is known of yet, neither that they are nor that they went.

        Pods and Nodes come in two streams, so a pod may be seen before the Node that it was bound to.
        """
        return frozenset(self._unseen_nodes)

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
        trainjob = self._get("TrainJob", name, TrainJob)
        if trainjob is None:
            return None
        jobs = self._under(name, "Job", Job)
        pods = self._under(name, "Pod", Pod)
        captured = self._evidence.of(name)
        kept = self._ledger_of(name)
        vanished = kept.of(name) if kept is not None else ()
        past = (each.pod for each in (*captured, *vanished))
        bound = {pod.spec.node_name for pod in (*pods, *past) if pod.spec.node_name}
        workloads = self._under(trainjob.metadata.uid, "Workload", Workload)
        events = [self._under(about, "Event", Event) for about in (name, *(job.metadata.name for job in jobs))]
        return Snapshot(
            namespace=self.namespace,
            trainjob=trainjob,
            jobset=self._get("JobSet", name, JobSet),
            jobs=jobs,
            runtime=self._get("TrainingRuntime", name, TrainingRuntime),
            workload=next(iter(workloads), None),
            pods=pods,
            captured=captured,
            nodes={node: item for node in bound if (item := self._get("Node", node, Node))},
            nodes_readable=self.nodes_readable,
            unseen_nodes=frozenset(bound & self._unseen_nodes),
            events=tuple(event for of_one in events for event in of_one),
            seen_end=self._ends.get(trainjob.metadata.uid),
            vanished=vanished,
            confirmed=kept.confirmed_of(name) if kept is not None else frozenset(),
            unreadable=kept.problems if kept is not None else (),
            site=self._site,
        )

    def bound_nodes(self) -> set[str]:
        """The names of the Nodes that pods of TrainJobs are bound to, deleted and vanished ones included."""
        return self._evidence.node_names() | self._pods_by_node.keys | self._remembered_nodes()

    def leftovers(self) -> Leftovers:
        """All of the namespace, to look for orphans in."""
        return Leftovers(
            namespace=self.namespace,
            trainjobs=tuple(self._all("TrainJob", TrainJob)),
            jobsets=tuple(self._all("JobSet", JobSet)),
            jobs=tuple(self._all("Job", Job)),
            runtimes=tuple(self._all("TrainingRuntime", TrainingRuntime)),
            pods=tuple(self._all("Pod", Pod)),
            vanished=tuple(
                (entry.train_job, entry.captured(uid))
                for kept in self._ledgers.values()
                for uid, entry in kept.open.items()
            ),
            nodes={node.metadata.name: node for node in self._all("Node", Node)},
            nodes_readable=self.nodes_readable,
            unseen_nodes=self.unseen_nodes,
        )

    # ------------------------------------------------------------ the inside

    def _put(self, kind: str, item: Object) -> set[str]:
        name = item.metadata.name
        old = self._objects[kind].get(name)
        touched: set[str] = set()
        if old is not None and old.metadata.uid != item.metadata.uid:
            touched, old = self._remove(kind, old), None
        if not isinstance(item, _RECORDS[kind]):
            return touched
        if not _concerns_us(item):
            return touched if old is None else touched | self._remove(kind, old)
        if isinstance(old, TrainJob) and isinstance(item, TrainJob):
            self._note_erased_end(old, item)
        touched |= set() if old is None else self._touched_by(old)
        self._objects[kind][name] = item
        if kind in self._indexes:
            self._indexes[kind].put(name, _keys(item))
        if isinstance(item, Pod):
            self._bind(item)
            self._evidence.note(item, self._node_view(item))
        elif isinstance(item, Node):
            self._settle(name, item)
            self._evidence.node_changed(item, self._pods_on(name))
        return touched | self._touched_by(item)

    def _bind(self, pod: Pod) -> None:
        """Takes the Node that a pod is bound to, which may be one that has not been seen yet."""
        node = pod.spec.node_name
        before = self._pods_by_node.under(node) if node else ()
        self._pods_by_node.put(pod.metadata.name, frozenset({node} if node else ()))
        if node and pod.metadata.name not in before and node not in self._objects["Node"]:
            self._unseen_nodes.add(node)

    def _settle(self, node: str, view: NodeView) -> None:
        """Takes what a Node is of which nothing was known."""
        if node in self._unseen_nodes:
            self._unseen_nodes.discard(node)
            self._evidence.settle(node, view, self._pods_on(node))

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
        name = item.metadata.name
        old = self._objects[kind].get(name)
        if old is None or old.metadata.uid != item.metadata.uid:
            return set()
        touched = self._touched_by(old)
        del self._objects[kind][name]
        if kind in self._indexes:
            self._indexes[kind].remove(name)
        if isinstance(old, Pod):
            self._pods_by_node.remove(name)
            self._capture(item if isinstance(item, Pod) else old, _owners(old))
        elif kind == "TrainJob":
            self._ends.pop(item.metadata.uid, None)
            self._forget_if_gone(name)
        return touched

    def _capture(self, pod: Pod, owners: frozenset[str]) -> None:
        vanished = self._evidence.capture(pod, owners, self._node_view(pod))
        for owner in owners:
            if vanished is not None:
                self._note_vanished(vanished, owner)
            self._forget_if_gone(owner)
        node = pod.spec.node_name
        if node in self._unseen_nodes and node not in self.bound_nodes():
            self._unseen_nodes.discard(node)

    def _note_vanished(self, captured: CapturedPod, owner: str) -> None:
        submission, entry = identity.parse_name(owner), ledger.entry_of(captured, owner)
        if submission is not None and entry is not None:
            self._vanished.setdefault(submission.job_id, {})[captured.pod.metadata.uid] = entry

    def _ledger_of(self, name: str) -> Ledger | None:
        submission = identity.parse_name(name)
        return self._ledgers.get(submission.job_id) if submission is not None else None

    def _remembered_nodes(self) -> set[str]:
        return {node for kept in self._ledgers.values() for node in kept.node_names}

    def _forget_if_gone(self, name: str) -> None:
        """Drops the evidence of a TrainJob that is gone with all its pods."""
        if name not in self._objects["TrainJob"] and not self._indexes["Pod"].under(name):
            self._evidence.forget(name)

    def _node_view(self, pod: Pod) -> NodeView:
        name = pod.spec.node_name or ""
        if not self.nodes_readable or name in self._unseen_nodes:
            return NodeAbsence.NOT_READABLE
        return self._get("Node", name, Node) or NodeAbsence.GONE

    def _touched_by(self, item: Object) -> set[str]:
        match item:
            case Pod():
                return set(_owners(item))
            case Job():
                return set(_keys(item))
            case Node():
                return self._bound_to(item.metadata.name)
            case Workload():
                return {each.name for each in item.metadata.owner_references or () if each.kind == "TrainJob"}
            case Event():
                about = item.involved_object.name if item.involved_object and item.involved_object.name else ""
                job = self._get("Job", about, Job)
                return set(_keys(job)) if job is not None else {about}
            case _:
                return {item.metadata.name}

    def _pods_on(self, node: str) -> list[Pod]:
        found = (self._get("Pod", name, Pod) for name in self._pods_by_node.under(node))
        return [pod for pod in found if pod is not None]

    def _bound_to(self, node: str) -> set[str]:
        return {owner for pod in self._pods_on(node) for owner in _owners(pod)}

    def _under(self, key: str, kind: str, record: type[_Record]) -> tuple[_Record, ...]:
        found = (self._get(kind, name, record) for name in self._indexes[kind].under(key))
        return tuple(item for item in found if item is not None)

    def _get(self, kind: str, name: str, record: type[_Record]) -> _Record | None:
        item = self._objects[kind].get(name)
        return item if isinstance(item, record) else None

    def _all(self, kind: str, record: type[_Record]) -> Iterator[_Record]:
        return (item for item in self._objects[kind].values() if isinstance(item, record))


def _concerns_us(item: Object) -> bool:
    """Pods and Jobs belong to a JobSet, and Events are about something that a rule reads; all others may be needed."""
    match item:
        case Pod() | Job():
            return bool(_keys(item))
        case Event():
            return item.involved_object is not None and item.involved_object.kind in _ABOUT
        case _:
            return True


def _keys(item: Object) -> frozenset[str]:
    """What an object is looked for by."""
    match item:
        case Pod():
            return _owners(item)
        case Job():
            key = item.metadata.label(names.LABEL_JOBSET_NAME)
        case Workload():
            key = item.metadata.label(names.LABEL_KUEUE_JOB_UID)
        case Event():
            key = item.involved_object.name if item.involved_object else None
        case _:
            key = None
    return frozenset({key} if key else ())


def _owners(pod: Pod) -> frozenset[str]:
    """The TrainJobs that a pod belongs to: by our two labels, and separately by JobSet's (contract, section 2)."""
    label = pod.metadata.label
    return _named(label(names.LABEL_JOBSET_NAME), label(names.LABEL_JOB_ID), label(names.LABEL_SUBMISSION))


@functools.lru_cache(maxsize=1024)
def _named(jobset: str | None, job_id: str | None, submission: str | None) -> frozenset[str]:
    """The names that three labels say; kept, since all pods of a gang carry the same ones."""
    found = {jobset}
    if job_id and submission and submission.isdecimal():
        found.add(names.object_name(job_id, int(submission)))
    return frozenset(name for name in found if name)


def _finished_at(trainjob: TrainJob) -> datetime | None:
    found = end(trainjob.status)
    if found is None:
        return None
    return found.last_transition_time or datetime.fromtimestamp(0, UTC)
