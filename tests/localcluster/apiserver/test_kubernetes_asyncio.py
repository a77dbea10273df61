"""The asynchronous community client, which Airflow's triggers use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client import ApiException

from airflow_dispatch.localcluster.apiserver.logs import LogSource
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock

Object = dict[str, Any]


def test_create_list_watch_patch_log_delete(tmp_path: Path, scripted_logs: LogSource) -> None:
    async def scenario() -> None:
        registry = Registry(WallClock())
        async with ApiServer(registry, tmp_path, logs=scripted_logs) as server:
            configuration = client.Configuration()
            await config.load_kube_config(str(server.kubeconfig()), client_configuration=configuration)
            async with client.ApiClient(configuration) as api:
                await pods(client.CoreV1Api(api))
                await trainjobs(client.CustomObjectsApi(api))

    async def pods(core: Any) -> None:
        body = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "main", "image": "example.invalid/app:1"}]},
        }
        made = await core.create_namespaced_pod("default", body)
        listed = await core.list_namespaced_pod("default")
        assert [pod.metadata.uid for pod in listed.items] == [made.metadata.uid]
        stream = watch.Watch()
        version = listed.metadata.resource_version
        seen = asyncio.create_task(first(stream, core.list_namespaced_pod, "default", version))
        await core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
        event = await seen
        assert (event["type"], event["object"].metadata.labels) == ("MODIFIED", {"a": "b"})
        assert await core.read_namespaced_pod_log("p", "default", tail_lines=1) == "main 2\n"
        await core.delete_namespaced_pod("p", "default")
        with pytest.raises(ApiException) as missing:
            await core.read_namespaced_pod("p", "default")
        assert missing.value.status == 404

    async def first(stream: Any, *call: Any) -> Object:
        function, namespace, version = call
        async with stream:
            async for event in stream.stream(function, namespace, resource_version=version, timeout_seconds=30):
                return dict(event)
        raise AssertionError("the watch ended without an event")

    async def trainjobs(custom: Any) -> None:
        where = ("trainer.kubeflow.org", "v1alpha1", "default", "trainjobs")
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "t"},
            "spec": {"runtimeRef": {"name": "r"}},
        }
        made = await custom.create_namespaced_custom_object(*where, body)
        preconditions = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="0000"))
        with pytest.raises(ApiException) as other:
            await custom.delete_namespaced_custom_object(*where, "t", body=preconditions)
        assert other.value.status == 409
        preconditions.preconditions.uid = made["metadata"]["uid"]
        gone = await custom.delete_namespaced_custom_object(*where, "t", body=preconditions)
        assert gone["status"] == "Success"

    asyncio.run(scenario())
