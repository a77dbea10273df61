"""Requests to the API server: of each verb, of a hub, and of a whole job's life."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.identity import Submission, TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, Observation, State
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.kubelet.scripted import Script
from bench.report import say
from tests.support.proxy import CountingProxy, counting_proxy

__all__ = ["main"]

NAMESPACE = "default"
RUN_SECONDS = 2.0
WAITING_JOBS = (1, 2, 3, 100)

_Answer = TypeVar("_Answer")


async def main() -> None:
    """Prints every count."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            LocalCluster(runtime="scripted", script=lambda _: Script(seconds=RUN_SECONDS)) as cluster,
            counting_proxy(cluster.kubeconfig, Path(folder)) as proxy,
        ):
            config = ClusterConfig(kubeconfig=str(proxy.kubeconfig))
            async with await KubeClient.connect(config) as client:
                adapter = Adapter(client, NAMESPACE)
                await _verbs(adapter, proxy)
                await _hub(config, proxy)
                await _life(adapter, config, proxy)


def _job(task: str) -> tuple[TrainingJob, TaskKey]:
    key = TaskKey("bench", "dag", "run", task, -1)
    job_id = job_id_of(key, datetime.now(UTC))
    return TrainingJob.validated(job_id=job_id, argv=["train"], runtime="torch-distributed", num_nodes=2), key


async def _count(what: str, proxy: CountingProxy, call: Awaitable[_Answer]) -> _Answer:
    before = proxy.total
    answer = await call
    say(what, proxy.total - before, "requests")
    return answer


async def _verbs(adapter: Adapter, proxy: CountingProxy) -> None:
    job, key = _job("verbs")
    await _count("submit", proxy, adapter.submit(job, key, 1))
    await _count("submit, adopting", proxy, adapter.submit(job, key, 1))
    name = Submission(job.job_id, 1).name
    seen = await _count("inspect", proxy, adapter.inspect(name))
    if seen is None:
        raise AssertionError("the TrainJob is gone")
    await _count("open", proxy, adapter.open(name, uid=seen.uid))
    await _count("find", proxy, adapter.find(job.job_id))
    await _count("hold", proxy, adapter.hold(name, instance=1, who="bench", reason="to count", uid=seen.uid))
    await _count("report", proxy, adapter.report(name, seen.uid, Cause(), "ti"))
    await _count("cancel", proxy, adapter.cancel(name, uid=seen.uid))


async def _hub(config: ClusterConfig, proxy: CountingProxy) -> None:
    """The first who waits opens the hub; the others cost nothing."""
    before = proxy.total
    async with contextlib.AsyncExitStack() as stack:
        for number in range(1, WAITING_JOBS[-1] + 1):
            hub = await stack.enter_async_context(shared_hub(config, NAMESPACE))
            snapshots = await stack.enter_async_context(contextlib.aclosing(hub.subscribe(f"job-{number}")))
            await anext(snapshots)
            if number == 1:
                await proxy.until(lambda: proxy.streams.total() == 7)  # noqa: PLR2004 (what one hub has)
            if number in WAITING_JOBS:
                say(f"waiting jobs: {number}", proxy.total - before, f"requests, {proxy.streams.total()} streams")


async def _life(adapter: Adapter, config: ClusterConfig, proxy: CountingProxy) -> None:
    """What a task does with its job from its first try to its end, beside the hub that all tasks share."""
    async with shared_hub(config, NAMESPACE) as hub:
        await hub.synced()
        await proxy.until(lambda: proxy.streams.total() == 7)  # noqa: PLR2004 (what one hub has)
        job, key = _job("life")
        before = proxy.total
        submitted = await adapter.submit(job, key, 1)
        name = Submission(job.job_id, 1).name
        await adapter.open(name, uid=submitted.observation.uid)
        opened = proxy.total
        ended: Observation | None = None
        async with asyncio.timeout(60), contextlib.aclosing(hub.subscribe(name)) as snapshots:
            async for snapshot in snapshots:
                if snapshot is None:
                    continue
                await adapter.remember_jobset(snapshot)
                ended = classify(snapshot, datetime.now(UTC))
                if ended.state is State.ENDED:
                    break
        if ended is None or ended.state is not State.ENDED:
            raise AssertionError("the job has not ended")
        waited = proxy.total
        await adapter.report(name, ended.uid, ended.cause, "ti")
        say("a whole life", proxy.total - before, f"requests, of which {waited - opened} while it waits")
