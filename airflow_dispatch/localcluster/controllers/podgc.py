"""Pod garbage collection: pods of Nodes that are gone, terminating pods of Nodes that are out of service or of none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import Key, change_condition, find, is_finished, is_true, keys_of
from airflow_dispatch.localcluster.resources import NODES, PODS, Resource

__all__ = ["PodGarbageCollector"]

_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbageCollector:
    """Keys are pods. It looks each ``period`` seconds, and lets a Node be gone for two of them first.

    Kubernetes' period is 20 s; ``Failed`` is written without asking a kubelet, so it proves nothing about processes.
    """

    name = "pod-garbage-collector"
    watches: tuple[Resource, ...] = (PODS, NODES)

    def __init__(self, registry: Registry, clock: Clock, *, period: float = 2.0) -> None:
        self._registry = registry
        self._clock = clock
        self._period = period
        self._since: dict[Key, float] = {}

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The pod, or the pods of the Node."""
        if resource == PODS:
            if obj is not None and (obj["spec"].get("nodeName") or "deletionTimestamp" in obj["metadata"]):
                yield from keys_of(obj, old)
            return
        state = obj or old
        if state is None:
            return
        for pod in self._registry.list(PODS, field_selector=f"spec.nodeName={state['metadata']['name']}").items:
            yield from keys_of(pod, None)

    def reconcile(self, key: Key) -> float | None:
        """Ends one pod when nobody else will."""
        pod = find(self._registry, PODS, key)
        if pod is None:
            self._since.pop(key, None)
            return None
        node_name = pod["spec"].get("nodeName")
        if not node_name:
            if "deletionTimestamp" in pod["metadata"]:
                return self._end_after(key, pod, self._period, orphaned=False)
            return None
        if not self._registry.exists(NODES, None, node_name):
            return self._end_after(key, pod, 2 * self._period, orphaned=True)
        node = self._registry.get(NODES, None, node_name)
        taints = (node.get("spec") or {}).get("taints") or ()
        out = any(taint["key"] == _OUT_OF_SERVICE for taint in taints)
        if out and not is_true(node, "Ready") and "deletionTimestamp" in pod["metadata"]:
            return self._end_after(key, pod, self._period, orphaned=False)
        self._since.pop(key, None)
        return None

    def _end_after(self, key: Key, pod: Object, seconds: float, *, orphaned: bool) -> float | None:
        """Ends a pod once its reason has stood for so long; seconds until then."""
        now = self._clock.now().timestamp()
        left = self._since.setdefault(key, now) + seconds - now
        if left > 0:
            return left
        self._since.pop(key)
        self._end(pod, orphaned=orphaned)
        return None

    def _end(self, pod: Object, *, orphaned: bool) -> None:
        """Writes ``Failed`` and deletes without grace."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if not is_finished(pod):
            seen = {"observedGeneration": metadata["generation"]}
            pod["status"].update(phase="Failed", **seen)
            if orphaned:
                words = ("DeletionByPodGC", "PodGC: node no longer exists")
                change_condition(pod, "DisruptionTarget", "True", words, self._clock.now(), **seen)
            self._registry.update(PODS, namespace, name, pod, subresource="status", field_manager=self.name)
        self._registry.delete(PODS, namespace, name, uid=metadata["uid"], grace_period=0)
