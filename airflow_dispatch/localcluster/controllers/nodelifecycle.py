"""The node controller: a Node whose heartbeats have stopped turns Unknown, is tainted, and its pods not ready."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from airflow_dispatch.localcluster.apiserver.objects import Object, condition, parse_time, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import is_finished, is_true
from airflow_dispatch.localcluster.controllers.events import Recorder
from airflow_dispatch.localcluster.resources import LEASES, NODES, PODS, Resource

__all__ = ["NodeLifecycleController"]

_LEASES: Final = "kube-node-lease"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycleController:
    """Keys are Nodes; ``grace``: seconds after the last heartbeat until a Node counts as lost."""

    name = "node-controller"
    watches: tuple[Resource, ...] = (NODES, LEASES)

    def __init__(self, registry: Registry, clock: Clock, *, grace: float) -> None:
        self._registry = registry
        self._clock = clock
        self._grace = grace
        self._events = Recorder(registry, clock, self.name)

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[str]:
        """The Node itself, or the one that a Lease stands for."""
        state = obj or old
        if state is not None and (resource == NODES or state["metadata"].get("namespace") == _LEASES):
            yield state["metadata"]["name"]

    def reconcile(self, key: str) -> float | None:
        """Judges one Node by its last heartbeat; looks again when the next one is overdue."""
        if not self._registry.exists(NODES, None, key):
            return None
        node = self._registry.get(NODES, None, key)
        silent_for = (self._clock.now() - self._heartbeat(node)).total_seconds()
        if silent_for >= self._grace:
            self._mark_unknown(node)
        node = self._registry.get(NODES, None, key)
        self._taint(node)
        if not is_true(node, "Ready"):
            self._mark_pods(node)
        left = self._grace - silent_for
        return left if left > 0 else None

    def _heartbeat(self, node: Object) -> datetime:
        """The newest of Lease and Ready condition."""
        name = node["metadata"]["name"]
        beats = [parse_time(node["metadata"]["creationTimestamp"])]
        ready = condition(node, "Ready")
        if ready is not None and ready.get("lastHeartbeatTime"):
            beats.append(parse_time(ready["lastHeartbeatTime"]))
        if self._registry.exists(LEASES, _LEASES, name):
            renewed = self._registry.get(LEASES, _LEASES, name)["spec"].get("renewTime")
            if renewed:
                beats.append(parse_time(renewed))
        return max(beats)

    def _mark_unknown(self, node: Object) -> None:
        now = timestamp(self._clock.now())
        changed = False
        for kind in _CONDITIONS:
            entry = condition(node, kind)
            if entry is None or entry["status"] == "Unknown":
                continue
            changed = True
            entry.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=now,
            )
        if changed:
            name = node["metadata"]["name"]
            self._registry.update(NODES, None, name, node, subresource="status", field_manager=self.name)

    def _taint(self, node: Object) -> None:
        """The two taints of what Ready says, the others' left alone."""
        ready = condition(node, "Ready")
        status = ready["status"] if ready is not None else "Unknown"
        wanted = {"Unknown": _UNREACHABLE, "False": _NOT_READY}.get(status)
        present = node.get("spec", {}).get("taints") or []
        kept = [taint for taint in present if taint["key"] not in (_UNREACHABLE, _NOT_READY) or taint["key"] == wanted]
        have = {taint["effect"] for taint in kept if taint["key"] == wanted}
        now = timestamp(self._clock.now())
        added = [
            {"key": wanted, "effect": effect, "timeAdded": now}
            for effect in ("NoSchedule", "NoExecute")
            if wanted is not None and effect not in have
        ]
        if kept == present and not added:
            return
        node.setdefault("spec", {})["taints"] = [*kept, *added]
        if not node["spec"]["taints"]:
            del node["spec"]["taints"]
        self._registry.update(NODES, None, node["metadata"]["name"], node, field_manager=self.name)

    def _mark_pods(self, node: Object) -> None:
        """Its pods are not ready any more, whatever their own kubelet last said."""
        name = node["metadata"]["name"]
        for pod in self._registry.list(PODS, field_selector=f"spec.nodeName={name}").items:
            ready = condition(pod, "Ready")
            if is_finished(pod) or ready is None or ready["status"] != "True":
                continue
            ready["status"] = "False"
            ready["lastTransitionTime"] = timestamp(self._clock.now())
            metadata = pod["metadata"]
            self._registry.update(
                PODS, metadata["namespace"], metadata["name"], pod, subresource="status", field_manager=self.name
            )
            self._events.record(PODS, pod, "Warning", "NodeNotReady", "Node is not ready")
