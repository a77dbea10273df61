"""A hub whose server breaks, forgets, refuses and falls silent: nothing is lost, and nothing spins."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core.errors import Forbidden
from airflow_dispatch.core.snapshot import NodeAbsence, Snapshot
from airflow_dispatch.kube import client, hub
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from tests.support.builders import NAME, node, pod, trainjob, workload
from tests.support.fakeapi import FakeApi, fake_api, kubeconfig, status

Snapshots = AsyncGenerator[Snapshot | None, None]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_BACKOFF_FIRST", 0.001)
    monkeypatch.setattr(hub, "_RETRY_AFTER_LAST", 0.001)


def raw(builder: Any, version: int) -> dict[str, Any]:
    builder.metadata["resourceVersion"] = str(version)
    found: dict[str, Any] = builder.raw
    return found


@contextlib.asynccontextmanager
async def following(folder: Path, fake: FakeApi) -> AsyncIterator[tuple[Hub, Snapshots]]:
    """A hub of the fake, and a subscription that has brought its first snapshot."""
    config = ClusterConfig(kubeconfig=kubeconfig(folder, fake.port, {"token": "t"}))
    async with (
        asyncio.timeout(20),
        shared_hub(config, "ml") as shared,
        contextlib.aclosing(shared.subscribe(NAME)) as snapshots,
    ):
        await anext(snapshots)
        yield shared, snapshots


async def until(snapshots: Snapshots, condition: Callable[[Snapshot], bool]) -> Snapshot:
    async for snapshot in snapshots:
        if snapshot is not None and condition(snapshot):
            return snapshot
    raise AssertionError("the watches ended")


async def eventually(condition: Callable[[], bool]) -> None:
    """Gives the event loop its turns until the condition holds; the caller's timeout bounds it."""
    while not condition():  # noqa: ASYNC110 (fake and hub share this loop; not all that they do is announced)
        await asyncio.sleep(0)


def pod_names(snapshot: Snapshot) -> list[str]:
    return [each.metadata.name for each in snapshot.pods]


def forbidden(verb: str, resource: str) -> Any:
    message = f'User "u" cannot {verb} resource "{resource}" in API group "" in the namespace "ml"'
    return status(403, "Forbidden", message)


def deny(fake: FakeApi, plural: str, *verbs: str) -> None:
    for verb in verbs:
        fake.always[f"{verb} {plural}"] = partial(forbidden, verb, plural)


def test_a_broken_watch_goes_on_from_the_last_event(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            async with following(tmp_path, fake) as (_, snapshots):
                first = await fake.watching("pods")
                await first.send("ADDED", raw(pod("a"), 5))
                await until(snapshots, lambda seen: pod_names(seen) == ["a"])
                first.abort()
                second = await fake.watching("pods")
                assert (first.resource_version, second.resource_version) == ("1", "5")
                await second.send("ADDED", raw(pod("b"), 6))
                await until(snapshots, lambda seen: pod_names(seen) == ["a", "b"])
                assert fake.requests["list pods"] == 1

    asyncio.run(main())


def test_a_bookmark_moves_the_place_to_go_on_from_and_an_odd_event_does_not_lose_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with fake_api() as fake, following(tmp_path, fake):
            first = await fake.watching("jobsets")
            await first.send("BOOKMARK", {"kind": "JobSet", "metadata": {"resourceVersion": "9"}})
            await first.send("ADDED", {"metadata": {"name": "odd"}, "spec": 7})
            first.end()
            assert (await fake.watching("jobsets")).resource_version == "9"

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "JobSet odd can't be read in full" in caplog.text


@pytest.mark.parametrize("line", [b"not JSON\n", b'{"type": "ADDED"}\n', b"[]\n"])
def test_a_line_that_cannot_be_read_breaks_the_watch_and_not_the_hub(tmp_path: Path, line: bytes) -> None:
    async def main() -> None:
        async with fake_api() as fake, following(tmp_path, fake) as (shared, _):
            first = await fake.watching("pods")
            await first.send("BOOKMARK", {"metadata": {"resourceVersion": "4"}})
            await first.write(line)
            assert (await fake.watching("pods")).resource_version == "4"
            assert not shared.failed

    asyncio.run(main())


def test_a_forgotten_version_is_listed_again_and_what_vanished_meanwhile_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.items["pods"] = [raw(pod("a"), 1), raw(pod("b"), 1)]
            async with following(tmp_path, fake) as (_, snapshots):
                stream = await fake.watching("pods")
                fake.items["pods"] = [raw(pod("b"), 1)]
                fake.version = "90"
                await stream.send("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
                seen = await until(snapshots, lambda seen: pod_names(seen) == ["b"])
                assert [each.pod.metadata.name for each in seen.captured] == ["a"]
                assert (await fake.watching("pods")).resource_version == "90"

    asyncio.run(main())


def test_a_server_that_forgets_every_version_is_not_spun_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def pause(failures: int) -> float:
        waited.append(failures)
        return 0.001

    monkeypatch.setattr(hub, "_pause", pause)

    async def main() -> None:
        async with fake_api() as fake:
            fake.always["watch pods"] = lambda: status(410, "Expired", "too old resource version")
            async with following(tmp_path, fake):
                await eventually(lambda: fake.requests["watch pods"] >= 5)

    asyncio.run(main())
    assert waited[:3] == [2, 3, 4]


def test_a_silent_watch_is_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WATCH_SILENCE_SECONDS", 0.05)

    async def main() -> None:
        async with fake_api() as fake, following(tmp_path, fake):
            first = await fake.watching("pods")
            await first.send("BOOKMARK", {"metadata": {"resourceVersion": "3"}})
            assert (await fake.watching("pods")).resource_version == "3"
            await first.closed.wait()

    asyncio.run(main())


def test_trouble_is_said_while_it_lasts_and_no_longer(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake, following(tmp_path, fake) as (shared, _):
            assert shared.trouble is None
            stream = await fake.watching("pods")
            fake.always["watch pods"] = lambda: status(429, "TooManyRequests", "too busy", Retry_After="3600")
            stream.abort()
            await eventually(lambda: fake.requests["watch pods"] > 3)
            assert "too busy" in str(shared.trouble)
            del fake.always["watch pods"]
            await fake.watching("pods")
            await eventually(lambda: shared.trouble is None)  # though no event has come

    asyncio.run(main())


def test_subscribers_wait_until_a_busy_server_has_listed_everything(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            for code in (500, 503, 429):
                fake.refusals["list trainjobs"].append(lambda code=code: status(code, "Busy", "not now"))  # type: ignore[misc]
            async with following(tmp_path, fake) as (shared, _):
                assert shared.snapshot(NAME) is not None
                assert fake.requests["list trainjobs"] == 4

    asyncio.run(main())


def test_a_permission_that_is_taken_away_is_said_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_DENIED_SECONDS", 0.001)

    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.items["pods"] = [raw(pod("a"), 1), raw(pod("b"), 1)]
            async with following(tmp_path, fake) as (shared, snapshots):
                stream = await fake.watching("pods")
                deny(fake, "pods", "list", "watch")
                stream.end()
                assert pod_names(await until(snapshots, lambda _: shared.trouble is not None)) == ["a", "b"]
                assert "no permission to watch pods" in str(shared.trouble)
                fake.items["pods"] = [raw(pod("b"), 2)]
                fake.always.clear()
                seen = await until(snapshots, lambda seen: pod_names(seen) == ["b"])
                assert [each.pod.metadata.name for each in seen.captured] == ["a"]
                await fake.watching("pods")
                await eventually(lambda: shared.trouble is None)

    asyncio.run(main())


def test_a_permission_that_was_never_there_reaches_every_subscriber(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.always["watch pods"] = lambda: forbidden("watch", "pods")
            async with following(tmp_path, fake) as (shared, snapshots):
                others = shared.subscribe("other")
                waiting = [asyncio.ensure_future(_rest(each)) for each in (snapshots, others)]
                for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                    assert isinstance(outcome, Forbidden)
                    assert "no permission to watch pods" in str(outcome)
                with pytest.raises(Forbidden):
                    await shared.synced()
                await eventually(lambda: not fake.open)

    asyncio.run(main())


async def _rest(snapshots: Snapshots) -> None:
    async for _ in snapshots:
        pass


def test_a_bug_reaches_the_subscribers_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with fake_api() as fake, following(tmp_path, fake) as (shared, snapshots):

            def broken(*_: object) -> set[str]:
                raise ZeroDivisionError("a bug")

            monkeypatch.setattr(shared.store, "apply", broken)
            await (await fake.watching("pods")).send("ADDED", raw(pod("a"), 5))
            with pytest.raises(ZeroDivisionError, match="a bug"):
                await anext(snapshots)

    asyncio.run(main())
    assert "the watches on namespace ml failed" in caplog.text


def test_what_may_no_longer_be_read_does_not_stand_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.items["workloads"] = [raw(workload().owned_by("TrainJob", "uid"), 1)]
            async with following(tmp_path, fake) as (shared, _):
                seen = shared.snapshot(NAME)
                assert seen is not None
                assert seen.workload is not None
                stream = await fake.watching("workloads")
                fake.always["watch workloads"] = lambda: forbidden("watch", "workloads")
                stream.end()
                await eventually(lambda: not shared.store._objects["Workload"])
                assert not shared.failed

    asyncio.run(main())


def test_what_may_be_left_out_is_followed_once_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_NOT_ALLOWED_SECONDS", 0.001)
    monkeypatch.setattr(hub, "NODE_POLL_SECONDS", 0.001)

    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.items["pods"] = [raw(pod("a").on("node-0"), 1)]
            fake.items["nodes"] = [raw(node("node-0"), 1)]
            deny(fake, "nodes", "list", "get")
            deny(fake, "workloads", "list")
            async with following(tmp_path, fake) as (shared, snapshots):
                seen = await until(snapshots, lambda seen: not seen.nodes_readable)
                assert [seen.node_of(each) for each in seen.pods] == [NodeAbsence.NOT_READABLE]
                fake.items["workloads"] = [raw(workload().owned_by("TrainJob", "uid"), 1)]
                fake.always.clear()
                seen = await until(snapshots, lambda seen: seen.workload is not None and bool(seen.nodes))
                assert not isinstance(seen.node_of(seen.pods[0]), NodeAbsence)
                stream = await fake.watching("nodes")
                deny(fake, "nodes", "list", "watch", "get")
                stream.end()
                seen = await until(snapshots, lambda seen: not seen.nodes_readable)
                assert [seen.node_of(each) for each in seen.pods] == [NodeAbsence.NOT_READABLE]
                assert not shared.failed

    asyncio.run(main())


def test_a_pod_that_is_seen_before_its_node_is_on_no_lost_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "NODE_POLL_SECONDS", 0.001)

    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.refusals["get nodes"].append(lambda: status(500, "InternalError", "not now"))
            async with following(tmp_path, fake) as (_, snapshots):
                fake.items["nodes"] = [raw(node("new"), 3)]
                await (await fake.watching("pods")).send("ADDED", raw(pod("a").on("new"), 5))
                async for seen in snapshots:
                    assert seen is not None
                    views = [seen.node_of(each) for each in seen.pods]
                    assert NodeAbsence.GONE not in views
                    if views and views[0] is not NodeAbsence.NOT_READABLE:
                        break
                assert fake.requests["get nodes"] == 2

    asyncio.run(main())


def test_a_pod_of_a_node_that_went_before_it_was_seen_is_on_a_lost_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            async with following(tmp_path, fake) as (_, snapshots):
                await (await fake.watching("pods")).send("ADDED", raw(pod("a").on("gone"), 5))
                await until(
                    snapshots,
                    lambda seen: [seen.node_of(each) for each in seen.pods] == [NodeAbsence.GONE],
                )

    asyncio.run(main())


@pytest.mark.parametrize("may_get", [True, False])
def test_where_nodes_may_not_be_listed_a_new_pod_is_on_no_lost_node(tmp_path: Path, *, may_get: bool) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            fake.items["nodes"] = [raw(node("node-0"), 1)]
            fake.always["list nodes"] = lambda: forbidden("list", "nodes")
            if not may_get:
                fake.always["get nodes"] = lambda: forbidden("get", "nodes")
            async with following(tmp_path, fake) as (shared, snapshots):
                await (await fake.watching("pods")).send("ADDED", raw(pod("a").on("node-0"), 5))
                async for seen in snapshots:
                    assert seen is not None
                    views = [seen.node_of(each) for each in seen.pods]
                    assert NodeAbsence.GONE not in views
                    if views and (views[0] is not NodeAbsence.NOT_READABLE or not may_get):
                        break
                assert not shared.failed

    asyncio.run(main())


def test_changes_that_come_faster_than_they_are_taken_are_merged(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_api() as fake:
            fake.items["trainjobs"] = [raw(trainjob(), 1)]
            async with following(tmp_path, fake) as (shared, snapshots):
                stream = await fake.watching("pods")
                for number in range(50):
                    await stream.send("ADDED", raw(pod(f"p{number}"), 2 + number))
                await eventually(lambda: len(shared.store._objects["Pod"]) == 50)
                seen = await anext(snapshots)
                assert seen is not None
                assert len(seen.pods) == 50
                waiting = asyncio.ensure_future(anext(snapshots))
                for _ in itertools.repeat(None, 20):
                    await asyncio.sleep(0)
                assert not waiting.done()
                waiting.cancel()
                await asyncio.wait({waiting})

    asyncio.run(main())
