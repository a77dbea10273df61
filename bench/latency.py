"""From a write on the API server to the changed observation of whoever waits, over HTTPS and one watch."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.identity import Submission, TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster import LocalCluster
from bench.report import say

__all__ = ["main"]

NAMESPACE = "default"
WRITES = 300


async def main() -> None:
    """Prints p50 and p99 of the write alone, and of the write with all that follows from it."""
    with LocalCluster.in_thread(runtime="scripted") as cluster:
        config = ClusterConfig(kubeconfig=str(cluster.kubeconfig))
        async with await KubeClient.connect(config) as client:
            key = TaskKey("bench", "dag", "run", "latency", -1)
            job_id = job_id_of(key, datetime.now(UTC))
            job = TrainingJob.validated(job_id=job_id, argv=["train"], runtime="torch-distributed", num_nodes=2)
            await Adapter(client, NAMESPACE).submit(job, key, 1)
            name = Submission(job_id, 1).name
            async with (
                shared_hub(config, NAMESPACE) as hub,
                contextlib.aclosing(hub.subscribe(name)) as snapshots,
            ):
                await anext(snapshots)
                answered, observed = await _measure(client, name, snapshots)
    _say("write, answered", answered)
    _say("write, observed", observed)


async def _measure(
    client: KubeClient, name: str, snapshots: AsyncIterator[Snapshot | None]
) -> tuple[list[float], list[float]]:
    """Milliseconds from before each write until its answer is there, and until the observation shows it."""
    answered, observed = [], []
    for instance in range(1, WRITES + 1):
        body = {"metadata": {"annotations": {names.ANNOTATION_HOLD_INSTANCE: str(instance)}}}
        began = time.perf_counter()
        seen = asyncio.create_task(_seen(snapshots, instance))
        await client.patch(paths.TRAINJOBS, name, NAMESPACE, body)
        answered.append((time.perf_counter() - began) * 1000)
        observed.append((await seen - began) * 1000)
    return answered, observed


async def _seen(snapshots: AsyncIterator[Snapshot | None], instance: int) -> float:
    """The moment at which the observation carries this hold."""
    async with asyncio.timeout(30):
        async for snapshot in snapshots:
            if snapshot is not None and classify(snapshot, datetime.now(UTC)).hold_instance == instance:
                return time.perf_counter()
    raise AssertionError("the watch has ended")


def _say(what: str, milliseconds: Sequence[float]) -> None:
    hundredths = statistics.quantiles(milliseconds, n=100, method="inclusive")
    say(what, hundredths[49], f"ms p50, {hundredths[98]:,.0f} ms p99, of {len(milliseconds)} writes")
