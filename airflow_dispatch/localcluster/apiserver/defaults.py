"""What the API server fills in for core kinds: the defaults that controllers, kubelets and clients rely on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.resources import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Resource,
)

__all__ = ["DEFAULT_TOLERATION_SECONDS", "apply_defaults", "quality_of_service"]

DEFAULT_TOLERATION_SECONDS: Final = 300
"""How long a pod tolerates a Node that is not ready or unreachable, when it says nothing itself."""

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TOLERATED: Final = (_NOT_READY, "node.kubernetes.io/unreachable")


def apply_defaults(resource: Resource, obj: Object, *, toleration_seconds: int) -> None:
    """Fills in a new object, in place. Values that the object carries win."""
    if resource == PODS:
        _default_pod(obj, toleration_seconds)
    elif resource == JOBS:
        _default_pod_spec(obj.setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {}))
        obj["status"] = {}
    elif resource == NODES:
        # Nothing is placed on a new Node until the node controller has seen that it is ready.
        taints = obj.setdefault("spec", {}).setdefault("taints", [])
        if not any((taint["key"], taint["effect"]) == (_NOT_READY, "NoSchedule") for taint in taints):
            taints.append({"key": _NOT_READY, "effect": "NoSchedule"})
    elif resource == NAMESPACES:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif resource == SECRETS:
        obj.setdefault("type", "Opaque")
        for key, value in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    elif resource == SERVICES:
        obj.setdefault("spec", {}).setdefault("type", "ClusterIP")
        obj["spec"].setdefault("sessionAffinity", "None")
        obj.setdefault("status", {"loadBalancer": {}})
    elif resource == PRIORITY_CLASSES:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _default_pod_spec(spec: Object) -> None:
    """What pods and the templates of pods get alike."""
    defaults: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
    for key, value in defaults.items():
        spec.setdefault(key, value)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for container in _containers(spec):
        _default_container(container)


def _default_pod(pod: Object, toleration_seconds: int) -> None:
    spec = pod.setdefault("spec", {})
    _default_pod_spec(spec)
    account = spec.get("serviceAccountName") or "default"
    defaults: Object = {
        "serviceAccountName": account,
        "serviceAccount": account,
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for key, value in defaults.items():
        spec.setdefault(key, value)
    for container in _containers(spec):
        _default_requests(container)
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": toleration_seconds}
            )
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}


def _containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_volume(volume: Object) -> None:
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for part in container["resources"].keys() & {"limits", "requests"}:
        quantities = container["resources"][part]
        container["resources"][part] = {unit: str(quantity) for unit, quantity in quantities.items()}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _default_requests(container: Object) -> None:
    """A pod's container asks for what it is limited to, unless it says otherwise; a template's does not yet."""
    limits = container["resources"].get("limits") or {}
    if limits:
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}


def _pull_policy(image: str) -> str:
    """``Always`` for an image without a tag or tagged ``latest``, as the image's reference means a moving target."""
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def quality_of_service(spec: Object) -> str:
    """The pod's QoS class, from the requests and limits of cpu and memory."""
    resources: list[dict[str, Any]] = [container.get("resources") or {} for container in _containers(spec)]
    named = [
        (entry.get("requests") or {}).get(unit) or (entry.get("limits") or {}).get(unit)
        for entry in resources
        for unit in ("cpu", "memory")
    ]
    if not any(named):
        return "BestEffort"
    guaranteed = all(
        (entry.get("limits") or {}).get(unit)
        and (entry.get("requests") or {}).get(unit, entry["limits"][unit]) == entry["limits"][unit]
        for entry in resources
        for unit in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"
