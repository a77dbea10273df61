from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.logs import LogOptions, LogSource, NoLogs, container_of, stream

NOW = datetime(2026, 1, 1, 12, 0, 3, tzinfo=UTC)
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "node"}]}}


def read(source: LogSource, **query: str) -> bytes:
    async def collect() -> bytes:
        return b"".join([line async for line in stream(source, POD, LogOptions.parse(query, NOW))])

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, b"node 0\nnode 1\nnode 2\n"),
        ({"tailLines": "2"}, b"node 1\nnode 2\n"),
        ({"tailLines": "0"}, b""),
        ({"tailLines": "1", "follow": "true"}, b"node 2\nnode 3 of p\n"),
        ({"tailLines": "0", "follow": "true"}, b"node 3 of p\n"),
        ({"sinceSeconds": "2"}, b"node 1\nnode 2\n"),
        ({"sinceTime": "2026-01-01T12:00:02Z"}, b"node 2\n"),
        ({"limitBytes": "10"}, b"node 0\nnod"),
        ({"limitBytes": "7"}, b"node 0\n"),
        ({"previous": "true", "tailLines": "1"}, b"previous 2\n"),
        ({"timestamps": "true", "tailLines": "1"}, b"2026-01-01T12:00:02.000000000Z node 2\n"),
        ({"container": "node", "tailLines": "1"}, b"node 2\n"),
    ],
)
def test_what_clients_ask_for(scripted_logs: LogSource, query: Mapping[str, str], expected: bytes) -> None:
    assert read(scripted_logs, **query) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"tailLines": "x"}, "tailLines: cannot parse 'x' as a number"),
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0"),
        ({"sinceSeconds": "5", "sinceTime": "2026-01-01T12:00:02Z"}, "at most one of `sinceTime` or `sinceSeconds`"),
        ({"sinceTime": "yesterday"}, "sinceTime: cannot parse 'yesterday' as a time"),
        ({"container": "other"}, "container other is not valid for pod p"),
    ],
)
def test_what_is_refused(scripted_logs: LogSource, query: Mapping[str, str], words: str) -> None:
    with pytest.raises(ApiError) as refused:
        read(scripted_logs, **query)
    assert words in refused.value.message


def test_of_several_containers_one_must_be_named() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
    }
    with pytest.raises(ApiError) as refused:
        container_of(pod, "")
    assert refused.value.message == (
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
    )
    assert container_of(pod, "i") == "i"


def test_without_kubelets_nothing_has_started() -> None:
    with pytest.raises(ApiError, match='container "node" in pod "p" is waiting to start'):
        read(NoLogs())
