"""What several controllers look at in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from airflow_dispatch.localcluster.apiserver.objects import Object, condition, set_condition, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import Resource

__all__ = [
    "Key",
    "change_condition",
    "controller_of",
    "find",
    "is_finished",
    "is_true",
    "keys_of",
    "owned",
    "owner_ref",
]

Key = tuple[str, str]
"""Namespace and name."""


def keys_of(obj: Object | None, old: Object | None) -> Iterator[Key]:
    """The key of a namespaced object that was written."""
    state = obj or old
    if state is not None:
        yield state["metadata"]["namespace"], state["metadata"]["name"]


def find(registry: Registry, resource: Resource, key: Key) -> Object | None:
    """The object, or None when there is none."""
    return registry.get(resource, *key) if registry.exists(resource, *key) else None


def controller_of(obj: Object, kind: str) -> Object | None:
    """The reference to the object's controller when that is of ``kind``."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == kind:
            return owner  # type: ignore[no-any-return]
    return None


def owned(registry: Registry, resource: Resource, owner: Object) -> list[Object]:
    """The objects of a kind that ``owner`` controls, by name."""
    uid = owner["metadata"]["uid"]
    found = []
    for reference in registry.dependents(uid):
        if reference.resource != resource:
            continue
        obj = registry.get(*reference)
        if any(each["uid"] == uid and each.get("controller") for each in obj["metadata"]["ownerReferences"]):
            found.append(obj)
    return sorted(found, key=lambda obj: str(obj["metadata"]["name"]))


def owner_ref(api_version: str, kind: str, owner: Object) -> Object:
    """A controller's ownerReference."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_true(obj: Object, *kinds: str) -> bool:
    """Any of these conditions is True."""
    return any((found := condition(obj, kind)) is not None and found["status"] == "True" for kind in kinds)


def is_finished(pod: Object) -> bool:
    """The pod's phase is terminal."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def change_condition(obj: Object, kind: str, status: str, words: tuple[str, str], now: datetime, **more: Any) -> bool:
    """Sets a condition with reason and message, ``words``; its transition's time changes with its status alone.

    False when it stood so already.
    """
    reason, message = words
    present = condition(obj, kind)
    if present is not None and (present["status"], present.get("reason"), present.get("message")) == (
        status,
        reason,
        message,
    ):
        return False
    moved = present is None or present["status"] != status
    since = timestamp(now) if moved or present is None else present["lastTransitionTime"]
    entry = {
        "type": kind,
        "status": status,
        **more,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    set_condition(obj, entry)
    return True
