"""Reading conditions, and the way a condition is quoted: its *words*."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from airflow_dispatch.core.objects import Condition


class HasConditions(Protocol):
    """The status of anything with conditions."""

    conditions: list[Condition] | None


def condition(status: HasConditions | None, kind: str) -> Condition | None:
    """The condition of this type, or None."""
    if status is not None:
        for each in status.conditions or ():
            if each.type == kind:
                return each
    return None


def true(status: HasConditions | None, kind: str) -> Condition | None:
    """The condition of this type when its status is ``True``, or None."""
    found = condition(status, kind)
    return found if found is not None and found.status == "True" else None


def end(status: HasConditions | None) -> Condition | None:
    """A TrainJob's or Job's Complete or Failed when it is True, or None: whether it has ended as it stands now."""
    return true(status, "Complete") or true(status, "Failed")


def jobset_end(status: HasConditions | None) -> Condition | None:
    """The same of a JobSet, whose word is Completed."""
    return true(status, "Completed") or true(status, "Failed")


def words(reason: str | None, message: str | None) -> str:
    """``<reason>: <message>``, or the one that is there when the other is empty."""
    return ": ".join(part for part in (reason, message) if part)


def words_of(found: Condition) -> str:
    """The words of a condition."""
    return words(found.reason, found.message)


def stamp(instant: datetime) -> str:
    """An instant as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    try:
        return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:  # within a day of the first or the last year, in a far zone
        return instant.isoformat()


def join(parts: Iterable[str]) -> str:
    """The parts of a detail, empty ones left out."""
    return "; ".join(part for part in parts if part)
