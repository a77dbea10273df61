"""The last state of deleted pods, each with its Node as it was when the pod's end began (contract, 2 and 11).

And where each pod was first seen running, which is what tells later whether that machine was rebooted (section 12).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.remaining import may_have_outlived
from airflow_dispatch.core.objects import Condition, Node, Pod
from airflow_dispatch.core.snapshot import CapturedPod, Machine, NodeAbsence, NodeView

__all__ = ["CAPTURED_PER_TRAINJOB", "Evidence"]

CAPTURED_PER_TRAINJOB: Final = 256
_UNKNOWN: Final = Machine()


class _Seen(NamedTuple):
    """A Node as it was when a pod's DisruptionTarget (``disruption``), else its deletion (None), was first seen."""

    node: NodeView
    disruption: Condition | None


class Evidence:
    """Keeps what a pod's object can no longer say, the newest 256 pods of each TrainJob.

    A Node that has not been seen yet is not readable for the time being; :meth:`settle` says what it was.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._ran_on: dict[str, Machine] = {}
        self._captured: dict[str, OrderedDict[str, CapturedPod]] = {}

    def note(self, pod: Pod, node: NodeView) -> None:
        """Takes the Node of a live pod that runs, or that is being disrupted or deleted, at the first sight of it.

        A DisruptionTarget says why, so its Node replaces the one that was taken at the deletion.
        """
        self._note_running(pod, node)
        disruption = true(pod.status, "DisruptionTarget")
        if disruption is None and pod.metadata.deletion_timestamp is None:
            return
        seen = self._seen.get(pod.metadata.uid)
        if seen is None or (disruption is not None and seen.disruption is None):
            self._seen[pod.metadata.uid] = _Seen(node, disruption)

    def node_changed(self, node: Node, pods: Iterable[Pod]) -> None:
        """Takes a Node's newer state for those of its pods whose evidence it bears on.

        Pods and Nodes come in two streams: a taint that was set before a pod's DisruptionTarget may come after it.
        """
        for pod in pods:
            self._note_running(pod, node)
            uid = pod.metadata.uid
            seen = self._seen.get(uid)
            if seen is not None and seen.disruption is not None and _stood_already(seen, node):
                self._seen[uid] = _Seen(node, seen.disruption)

    def settle(self, name: str, node: NodeView, pods: Iterable[Pod]) -> None:
        """Says what a Node was that had not been seen yet; ``pods`` are the live ones bound to it."""
        for pod in pods:
            seen = self._seen.get(pod.metadata.uid)
            if seen is not None and seen.node is NodeAbsence.NOT_READABLE:
                self._seen[pod.metadata.uid] = _Seen(node, seen.disruption)
        for kept in self._captured.values():
            for uid, captured in kept.items():
                if captured.node is NodeAbsence.NOT_READABLE and captured.pod.spec.node_name == name:
                    kept[uid] = CapturedPod(pod=captured.pod, node=node, machine=captured.machine)

    def capture(self, pod: Pod, owners: Iterable[str], node: NodeView) -> CapturedPod | None:
        """Keeps a deleted pod; ``node`` is its Node as it is now, for when nothing foretold the deletion.

        Answers what is kept when a process of it may have outlived its object, which has to be remembered.
        """
        uid = pod.metadata.uid
        self.note(pod, node)
        seen = self._seen.pop(uid, None)
        machine = self._ran_on.pop(uid, None)
        captured = CapturedPod(pod=pod, node=seen.node if seen is not None else node, machine=machine)
        for owner in owners:
            kept = self._captured.setdefault(owner, OrderedDict())
            kept[uid] = captured
            while len(kept) > CAPTURED_PER_TRAINJOB:
                kept.popitem(last=False)
        return captured if may_have_outlived(PodView.of(captured), node) else None

    def _note_running(self, pod: Pod, node: NodeView) -> None:
        """Takes the machine on which a pod is first seen running, as soon as it is known."""
        if self._ran_on.get(pod.metadata.uid, _UNKNOWN) == _UNKNOWN and PodView(pod, node, live=True).runs:
            self._ran_on[pod.metadata.uid] = Machine.of(node)

    def of(self, owner: str) -> tuple[CapturedPod, ...]:
        """The deleted pods of a TrainJob, oldest first."""
        return tuple(self._captured.get(owner, {}).values())

    def forget(self, owner: str) -> None:
        """Drops what is known of a TrainJob's deleted pods."""
        self._captured.pop(owner, None)

    def node_names(self) -> set[str]:
        """The Nodes that the deleted pods were bound to."""
        return {
            captured.pod.spec.node_name
            for kept in self._captured.values()
            for captured in kept.values()
            if captured.pod.spec.node_name
        }


def _stood_already(seen: _Seen, node: Node) -> bool:
    """The Node has a taint that is not known yet and was there when the disruption began."""
    at = seen.disruption.last_transition_time if seen.disruption is not None else None
    if at is None or not isinstance(seen.node, Node):
        return False
    known = {taint.key for taint in seen.node.spec.taints or ()}
    return any(
        taint.key not in known and taint.time_added is not None and taint.time_added <= at
        for taint in node.spec.taints or ()
    )
