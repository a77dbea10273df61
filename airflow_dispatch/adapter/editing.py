"""Changes of a TrainJob that was read whole; each leaves other parties' entries as they stand."""

from __future__ import annotations

from typing import Any

from airflow_dispatch.core import names
from airflow_dispatch.core.identity import parse_decimal, parse_gates
from airflow_dispatch.core.objects import JobSet
from airflow_dispatch.core.task import is_opened

__all__ = [
    "HOLD_KEYS",
    "annotations_of",
    "drop_gate",
    "gates_of",
    "has_condition",
    "hold_of",
    "is_ended",
    "is_open",
    "is_queued",
    "note_jobset",
]

HOLD_KEYS = (
    names.ANNOTATION_HOLD_INSTANCE,
    names.ANNOTATION_HOLD_SINCE,
    names.ANNOTATION_HOLD_WHO,
    names.ANNOTATION_HOLD_UNTIL,
    names.ANNOTATION_HOLD_REASON,
)


def annotations_of(trainjob: dict[str, Any]) -> dict[str, str]:
    """Its annotations, to read and to change."""
    metadata = trainjob["metadata"]
    if metadata.get("annotations") is None:
        metadata["annotations"] = {}
    found: dict[str, str] = metadata["annotations"]
    return found


def gates_of(trainjob: dict[str, Any]) -> list[str]:
    """Who gates it."""
    return parse_gates(annotations_of(trainjob).get(names.ANNOTATION_KUEUE_GATED_BY))


def is_queued(trainjob: dict[str, Any]) -> bool:
    """It goes through a queue of Kueue's."""
    return names.LABEL_KUEUE_QUEUE in (trainjob["metadata"].get("labels") or {})


def is_open(trainjob: dict[str, Any]) -> bool:
    """It was opened, and our gate is gone."""
    return is_opened(annotations_of(trainjob))


def drop_gate(trainjob: dict[str, Any]) -> None:
    """Takes our own gate away."""
    others = [gate for gate in gates_of(trainjob) if gate != names.GATE]
    if others:
        annotations_of(trainjob)[names.ANNOTATION_KUEUE_GATED_BY] = ",".join(others)
    else:
        annotations_of(trainjob).pop(names.ANNOTATION_KUEUE_GATED_BY, None)


def hold_of(trainjob: dict[str, Any]) -> int:
    """The instance of the hold in force; 0 for none, or a malformed one."""
    return parse_decimal(annotations_of(trainjob).get(names.ANNOTATION_HOLD_INSTANCE)) or 0


def note_jobset(trainjob: dict[str, Any], jobset: JobSet | None) -> bool:
    """Writes ``jobset-uid`` when its JobSet is seen for the first time; says whether that changed anything."""
    annotations = annotations_of(trainjob)
    if jobset is None or names.ANNOTATION_JOBSET_UID in annotations:
        return False
    if not any(owner.uid == trainjob["metadata"]["uid"] for owner in jobset.metadata.owner_references or ()):
        return False
    annotations[names.ANNOTATION_JOBSET_UID] = jobset.metadata.uid
    return True


def is_ended(trainjob: dict[str, Any]) -> bool:
    """Complete or Failed is True."""
    return any(has_condition(trainjob, kind) for kind in ("Complete", "Failed"))


def has_condition(trainjob: dict[str, Any], kind: str) -> bool:
    """A condition of this type is True."""
    conditions = (trainjob.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)
