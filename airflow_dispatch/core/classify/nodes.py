"""What a Node says of the processes on it: gone, out of service, tainted, Ready or not."""

from __future__ import annotations

from airflow_dispatch.core.classify.conditions import condition
from airflow_dispatch.core.names import TAINT_OUT_OF_SERVICE
from airflow_dispatch.core.objects import Condition, Node, Taint
from airflow_dispatch.core.snapshot import NodeAbsence, NodeView


def ready(node: Node) -> Condition | None:
    """Its Ready condition; a Node that has just been registered has none."""
    return condition(node.status, "Ready")


def taint(node: Node, keys: tuple[str, ...]) -> Taint | None:
    """The first of these taints, in the order of ``keys``, that the Node has."""
    for key in keys:
        for each in node.spec.taints or ():
            if each.key == key:
                return each
    return None


def out_of_service(node: Node) -> bool:
    """An operator has confirmed that its processes are gone (non-graceful node shutdown)."""
    return taint(node, (TAINT_OUT_OF_SERVICE,)) is not None


def processes_are_gone(node: NodeView | None) -> bool:
    """Nothing of it runs any more: the Node object is gone, or it is out of service."""
    return node is NodeAbsence.GONE or (isinstance(node, Node) and out_of_service(node))


def describe(node: NodeView | None) -> str:
    """``Ready=True``, ``Ready=Unknown, out-of-service``, ``gone``, ``not readable``, ...; empty for no Node."""
    if node is None:
        return ""
    if isinstance(node, NodeAbsence):
        return node.value
    found = ready(node)
    status = f"Ready={found.status if found is not None else 'Unknown'}"
    return f"{status}, out-of-service" if out_of_service(node) else status
