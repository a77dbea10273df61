"""Events as controllers record them, in the older and the newer form."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.resources import EVENTS, NAMESPACES, Resource

__all__ = ["EventRecorder", "Recorder"]

_HOST: Final = "local"


class Recorder:
    """Records Events of one component as kube-controller-manager does: a repetition raises ``count``."""

    def __init__(self, registry: Registry, clock: Clock, component: str) -> None:
        self._registry = registry
        self._clock = clock
        self._component = component
        self._known: dict[tuple[str, ...], tuple[str, str]] = {}

    def record(self, resource: Resource, obj: Object, kind: str, reason: str, message: str) -> None:
        """Records an Event of ``kind`` ``Normal`` or ``Warning``."""
        now = timestamp(self._clock.now())
        fields = {
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        metadata = obj["metadata"]
        key = (metadata.get("uid", metadata["name"]), kind, reason, message)
        self._write(key, resource, obj, {"type": kind, "reason": reason, "message": message, **fields})

    def _repeat(self, event: Object) -> None:
        event["count"] += 1
        event["lastTimestamp"] = timestamp(self._clock.now())

    def _write(self, key: tuple[str, ...], resource: Resource, obj: Object, fields: dict[str, Any]) -> None:
        """Makes the Event, or repeats the one that this key has made."""
        known = self._known.get(key)
        if known is not None and self._registry.exists(EVENTS, *known):
            event = self._registry.get(EVENTS, *known)
            self._repeat(event)
            self._registry.update(EVENTS, *known, event, field_manager=self._component)
            return
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        if not namespace_lives(self._registry, namespace):
            return
        involved: dict[str, Any] = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            **{key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
        }
        if resource.namespaced:
            involved["namespace"] = namespace
        name = f"{metadata['name']}.{secrets.token_hex(8)}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            **fields,
        }
        self._registry.create(EVENTS, namespace, body, field_manager=self._component)
        self._known[key] = (namespace, name)


class EventRecorder(Recorder):
    """Records Events through ``events.k8s.io``, as JobSet, Trainer and the scheduler do.

    They carry ``eventTime`` where the older form has ``lastTimestamp``, and no ``count``. A repetition about the same
    version of an object becomes a ``series``; about another version it is an Event of its own.
    """

    def record(
        self, resource: Resource, obj: Object, kind: str, reason: str, message: str, *, action: str = "Reconciling"
    ) -> None:
        """Records an Event of ``kind`` ``Normal`` or ``Warning``; ``action``: what the component was doing."""
        fields = {
            "source": {},
            "reportingComponent": self._component,
            "reportingInstance": f"{self._component}-{_HOST}",
            "action": action,
            "eventTime": _micro(self._clock.now()),
        }
        metadata = obj["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"], kind, reason, action)
        self._write(key, resource, obj, {"type": kind, "reason": reason, "message": message, **fields})

    def _repeat(self, event: Object) -> None:
        count = event.get("series", {"count": 1})["count"] + 1
        event["series"] = {"count": count, "lastObservedTime": _micro(self._clock.now())}


def _micro(moment: datetime) -> str:
    """RFC 3339 with microseconds, as ``metav1.MicroTime`` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def namespace_lives(registry: Registry, namespace: str) -> bool:
    """The namespace is there and not being deleted: nothing can be created in any other."""
    if not registry.exists(NAMESPACES, None, namespace):
        return False
    return "deletionTimestamp" not in registry.get(NAMESPACES, None, namespace)["metadata"]
