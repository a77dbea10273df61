"""``hold``: one update, idempotent by its instance."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import NotFound, Refused
from airflow_dispatch.core.observation import State
from airflow_dispatch.localcluster.resources import TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)


async def opened(running: Cluster) -> None:
    await running.adapter.start(job(), submission=1, attempt=1)
    await running.adapter.open(NAME)


def hold_of(trainjob: dict[str, Any]) -> dict[str, str]:
    prefix = names.PREFIX + "hold-"
    annotations = trainjob["metadata"]["annotations"]
    return {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)}


def test_a_hold_is_one_update_that_says_who_why_and_until_when(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await opened(running)
            other = {"manager": "example.com/other", "trainingRuntimeSpec": {"template": {"spec": {}}}}
            before = running.change(lambda each: each["spec"]["runtimePatches"].append(other))
            until = datetime(2026, 1, 2, tzinfo=UTC)
            writes: list[str] = []
            running.client.meanwhile = lambda method, _: writes.append(method) if method != "GET" else None
            seen = await running.adapter.hold(NAME, instance=3, who="ana", reason="new disk", until=until)
            after = running.trainjob()
            assert (seen.state, seen.hold_instance, writes) == (State.HELD, 3, ["PUT"])
            held = hold_of(after)
            assert held.pop("since").endswith("Z")
            assert held == {"instance": "3", "who": "ana", "reason": "new disk", "until": "2026-01-02T00:00:00Z"}
            assert after["spec"] == {**before["spec"], "suspend": True}

    asyncio.run(run())


def test_the_same_instance_again_changes_nothing_a_lower_is_refused_a_higher_takes_over(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await opened(running)
            until = datetime(2026, 1, 2, tzinfo=UTC)
            await running.adapter.hold(NAME, instance=2, who="ana", reason="a", until=until)
            held = running.trainjob()
            seen = await running.adapter.hold(NAME, instance=2, who="bob", reason="b")
            assert (seen.hold_instance, running.trainjob()) == (2, held)
            with pytest.raises(Refused, match="hold 2 is in force, which is newer than 1"):
                await running.adapter.hold(NAME, instance=1, who="bob", reason="b")
            await running.adapter.hold(NAME, instance=3, who="bob", reason="b")
            found = hold_of(running.trainjob())
            found.pop("since")
            assert found == {"instance": "3", "who": "bob", "reason": "b"}

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "0", "01", "+1", "x", "1.0"])
def test_a_malformed_hold_is_none_and_the_next_one_replaces_it(tmp_path: Path, text: str) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await opened(running)
            running.change(lambda each: each["metadata"]["annotations"].update({names.ANNOTATION_HOLD_INSTANCE: text}))
            seen = await running.adapter.inspect(NAME)
            assert seen is not None
            assert (seen.hold_instance, seen.foreign) == (0, True)
            seen = await running.adapter.hold(NAME, instance=1, who="ana", reason="a")
            assert (seen.state, seen.hold_instance) == (State.HELD, 1)

    asyncio.run(run())


@pytest.mark.parametrize("instance", [0, -1])
def test_an_instance_below_one_is_refused_before_anything_is_sent(tmp_path: Path, instance: int) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(Refused, match="is not 1 or more"):
                await running.adapter.hold(NAME, instance=instance, who="ana", reason="a")
            assert running.client.requests == 0

    asyncio.run(run())


def test_what_has_ended_is_gone_or_is_another_object_is_not_held(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(NotFound):
                await running.adapter.hold(NAME, instance=1, who="ana", reason="a")
            await opened(running)
            with pytest.raises(Refused, match="another object"):
                await running.adapter.hold(NAME, instance=1, who="ana", reason="a", uid="other")
            ended = running.trainjob()
            ended["status"] = {"conditions": [{"type": "Complete", "status": "True", "reason": "x"}]}
            running.registry.update(TRAINJOBS, NAMESPACE, NAME, ended, subresource="status")
            before = running.trainjob()
            seen = await running.adapter.hold(NAME, instance=1, who="ana", reason="a")
            assert (seen.state, running.trainjob()) == (State.ENDED, before)

    asyncio.run(run())


def test_an_update_that_somebody_else_was_faster_with_is_made_upon_theirs(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await opened(running)
            labelled: list[str] = []

            def meanwhile(method: str, _: str) -> None:
                if method == "PUT" and not labelled:
                    labelled.append("once")
                    running.change(lambda each: each["metadata"]["labels"].update(theirs="kept"))

            running.client.meanwhile = meanwhile
            await running.adapter.hold(NAME, instance=1, who="ana", reason="a")
            after = running.trainjob()
            assert (after["metadata"]["labels"]["theirs"], hold_of(after)["instance"]) == ("kept", "1")

    asyncio.run(run())
