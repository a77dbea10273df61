from __future__ import annotations

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.protobuf import decode


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def varint(number: int, *value: int) -> bytes:
    return bytes([number << 3, *value])


def enveloped(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_a_config_map() -> None:
    metadata = field(1, b"c") + field(3, b"") + field(11, field(1, b"app") + field(2, b"x"))
    raw = field(1, metadata) + field(2, field(1, b"k") + field(2, b"v")) + field(3, field(1, b"b") + field(2, b"\x00"))
    assert decode(enveloped(b"v1", b"ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"app": "x"}},
        "data": {"k": "v"},
        "binaryData": {"b": "AA=="},
    }


def test_numbers_booleans_and_unknown_fields() -> None:
    raw = field(1, field(1, b"high")) + varint(2, 0xE8, 0x07) + varint(3, 1) + bytes([15 << 3 | 5, 1, 2, 3, 4])
    decoded = decode(enveloped(b"scheduling.k8s.io/v1", b"PriorityClass", raw))
    assert (decoded["value"], decoded["globalDefault"]) == (1000, True)


def test_a_negative_number_is_in_twos_complement() -> None:
    raw = varint(2, *[0xFF] * 9, 0x01)
    assert decode(enveloped(b"scheduling.k8s.io/v1", b"PriorityClass", raw))["value"] == -1


def test_other_kinds_are_read_as_json_alone() -> None:
    with pytest.raises(ApiError, match="Job is not read as protobuf here") as refused:
        decode(enveloped(b"batch/v1", b"Job", b""))
    assert refused.value.code == 415


@pytest.mark.parametrize("raw", [b"{}", b"k8s\x00\x0a\x7f", b"k8s\x00\x0f"])
def test_what_is_no_message_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode(raw)
    assert refused.value.code == 400
