"""Pods a second on one core: read from the wire into the store, taken out of it, and judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from bench.recorded import pods_of, store_of
from bench.report import say

__all__ = ["main"]

GANGS = (2, 8, 64, 512)
MEASURED_SECONDS = 0.5
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Prints the throughput of each step, and what one classification costs for gangs of several sizes."""
    pods = pods_of(GANGS[0])
    store = store_of(GANGS[0])

    def decode() -> None:
        for raw in pods:
            decode_record(paths.PODS, raw)

    def take() -> None:
        for raw in pods:
            store.apply("MODIFIED", paths.PODS.kind, decode_record(paths.PODS, raw))

    say("decode", len(pods) / _seconds(decode), "pods a second")
    say("decode and store", len(pods) / _seconds(take), "pods a second")
    for size in GANGS:
        _judge(size)


def _judge(size: int) -> None:
    store = store_of(size)
    (name,) = store.trainjob_names()

    def snapshot() -> Snapshot:
        found = store.snapshot(name)
        if found is None:
            raise AssertionError("the store has lost the job")
        return found

    whole = snapshot()
    taken, judged = _seconds(snapshot), _seconds(lambda: classify(whole, NOW))
    say(f"gang of {size}: snapshot", taken * 1e6, f"microseconds, {size / taken:,.0f} pods a second")
    say(f"gang of {size}: classify", judged * 1e6, f"microseconds, {size / judged:,.0f} pods a second")


def _seconds(work: Callable[[], object]) -> float:
    """Seconds of this process's own time that one call takes: the least of several rounds."""
    rounds, spent, least = 0, 0.0, float("inf")
    repeat = 1
    while spent < MEASURED_SECONDS or rounds < 3:  # noqa: PLR2004 (the first one warms up)
        began = time.process_time()
        for _ in range(repeat):
            work()
        took = time.process_time() - began
        least, spent, rounds = min(least, took / repeat), spent + took, rounds + 1
        if took < MEASURED_SECONDS / 10:
            repeat, least = repeat * 2, float("inf")
    return least
