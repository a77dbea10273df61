"""A namespace of either cluster, and what tests do there as the service accounts of the guide on permissions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.adapter import Adapter, Settings
from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Observation, State
from airflow_dispatch.hooks.reference import JobReference
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.paths import PODS
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster.thread import BlockingFaults
from airflow_dispatch.triggers.trainjob import TrainJobTrigger
from tests.support.accounts import TRIGGERER, WORKER, Accounts
from tests.support.lines import Lines

WAIT_SECONDS = 60.0

_numbers = itertools.count(1)


def name_of(observation: Observation) -> str:
    """The TrainJob's name."""
    return JobReference.of(observation).name


@dataclass(frozen=True)
class Workspace:
    """``config`` is the administrator's, for what only a test does; adapters are a worker's, hubs a triggerer's."""

    config: ClusterConfig
    namespace: str
    faults: BlockingFaults
    accounts: Accounts

    def job(self, *argv: str, **fields: Any) -> TrainingJob:
        """A job of two ranks that runs ``argv`` in each."""
        key = TaskKey("tests", "dag", f"{self.namespace}-{next(_numbers)}", "task", -1)
        values = {
            "runtime": "torch-distributed",
            "num_nodes": 2,
            "resources_per_node": {"cpu": "1", "memory": "256Mi"},
            **fields,
        }
        return TrainingJob.validated(job_id=job_id_of(key, datetime.now(UTC)), argv=argv, **values)

    @contextlib.asynccontextmanager
    async def adapter(self, account: str = WORKER) -> AsyncIterator[Adapter]:
        """An adapter for this namespace, by default a worker's."""
        async with await KubeClient.connect(self.accounts.configs[account]) as client:
            yield Adapter(client, self.namespace, Settings())

    @contextlib.asynccontextmanager
    async def administrator(self) -> AsyncIterator[Adapter]:
        """An adapter that may do everything, to look at what others have left."""
        async with await KubeClient.connect(self.config) as client:
            yield Adapter(client, self.namespace, Settings())

    def act_as(self, account: str, environment: pytest.MonkeyPatch, kubeconfig: Path | None = None) -> None:
        """Makes ``kubernetes_default`` the connection of an account, as in a process of its own."""
        path = kubeconfig or self.accounts.configs[account].kubeconfig
        extra = {"kube_config_path": str(path), "namespace": self.namespace}
        environment.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps({"conn_type": "kubernetes", "extra": extra}))

    def trigger(self, observation: Observation, **fields: Any) -> tuple[TrainJobTrigger, Lines]:
        """A trigger that waits for a submission, and its log."""
        values = {
            "namespace": self.namespace,
            "name": name_of(observation),
            "uid": observation.uid,
            "job_id": observation.job_id,
            "submission": observation.submission,
            **fields,
        }
        trigger, lines = TrainJobTrigger(**values), Lines()
        trigger._log = lines  # type: ignore[assignment]
        return trigger, lines

    @contextlib.asynccontextmanager
    async def hub(self) -> AsyncIterator[Hub]:
        """The triggerer's watches on this namespace."""
        async with shared_hub(self.accounts.configs[TRIGGERER], self.namespace) as hub:
            yield hub

    @contextlib.asynccontextmanager
    async def administrators_hub(self) -> AsyncIterator[Hub]:
        """Watches that may see everything."""
        async with shared_hub(self.config, self.namespace) as hub:
            yield hub

    @contextlib.asynccontextmanager
    async def started(self, job: TrainingJob) -> AsyncIterator[tuple[Adapter, str]]:
        """The job, started and opened, and cancelled at the end; one hub sees all of its life."""
        async with self.adapter() as adapter, self.hub():
            observation = await adapter.start(job, submission=1, attempt=1)
            name = name_of(observation)
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
                self.hub() as hub,
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
            self.hub() as hub,
            contextlib.aclosing(hub.subscribe(name)) as snapshots,
        ):
            async for snapshot in snapshots:
                phases = [pod.status.phase for pod in snapshot.pods if pod.status] if snapshot else []
                if phases.count("Running") == ranks:
                    return

    async def until_ended(self, name: str) -> None:
        """Returns when an administrator sees that the job has ended."""
        async with (
            asyncio.timeout(WAIT_SECONDS),
            self.administrators_hub() as hub,
            contextlib.aclosing(hub.subscribe(name)) as snapshots,
        ):
            async for snapshot in snapshots:
                if snapshot is not None and classify(snapshot, datetime.now(UTC)).state is State.ENDED:
                    return

    async def node_of_rank(self, name: str, rank: int) -> str:
        """The Node on which a rank runs."""
        return str((await self._pod(name, rank))["spec"]["nodeName"])

    async def pod_of_rank(self, name: str, rank: int) -> str:
        """The name of a rank's pod."""
        return str((await self._pod(name, rank))["metadata"]["name"])

    async def _pod(self, name: str, rank: int) -> dict[str, Any]:
        selector = f"{names.LABEL_JOBSET_NAME}={name},{names.LABEL_COMPLETION_INDEX}={rank}"
        async with await KubeClient.connect(self.config) as client:
            (pod,) = (await client.list(PODS, self.namespace, label_selector=selector)).items
            return await client.get(PODS, pod.metadata.name, self.namespace)

    async def until_gone(self, adapter: Adapter, job: TrainingJob, *, but: str = "") -> None:
        """Returns when nothing is left of a job ``but`` one: the garbage collector takes its time, and says nothing."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while left := [each.ref for each in await adapter.find(job.job_id) if each.ref != but]:
            if asyncio.get_running_loop().time() > deadline:
                pytest.fail(f"still there: {left}")
