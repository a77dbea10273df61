"""From bytes to records, without letting one odd object spoil a list or a watch."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_dispatch.core import objects
from airflow_dispatch.kube.paths import Resource

__all__ = ["Unreadable", "decode_record"]


class Unreadable(objects.Object):
    """Stands for an object whose fields are not of the shapes that Kubernetes documents."""

    kind: str = ""
    problem: str = ""


def decode_record(resource: Resource, raw: bytes | msgspec.Raw) -> objects.Object:
    """One object as its record, or as :class:`Unreadable` when it does not fit.

    A pod of which only the status is odd keeps the rest: whoever asks whether anything may still run must not miss it.
    Raises ``msgspec.DecodeError`` only on what is no JSON at all.
    """
    try:
        return msgspec.json.decode(raw, type=resource.record)
    except msgspec.ValidationError as error:
        loose = msgspec.json.decode(raw)
        problem = str(error)
    fields: dict[str, Any] = loose if isinstance(loose, dict) else {}
    if resource.record is objects.Pod:
        try:
            return msgspec.convert({key: value for key, value in fields.items() if key != "status"}, objects.Pod)
        except msgspec.ValidationError as error:
            problem = str(error)
    metadata = fields.get("metadata")
    kept = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion")
        if isinstance(metadata, dict) and isinstance(metadata.get(key), str)
    }
    return Unreadable(metadata=msgspec.convert(kept, objects.Metadata), kind=resource.kind, problem=problem)
