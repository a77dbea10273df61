"""Which pods may still run (contract, section 12), and how they are written in a detail."""

from __future__ import annotations

from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.classify.nodes import describe, processes_are_gone
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.objects import Node
from airflow_dispatch.core.snapshot import NodeAbsence, NodeView


def may_run(view: PodView) -> bool:
    """A process of this live pod may still run.

    A phase that is not terminal always says so. A terminal one does when a container's status still says running, or
    Kueue has ended the pod by force, and its Node is neither gone nor out of service: pod garbage collection and Kueue
    write ``Failed`` without asking a kubelet.
    """
    if not view.finished:
        return True
    unconfirmed = view.running_containers() or true(view.pod.status, "KueueFailureRecovery")
    return bool(unconfirmed) and bool(view.node_name) and not processes_are_gone(view.node)


def may_have_outlived(view: PodView, node_now: NodeView | None) -> bool:
    """A process of this deleted pod may still run: its object vanished before a kubelet reported that it ended.

    ``view.node`` is the Node as it was captured, ``node_now`` as it is. Another UID or boot ID is another machine, or
    the same one after a reboot.
    """
    if not view.running_containers() or processes_are_gone(node_now):
        return False
    if processes_are_gone(view.node):
        return False
    return not (isinstance(view.node, Node) and isinstance(node_now, Node) and _rebooted(view.node, node_now))


def describe_remaining(view: PodView, node_now: NodeView | None) -> str:
    """``<pod> on <node> (<node state>)``; a vanished one says so; a pod that is bound to no Node is named alone."""
    if not view.node_name:
        return view.name
    state = describe(node_now if node_now is not None else NodeAbsence.NOT_READABLE)
    return f"{view.name} on {view.node_name} ({state if view.live else f'vanished, {state}'})"


def _rebooted(before: Node, after: Node) -> bool:
    if before.metadata.uid != after.metadata.uid:
        return True
    boot_before = before.status.node_info.boot_id if before.status and before.status.node_info else None
    boot_after = after.status.node_info.boot_id if after.status and after.status.node_info else None
    return bool(boot_before and boot_after) and boot_before != boot_after
