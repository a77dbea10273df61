"""A pod that failed before or beside its containers (contract, section 6.3, third table)."""

from __future__ import annotations

from typing import Final

from airflow_dispatch.core.classify.conditions import true, words, words_of
from airflow_dispatch.core.classify.disruption import MEMORY_PRESSURE, SHUTDOWN_REASONS
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.verdict import Verdict
from airflow_dispatch.core.observation import CauseKind
from airflow_dispatch.core.rows import Row, implements

NO_ROOM: Final = ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity")
_NO_ROOM_PREFIX: Final = "OutOf"
_EVICTED: Final = "Evicted"


@implements(
    Row("6.3", "no-room", "{reasons}", (CauseKind.NO_CAPACITY,), None, ("<words>",), (f"{_NO_ROOM_PREFIX}…", *NO_ROOM)),
    Row(
        "6.3",
        "terminated-by-kueue",
        "condition `TerminatedByKueue=True`",
        (CauseKind.NO_CAPACITY,),
        details=("<words>",),
    ),
    Row(
        "6.3",
        "rejected-node-lost",
        "{reasons}",
        (CauseKind.NODE_LOST,),
        details=("<words>",),
        reasons=SHUTDOWN_REASONS,
    ),
    Row(
        "6.3",
        "evicted-memory",
        "{reasons}, the Node is low on memory",
        (CauseKind.OUT_OF_MEMORY,),
        details=("<words>",),
        reasons=(_EVICTED,),
    ),
    Row(
        "6.3",
        "evicted-limit",
        "{reasons}, it exceeds its own limit",
        (CauseKind.NON_ZERO_EXIT,),
        details=("<words>",),
        reasons=(_EVICTED,),
    ),
    Row(
        "6.3",
        "evicted-other",
        "{reasons}, otherwise",
        (CauseKind.PREEMPTED,),
        details=("<words>",),
        reasons=(_EVICTED,),
    ),
)
def judge(view: PodView) -> Verdict | None:
    """What the phase ``Failed`` of a pod without other findings says, or None when it says nothing we know."""
    status = view.pod.status
    if status is None or view.phase != "Failed":
        return None
    reason, message = status.reason or "", status.message or ""
    detail = words(reason, message)
    if reason in NO_ROOM or reason.startswith(_NO_ROOM_PREFIX):
        return Verdict(CauseKind.NO_CAPACITY, detail)
    by_kueue = true(status, "TerminatedByKueue")
    if by_kueue is not None:
        return Verdict(CauseKind.NO_CAPACITY, words_of(by_kueue))
    if reason in SHUTDOWN_REASONS:
        return Verdict(CauseKind.NODE_LOST, detail)
    if reason == _EVICTED:
        return Verdict(_evicted(message), detail)
    return None


def _evicted(message: str) -> CauseKind:
    """The Node's pressure first: its message may add which container *exceeds its request*, which is no limit."""
    if MEMORY_PRESSURE in message:
        return CauseKind.OUT_OF_MEMORY
    if "exceeds" in message and "low on resource" not in message:
        return CauseKind.NON_ZERO_EXIT
    return CauseKind.PREEMPTED
