"""``Failed=True`` of the TrainJob, by its reason (contract, section 4)."""

from __future__ import annotations

from typing import Final

import msgspec

from airflow_dispatch.core.classify.conditions import join, words_of
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.findings import cause
from airflow_dispatch.core.objects import Condition
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements

REPORTED: Final = {
    "DeadlineExceeded": CauseKind.TIMEOUT,
    "TrainingRuntimeNotSupported": CauseKind.REJECTED,
}
BY_PODS: Final = ("FailedJobs", "ReachedMaxRestarts", "FailJobSetFailurePolicyAction")
"""Reasons that say that ranks failed, not why: their pods do."""
NO_EVIDENCE: Final = "no pod evidence was captured"


@implements(
    Row("4", "deadline", "{reasons}", (CauseKind.TIMEOUT,), Provenance.REPORTED, ("<words>",), ("DeadlineExceeded",)),
    Row(
        "4",
        "runtime",
        "{reasons}",
        (CauseKind.REJECTED,),
        Provenance.REPORTED,
        ("<words>",),
        ("TrainingRuntimeNotSupported",),
    ),
    Row(
        "4",
        "pods",
        "{reasons}; a pod of the current execution says why",
        details=("pod <pod>: <detail>; <words>", "pod <pod>: <detail>; other ranks: <others>; <words>"),
        reasons=BY_PODS,
        cause="as the pod says, derived",
    ),
    Row(
        "4",
        "no-pods",
        "the same; no pod is known, neither live nor captured",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        (f"<words>; {NO_EVIDENCE}",),
        BY_PODS,
    ),
    Row(
        "4",
        "pods-without-finding",
        "the same; pods are known, and none of the current execution says why",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        ("<words>",),
        BY_PODS,
    ),
    Row("4", "other", "any other reason", (CauseKind.UNKNOWN,), Provenance.NONE, ("<words>",)),
)
def failed(facts: Facts, condition: Condition) -> Cause:
    """Why a TrainJob failed."""
    words, at = words_of(condition), condition.last_transition_time
    reported = REPORTED.get(condition.reason or "")
    if reported is not None:
        return Cause(kind=reported, provenance=Provenance.REPORTED, detail=words, at=at)
    if condition.reason not in BY_PODS:
        return Cause(kind=CauseKind.UNKNOWN, detail=words, at=at)
    if facts.findings:
        found = cause(facts.findings[0], facts.findings)
        return msgspec.structs.replace(found, detail=join([found.detail, words]))
    return Cause(kind=CauseKind.UNKNOWN, detail=join([words, "" if facts.pods else NO_EVIDENCE]), at=at)
