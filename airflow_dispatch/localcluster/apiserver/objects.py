"""Small helpers for Kubernetes objects as plain JSON."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Object", "clone", "condition", "generated_suffix", "key_of", "parse_time", "set_condition", "timestamp"]

Object = dict[str, Any]
"""An object as its JSON has it."""

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What the API server draws generated names from: no vowels, nothing that looks alike."""


def clone(value: Any) -> Any:
    """A deep copy of JSON; much faster than :func:`copy.deepcopy`, which this store would spend its time in."""
    if type(value) is dict:
        return {key: clone(item) for key, item in value.items()}
    if type(value) is list:
        return [clone(item) for item in value]
    return value


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as ``metav1.Time`` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """The inverse of :func:`timestamp`; fractions are accepted."""
    return datetime.fromisoformat(text)


def generated_suffix() -> str:
    """The five characters that ``generateName`` appends."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(5))


def key_of(resource: Resource, obj: Object) -> tuple[str, str]:
    """Namespace (empty for cluster-scoped kinds) and name."""
    metadata = obj["metadata"]
    return (metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])


def condition(obj: Object, kind: str) -> Object | None:
    """The condition of that type in the object's status, or None."""
    for entry in obj.get("status", {}).get("conditions") or ():
        if entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]
    return None


def set_condition(obj: Object, entry: Object) -> None:
    """Puts a condition in the place of the one of its type, else at the end."""
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == entry["type"]:
            conditions[index] = entry
            return
    conditions.append(entry)
