"""``cancel``, ``find`` and ``inspect``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from airflow_dispatch.core import names
from tests.support.cluster import JOB_ID, NAMESPACE, cluster, job

NAME = names.object_name(JOB_ID, 1)


def test_cancel_spares_another_object_of_the_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.cancel(NAME)
            started = await running.adapter.start(job(), submission=1, attempt=1)
            await running.adapter.cancel(NAME, uid="other")
            assert running.trainjob()["metadata"]["uid"] == started.uid
            await running.adapter.cancel(NAME, uid=started.uid)
            assert await running.adapter.inspect(NAME) is None

    asyncio.run(run())


def test_find_shows_submissions_and_orphans(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            started = await running.adapter.start(job(), submission=1, attempt=1)
            running.add_pod("left", of=7)
            found = await running.adapter.find(JOB_ID)
            assert [each.ref for each in found] == [started.ref, f"{NAMESPACE}/pod/left"]
            assert await running.adapter.inspect(found[1].ref) == found[1]

    asyncio.run(run())
