"""Events as controllers record them."""

from __future__ import annotations

import secrets
from typing import Any

from airflow_dispatch.localcluster.apiserver.objects import Object, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.resources import EVENTS, NAMESPACES, Resource

__all__ = ["Recorder"]


class Recorder:
    """Records Events of one component; the same words about the same object are counted, not repeated."""

    def __init__(self, registry: Registry, clock: Clock, component: str) -> None:
        self._registry = registry
        self._clock = clock
        self._component = component
        self._known: dict[tuple[str, str, str], tuple[str, str]] = {}

    def record(self, resource: Resource, obj: Object, kind: str, reason: str, message: str) -> None:
        """Records an Event of ``kind`` ``Normal`` or ``Warning``."""
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        now = timestamp(self._clock.now())
        known = (metadata["uid"], reason, message)
        if known in self._known and self._registry.exists(EVENTS, *self._known[known]):
            event = self._registry.get(EVENTS, *self._known[known])
            event["count"] += 1
            event["lastTimestamp"] = now
            self._registry.update(EVENTS, *self._known[known], event, field_manager=self._component)
            return
        involved: dict[str, Any] = {
            "apiVersion": f"{resource.group}/{resource.version}" if resource.group else resource.version,
            "kind": resource.kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        if resource.namespaced:
            involved["namespace"] = namespace
        name = f"{metadata['name']}.{secrets.token_hex(8)}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        if namespace_lives(self._registry, namespace):
            self._registry.create(EVENTS, namespace, body, field_manager=self._component)
            self._known[known] = (namespace, name)


def namespace_lives(registry: Registry, namespace: str) -> bool:
    """The namespace is there and not being deleted: nothing can be created in any other."""
    if not registry.exists(NAMESPACES, None, namespace):
        return False
    return "deletionTimestamp" not in registry.get(NAMESPACES, None, namespace)["metadata"]
