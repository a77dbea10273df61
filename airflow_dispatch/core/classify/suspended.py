"""Suspended by someone other than dispatch (contract, section 5)."""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_dispatch.core.classify.conditions import words_of
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements

BY_KUEUE_PREFIX: Final = "DeactivatedDueTo"
BY_KUEUE: Final = {
    "DeactivatedDueToMaximumExecutionTimeExceeded": CauseKind.TIMEOUT,
    "DeactivatedDueToRequeuingLimitExceeded": CauseKind.NO_CAPACITY,
}


class Suspension(NamedTuple):
    """The cause, and whether a person rather than Kueue did it."""

    cause: Cause
    admin_held: bool


def suspended_by_another(facts: Facts) -> Suspension | None:
    """The suspension when somebody else holds the object, else None; holds of ours were ruled out before."""
    return _deactivated(facts) if facts.kueue else _suspended(facts)


@implements(
    Row(
        "5",
        "deactivated",
        "Kueue mode: a person has made the Workload inactive; `admin_held` is true",
        (CauseKind.NONE,),
        details=("Workload is deactivated",),
    ),
    *(
        Row(
            "5",
            key,
            "Kueue mode: inactive, evicted with {reasons}; `admin_held` is false",
            (BY_KUEUE[reason],),
            Provenance.REPORTED,
            ("Workload Evicted: <words>",),
            (reason,),
        )
        for key, reason in zip(("execution-time", "requeuing"), BY_KUEUE, strict=True)
    ),
    Row(
        "5",
        "other-deactivation",
        "Kueue mode: inactive, evicted with any other `DeactivatedDueTo…`; `admin_held` is false",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        ("Workload Evicted: <words>",),
    ),
)
def _deactivated(facts: Facts) -> Suspension | None:
    if facts.workload is None or facts.workload.spec.active is not False:
        return None
    evicted = facts.workload_condition("Evicted")
    reason = (evicted.reason if evicted is not None else None) or ""
    if evicted is None or not reason.startswith(BY_KUEUE_PREFIX):
        return Suspension(Cause(detail="Workload is deactivated"), admin_held=True)
    kind = BY_KUEUE.get(reason, CauseKind.UNKNOWN)
    provenance = Provenance.NONE if kind is CauseKind.UNKNOWN else Provenance.REPORTED
    detail = f"Workload Evicted: {words_of(evicted)}"
    return Suspension(
        Cause(kind=kind, provenance=provenance, detail=detail, at=evicted.last_transition_time), admin_held=False
    )


@implements(
    Row(
        "5",
        "suspended",
        "plain mode: opened, `spec.suspend` is true, and no hold of ours; `admin_held` is true",
        (CauseKind.NONE,),
        details=("TrainJob is suspended",),
    )
)
def _suspended(facts: Facts) -> Suspension | None:
    if facts.opened and facts.suspend_asked:
        return Suspension(Cause(detail="TrainJob is suspended"), admin_held=True)
    return None
