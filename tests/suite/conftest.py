"""One suite for both clusters: the embedded one, and with ``--real`` the real control plane."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_dispatch.adapter import Adapter, Settings
from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import shared_hub
from airflow_dispatch.kube.paths import PODS
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.thread import BlockingFaults, ClusterThread
from tests.support.namespaces import create_namespace

WAIT_SECONDS = 60.0

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """The cluster of this run."""
    if request.config.getoption("--real"):
        from tests.realcluster.cluster import real_cluster  # noqa: PLC0415 (needs Go's module cache)

        thread = ClusterThread(real_cluster)
    else:
        thread = LocalCluster.in_thread()
    with thread as running:
        yield running


@dataclass(frozen=True)
class Workspace:
    """A namespace of its own on the cluster, and what a test does there."""

    config: ClusterConfig
    namespace: str
    faults: BlockingFaults

    def job(self, *argv: str, **fields: Any) -> TrainingJob:
        """A job of two ranks that runs ``argv`` in each."""
        key = TaskKey("tests", "dag", f"{self.namespace}-{next(_numbers)}", "task", -1)
        values = {"num_nodes": 2, "resources_per_node": {"cpu": "1", "memory": "256Mi"}, **fields}
        job_id = job_id_of(key, datetime.now(UTC))
        return TrainingJob.validated(job_id=job_id, argv=argv, runtime="torch-distributed", **values)

    @contextlib.asynccontextmanager
    async def adapter(self) -> AsyncIterator[Adapter]:
        """An adapter for this namespace."""
        async with await KubeClient.connect(self.config) as client:
            yield Adapter(client, self.namespace, Settings())

    @contextlib.asynccontextmanager
    async def started(self, job: TrainingJob) -> AsyncIterator[tuple[Adapter, str]]:
        """The job, started and opened, and cancelled at the end; one hub sees all of its life."""
        async with self.adapter() as adapter, shared_hub(self.config, self.namespace):
            observation = await adapter.start(job, submission=1, attempt=1)
            name = observation.ref.partition("/")[2]
            try:
                await adapter.open(name, uid=observation.uid)
                yield adapter, name
            finally:
                await adapter.cancel(name)

    async def until(self, name: str, ready: Callable[[Observation], bool]) -> Observation:
        """The first observation that a watching hub gives for which ``ready`` holds."""
        seen: list[str] = []
        try:
            async with (
                asyncio.timeout(WAIT_SECONDS),
                shared_hub(self.config, self.namespace) as hub,
                contextlib.aclosing(hub.subscribe(name)) as snapshots,
            ):
                async for snapshot in snapshots:
                    if snapshot is None:
                        continue
                    observation = classify(snapshot, datetime.now(UTC))
                    line = f"{observation.state} {observation.cause.kind}: {observation.cause.detail}"
                    if not seen or seen[-1] != line:
                        seen.append(line)
                    if ready(observation):
                        return observation
        except TimeoutError:
            pytest.fail("never seen; what was seen:\n" + "\n".join(seen))
        raise AssertionError("the watch ended")

    async def until_started(self, name: str, ranks: int) -> None:
        """Returns when so many pods run."""
        async with (
            asyncio.timeout(WAIT_SECONDS),
            shared_hub(self.config, self.namespace) as hub,
            contextlib.aclosing(hub.subscribe(name)) as snapshots,
        ):
            async for snapshot in snapshots:
                phases = [pod.status.phase for pod in snapshot.pods if pod.status] if snapshot else []
                if phases.count("Running") == ranks:
                    return

    async def node_of_rank(self, name: str, rank: int) -> str:
        """The Node on which a rank runs."""
        selector = f"{names.LABEL_JOBSET_NAME}={name},{names.LABEL_COMPLETION_INDEX}={rank}"
        async with await KubeClient.connect(self.config) as client:
            (pod,) = (await client.list(PODS, self.namespace, label_selector=selector)).items
            return str((await client.get(PODS, pod.metadata.name, self.namespace))["spec"]["nodeName"])

    async def until_gone(self, adapter: Adapter, job: TrainingJob) -> None:
        """Returns when nothing is left of a job: the garbage collector takes its time, and nobody announces its end."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while left := await adapter.find(job.job_id):
            if asyncio.get_running_loop().time() > deadline:
                pytest.fail(f"still there: {[each.ref for each in left]}")


@pytest.fixture
def workspace(cluster: ClusterThread, request: pytest.FixtureRequest) -> Workspace:
    """A fresh namespace."""
    name = f"test-{next(_numbers)}-{abs(hash(request.node.name)) % 10_000}"
    config = ClusterConfig(kubeconfig=str(cluster.kubeconfig))
    asyncio.run(_create_namespace(config, name))
    return Workspace(config, name, cluster.faults)


async def _create_namespace(config: ClusterConfig, name: str) -> None:
    async with await HttpApi.connect(str(config.kubeconfig)) as api:
        await create_namespace(api, name)
