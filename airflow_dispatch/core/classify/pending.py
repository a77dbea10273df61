"""The cause of a pending object: the first rule that applies (contract, section 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_dispatch.core.classify.conditions import condition, words_of
from airflow_dispatch.core.classify.evicted import disrupted, evicted
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements

NOT_LOOKED_YET: Final = frozenset({"AdmissionGated", "PendingEvaluation"})
NEVER_FITS: Final = ("Misconfigured", "NoMatchingFlavor", "ExceedsMaxQuota")
_GATE_CLEARED: Final = "AdmissionGatedBy cleared"


@implements(
    Row(
        "6.2",
        "5-never",
        "Kueue mode: `QuotaReserved=False` with {reasons}, which no waiting mends",
        (CauseKind.REJECTED,),
        Provenance.REPORTED,
        ("Workload QuotaReserved: <words>",),
        NEVER_FITS,
    ),
    Row(
        "6.2",
        "5",
        "Kueue mode: `QuotaReserved=False` otherwise, once Kueue has looked for quota",
        (CauseKind.NO_CAPACITY,),
        Provenance.REPORTED,
        ("Workload QuotaReserved: <words>",),
    ),
)
def without_quota(facts: Facts) -> Cause | None:
    """Row 5: Kueue looked for quota and found none.

    Kueue 0.19 writes ``Pending`` at once after a gate or an eviction, before it has looked; such a message repeats the
    gate's or the eviction's.
    """
    found = facts.workload_condition("QuotaReserved", "False")
    if found is None or facts.workload is None or found.reason in NOT_LOOKED_YET:
        return None
    message = found.message or ""
    eviction = condition(facts.workload.status, "Evicted")
    if message.startswith(_GATE_CLEARED) or (eviction is not None and message == (eviction.message or "")):
        return None
    return Cause(
        kind=CauseKind.REJECTED if found.reason in NEVER_FITS else CauseKind.NO_CAPACITY,
        provenance=Provenance.REPORTED,
        detail=f"Workload QuotaReserved: {words_of(found)}",
        at=found.last_transition_time,
    )


@implements(Row("6.2", "7", "otherwise", (CauseKind.NONE,)))
def _nothing_known() -> Cause:
    return Cause()


ROWS: Final[tuple[Callable[[Facts], Cause | None], ...]] = (evicted, without_quota, disrupted)
"""Rows 1 to 4, row 5, row 6."""


def pending(facts: Facts) -> Cause:
    """Why it does not run."""
    return next((found for row in ROWS if (found := row(facts)) is not None), None) or _nothing_known()
