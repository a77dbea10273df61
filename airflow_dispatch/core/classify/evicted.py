"""``Evicted=True`` of the Workload (contract, section 6.2, rows 1 to 4; 6.1, row 0)."""

from __future__ import annotations

from typing import Final

from airflow_dispatch.core.classify.conditions import condition, join, words_of
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.findings import cause
from airflow_dispatch.core.objects import Condition
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements

PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
PREEMPTED: Final = "Preempted"
REPORTED: Final = {
    PREEMPTED: CauseKind.PREEMPTED,
    "NodeFailures": CauseKind.NODE_LOST,
    PODS_READY_TIMEOUT: CauseKind.NO_CAPACITY,
    "ClusterQueueStopped": CauseKind.NO_CAPACITY,
    "LocalQueueStopped": CauseKind.NO_CAPACITY,
    "FlavorMigration": CauseKind.NO_CAPACITY,
    "AdmissionCheck": CauseKind.NO_CAPACITY,
}
"""Rows 1 to 3; ``AdmissionCheck``: a check in Retry is how Kueue says that machines are not there yet."""


@implements(
    Row(
        "6.2",
        "1",
        "evicted, {reasons}",
        (CauseKind.PREEMPTED,),
        Provenance.REPORTED,
        ("Workload Evicted: <words>; Preempted: <words of Preempted>", "Workload Evicted: <words>"),
        (PREEMPTED,),
    ),
    Row(
        "6.2",
        "2",
        "evicted, {reasons}",
        (CauseKind.NODE_LOST,),
        Provenance.REPORTED,
        ("Workload Evicted: <words>",),
        ("NodeFailures",),
    ),
    Row(
        "6.2",
        "3",
        "evicted, {reasons}",
        (CauseKind.NO_CAPACITY,),
        Provenance.REPORTED,
        ("Workload Evicted: <words>",),
        tuple(reason for reason, kind in REPORTED.items() if kind is CauseKind.NO_CAPACITY),
    ),
    Row(
        "6.2",
        "3-broken",
        "evicted, {reasons}, but a Node of the gang was lost, or `PodsReady=False` says `WaitForRecovery`",
        cause="as the pod says, else unknown",
        details=("pod <pod>: <detail>", "Workload Evicted: <words>"),
        reasons=(PODS_READY_TIMEOUT,),
    ),
    Row(
        "6.2",
        "4",
        "evicted, anything else, unless it is a deactivation that is over: then the next rows speak",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        ("Workload Evicted: <words>",),
    ),
)
def evicted(facts: Facts) -> Cause | None:
    """Why Kueue took the quota away, or None when it did not, or when that lies behind the Workload."""
    found = facts.workload_condition("Evicted")
    if found is None:
        return None
    reason = found.reason or ""
    if reason == PODS_READY_TIMEOUT and _gang_broke(facts):
        return disrupted(facts) or _unknown(found)
    if reason in REPORTED:
        return Cause(
            kind=REPORTED[reason],
            provenance=Provenance.REPORTED,
            detail=join([f"Workload Evicted: {words_of(found)}", _preempted(facts) if reason == PREEMPTED else ""]),
            at=found.last_transition_time,
        )
    return None if reason.startswith("Deactivated") and _is_queued_again(facts) else _unknown(found)


@implements(
    Row(
        "6.2",
        "6",
        "a pod of the last execution was disrupted no later than the suspension",
        cause="as the pod says, derived",
        details=("pod <pod>: <detail>", "pod <pod>: <detail>; other ranks: <others>"),
    )
)
def disrupted(facts: Facts) -> Cause | None:
    """What took the last execution's pods away before it was suspended.

    A disruption that began after ``Suspended=True`` is the suspension's own work, so no reason for it.
    """
    limit = facts.suspended.last_transition_time if facts.suspended is not None else None
    for each in facts.findings:
        if each.disruptive and (limit is None or each.at is None or each.at <= limit):
            return cause(each, facts.findings)
    return None


def _gang_broke(facts: Facts) -> bool:
    """The pods were ready once and one was lost: the timeout is Kueue's answer to that, not a lack of capacity."""
    pods_ready = facts.workload_condition("PodsReady", "False")
    if pods_ready is not None and pods_ready.reason == "WaitForRecovery":
        return True
    return any(each.kind is CauseKind.NODE_LOST for each in facts.findings)


def _is_queued_again(facts: Facts) -> bool:
    """Active, and ``Requeued`` is not False: the condition stays only until the next reservation."""
    if facts.workload is None or facts.workload.spec.active is False:
        return False
    requeued = condition(facts.workload.status, "Requeued")
    return requeued is None or requeued.status != "False"


def _preempted(facts: Facts) -> str:
    preempted = facts.workload_condition("Preempted")
    return f"Preempted: {words_of(preempted)}" if preempted is not None else ""


def _unknown(found: Condition) -> Cause:
    return Cause(kind=CauseKind.UNKNOWN, detail=f"Workload Evicted: {words_of(found)}", at=found.last_transition_time)
