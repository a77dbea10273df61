from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError, Cause, denied_by_webhook
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.resources import (
    CONFIGMAPS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINJOBS,
)

Object = dict[str, Any]
Pod = Callable[..., Object]


def trainjob(**spec: Any) -> Object:
    return {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, **spec}}


def test_a_new_cluster_has_its_namespaces_each_with_a_default_service_account(registry: Registry) -> None:
    names = [entry["metadata"]["name"] for entry in registry.list(NAMESPACES).items]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    accounts = registry.list(SERVICE_ACCOUNTS).items
    assert [entry["metadata"]["namespace"] for entry in accounts] == names


def test_a_created_pod_has_identity_defaults_and_phase(registry: Registry, make_pod: Pod) -> None:
    made = registry.create(PODS, "default", make_pod())
    assert list(made) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["resourceVersion"] == registry.resource_version
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["spec"]["restartPolicy"] == "Always"
    assert [(entry["key"], entry["tolerationSeconds"]) for entry in made["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]


def test_toleration_seconds_are_configurable_and_a_pods_own_win(clock: VirtualClock, make_pod: Pod) -> None:
    registry = Registry(clock, toleration_seconds=4)
    body = make_pod()
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    body["spec"]["tolerations"] = [own]
    made = registry.create(PODS, "default", body)
    assert made["spec"]["tolerations"] == [
        own,
        {
            "key": "node.kubernetes.io/not-ready",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 4,
        },
    ]


def test_generate_name_appends_five_characters(registry: Registry, make_pod: Pod) -> None:
    body = make_pod()
    body["metadata"] = {"generateName": "run-"}
    name = registry.create(PODS, "default", body)["metadata"]["name"]
    assert name.startswith("run-")
    assert len(name) == len("run-") + 5


def test_a_taken_name_is_refused_with_the_real_body(registry: Registry) -> None:
    registry.create(TRAINJOBS, "default", trainjob())
    with pytest.raises(ApiError) as refused:
        registry.create(TRAINJOBS, "default", trainjob())
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'trainjobs.trainer.kubeflow.org "t" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "t", "group": "trainer.kubeflow.org", "kind": "trainjobs"},
        "code": 409,
    }


def test_a_namespace_that_does_not_exist_is_not_found(registry: Registry, make_pod: Pod) -> None:
    with pytest.raises(ApiError, match='namespaces "ml" not found'):
        registry.create(PODS, "ml", make_pod())


def test_an_outdated_update_conflicts_with_the_real_body(registry: Registry) -> None:
    first = registry.create(TRAINJOBS, "default", trainjob())
    changed = registry.get(TRAINJOBS, "default", "t")
    changed["spec"]["suspend"] = True
    registry.update(TRAINJOBS, "default", "t", changed)
    with pytest.raises(ApiError) as refused:
        registry.update(TRAINJOBS, "default", "t", first)
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Operation cannot be fulfilled on trainjobs.trainer.kubeflow.org "t": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


def test_an_update_of_another_uid_fails_as_the_storage_layer_does(registry: Registry) -> None:
    made = registry.create(TRAINJOBS, "default", trainjob())
    uid, made["metadata"]["uid"] = made["metadata"]["uid"], "0000"
    with pytest.raises(ApiError) as refused:
        registry.update(TRAINJOBS, "default", "t", made)
    assert refused.value.code == 409
    assert "StorageError" in refused.value.message
    assert f"Precondition failed: UID in precondition: 0000, UID in object meta: {uid}" in refused.value.message


def test_custom_kinds_and_leases_need_a_resource_version_core_kinds_do_not(registry: Registry) -> None:
    registry.create(TRAINJOBS, "default", trainjob())
    registry.create(LEASES, "default", {"metadata": {"name": "l"}})
    registry.create(CONFIGMAPS, "default", {"metadata": {"name": "c"}})
    with pytest.raises(ApiError, match=r"metadata\.resourceVersion: Invalid value: 0x0: must be specified"):
        registry.update(TRAINJOBS, "default", "t", trainjob())
    with pytest.raises(ApiError, match="must be specified for an update"):
        registry.update(LEASES, "default", "l", {"metadata": {"name": "l"}})
    assert registry.update(CONFIGMAPS, "default", "c", {"metadata": {"name": "c"}, "data": {"a": "b"}})["data"]


def test_a_write_that_changes_nothing_is_no_write(registry: Registry) -> None:
    registry.create(TRAINJOBS, "default", trainjob())
    before = registry.resource_version
    registry.update(TRAINJOBS, "default", "t", registry.get(TRAINJOBS, "default", "t"))
    assert registry.resource_version == before


def test_generation_follows_the_spec_alone(registry: Registry) -> None:
    registry.create(TRAINJOBS, "default", trainjob())
    merge = "application/merge-patch+json"

    def patched(body: Object, subresource: str = "") -> int:
        changed = registry.patch(TRAINJOBS, "default", "t", body, merge, subresource=subresource)
        return int(changed["metadata"]["generation"])

    assert patched({"metadata": {"labels": {"a": "b"}}}) == 1
    assert patched({"status": {"conditions": []}}, "status") == 1
    assert patched({"spec": {"suspend": True}}) == 2


def test_status_and_spec_are_written_apart(registry: Registry) -> None:
    made = registry.create(TRAINJOBS, "default", {**trainjob(), "status": {"jobsStatus": []}})
    assert "status" not in made
    made["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert "status" not in registry.update(TRAINJOBS, "default", "t", made)
    made["spec"]["suspend"] = True
    made["metadata"]["labels"] = {"not": "taken"}
    changed = registry.update(TRAINJOBS, "default", "t", made, subresource="status")
    assert changed["status"]["conditions"][0]["type"] == "Complete"
    assert "suspend" not in changed["spec"]
    assert "labels" not in changed["metadata"]


def test_a_job_shows_the_defaults_of_its_pods_but_not_what_only_pods_get(registry: Registry) -> None:
    limits = {"limits": {"cpu": 1}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1", "resources": limits}]}
    made = registry.create(JOBS, "default", {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
    assert made["status"] == {}
    assert made["spec"]["template"]["spec"] == {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "resources": {"limits": {"cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


def test_a_new_node_takes_no_pods_as_yet(registry: Registry) -> None:
    made = registry.create(NODES, None, {"metadata": {"name": "n"}})
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_a_node_is_created_with_its_status(registry: Registry) -> None:
    made = registry.create(NODES, None, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}})
    assert made["status"] == {"capacity": {"cpu": 4}}
    assert "namespace" not in made["metadata"]


def test_a_dry_run_stores_nothing(registry: Registry, make_pod: Pod) -> None:
    before = registry.resource_version
    assert registry.create(PODS, "default", make_pod(), dry_run=True)["status"]["phase"] == "Pending"
    registry.delete(SERVICE_ACCOUNTS, "default", "default", dry_run=True)
    assert registry.resource_version == before


def test_webhooks_see_and_change_what_is_written_but_not_the_status(registry: Registry) -> None:
    seen: list[str] = []

    def mutate(obj: Object, old: Object | None, operation: str, /) -> None:
        seen.append(operation)
        obj["spec"].setdefault("managedBy", "someone" if old is None else old["spec"]["managedBy"])

    def validate(obj: Object, old: Object | None, operation: str, /) -> None:
        del old, operation
        if obj["spec"]["trainer"]["numNodes"] > 4:
            raise denied_by_webhook("validator", "too many")

    registry.admission.add(TRAINJOBS, mutate=mutate, validate=validate)
    made = registry.create(TRAINJOBS, "default", trainjob(trainer={"numNodes": 2}))
    assert made["spec"]["managedBy"] == "someone"
    merge = "application/merge-patch+json"
    registry.patch(TRAINJOBS, "default", "t", {"status": {"conditions": []}}, merge, subresource="status")
    with pytest.raises(ApiError, match='admission webhook "validator" denied the request: too many') as refused:
        registry.patch(TRAINJOBS, "default", "t", {"spec": {"trainer": {"numNodes": 5}}}, merge)
    assert refused.value.code == 403
    assert seen == ["CREATE", "UPDATE"]


def test_the_rules_of_a_kind_are_reported_with_all_else_before_a_webhook_sees_it(registry: Registry) -> None:
    def rules(obj: Object, old: Object | None, /) -> list[Cause]:
        del old
        return [("FieldValueInvalid", "spec", f"Invalid value: {obj['metadata']['name']}")]

    def validate(obj: Object, old: Object | None, operation: str, /) -> None:
        raise AssertionError(obj, old, operation)

    registry.admission.add(TRAINJOBS, rules=rules, validate=validate)
    with pytest.raises(ApiError) as refused:
        registry.create(TRAINJOBS, "default", {**trainjob(), "metadata": {"name": "T"}})
    causes = refused.value.status()["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["metadata.name", "spec"]


def test_a_webhook_refuses_before_a_taken_name_does(registry: Registry) -> None:
    registry.create(TRAINJOBS, "default", trainjob())

    def validate(obj: Object, old: Object | None, operation: str, /) -> None:
        raise denied_by_webhook("validator", f"{operation} of {obj['metadata']['name']} after {old}")

    registry.admission.add(TRAINJOBS, validate=validate)
    with pytest.raises(ApiError, match="denied the request: CREATE of t after None"):
        registry.create(TRAINJOBS, "default", trainjob())


def test_deleting_with_another_uid_fails_with_the_real_body(registry: Registry) -> None:
    uid = registry.create(TRAINJOBS, "default", trainjob())["metadata"]["uid"]
    with pytest.raises(ApiError) as refused:
        registry.delete(TRAINJOBS, "default", "t", uid="0000")
    assert refused.value.status()["message"] == (
        'Operation cannot be fulfilled on TrainJob.trainer.kubeflow.org "t": the UID in the precondition (0000) does '
        f"not match the UID in record ({uid}). The object might have been deleted and then recreated"
    )
    assert refused.value.status()["details"]["kind"] == "TrainJob"


def test_a_deletion_that_removes_answers_a_status_with_the_uid(registry: Registry) -> None:
    uid = registry.create(TRAINJOBS, "default", trainjob())["metadata"]["uid"]
    assert registry.delete(TRAINJOBS, "default", "t", uid=uid) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "t", "group": "trainer.kubeflow.org", "kind": "trainjobs", "uid": uid},
    }
    with pytest.raises(ApiError, match=r'trainjobs\.trainer\.kubeflow\.org "t" not found'):
        registry.delete(TRAINJOBS, "default", "t")


def test_a_bound_pod_terminates_over_its_grace_period(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod())
    registry.bind("default", "p", "node-0")
    going = registry.delete(PODS, "default", "p")
    assert going["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert going["metadata"]["generation"] == 2
    again = registry.delete(PODS, "default", "p", grace_period=60)
    assert again["metadata"]["deletionGracePeriodSeconds"] == 30
    last = registry.delete(PODS, "default", "p", grace_period=0)
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0
    assert last["metadata"]["generation"] == 2
    assert not registry.exists(PODS, "default", "p")


def test_a_terminating_pod_is_seen_to_have_no_grace_left_before_it_goes(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod())
    registry.bind("default", "p", "node-0")
    registry.delete(PODS, "default", "p")
    seen: list[tuple[str, int]] = []

    def note(_: Any, event: str, new: Object | None, old: Object | None) -> None:
        seen.append((event, (new or old or {})["metadata"]["deletionGracePeriodSeconds"]))

    registry.listen(note)
    registry.delete(PODS, "default", "p", grace_period=0)
    assert seen == [("MODIFIED", 0), ("DELETED", 0)]


def test_an_unbound_or_finished_pod_goes_at_once(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod("unbound"))
    registry.create(PODS, "default", make_pod("finished"))
    registry.bind("default", "finished", "node-0")
    strategic = "application/strategic-merge-patch+json"
    registry.patch(PODS, "default", "finished", {"status": {"phase": "Failed"}}, strategic, subresource="status")
    for name in ("unbound", "finished"):
        registry.delete(PODS, "default", name)
    assert registry.list(PODS).items == []


def test_a_finalizer_keeps_an_object_until_it_is_taken_out(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod(finalizers=["batch.kubernetes.io/job-tracking"]))
    assert "deletionTimestamp" in registry.delete(PODS, "default", "p")["metadata"]
    merge = "application/merge-patch+json"
    with pytest.raises(ApiError, match="no new finalizers can be added if the object is being deleted"):
        registry.patch(PODS, "default", "p", {"metadata": {"finalizers": ["a.b/c"]}}, merge)
    registry.patch(PODS, "default", "p", {"metadata": {"finalizers": None}}, merge)
    assert not registry.exists(PODS, "default", "p")


def test_the_last_finalizer_is_never_seen_to_go(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod(finalizers=["example.com/keep"]))
    registry.delete(PODS, "default", "p")
    gone: list[Object] = []
    registry.listen(lambda _, event, new, old: gone.append(old or {}) if event == "DELETED" and new is None else None)
    pod = registry.get(PODS, "default", "p")
    del pod["metadata"]["finalizers"]
    registry.update(PODS, "default", "p", pod)
    assert [each["metadata"]["finalizers"] for each in gone] == [["example.com/keep"]]


def test_jobs_orphan_their_pods_unless_asked_otherwise(registry: Registry) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
    registry.create(JOBS, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert registry.delete(JOBS, "default", "j")["metadata"]["finalizers"] == ["orphan"]
    assert registry.delete(JOBS, "default", "j", propagation="Background")["status"] == "Success"


def test_binding_sets_node_and_condition_once(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod())
    registry.bind("default", "p", "node-0")
    bound = registry.get(PODS, "default", "p")
    assert bound["spec"]["nodeName"] == "node-0"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(ApiError, match='pod p is already assigned to node "node-0"'):
        registry.bind("default", "p", "node-1")


def test_a_bound_pod_says_where_its_node_is(registry: Registry, make_pod: Pod) -> None:
    where = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}
    registry.create(NODES, None, {"metadata": {"name": "node", "labels": {**where, "other": "c"}}})
    registry.create(PODS, "default", make_pod())
    registry.bind("default", "p", "node")
    assert registry.get(PODS, "default", "p")["metadata"]["labels"] == where


def test_a_pods_conditions_show_when_they_were_probed(registry: Registry, make_pod: Pod) -> None:
    pod = registry.create(PODS, "default", make_pod())
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    written = registry.update(PODS, "default", "p", pod, subresource="status")
    assert written["status"]["conditions"] == [{"type": "Ready", "status": "True", "lastProbeTime": None}]


def test_eviction_marks_the_disruption_and_deletes(registry: Registry, make_pod: Pod, clock: VirtualClock) -> None:
    registry.create(PODS, "default", make_pod())
    registry.bind("default", "p", "node-0")
    clock.step(clock.now() + timedelta(seconds=5))
    registry.evict("default", "p")
    evicted = registry.get(PODS, "default", "p")
    assert evicted["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:05Z",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    assert evicted["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:35Z"


def test_a_pods_spec_is_fixed_but_for_images(registry: Registry, make_pod: Pod) -> None:
    registry.create(PODS, "default", make_pod())
    strategic = "application/strategic-merge-patch+json"
    registry.patch(PODS, "default", "p", {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}, strategic)
    for change in ({"hostname": "h"}, {"nodeName": "node-0"}, {"containers": [{"name": "main", "command": ["x"]}]}):
        with pytest.raises(ApiError, match="pod updates may not change fields other than"):
            registry.patch(PODS, "default", "p", {"spec": change}, strategic)


def test_priority_classes_are_resolved(registry: Registry, make_pod: Pod) -> None:
    registry.create(PRIORITY_CLASSES, None, {"metadata": {"name": "high"}, "value": 1000})
    body = make_pod()
    body["spec"]["priorityClassName"] = "high"
    assert registry.create(PODS, "default", body)["spec"]["priority"] == 1000
    body = make_pod("q")
    body["spec"]["priorityClassName"] = "none-such"
    with pytest.raises(ApiError, match='pods "q" is forbidden: no PriorityClass with name none-such was found'):
        registry.create(PODS, "default", body)


def test_string_data_becomes_data(registry: Registry) -> None:
    made = registry.create(SECRETS, "default", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made


def test_listeners_hear_writes_in_order_even_when_one_writes(registry: Registry) -> None:
    heard: list[tuple[str, str]] = []

    def first(_: Any, kind: str, new: Object | None, old: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if (kind, name) == ("ADDED", "a"):
            registry.create(CONFIGMAPS, "default", {"metadata": {"name": "b"}})

    def second(_: Any, kind: str, new: Object | None, old: Object | None) -> None:
        heard.append((kind, (new or old or {})["metadata"]["name"]))

    registry.listen(first)
    stop = registry.listen(second)
    registry.create(CONFIGMAPS, "default", {"metadata": {"name": "a"}})
    registry.delete(CONFIGMAPS, "default", "a")
    stop()
    registry.delete(CONFIGMAPS, "default", "b")
    assert heard == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_answers_are_copies(registry: Registry) -> None:
    registry.create(CONFIGMAPS, "default", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    registry.get(CONFIGMAPS, "default", "a")["data"]["k"] = "changed"
    registry.list(CONFIGMAPS).items[0]["data"]["k"] = "changed"
    assert registry.get(CONFIGMAPS, "default", "a")["data"] == {"k": "v"}
