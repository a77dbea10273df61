from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_dispatch.core.errors import Forbidden, NotFound
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.triggers.output import Output, last_lines
from tests.support import builders


class Recorder:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, level: int, message: str, *args: object) -> None:
        if level >= 20:
            self.lines.append(message % args)


class Client:
    """Answers each request for a log with the next script, and keeps what was asked."""

    def __init__(self, *scripts: list[str] | Exception) -> None:
        self._scripts = list(scripts)
        self.asked: list[dict[str, Any]] = []

    async def log(self, _name: str, _namespace: str, **asked: Any) -> AsyncIterator[bytes]:
        self.asked.append(asked)
        script = self._scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        for line in script:
            yield line.encode()


def snapshot() -> Snapshot:
    return builders.Scenario(builders.pod("p-0").on("node-1").running()).snapshot()


def shown(client: Client, position: str | None = None) -> tuple[list[str], str | None]:
    log = Recorder()

    async def run() -> str | None:
        output = Output(cast("KubeClient", client), "ml", log, position)
        output.attend(snapshot())
        await output.finish()
        return output.position

    reached = asyncio.run(run())
    return [line for line in log.lines if line.startswith("rank 0")], reached


def stamped(*texts: str) -> list[str]:
    return [f"2026-01-01T00:00:00.{number:03}Z {text}" for number, text in enumerate(texts)]


def test_lines_come_in_order_and_set_apart() -> None:
    lines, position = shown(Client(stamped("epoch 1", "epoch 2")))

    assert lines == ["rank 0 | epoch 1", "rank 0 | epoch 2"]
    assert position == "2026-01-01T00:00:00.001Z"


def test_it_goes_on_after_the_last_line_that_was_shown() -> None:
    client = Client(stamped("epoch 1", "epoch 2", "epoch 3"))

    lines, _ = shown(client, "2026-01-01T00:00:00.001Z")

    assert lines == ["rank 0 | epoch 3"]
    assert client.asked[0]["since_time"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_lines_that_share_a_time_are_all_shown() -> None:
    line = "2026-01-01T00:00:00.000Z"

    lines, _ = shown(Client([f"{line} epoch 1", f"{line} epoch 2"]))

    assert lines == ["rank 0 | epoch 1", "rank 0 | epoch 2"]


def test_a_flood_is_cut_and_counted() -> None:
    lines, _ = shown(Client(stamped(*(f"line {number}" for number in range(250)))))

    assert len(lines) == 101
    assert lines[-1] == "rank 0 | … 150 lines left out"


def test_a_long_line_is_cut_and_a_progress_bar_shows_its_last_state() -> None:
    lines, _ = shown(Client(stamped("x" * 2000, " 10%\r 20%\r 30%")))

    assert lines[0].endswith("… (2000 characters)")
    assert lines[1] == "rank 0 |  30%"


@pytest.mark.parametrize("stamp", ["", "no-time "])
def test_a_line_without_a_time_is_shown_as_it_is(stamp: str) -> None:
    assert shown(Client([f"{stamp}text"]))[0] == [f"rank 0 | {stamp}text"]


def test_a_log_that_may_not_be_read_is_said_once() -> None:
    assert shown(Client(Forbidden("no get on pods/log")))[0] == ["rank 0's output is not shown: no get on pods/log"]


def test_the_last_lines_of_a_pod_that_is_gone_are_those_that_were_streamed() -> None:
    client = Client(stamped("epoch 1", "nan"), NotFound("gone"))

    async def run() -> list[str]:
        output = Output(cast("KubeClient", client), "ml", SimpleNamespace(log=lambda *_: None))
        output.attend(snapshot())
        await output.finish()
        return list(await last_lines(cast("KubeClient", client), "ml", "p-0", output))

    assert asyncio.run(run()) == ["epoch 1", "nan"]
