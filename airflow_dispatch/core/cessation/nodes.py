"""Whether the machines that a TrainJob ran on are known to be off (section 10, ``ceased``)."""

from __future__ import annotations

from airflow_dispatch.core.classify.nodes import processes_are_gone
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import NodeAbsence, Snapshot

__all__ = ["ceased"]


@implements(
    Row(
        "10",
        "ceased",
        "`ceased`: every Node that any of its pods ran on is gone or out of service, or an operator has confirmed "
        "their end; unanswered without known pods and where Nodes may not be read",
    )
)
def ceased(snapshot: Snapshot) -> bool | None:
    """Every Node that any of its pods ran on is gone or out of service, or an operator has confirmed their end.

    None, unanswered: no pod of it is known, or a Node may not be read.
    """
    pods = [*snapshot.pods, *(each.pod for each in (*snapshot.captured, *snapshot.vanished))]
    unconfirmed = [pod for pod in pods if pod.metadata.uid not in snapshot.confirmed]
    views = [snapshot.node_of(pod) for pod in unconfirmed if pod.spec.node_name]
    if not (views or snapshot.confirmed) or NodeAbsence.NOT_READABLE in views:
        return None
    return not snapshot.unreadable and all(processes_are_gone(view) for view in views)
