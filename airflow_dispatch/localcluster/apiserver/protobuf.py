"""Bodies that kubectl sends as protobuf, decoded for the few kinds that it creates that way.

kubectl writes `create namespace|configmap|secret|...`, `auth can-i` and evictions in Kubernetes' protobuf encoding
and does not fall back to JSON, so these kinds' messages are known here. Answers are always JSON, which it accepts.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object

__all__ = ["decode"]

_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_MESSAGES: Final[Mapping[str, Mapping[int, tuple[str, str]]]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "raw")},
    "TypeMeta": {1: ("apiVersion", "str"), 2: ("kind", "str")},
    "ObjectMeta": {
        1: ("name", "str"),
        2: ("generateName", "str"),
        3: ("namespace", "str"),
        5: ("uid", "str"),
        6: ("resourceVersion", "str"),
        11: ("labels", "{}str"),
        12: ("annotations", "{}str"),
        13: ("ownerReferences", "[]OwnerReference"),
        14: ("finalizers", "[]str"),
    },
    "OwnerReference": {
        1: ("kind", "str"),
        3: ("name", "str"),
        4: ("uid", "str"),
        5: ("apiVersion", "str"),
        6: ("controller", "bool"),
        7: ("blockOwnerDeletion", "bool"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "ServiceAccount": {1: ("metadata", "ObjectMeta"), 4: ("automountServiceAccountToken", "bool")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{}str"),
        3: ("binaryData", "{}base64"),
        4: ("immutable", "bool"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{}base64"),
        3: ("type", "str"),
        4: ("stringData", "{}str"),
        5: ("immutable", "bool"),
    },
    "PriorityClass": {
        1: ("metadata", "ObjectMeta"),
        2: ("value", "int"),
        3: ("globalDefault", "bool"),
        4: ("description", "str"),
        5: ("preemptionPolicy", "str"),
    },
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "str"),
        5: ("dryRun", "[]str"),
    },
    "Preconditions": {1: ("uid", "str"), 2: ("resourceVersion", "str")},
    "SelfSubjectAccessReview": {2: ("spec", "AccessReviewSpec")},
    "AccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        1: ("namespace", "str"),
        2: ("verb", "str"),
        3: ("group", "str"),
        4: ("version", "str"),
        5: ("resource", "str"),
        6: ("subresource", "str"),
        7: ("name", "str"),
    },
    "NonResourceAttributes": {1: ("path", "str"), 2: ("verb", "str")},
    "SelfSubjectReview": {},
}
"""By field number: the JSON name and the type, ``[]T`` a repeated T and ``{}T`` a map of T. Others are skipped."""


def decode(raw: bytes) -> Object:
    """The object as its JSON would have it.

    Raises:
        ApiError: 400 for bytes that are no such message, 415 for a kind that is only read as JSON.
    """
    if not raw.startswith(_MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf encoding")
    try:
        envelope = _message("Unknown", raw[len(_MAGIC) :])
        kind = envelope.get("typeMeta", {}).get("kind", "")
        if kind not in _MESSAGES:
            raise ApiError(
                415,
                "UnsupportedMediaType",
                f"{kind} is not read as protobuf here - accepted media types include: application/json, "
                "application/yaml",
            )
        return {**envelope["typeMeta"], **_message(kind, envelope.get("raw", b""))}
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from error


def _message(name: str, data: bytes) -> Object:
    fields = _MESSAGES[name]
    result: Object = {}
    for number, value in _fields(data):
        if number not in fields:
            continue
        key, kind = fields[number]
        if kind.startswith("[]"):
            result.setdefault(key, []).append(_value(kind[2:], value))
        elif kind.startswith("{}"):
            entry = dict(_fields(value))
            result.setdefault(key, {})[entry.get(1, b"").decode()] = _value(kind[2:], entry.get(2, b""))
        elif (decoded := _value(kind, value)) not in ("", {}):
            result[key] = decoded
    return result


def _value(kind: str, value: Any) -> Any:
    if kind == "str":
        return value.decode()
    if kind == "base64":
        return base64.b64encode(value).decode()
    if kind == "bool":
        return bool(value)
    if kind in ("int", "raw"):
        return value
    return _message(kind, value)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            length, position = _varint(data, position)
        if length is None or position + length > len(data):
            raise IndexError(f"field {number} with wire type {wire} reaches beyond the end")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A base-128 number, and where it ends; negative numbers are written as 64 bits in two's complement."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value - (1 << 64) if value >> 63 else value, position
