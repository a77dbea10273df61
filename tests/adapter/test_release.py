"""``release``: one update, when the controllers have confirmed that nothing runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.adapter import opening, retrying
from airflow_dispatch.core import names
from airflow_dispatch.core.cessation import rule
from airflow_dispatch.core.errors import PodsRemain, Refused, Unreachable
from airflow_dispatch.core.manifest import read_admission
from airflow_dispatch.core.observation import State
from airflow_dispatch.localcluster.resources import JOBSETS
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)
FUTURE, PAST = "2999-01-01T00:00:00Z", "2000-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.0001)
    monkeypatch.setattr(opening, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(rule, "SECOND_LOOK_SECONDS", 0.2)


async def held(running: Cluster) -> None:
    """Opened, then held, with a JobSet that has not taken it in."""
    await running.adapter.start(job(), submission=1, attempt=1)
    await running.adapter.open(NAME)
    await running.adapter.hold(NAME, instance=1, who="ana", reason="a")


def add_jobset(running: Cluster, *, suspend: bool = True, since: str = FUTURE, admission: str = "1") -> None:
    """The JobSet as its controllers have it."""
    metadata = {"annotations": {names.ANNOTATION_ADMISSION: admission}}
    pod = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "i"}]}}
    replicated = [{"name": "node", "replicas": 1, "template": {"spec": {"template": pod}}}]
    body = {"metadata": {"name": NAME}, "spec": {"suspend": suspend, "replicatedJobs": replicated}}
    made = running.registry.create(JOBSETS, NAMESPACE, body)
    condition = {"type": "Suspended", "status": "True", "reason": "x", "message": "", "lastTransitionTime": since}
    made["status"] = {"conditions": [condition]}
    running.registry.update(JOBSETS, NAMESPACE, NAME, made, subresource="status")


def test_a_hold_is_released_by_its_own_instance_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            held = await running.adapter.hold(NAME, instance=2, who="me", reason="why")
            assert held.hold_instance == 2
            with pytest.raises(Refused, match="newer"):
                await running.adapter.hold(NAME, instance=1, who="me", reason="why")
            opened = await running.adapter.open(NAME)
            assert (opened.state, running.trainjob()["spec"]["suspend"]) == (State.HELD, True)
            with pytest.raises(Refused, match="not 1"):
                await running.adapter.release(NAME, instance=1)
            released = await running.adapter.release(NAME, instance=2)
            assert (released.hold_instance, read_admission(running.trainjob())) == (0, 1)

    asyncio.run(run())


def test_it_is_one_update_that_drops_the_hold_and_raises_the_admission(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running)
            other = {"manager": "example.com/other", "trainingRuntimeSpec": {"template": {"spec": {}}}}
            before = running.change(lambda each: each["spec"]["runtimePatches"].append(other))
            writes: list[str] = []
            running.client.meanwhile = lambda method, _: writes.append(method) if method != "GET" else None
            await running.adapter.release(NAME, instance=1)
            after = running.trainjob()
            assert (writes, read_admission(after), after["spec"]["suspend"]) == (["PUT"], 2, False)
            annotations = after["metadata"]["annotations"]
            assert annotations[names.ANNOTATION_ADMISSION_FLOOR] == "2"
            assert not [key for key in annotations if key.startswith(names.PREFIX + "hold-")]
            assert after["spec"]["runtimePatches"][1:] == before["spec"]["runtimePatches"][1:]
            seen = await running.adapter.release(NAME, instance=1)
            assert (seen.hold_instance, running.trainjob()) == (0, after)

    asyncio.run(run())


def test_a_pod_that_may_still_run_is_named_and_the_hold_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running)
            running.add_pod("left", "gone")
            before = running.trainjob()
            with pytest.raises(PodsRemain) as caught:
                await running.adapter.release(NAME, instance=1)
            assert (caught.value.remaining, running.trainjob()) == (("left on gone (gone)",), before)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("jobset", "why"),
    [
        ({"suspend": False}, "its JobSet is not suspended yet"),
        ({"admission": "0"}, "its JobSet does not carry admission 1 yet"),
    ],
)
def test_controllers_that_are_behind_are_waited_for(tmp_path: Path, jobset: dict[str, Any], why: str) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running, **jobset)
            before = running.trainjob()
            with pytest.raises(Unreachable, match=why):
                await running.adapter.release(NAME, instance=1)
            assert running.trainjob() == before

    asyncio.run(run())


@pytest.mark.parametrize("jobset", [{"since": PAST}, None])
def test_what_can_not_be_dated_is_looked_at_again_after_a_while(tmp_path: Path, jobset: dict[str, Any] | None) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            if jobset is not None:
                add_jobset(running, **jobset)
            began = asyncio.get_running_loop().time()
            lists: list[str] = []
            running.client.meanwhile = lambda _, path: lists.append(path) if path.endswith("/pods") else None
            released = await running.adapter.release(NAME, instance=1)
            assert (released.state, len(lists) >= 2) == (State.RUNNING, True)
            assert asyncio.get_running_loop().time() - began >= 0.2

    asyncio.run(run())


def test_a_pod_that_appears_before_the_second_look_stops_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running, since=PAST)
            lists: list[str] = []

            def meanwhile(_: str, path: str) -> None:
                if path.endswith("/pods"):
                    lists.append(path)
                    if len(lists) == 2:
                        running.add_pod("late", "gone")

            running.client.meanwhile = meanwhile
            with pytest.raises(PodsRemain, match="late on gone"):
                await running.adapter.release(NAME, instance=1)
            assert running.trainjob()["spec"]["suspend"] is True

    asyncio.run(run())


def test_what_another_process_has_released_and_held_meanwhile_is_looked_at_anew(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running, since=PAST)
            lists: list[float] = []

            def raised_by_hand(trainjob: dict[str, Any]) -> None:
                trainjob["spec"]["runtimePatches"][0]["time"] = "2026-01-01T00:00:00Z"

            def meanwhile(_: str, path: str) -> None:
                if path.endswith("/pods"):
                    lists.append(asyncio.get_running_loop().time())
                    if len(lists) == 2:
                        running.change(raised_by_hand)

            running.client.meanwhile = meanwhile
            await running.adapter.release(NAME, instance=1)
            assert asyncio.get_running_loop().time() - lists[1] >= 0.2

    asyncio.run(run())


def test_it_is_not_released_beside_another_submission_that_is_open(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            add_jobset(running)
            await running.adapter.start(job(), submission=2, attempt=1)
            running.change(open_by_hand, number=2)
            with pytest.raises(Unreachable, match=f"while another submission is open: {names.object_name(JOB_ID, 2)}"):
                await running.adapter.release(NAME, instance=1)

    asyncio.run(run())


def open_by_hand(trainjob: dict[str, Any]) -> None:
    annotations = trainjob["metadata"]["annotations"]
    annotations[names.ANNOTATION_OPENED] = "true"
    del annotations[names.ANNOTATION_KUEUE_GATED_BY]
