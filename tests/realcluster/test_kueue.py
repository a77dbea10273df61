"""Kueue among the controllers: its kinds are served and converted, and its webhooks and its controller act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.resources import Resource
from tests.realcluster.cluster import real_cluster

FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", "resourceflavor", namespaced=False)
QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", "clusterqueue", namespaced=False)
API_VERSION = "kueue.x-k8s.io/v1beta2"


def queue(name: str, *flavors: str) -> dict[str, Any]:
    """A ClusterQueue with a quota of CPUs in each of these flavors."""
    quota = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "4"}]} for flavor in flavors]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    return {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


async def is_active(api: HttpApi, name: str) -> bool:
    """Whether its controller says that the queue may be used."""
    conditions = ((await api.get(QUEUES, None, name)).get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


@pytest.mark.usefixtures("real_only")
@pytest.mark.timeout(180)
def test_a_queue_becomes_active_and_a_senseless_one_is_refused() -> None:
    async def main() -> None:
        async with real_cluster(nodes=1, kueue=True) as cluster, await HttpApi.connect(cluster.kubeconfig) as api:
            flavor = {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": "any"}}
            await api.create(FLAVORS, None, flavor)
            await api.create(QUEUES, None, queue("sound", "any"))
            async with asyncio.timeout(60):
                while not await is_active(api, "sound"):  # noqa: ASYNC110 (the controller tells nobody)
                    await asyncio.sleep(0.1)
            with pytest.raises(ApiError, match="any"):
                await api.create(QUEUES, None, queue("senseless", "any", "any"))

    asyncio.run(main())
