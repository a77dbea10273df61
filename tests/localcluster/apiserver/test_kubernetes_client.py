"""The official client, which nobody wrote with this server in mind."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client import ApiException

from tests.support.apiserver import Live

TRAINJOBS = ("trainer.kubeflow.org", "v1alpha1", "default", "trainjobs")


@pytest.fixture
def api(live: Live) -> Any:
    configuration = client.Configuration()
    config.load_kube_config(live.kubeconfig, client_configuration=configuration)
    with client.ApiClient(configuration) as connection:
        yield connection


def body(name: str = "p") -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": name}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="example.invalid/app:1")]),
    )


def test_a_pods_life(api: Any, live: Live) -> None:
    core = client.CoreV1Api(api)
    made = core.create_namespaced_pod("default", body())
    assert made.status.phase == "Pending"
    live.call(lambda: live.registry.bind("default", "p", "node-0"))
    listed = core.list_namespaced_pod("default", label_selector="app=p", field_selector="spec.nodeName=node-0")
    assert [pod.metadata.uid for pod in listed.items] == [made.metadata.uid]
    patched = core.patch_namespaced_pod("p", "default", {"metadata": {"annotations": {"a": "b"}}})
    assert patched.metadata.annotations == {"a": "b"}
    patched.metadata.labels["app"] = "q"
    assert core.replace_namespaced_pod("p", "default", patched).metadata.labels == {"app": "q"}
    # Raw: release 36 of this client does not decode a log that it reads itself.
    tail = core.read_namespaced_pod_log("p", "default", tail_lines=1, _preload_content=False).read()
    assert tail == b"main 2\n"
    lines = core.read_namespaced_pod_log("p", "default", follow=True, _preload_content=False).read()
    assert lines.endswith(b"main 3 of p\n")
    assert core.delete_namespaced_pod("p", "default").metadata.deletion_timestamp is not None
    core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod("p", "default")
    assert missing.value.status == 404


def test_refusals_arrive_as_statuses(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", body())
    with pytest.raises(ApiException) as taken:
        core.create_namespaced_pod("default", body())
    assert (taken.value.status, '"reason":"AlreadyExists"' in taken.value.body) == (409, True)
    outdated = body()
    outdated.metadata.resource_version = "1"
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_pod("p", "default", outdated)
    assert conflict.value.status == 409


def test_a_watch_from_a_list(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", body("before"))
    version = core.list_namespaced_pod("default").metadata.resource_version
    writer = threading.Timer(0, lambda: core.create_namespaced_pod("default", body("after")))
    writer.start()
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=30):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "after")
        stream.stop()
    writer.join()


def test_a_watch_that_is_too_old_is_told_410(api: Any, live: Live) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", body())
    live.call(live.registry.compact)
    stream = watch.Watch().stream(core.list_namespaced_pod, "default", resource_version="1", timeout_seconds=5)
    with pytest.raises(ApiException) as gone:
        next(stream)
    assert gone.value.status == 410


def test_custom_objects_and_their_owners(api: Any) -> None:
    custom = client.CustomObjectsApi(api)
    trainjob = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"generateName": "t-"},
        "spec": {"runtimeRef": {"name": "r"}},
    }
    made = custom.create_namespaced_custom_object(*TRAINJOBS, trainjob)
    name = made["metadata"]["name"]
    patch = {"spec": {"suspend": True}, "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    changed = custom.patch_namespaced_custom_object(*TRAINJOBS, name, patch)
    assert changed["metadata"]["generation"] == 2
    with pytest.raises(ApiException) as conflict:
        custom.patch_namespaced_custom_object(*TRAINJOBS, name, {**patch, "spec": {"suspend": False}})
    assert conflict.value.status == 409
    status = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    custom.patch_namespaced_custom_object_status(*TRAINJOBS, name, status)
    assert custom.list_namespaced_custom_object(*TRAINJOBS)["items"][0]["status"] == status["status"]
    owner = {"apiVersion": made["apiVersion"], "kind": "TrainJob", "name": name, "uid": made["metadata"]["uid"]}
    core = client.CoreV1Api(api)
    owned = {"metadata": {"name": "snapshot", "ownerReferences": [owner]}}
    core.create_namespaced_config_map("default", owned)
    version = core.list_namespaced_config_map("default").metadata.resource_version
    custom.delete_namespaced_custom_object(*TRAINJOBS, name, propagation_policy="Background")
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=30
    ):
        assert (event["type"], event["object"].metadata.name) == ("DELETED", "snapshot")
        stream.stop()


def test_nodes_events_and_permissions(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_node({"metadata": {"name": "node-0"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert core.read_node("node-0").status.conditions[0].type == "Ready"
    event = {
        "metadata": {"generateName": "p."},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Killing",
        "type": "Normal",
    }
    core.create_namespaced_event("default", event)
    assert len(core.list_namespaced_event("default", field_selector="involvedObject.name=p").items) == 1
    attributes = {"verb": "create", "resource": "pods", "namespace": "default"}
    review = {"spec": {"resourceAttributes": attributes}}
    assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed
