"""``open``: one update behind the never-two check, and one submission of a job at most."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import NotFound, PodsRemain, Refused
from airflow_dispatch.core.manifest import read_admission
from airflow_dispatch.core.observation import State
from airflow_dispatch.localcluster.resources import TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)


def test_open_is_one_update_that_keeps_what_others_wrote(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            started = await running.adapter.start(job(), submission=1, attempt=1)
            body = running.trainjob()
            body["metadata"]["annotations"][names.ANNOTATION_KUEUE_GATED_BY] += ",example.com/gate"
            other = {"manager": "example.com/other", "trainingRuntimeSpec": {"template": {"spec": {}}}}
            body["spec"]["runtimePatches"].append(other)
            before = running.registry.update(TRAINJOBS, NAMESPACE, NAME, body)
            await running.adapter.open(NAME, uid=started.uid)
            after = running.trainjob()
            annotations = after["metadata"]["annotations"]
            assert annotations[names.ANNOTATION_KUEUE_GATED_BY] == "example.com/gate"
            assert (annotations[names.ANNOTATION_OPENED], annotations[names.ANNOTATION_ADMISSION_FLOOR]) == (
                "true",
                "1",
            )
            assert (read_admission(after), after["spec"]["suspend"]) == (1, False)
            assert after["spec"]["runtimePatches"][1:] == before["spec"]["runtimePatches"][1:]
            await running.adapter.open(NAME)
            assert running.trainjob() == after

    asyncio.run(run())


def test_open_waits_for_pods_of_the_object_and_of_other_submissions(tmp_path: Path) -> None:
    async def run(of: int) -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            before = running.trainjob()
            running.add_pod("left", of=of)
            with pytest.raises(PodsRemain) as caught:
                await running.adapter.open(NAME)
            assert caught.value.remaining == ("left",)
            assert running.trainjob() == before

    asyncio.run(run(1))
    asyncio.run(run(2))


def test_open_refuses_another_uid_and_what_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(NotFound):
                await running.adapter.open(NAME)
            await running.adapter.start(job(), submission=1, attempt=1)
            with pytest.raises(Refused, match="another object"):
                await running.adapter.open(NAME, uid="other")

    asyncio.run(run())


def submissions(running: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in running.registry.list(TRAINJOBS, NAMESPACE).items]


def name_of(number: int) -> str:
    return names.object_name(JOB_ID, number)


def open_by_hand(running: Cluster) -> None:
    """What another process does that opens the first submission."""
    body = running.trainjob()
    annotations = body["metadata"]["annotations"]
    if annotations.get(names.ANNOTATION_OPENED) == "true":
        return
    annotations[names.ANNOTATION_OPENED] = "true"
    del annotations[names.ANNOTATION_KUEUE_GATED_BY]
    body["spec"]["suspend"] = False
    running.registry.update(TRAINJOBS, NAMESPACE, NAME, body)


async def start_two(running: Cluster) -> None:
    for number in (1, 2):
        await running.adapter.start(job(), submission=number, attempt=1)


@pytest.mark.parametrize("opens", [1, 2])
def test_of_two_gated_submissions_the_lower_withdraws_whichever_is_asked_to_open(tmp_path: Path, opens: int) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await start_two(running)
            opened = await running.adapter.open(name_of(opens))
            assert (opened.ref, opened.state) == (f"{NAMESPACE}/{name_of(2)}", State.RUNNING)
            assert submissions(running) == [name_of(2)]

    asyncio.run(run())


def test_beside_an_opened_submission_the_gated_one_is_deleted_and_the_opened_one_adopted(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            first = await running.adapter.open(NAME)
            second = await running.adapter.start(job(), submission=2, attempt=1)
            adopted = await running.adapter.open(name_of(2), uid=second.uid)
            assert (adopted.uid, adopted.ref) == (first.uid, first.ref)
            assert submissions(running) == [NAME]
            assert read_admission(running.trainjob()) == 1

    asyncio.run(run())


def test_a_gated_submission_that_is_opened_just_before_it_is_withdrawn_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await start_two(running)

            def meanwhile(method: str, _: str) -> None:
                if method == "DELETE":
                    open_by_hand(running)

            running.client.meanwhile = meanwhile
            adopted = await running.adapter.open(name_of(2))
            assert (adopted.ref, submissions(running)) == (f"{NAMESPACE}/{NAME}", [NAME])

    asyncio.run(run())
