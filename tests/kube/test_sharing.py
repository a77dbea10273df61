"""One hub for all who wait: who opens it, who closes it, and who is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core.errors import ConfigurationError, Forbidden
from airflow_dispatch.core.snapshot import Site
from airflow_dispatch.kube import paths, sharing
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from tests.support.fakeapi import FakeApi, fake_api, kubeconfig, status

STREAMS = 8  # TrainJobs, JobSets, Jobs, pods, runtime copies, Events, Workloads, Nodes


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert sharing._hubs == {}


def config_of(folder: Path, fake: FakeApi, **user: Any) -> ClusterConfig:
    return ClusterConfig(kubeconfig=kubeconfig(folder, fake.port, user or {"token": "t"}))


async def streams(fake: FakeApi, number: int) -> None:
    while len(fake.open) != number:  # noqa: ASYNC110 (fake and hub share this loop)
        await asyncio.sleep(0)


def test_the_last_user_closes_what_the_first_opened(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = config_of(tmp_path, fake)
            async with shared_hub(config, "ml") as first:
                async with shared_hub(config, "ml") as second:
                    assert second is first
                    await streams(fake, STREAMS)
                await first.synced()
                assert len(fake.open) == STREAMS
            await streams(fake, 0)
            async with shared_hub(config, "ml") as third:
                assert third is not first
                await streams(fake, STREAMS)
            await streams(fake, 0)

    asyncio.run(main())


def test_another_namespace_and_another_site_have_hubs_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = config_of(tmp_path, fake)
            site = Site(node_loss_taints=("example.com/lost",))
            async with (
                shared_hub(config, "ml") as one,
                shared_hub(config, "other") as two,
                shared_hub(config, "ml", site=site) as three,
                shared_hub(config, "ml", site=Site(node_loss_taints=("example.com/lost",))) as four,
            ):
                assert len({one, two, three}) == 3
                assert four is three

    asyncio.run(main())


def test_a_user_that_is_cancelled_while_the_hub_opens_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """The exec plugin waits at a named pipe until the test lets it go on."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\ncat {pipe}\n")
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1"
    answer = f'{{"apiVersion": "{api}", "kind": "ExecCredential", "status": {{"token": "fresh"}}}}'
    user = {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}

    async def use(config: ClusterConfig, found: list[Hub]) -> None:
        async with shared_hub(config, "ml") as shared:
            await shared.synced()
            found.append(shared)

    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = config_of(tmp_path, fake, **user)
            found: list[Hub] = []
            users = [asyncio.create_task(use(config, found)) for _ in range(3)]
            await asyncio.sleep(0)
            users[0].cancel()
            await asyncio.wait(users[:1])
            await asyncio.to_thread(pipe.write_text, answer)
            await asyncio.gather(*users[1:])
            assert users[0].cancelled()
            assert found[0] is found[1]
            assert (tmp_path / "calls").read_text() == "called\n"

    asyncio.run(main())


def test_what_cannot_be_opened_is_said_to_all_and_tried_anew_by_the_next(tmp_path: Path) -> None:
    async def use(config: ClusterConfig) -> None:
        async with shared_hub(config, "ml") as shared:
            await shared.synced()

    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = ClusterConfig(kubeconfig=str(tmp_path / "kubeconfig"))
            outcomes = await asyncio.gather(*(use(config) for _ in range(3)), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [ConfigurationError] * 3
            config_of(tmp_path, fake)
            await use(config)

    asyncio.run(main())


def test_a_hub_that_failed_is_left_to_its_users_and_replaced_for_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = config_of(tmp_path, fake)
            fake.refusals["list pods"].append(
                lambda: status(403, "Forbidden", 'User "u" cannot list resource "pods" in API group ""')
            )
            async with shared_hub(config, "ml") as failed:
                with pytest.raises(Forbidden):
                    await failed.synced()
                async with shared_hub(config, "ml") as fresh:
                    assert fresh is not failed
                    await fresh.synced()
                    assert (await failed.client.list(paths.PODS, "ml")).items == []
                    await streams(fake, STREAMS)
                await streams(fake, 0)

    asyncio.run(main())


def test_a_user_that_is_cancelled_twice_still_closes_the_hub(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), fake_api() as fake:
            config = config_of(tmp_path, fake)
            opened = asyncio.Event()

            async def use() -> None:
                async with shared_hub(config, "ml") as shared:
                    await shared.synced()
                    opened.set()
                    await asyncio.Event().wait()

            user = asyncio.create_task(use())
            await opened.wait()
            await streams(fake, STREAMS)
            user.cancel()
            await asyncio.sleep(0)
            user.cancel()
            await asyncio.wait({user})
            await streams(fake, 0)

    asyncio.run(main())


def test_a_subscriber_that_leaves_or_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(20),
            fake_api() as fake,
            shared_hub(config_of(tmp_path, fake), "ml") as shared,
        ):
            async with contextlib.aclosing(shared.subscribe("job")) as snapshots:
                assert await anext(snapshots) is None
            stuck = shared.subscribe("job")
            assert await anext(stuck) is None
            pending = asyncio.ensure_future(anext(stuck))
            await asyncio.sleep(0)
            pending.cancel()
            await asyncio.wait({pending})
            assert shared._wakers == {}

    asyncio.run(main())


def test_each_event_loop_has_a_hub_of_its_own(tmp_path: Path) -> None:
    found: list[Hub] = []
    both = threading.Barrier(2, timeout=20)

    async def use(config: ClusterConfig) -> None:
        async with asyncio.timeout(20), shared_hub(config, "ml") as shared:
            await shared.synced()
            found.append(shared)
            await asyncio.to_thread(both.wait)

    async def main() -> None:
        async with fake_api() as fake:
            config = config_of(tmp_path, fake)
            await asyncio.gather(*(asyncio.to_thread(asyncio.run, use(config)) for _ in range(2)))
            await streams(fake, 0)

    asyncio.run(main())
    assert len(set(found)) == 2
