"""``output``: the log of rank 0 of the current execution."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import NotFound
from tests.support.apiserver import ScriptedLogs
from tests.support.cluster import JOB_ID, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)


def add_rank(running: Cluster, name: str, index: int, admission: int, restart: int = 0) -> None:
    labels = {names.LABEL_COMPLETION_INDEX: str(index), names.LABEL_RESTART_ATTEMPT: str(restart)}
    running.add_pod(name, "node-0", labels=labels, annotations={names.ANNOTATION_ADMISSION: str(admission)})


async def lines(adapter: Adapter, **wanted: Any) -> list[str]:
    return [line async for line in adapter.output(NAME, **wanted)]


def test_it_is_rank_0_s_in_the_execution_with_the_highest_number(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, ScriptedLogs()) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            for name, index, admission, restart in (("a", 0, 1, 3), ("b", 0, 2, 3), ("c", 1, 2, 3), ("d", 0, 4, 0)):
                add_rank(running, name, index, admission, restart)
            assert (await lines(running.adapter, follow=True))[-1] == "node 3 of b"

    asyncio.run(run())


def test_it_is_cut_as_it_was_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, ScriptedLogs()) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            add_rank(running, "a", 0, 1)
            assert await lines(running.adapter) == ["node 0", "node 1", "node 2"]
            assert await lines(running.adapter, tail_lines=1) == ["node 2"]
            assert await lines(running.adapter, since=ScriptedLogs.start.replace(second=2)) == ["node 2"]
            assert await lines(running.adapter, limit_bytes=7) == ["node 0"]

    asyncio.run(run())


def test_without_a_trainjob_or_a_pod_of_rank_0_it_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, ScriptedLogs()) as running:
            with pytest.raises(NotFound):
                await lines(running.adapter)
            await running.adapter.start(job(), submission=1, attempt=1)
            add_rank(running, "b", 1, 1)
            with pytest.raises(NotFound, match="no pod of rank 0 is there"):
                await lines(running.adapter)

    asyncio.run(run())
