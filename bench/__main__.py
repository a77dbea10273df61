"""``make bench``: the figures that the documentation states, each a count or a ratio of one run.

- pods decoded and judged a second on one core, from a recording of real ones;
- requests of each verb, against the local API server;
- requests and streams of a hub, for 1, 2, 3 and 100 waiting jobs;
- bytes of memory for each pod that is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.kube.store import Store
from airflow_dispatch.localcluster import LocalCluster
from tests.support.proxy import CountingProxy, counting_proxy

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "plain" / "p02-exit-code.jsonl.gz"
ROUNDS = 300
PODS = 5_000


def main() -> int:
    """Prints every figure."""
    throughput()
    memory()
    asyncio.run(requests())
    return 0


def throughput() -> None:
    """Pods a second: two are decoded, put into the store, and judged with all that belongs to them."""
    events = _events()
    pods = [msgspec.json.encode(obj) for _, kind, obj in events if kind == "Pod"]
    store = Store("default")
    for event, kind, obj in events:
        store.apply(event if event != "DELETED" else "MODIFIED", kind, decode_record(_resource(kind), _encode(obj)))
    (name,) = store.trainjob_names()
    now = datetime.now(UTC)
    started = time.perf_counter()
    for _ in range(ROUNDS):
        for raw in pods:
            store.apply("MODIFIED", "Pod", decode_record(paths.PODS, raw))
    decoded = time.perf_counter() - started
    snapshot = store.snapshot(name)
    if snapshot is None:
        raise AssertionError("the recording has no TrainJob")
    started = time.perf_counter()
    for _ in range(ROUNDS):
        classify(snapshot, now)
    judged = time.perf_counter() - started
    say(f"decode and store   {ROUNDS * len(pods) / decoded:10,.0f} pods a second")
    say(f"classify           {ROUNDS * len(snapshot.pods) / judged:10,.0f} pods a second, in jobs of two")


def memory() -> None:
    """Bytes of a pod in the store."""
    template = next(obj for _, kind, obj in _events() if kind == "Pod")
    store = Store("default")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(PODS):
        template["metadata"]["name"] = f"pod-{number}"
        template["metadata"]["uid"] = f"uid-{number}"
        store.apply("ADDED", "Pod", decode_record(paths.PODS, _encode(template)))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    say(f"memory             {(after - before) / PODS:10,.0f} bytes a watched pod")


async def requests() -> None:
    """Requests of each verb and of a hub."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            LocalCluster(runtime="scripted") as cluster,
            counting_proxy(cluster.kubeconfig, Path(folder)) as proxy,
        ):
            config = ClusterConfig(kubeconfig=str(proxy.kubeconfig))
            async with await KubeClient.connect(config) as client:
                await _verbs(Adapter(client, "default"), proxy)
            await _hub(config, proxy)


async def _verbs(adapter: Adapter, proxy: CountingProxy) -> None:
    key = TaskKey("bench", "dag", "run", "task", -1)
    job = TrainingJob.validated(
        job_id=job_id_of(key, datetime.now(UTC)),
        argv=["sleep", "60"],
        runtime="torch-distributed",
        num_nodes=2,
    )

    async def count(verb: str, call: Awaitable[object]) -> object:
        before = proxy.total
        answer = await call
        say(f"{verb:<18} {proxy.total - before:10} requests")
        return answer

    await count("submit", adapter.submit(job, key, 1))
    name = f"dj-{job.job_id.lower()}-s1"
    await count("submit, adopting", adapter.submit(job, key, 1))
    opened = await adapter.inspect(name)
    if opened is None:
        raise AssertionError("the TrainJob is gone")
    await count("open", adapter.open(name, uid=opened.uid))
    await count("find", adapter.find(job.job_id))
    await count("inspect", adapter.inspect(name))
    await count("report", adapter.report(name, opened.uid, Cause(), "ti"))
    await count("cancel", adapter.cancel(name, uid=opened.uid))


async def _hub(config: ClusterConfig, proxy: CountingProxy) -> None:
    before = proxy.total
    async with contextlib.AsyncExitStack() as stack:
        for number in range(1, 101):
            hub = await stack.enter_async_context(shared_hub(config, "default"))
            snapshots = await stack.enter_async_context(contextlib.aclosing(hub.subscribe(f"job-{number}")))
            await anext(snapshots)
            await proxy.until(lambda: proxy.streams.total() == 7)  # noqa: PLR2004 (what one hub has)
            if number in (1, 2, 3, 100):
                counted = f"{proxy.total - before:10} requests, {proxy.streams.total()} streams"
                say(f"waiting jobs: {number:<4} {counted}")


def _events() -> list[tuple[str, str, dict[str, Any]]]:
    with gzip.open(GOLDEN, "rt") as file:
        lines = [json.loads(line) for line in file]
    known = {each.kind for each in vars(paths).values() if isinstance(each, paths.Resource)}
    return [
        (line["event"], line["object"]["kind"], line["object"])
        for line in lines
        if "event" in line and line["object"]["kind"] in known
    ]


def _resource(kind: str) -> paths.Resource:
    return next(each for each in vars(paths).values() if isinstance(each, paths.Resource) and each.kind == kind)


def _encode(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode(obj)


def say(text: str) -> None:
    """Prints a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
