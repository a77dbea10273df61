"""Everything one classification reads (contract, section 2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.objects import Event, Job, JobSet, Node, Pod, TrainingRuntime, TrainJob, Workload
from airflow_dispatch.core.observation import Cause


class NodeAbsence(enum.Enum):
    """Why there is no Node to look at."""

    GONE = "gone"
    NOT_READABLE = "not readable"


NodeView = Node | NodeAbsence


class Machine(NamedTuple):
    """A Node's UID and boot ID at one moment; empty where they could not be read."""

    node_uid: str = ""
    boot_id: str = ""

    @classmethod
    def of(cls, node: NodeView) -> Machine:
        """The machine that a Node stands for."""
        if not isinstance(node, Node):
            return cls()
        info = node.status.node_info if node.status else None
        return cls(node.metadata.uid, (info.boot_id if info else None) or "")


class CapturedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted pod's last state; ``node`` as it was when its DisruptionTarget, else its deletion, was first seen.

    ``machine`` is where it was first seen running; None when it never was.
    """

    pod: Pod
    node: NodeView
    machine: Machine | None = None


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a site adds to the rules: taint keys beside the well-known ones."""

    node_loss_taints: tuple[str, ...] = ()
    disruption_taints: tuple[str, ...] = ()

    @property
    def all_node_loss_taints(self) -> tuple[str, ...]:
        """In the order in which the first is named."""
        return names.NODE_LOSS_TAINTS + self.node_loss_taints

    @property
    def all_disruption_taints(self) -> tuple[str, ...]:
        return names.DISRUPTION_TAINTS + self.disruption_taints


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One TrainJob and all that belongs to it, from one consistent read of each kind.

    ``jobs`` are the JobSet's Jobs. ``pods`` are those of the namespace selected by our labels or by the JobSet's name,
    Terminating ones included. ``nodes`` maps the names of Nodes that pods are bound to; a name that is missing there is
    a Node that is gone when ``nodes_readable`` and it is none of ``unseen_nodes`` (which no watch has shown yet), else
    one that can't be known. ``events`` are those of the TrainJob, its JobSet and its Jobs. ``seen_end`` is an end of
    this UID that the hub has seen and the object may have lost since.

    The last three are the ledger's (section 12): ``vanished`` are pods of this TrainJob that nobody has confirmed,
    ``confirmed`` the UIDs of those that an operator has, and ``unreadable`` names what can't be read of it.
    """

    namespace: str
    trainjob: TrainJob
    jobset: JobSet | None = None
    jobs: tuple[Job, ...] = ()
    runtime: TrainingRuntime | None = None
    workload: Workload | None = None
    pods: tuple[Pod, ...] = ()
    captured: tuple[CapturedPod, ...] = ()
    nodes: Mapping[str, Node] = {}
    nodes_readable: bool = True
    unseen_nodes: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()
    seen_end: Cause | None = None
    vanished: tuple[CapturedPod, ...] = ()
    confirmed: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()
    site: Site = Site()

    def node_of(self, pod: Pod) -> NodeView | None:
        """The Node that a pod is bound to, as it is now; None when it is bound to none."""
        return _node_of(pod, self.nodes, self.unseen_nodes, readable=self.nodes_readable)


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace's objects, among which orphans are looked for; those that are not ours do no harm here.

    ``trainjobs`` are all TrainJobs of the namespace: an object whose owner is not among them is an orphan. ``nodes``,
    ``nodes_readable`` and ``unseen_nodes`` are those of :class:`Snapshot`. ``vanished`` are the pods of ledgers that
    nobody has confirmed, each with its TrainJob's name.
    """

    namespace: str
    trainjobs: tuple[TrainJob, ...] = ()
    jobsets: tuple[JobSet, ...] = ()
    jobs: tuple[Job, ...] = ()
    runtimes: tuple[TrainingRuntime, ...] = ()
    pods: tuple[Pod, ...] = ()
    vanished: tuple[tuple[str, CapturedPod], ...] = ()
    nodes: Mapping[str, Node] = {}
    nodes_readable: bool = True
    unseen_nodes: frozenset[str] = frozenset()

    def node_of(self, pod: Pod) -> NodeView | None:
        """As :meth:`Snapshot.node_of`."""
        return _node_of(pod, self.nodes, self.unseen_nodes, readable=self.nodes_readable)


def _node_of(pod: Pod, nodes: Mapping[str, Node], unseen: frozenset[str], *, readable: bool) -> NodeView | None:
    name = pod.spec.node_name
    if not name:
        return None
    if not readable or name in unseen:
        return NodeAbsence.NOT_READABLE
    return nodes.get(name, NodeAbsence.GONE)
