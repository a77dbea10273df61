"""Which pods may still run (contract, section 12), and how they are written in a detail."""

from __future__ import annotations

from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.classify.nodes import describe, processes_are_gone
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.objects import Node
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Machine, NodeAbsence, NodeView


@implements(
    Row(
        "12",
        "may-run",
        "a live pod may still run: its phase is not terminal; or it is, but a container's status says running or Kueue "
        "has ended it by force, and its Node is neither gone nor out of service",
    )
)
def may_run(view: PodView) -> bool:
    """A process of this live pod may still run.

    A phase that is not terminal always says so. A terminal one does when a container's status still says running, or
    Kueue has ended the pod by force, and its Node is neither gone nor out of service: pod garbage collection and Kueue
    write ``Failed`` without asking a kubelet.
    """
    if not view.finished:
        return True
    unconfirmed = view.runs or true(view.pod.status, "KueueFailureRecovery")
    return bool(unconfirmed) and bool(view.node_name) and not processes_are_gone(view.node)


@implements(
    Row(
        "12",
        "vanished",
        "a pod whose object vanished without a kubelet's word of its end may still run, until its Node is gone, out of "
        "service or rebooted",
    )
)
def may_have_outlived(view: PodView, node_now: NodeView | None) -> bool:
    """A process of this deleted pod may still run: its object vanished before a kubelet reported that it ended.

    ``view.node`` is the Node as it was captured, ``node_now`` as it is. Another UID or boot ID than where it was first
    seen running is another machine, or the same one after a reboot. A pod that was seen running and whose last status
    can't be read says nothing of its end.
    """
    reported = view.machine is None or bool(view.containers)
    if reported and not view.runs:
        return False
    if processes_are_gone(node_now) or processes_are_gone(view.node):
        return False
    ran_on = view.machine or (Machine.of(view.node) if view.node is not None else Machine())
    return not (isinstance(node_now, Node) and _is_another(ran_on, Machine.of(node_now)))


def describe_remaining(view: PodView, node_now: NodeView | None) -> str:
    """``<pod> on <node> (<node state>)``; a vanished one says so; a pod that is bound to no Node is named alone."""
    if not view.node_name:
        return view.name
    state = describe(node_now if node_now is not None else NodeAbsence.NOT_READABLE)
    return f"{view.name} on {view.node_name} ({state if view.live else f'vanished, {state}'})"


def _is_another(before: Machine, after: Machine) -> bool:
    """A part that could not be read tells nothing."""
    return any(old and new and old != new for old, new in zip(before, after, strict=True))
