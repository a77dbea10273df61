"""An API server without controllers, and clients of it that count or cut off what they send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from airflow_dispatch.adapter import Adapter, Settings
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import DispatchError
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster.apiserver.logs import LogSource
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, PODS, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import shipped_runtimes

JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"
NAMESPACE = "default"


class Cluster:
    """A registry that is served over HTTPS, and an adapter that speaks to it."""

    def __init__(self, server: ApiServer, client: CountingClient) -> None:
        self.registry = server.registry
        self.add_user = server.add_user
        self.client = client
        self.adapter = Adapter(client, NAMESPACE)

    def trainjob(self, number: int = 1) -> dict[str, Any]:
        """The TrainJob of a submission, as it is."""
        return self.registry.get(TRAINJOBS, NAMESPACE, names.object_name(JOB_ID, number))

    def change(self, edit: Callable[[dict[str, Any]], object], number: int = 1) -> dict[str, Any]:
        """Somebody else's update of a TrainJob."""
        found = self.trainjob(number)
        edit(found)
        return self.registry.update(TRAINJOBS, NAMESPACE, found["metadata"]["name"], found)

    def add_pod(self, name: str, node: str | None = None, *, of: int = 1, **metadata: Any) -> None:
        """A pod of a submission's JobSet."""
        labels = {names.LABEL_JOBSET_NAME: names.object_name(JOB_ID, of), **metadata.pop("labels", {})}
        spec: dict[str, Any] = {"containers": [{"name": names.TRAINER_CONTAINER, "image": "example.invalid/app:1"}]}
        if node is not None:
            spec["nodeName"] = node
        self.registry.create(PODS, NAMESPACE, {"metadata": {"name": name, "labels": labels, **metadata}, "spec": spec})

    def with_settings(self, settings: Settings) -> Adapter:
        """Another adapter on the same client."""
        return Adapter(self.client, NAMESPACE, settings)


class CountingClient(KubeClient):
    """Counts requests, and cancels its caller at one of them: before it is sent, or when it has been answered.

    ``meanwhile`` is called with method and path before each request is sent: what others do at that moment.
    """

    requests = 0
    stop_at: int | None = None
    stop_after = False
    meanwhile: Callable[[str, str], object] = staticmethod(lambda *_: None)

    @contextlib.asynccontextmanager
    async def _answer(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.requests += 1
        self.meanwhile(*args[:2])
        now = self.requests == self.stop_at
        if now and not self.stop_after:
            raise asyncio.CancelledError
        try:
            async with super()._answer(*args, **kwargs) as response:
                if now:
                    await response.read()
                    raise asyncio.CancelledError
                yield response
        except DispatchError:
            if now:
                raise asyncio.CancelledError from None
            raise


@contextlib.asynccontextmanager
async def cluster(directory: Path, logs: LogSource | None = None) -> AsyncIterator[Cluster]:
    """Serves the runtimes that the local cluster ships."""
    registry = Registry(WallClock())
    for runtime in shipped_runtimes():
        registry.create(CLUSTER_TRAINING_RUNTIMES, None, runtime)
    async with ApiServer(registry, directory, logs=logs) as server:
        config = ClusterConfig(kubeconfig=str(server.kubeconfig()))
        async with await CountingClient.connect(config) as client:
            yield Cluster(server, client)


def job(**fields: Any) -> TrainingJob:
    """A small job."""
    given: dict[str, Any] = {"job_id": JOB_ID, "argv": ["true"], "runtime": "torch-distributed"}
    return TrainingJob.validated(**{**given, **fields})
