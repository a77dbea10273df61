"""Taint eviction: deletes pods that do not tolerate a NoExecute taint of their Node, or no longer."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_dispatch.localcluster.apiserver.objects import Object, parse_time
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import Key, change_condition, find, is_finished, is_true, keys_of
from airflow_dispatch.localcluster.controllers.events import Recorder
from airflow_dispatch.localcluster.resources import NODES, PODS, Resource

__all__ = ["TaintEvictionController"]

_MESSAGE = "Taint manager: deleting due to NoExecute taint"


class TaintEvictionController:
    """Keys are pods; a Node whose taints change concerns all pods on it."""

    name = "taint-eviction-controller"
    watches: tuple[Resource, ...] = (PODS, NODES)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._events = Recorder(registry, clock, self.name)

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The pod, or the pods of the Node."""
        if resource == PODS:
            if obj is not None and obj["spec"].get("nodeName"):
                yield from keys_of(obj, old)
            return
        if obj is None or (old is not None and obj["spec"].get("taints") == old["spec"].get("taints")):
            return
        for pod in self._registry.list(PODS, field_selector=f"spec.nodeName={obj['metadata']['name']}").items:
            yield from keys_of(pod, None)

    def reconcile(self, key: Key) -> float | None:
        """Evicts one pod when its time on a tainted Node is up; else says when that will be.

        A pod that is being deleted already gets its DisruptionTarget all the same.
        """
        pod = find(self._registry, PODS, key)
        node_name = pod["spec"].get("nodeName") if pod is not None else None
        if pod is None or not node_name or is_finished(pod):
            return None
        if "deletionTimestamp" in pod["metadata"] and is_true(pod, "DisruptionTarget"):
            return None
        if not self._registry.exists(NODES, None, node_name):
            return None
        node = self._registry.get(NODES, None, node_name)
        now = self._clock.now()
        deadlines: list[float] = []
        for taint in (node.get("spec") or {}).get("taints") or ():
            if taint["effect"] != "NoExecute":
                continue
            seconds = _tolerated_for(pod, taint)
            if seconds is not None:
                age = (now - parse_time(taint["timeAdded"])).total_seconds() if taint.get("timeAdded") else 0.0
                deadlines.append(seconds - age if seconds else 0.0)
        if not deadlines:
            return None
        if min(deadlines) > 0:
            return min(deadlines)
        self._evict(pod)
        return None

    def _evict(self, pod: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        words = ("DeletionByTaintManager", _MESSAGE)
        # The Event names the pod alone, neither its UID nor its version.
        named = {"metadata": {"namespace": namespace, "name": name}}
        self._events.record(
            PODS, named, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}"
        )
        if not is_true(pod, "DisruptionTarget"):
            seen = {"observedGeneration": pod["metadata"]["generation"]}
            change_condition(pod, "DisruptionTarget", "True", words, self._clock.now(), **seen)
            self._registry.update(PODS, namespace, name, pod, subresource="status", field_manager=self.name)
        self._registry.delete(PODS, namespace, name, uid=pod["metadata"]["uid"])


def _tolerated_for(pod: Object, taint: Object) -> float | None:
    """Seconds that a pod may stay; None for ever, 0 for not at all."""
    shortest: float | None = None
    tolerated = False
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("key") not in (None, "", taint["key"]):
            continue
        exists = toleration.get("operator", "Equal") == "Exists"
        if not exists and toleration.get("value", "") != taint.get("value", ""):
            continue
        tolerated = True
        seconds = toleration.get("tolerationSeconds")
        if seconds is not None:
            shortest = float(seconds) if shortest is None else min(shortest, float(seconds))
    return shortest if tolerated else 0.0
