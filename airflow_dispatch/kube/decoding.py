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

    Raises ``msgspec.DecodeError`` only on what is no JSON object with readable metadata at all.
    """
    try:
        return msgspec.json.decode(raw, type=resource.record)
    except msgspec.ValidationError as error:
        loose: dict[str, Any] = msgspec.json.decode(raw)
        metadata = loose.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        kept = {
            key: fields[key]
            for key in ("name", "namespace", "uid", "resourceVersion")
            if isinstance(fields.get(key), str)
        }
        return Unreadable(
            metadata=msgspec.convert(kept, objects.Metadata),
            kind=resource.kind,
            problem=str(error),
        )
