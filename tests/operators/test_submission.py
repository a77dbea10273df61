"""Two tries of one task at work: the one that finds the other's job open goes on with that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.localcluster.resources import TRAINJOBS
from airflow_dispatch.operators.submission import submit
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job
from tests.support.lines import Lines
from tests.support.tasks import TaskInstance


class Hook:
    """A hook whose adapter is the test's."""

    deployment = "tests"

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    @contextlib.asynccontextmanager
    async def adapter(self) -> AsyncIterator[Adapter]:
        yield self._adapter


def open_second(running: Cluster) -> None:
    """What another worker has done: a second submission, opened."""
    name = names.object_name(JOB_ID, 2)
    first = running.trainjob()
    labels = {**first["metadata"]["labels"], names.LABEL_SUBMISSION: "2"}
    metadata = {"name": name, "labels": labels, "annotations": {names.ANNOTATION_OPENED: "true"}}
    body: dict[str, Any] = {"apiVersion": first["apiVersion"], "metadata": metadata, "spec": first["spec"]}
    running.registry.create(TRAINJOBS, NAMESPACE, body)


def test_a_job_of_another_try_that_is_open_is_adopted_and_the_own_one_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as running:
            lists: list[str] = []

            def meanwhile(_: str, path: str) -> None:
                if path.endswith("/trainjobs"):
                    lists.append(path)
                    if len(lists) == 3:  # before the first, the create; this is the list before it is opened
                        open_second(running)

            running.client.meanwhile = meanwhile
            lines = Lines()
            hook = cast("DispatchHook", Hook(running.adapter))
            seen = await submit(hook, job(), TaskInstance(), lines, opens=True)
            left = [item["metadata"]["uid"] for item in running.registry.list(TRAINJOBS, NAMESPACE).items]
            assert (seen.submission, left) == (2, [seen.uid])
            assert any("adopted default/" in text and text.endswith("at work") for text in lines.texts)

    asyncio.run(main())
