"""Open, hold and release: what lets a TrainJob run, and stops it (contract, sections 10 and 12)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.cessation import Cessation, cessation
from airflow_dispatch.core.errors import PodsRemain, Refused
from airflow_dispatch.core.identity import parse_decimal
from airflow_dispatch.kube.store import Store

__all__ = ["check_nothing_runs", "hold_in_force", "is_opened", "to_held", "to_opened", "to_released"]

_HOLD_KEYS = (
    names.ANNOTATION_HOLD_INSTANCE,
    names.ANNOTATION_HOLD_SINCE,
    names.ANNOTATION_HOLD_WHO,
    names.ANNOTATION_HOLD_UNTIL,
    names.ANNOTATION_HOLD_REASON,
)


def check_nothing_runs(store: Store, ref: str, trainjobs: Iterable[str], *, settled: bool = False) -> None:
    """Raises :class:`PodsRemain` unless nothing of these TrainJobs may still run.

    ``settled``: this is the second look, after :data:`~airflow_dispatch.core.cessation.SETTLING`.
    """
    blocking: list[str] = []
    for name in trainjobs:
        snapshot = store.snapshot(name)
        if snapshot is None:
            continue
        found = cessation(snapshot)
        blocking += found.remaining
        if found.doubt and not (settled and found.settles):
            blocking.append(f"{name} ({found.doubt})")
    if blocking:
        raise PodsRemain(ref, blocking)


def needs_a_second_look(store: Store, name: str) -> bool:
    """Nothing stands against this TrainJob but a doubt that time removes."""
    snapshot = store.snapshot(name)
    found = cessation(snapshot) if snapshot is not None else Cessation()
    return bool(found.doubt) and found.settles


def is_opened(trainjob: dict[str, Any]) -> bool:
    """It was opened before, in either mode."""
    return names.GATE not in _gates(trainjob)


def hold_in_force(trainjob: dict[str, Any]) -> int:
    """The instance of the hold in force, 0 for none."""
    return parse_decimal(_annotations(trainjob).get(names.ANNOTATION_HOLD_INSTANCE)) or 0


def to_opened(trainjob: dict[str, Any], jobset_uid: str | None = None) -> bool:
    """Opens a TrainJob that was read; False when it is open already.

    In plain mode it starts to run, unless a hold is in force; a queued one is left to Kueue.
    """
    if is_opened(trainjob):
        return False
    _note_jobset(trainjob, jobset_uid)
    _drop_gate(trainjob)
    if names.LABEL_KUEUE_QUEUE in (trainjob["metadata"].get("labels") or {}):
        return True
    _annotations(trainjob)[names.ANNOTATION_OPENED] = "true"
    if not hold_in_force(trainjob):
        manifest.raise_admission(trainjob)
        trainjob["spec"]["suspend"] = False
    return True


def to_held(trainjob: dict[str, Any], instance: int, keys: dict[str, str]) -> bool:
    """Holds a TrainJob that was read; False when this hold is in force already."""
    current = hold_in_force(trainjob)
    if instance < current:
        raise Refused(f"{trainjob['metadata']['name']}: hold {current} is in force, above {instance}")
    if instance == current:
        return False
    for key in _HOLD_KEYS:
        _annotations(trainjob).pop(key, None)
    _annotations(trainjob).update(keys)
    trainjob["spec"]["suspend"] = True
    return True


def to_released(trainjob: dict[str, Any], instance: int, jobset_uid: str | None = None) -> bool:
    """Releases a TrainJob that was read; False when no hold is in force. A gated one stays suspended."""
    current = hold_in_force(trainjob)
    if current == 0:
        return False
    if instance != current:
        raise Refused(f"{trainjob['metadata']['name']}: hold {current} is in force, not {instance}")
    for key in _HOLD_KEYS:
        _annotations(trainjob).pop(key, None)
    _note_jobset(trainjob, jobset_uid)
    if is_opened(trainjob):
        manifest.raise_admission(trainjob)
        trainjob["spec"]["suspend"] = False
    return True


def hold_keys(instance: int, who: str, reason: str, since: datetime, until: datetime | None) -> dict[str, str]:
    """The annotations of a hold."""
    keys = {
        names.ANNOTATION_HOLD_INSTANCE: str(instance),
        names.ANNOTATION_HOLD_SINCE: since.isoformat(timespec="seconds"),
        names.ANNOTATION_HOLD_WHO: who,
        names.ANNOTATION_HOLD_REASON: reason,
    }
    return keys | ({names.ANNOTATION_HOLD_UNTIL: until.isoformat(timespec="seconds")} if until else {})


def _annotations(trainjob: dict[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] = trainjob["metadata"].setdefault("annotations", {})
    return annotations


def _gates(trainjob: dict[str, Any]) -> list[str]:
    listed = _annotations(trainjob).get(names.ANNOTATION_KUEUE_GATED_BY, "")
    return [gate.strip() for gate in listed.split(",") if gate.strip()]


def _drop_gate(trainjob: dict[str, Any]) -> None:
    """Takes our gate out; other parties' gates stay."""
    others = [gate for gate in _gates(trainjob) if gate != names.GATE]
    if others:
        _annotations(trainjob)[names.ANNOTATION_KUEUE_GATED_BY] = ",".join(others)
    else:
        _annotations(trainjob).pop(names.ANNOTATION_KUEUE_GATED_BY, None)


def _note_jobset(trainjob: dict[str, Any], uid: str | None) -> None:
    """Remembers the JobSet at its first sight; another UID later is another JobSet."""
    if uid is not None:
        _annotations(trainjob).setdefault(names.ANNOTATION_JOBSET_UID, uid)
