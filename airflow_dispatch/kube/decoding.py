"""From bytes to records, without letting one odd object spoil a list or a watch."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_dispatch.core import objects
from airflow_dispatch.kube.paths import Resource

__all__ = ["Unreadable", "decode_record"]


class Unreadable(objects.Object):
    """Stands for what is no object at all: it has no name."""

    kind: str = ""


def decode_record(resource: Resource, raw: bytes | msgspec.Raw) -> objects.Object:
    """One object as its record; of one that is not of the documented shape, what can be read.

    ``problem`` then says why the rest was left out: a field of the metadata, a label or an annotation, or all of
    ``spec`` or ``status``. A pod keeps no status in that case, so that whoever asks whether anything may still run
    takes it for one that may. Raises ``msgspec.DecodeError`` only on what is no JSON at all.
    """
    try:
        return msgspec.json.decode(raw, type=resource.record)
    except msgspec.ValidationError as error:
        problem = str(error)
    loose = msgspec.json.decode(raw)
    fields: dict[str, Any] = loose if isinstance(loose, dict) else {}
    metadata = _readable_metadata(fields.get("metadata"))
    if not metadata.get("name"):
        return Unreadable(metadata=objects.Metadata(), kind=resource.kind, problem=problem)
    parts = {
        key: value
        for key, value in fields.items()
        if key != "metadata" and _fits({"metadata": {}, key: value}, resource.record)
    }
    if resource.record is objects.Pod:
        parts.pop("status", None)
    found = msgspec.convert({**parts, "metadata": metadata}, resource.record)
    found.problem = problem
    return found


def _readable_metadata(metadata: Any) -> dict[str, Any]:
    """Each field that is as documented; of labels and annotations each one that is text."""
    fields = dict(metadata) if isinstance(metadata, dict) else {}
    for marks in ("labels", "annotations"):
        if isinstance(fields.get(marks), dict):
            fields[marks] = {key: value for key, value in fields[marks].items() if isinstance(value, str)}
    return {key: value for key, value in fields.items() if _fits({key: value}, objects.Metadata)}


def _fits(fields: dict[str, Any], record: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert(fields, record)
    except msgspec.ValidationError:
        return False
    return True
