"""What the server itself sets on an object before it is admitted: identity, times, what a write may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request, conflict, invalid, uid_mismatch
from airflow_dispatch.localcluster.apiserver.objects import Object, clone, timestamp
from airflow_dispatch.localcluster.resources import NAMESPACES, NODES, PODS, Resource

__all__ = ["complete_priority", "drop_nulls", "prepare_create", "prepare_update", "stamp_generation"]

_SERVERS_OWN: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "generateName",
)
_NEVER_KEPT: Final = ("managedFields", "selfLink")
_SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_EXPLICIT_NULLS: Final = frozenset({"lastProbeTime"})
"""Times that pod conditions carry as null on the wire."""


def drop_nulls(value: Any) -> Any:
    """A copy in which no field is null: to the API server a null field is an absent one."""
    if isinstance(value, dict):
        return {key: drop_nulls(item) for key, item in value.items() if item is not None or key in _EXPLICIT_NULLS}
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    return value


def prepare_create(resource: Resource, namespace: str | None, sent: Object, now: datetime, uid: str) -> Object:
    """The new object with its identity; a status is taken only where no subresource owns it."""
    metadata = sent.get("metadata", {})
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    obj |= {key: value for key, value in sent.items() if key not in obj}
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for key in (*_SERVERS_OWN[:-1], *_NEVER_KEPT):
        metadata.pop(key, None)
    _tidy(metadata)
    if resource.namespaced:
        metadata["namespace"] = namespace or metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)
    if resource.generation:
        metadata["generation"] = 1
    if resource.has_status and resource != NODES:
        obj.pop("status", None)
    return obj


def prepare_update(resource: Resource, old: Object, new: Object, subresource: str) -> None:
    """Checks the preconditions that the new state carries, and restores what this write may not change, in place.

    Raises:
        ApiError: 409 for another UID or an older resourceVersion, 422 for a finalizer added to a dying object.
    """
    metadata, before = new["metadata"], old["metadata"]
    name, namespace = before["name"], before.get("namespace", "")
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        raise uid_mismatch(resource, namespace, name, metadata["uid"], before["uid"])
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != before["resourceVersion"]:
        raise conflict(resource, name)
    new["apiVersion"], new["kind"] = resource.api_version, resource.kind
    if subresource == "status":
        kept = clone(before) if resource.custom else {**metadata, "ownerReferences": before.get("ownerReferences")}
        _replace_all_but(new, old, "status")
        new["metadata"] = metadata = kept
    elif subresource == "finalize":
        wanted = new.get("spec", {}).get("finalizers")
        _replace_all_but(new, old, "")
        new["spec"] = {**old.get("spec", {}), "finalizers": wanted}
        new["metadata"] = metadata = clone(before)
    elif resource.has_status:
        _take("status", new, old)
    _keep_form(resource, old, new, subresource)
    for key in _SERVERS_OWN:
        _take(key, metadata, before)
    for key in _NEVER_KEPT:
        metadata.pop(key, None)
    metadata["name"] = name
    if resource.namespaced:
        metadata["namespace"] = namespace
    _tidy(metadata)
    _refuse_new_finalizers(resource, old, new)


def _keep_form(resource: Resource, old: Object, new: Object, subresource: str) -> None:
    """A namespace's spec changes through ``finalize`` alone; a pod's conditions always show ``lastProbeTime``."""
    if resource == NAMESPACES and subresource != "finalize":
        _take("spec", new, old)
    if resource == PODS:
        for entry in new.get("status", {}).get("conditions") or ():
            entry.setdefault("lastProbeTime", None)


def _replace_all_but(new: Object, old: Object, field: str) -> None:
    for key in {*new, *old} - {field}:
        _take(key, new, old)


def _take(key: str, target: Object, source: Object) -> None:
    if key in source:
        target[key] = clone(source[key])
    else:
        target.pop(key, None)


def _tidy(metadata: Object) -> None:
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in metadata and not metadata[key]:
            del metadata[key]


def _refuse_new_finalizers(resource: Resource, old: Object, new: Object) -> None:
    if "deletionTimestamp" not in old["metadata"]:
        return
    present = old["metadata"].get("finalizers") or []
    added = [entry for entry in new["metadata"].get("finalizers") or [] if entry not in present]
    if added:
        listed = ", ".join(f'"{entry}"' for entry in added)
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
        name = old["metadata"]["name"]
        raise invalid(resource, name, [("FieldValueForbidden", "metadata.finalizers", message)])


def stamp_generation(resource: Resource, old: Object, new: Object) -> None:
    """Raises the generation, in place, when anything but metadata and status has changed."""
    if not resource.generation:
        return
    if any(old.get(key) != new.get(key) for key in {*old, *new} - {"metadata", "status"}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def complete_priority(pod: Object, classes: Mapping[str, Object]) -> None:
    """Resolves the pod's priority class, in place, as the Priority admission plugin does.

    Raises:
        ApiError: 403 for a class that does not exist.
    """
    wanted = pod["spec"].get("priorityClassName")
    if not wanted:
        default = next((entry for entry in classes.values() if entry.get("globalDefault")), None)
        if default is None:
            return
        wanted = pod["spec"]["priorityClassName"] = default["metadata"]["name"]
    found = classes.get(wanted)
    if found is not None:
        pod["spec"]["priority"] = found.get("value", 0)
        pod["spec"]["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")
    elif wanted in _SYSTEM_PRIORITIES:
        pod["spec"]["priority"] = _SYSTEM_PRIORITIES[wanted]
    else:
        name = pod["metadata"]["name"]
        why = f"no PriorityClass with name {wanted} was found"
        raise ApiError(403, "Forbidden", f'{PODS.plural} "{name}" is forbidden: {why}', {"name": name, "kind": "pods"})
