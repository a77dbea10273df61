"""``open``, ``hold``, ``release``, ``cancel``, ``find`` and ``inspect``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import NotFound, PodsRemain, Refused, Unreachable
from airflow_dispatch.core.manifest import read_admission
from airflow_dispatch.core.observation import State
from airflow_dispatch.localcluster.resources import PODS, TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)


def trainjob(running: Cluster) -> dict[str, Any]:
    return running.registry.get(TRAINJOBS, NAMESPACE, NAME)


def add_pod(running: Cluster, of: str) -> None:
    body = {
        "metadata": {"name": "left", "labels": {names.LABEL_JOBSET_NAME: of}},
        "spec": {"containers": [{"name": "node", "image": "example.invalid/app:1"}]},
    }
    running.registry.create(PODS, NAMESPACE, body)


def test_open_is_one_update_that_keeps_what_others_wrote(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            started = await running.adapter.start(job(), submission=1, attempt=1)
            body = trainjob(running)
            body["metadata"]["annotations"][names.ANNOTATION_KUEUE_GATED_BY] += ",example.com/gate"
            other = {"manager": "example.com/other", "trainingRuntimeSpec": {"template": {"spec": {}}}}
            body["spec"]["runtimePatches"].append(other)
            before = running.registry.update(TRAINJOBS, NAMESPACE, NAME, body)
            await running.adapter.open(NAME, uid=started.uid)
            after = trainjob(running)
            annotations = after["metadata"]["annotations"]
            assert annotations[names.ANNOTATION_KUEUE_GATED_BY] == "example.com/gate"
            assert (annotations[names.ANNOTATION_OPENED], annotations[names.ANNOTATION_ADMISSION_FLOOR]) == (
                "true",
                "1",
            )
            assert (read_admission(after), after["spec"]["suspend"]) == (1, False)
            assert after["spec"]["runtimePatches"][1:] == before["spec"]["runtimePatches"][1:]
            await running.adapter.open(NAME)
            assert trainjob(running) == after

    asyncio.run(run())


def test_open_waits_for_pods_of_the_object_and_of_other_submissions(tmp_path: Path) -> None:
    async def run(of: str) -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            before = trainjob(running)
            add_pod(running, of)
            with pytest.raises(PodsRemain) as caught:
                await running.adapter.open(NAME)
            assert caught.value.remaining == ("left",)
            assert trainjob(running) == before

    asyncio.run(run(NAME))
    asyncio.run(run(names.object_name(JOB_ID, 2)))


def test_open_refuses_another_uid_and_what_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(NotFound):
                await running.adapter.open(NAME)
            await running.adapter.start(job(), submission=1, attempt=1)
            with pytest.raises(Refused, match="another object"):
                await running.adapter.open(NAME, uid="other")

    asyncio.run(run())


def test_a_hold_is_released_by_its_own_instance_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            held = await running.adapter.hold(NAME, instance=2, who="me", reason="why")
            assert held.hold_instance == 2
            with pytest.raises(Refused, match="newer"):
                await running.adapter.hold(NAME, instance=1, who="me", reason="why")
            opened = await running.adapter.open(NAME)
            assert (opened.state, trainjob(running)["spec"]["suspend"]) == (State.HELD, True)
            with pytest.raises(Refused, match="not 1"):
                await running.adapter.release(NAME, instance=1)
            released = await running.adapter.release(NAME, instance=2)
            assert (released.hold_instance, read_admission(trainjob(running))) == (0, 1)

    asyncio.run(run())


def test_cancel_spares_another_object_of_the_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.cancel(NAME)
            started = await running.adapter.start(job(), submission=1, attempt=1)
            await running.adapter.cancel(NAME, uid="other")
            assert trainjob(running)["metadata"]["uid"] == started.uid
            await running.adapter.cancel(NAME, uid=started.uid)
            assert await running.adapter.inspect(NAME) is None

    asyncio.run(run())


def test_find_shows_submissions_and_orphans(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            started = await running.adapter.start(job(), submission=1, attempt=1)
            add_pod(running, names.object_name(JOB_ID, 7))
            found = await running.adapter.find(JOB_ID)
            assert [each.ref for each in found] == [started.ref, f"{NAMESPACE}/pod/left"]
            assert await running.adapter.inspect(found[1].ref) == found[1]

    asyncio.run(run())


def test_nothing_opens_while_another_submission_is_live(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            await running.adapter.start(job(), submission=2, attempt=1)
            with pytest.raises(Unreachable, match="another submission"):
                await running.adapter.open(NAME)

    asyncio.run(run())
