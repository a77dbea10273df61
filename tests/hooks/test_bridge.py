from __future__ import annotations

import asyncio
import threading

import pytest

from airflow_dispatch.exceptions import TrainJobInterruptedError
from airflow_dispatch.hooks.bridge import Bridge


async def answer() -> int:
    return 42


def test_it_returns_what_the_coroutine_returns() -> None:
    assert Bridge().run(answer()) == 42


def test_a_stop_ends_what_runs_at_its_next_await() -> None:
    bridge = Bridge()
    started = threading.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    def stop() -> None:
        started.wait()
        bridge.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(TrainJobInterruptedError):
        bridge.run(wait())
    stopper.join()


def test_nothing_more_runs_after_a_stop() -> None:
    bridge = Bridge()
    bridge.stop()

    with pytest.raises(TrainJobInterruptedError):
        bridge.run(answer())


def test_what_must_be_done_after_a_stop_is_done() -> None:
    bridge = Bridge()
    bridge.stop()

    assert bridge.run(answer(), even_if_stopped=True) == 42


def test_a_cancellation_that_nobody_asked_for_stays_one() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        Bridge().run(cancelled())
