"""Bytes of memory for each pod that is watched: slim records, what they are found by, and nothing of the wire."""

from __future__ import annotations

import tracemalloc

from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.store import Store
from bench.recorded import pods_of
from bench.report import say

__all__ = ["main"]

PODS = 2_000


def main() -> None:
    """Prints the size of a pod on the wire and in the store."""
    pods = pods_of(PODS)
    store = Store("default")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for raw in pods:
        store.apply("ADDED", paths.PODS.kind, decode_record(paths.PODS, raw))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    say("a pod on the wire", sum(map(len, pods)) / PODS, "bytes")
    say("a watched pod", (after - before) / PODS, "bytes of memory")
