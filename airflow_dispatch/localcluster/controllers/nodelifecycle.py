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
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_OWN_TAINTS: Final = (_UNREACHABLE, _NOT_READY, _UNSCHEDULABLE)
_TTL: Final = "node.alpha.kubernetes.io/ttl"
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
        self._taint(key)
        node = self._registry.get(NODES, None, key)
        self._annotate(node)
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

    def _taint(self, name: str) -> None:
        """The taints of what Ready and ``unschedulable`` say, those against placing first; the others' stay."""
        for effect in ("NoSchedule", "NoExecute"):
            node = self._registry.get(NODES, None, name)
            spec = node.setdefault("spec", {})
            wanted = _taints_for(node, effect)
            present = spec.get("taints") or []
            taints = [
                taint
                for taint in present
                if taint["effect"] != effect or taint["key"] not in _OWN_TAINTS or taint["key"] in wanted
            ]
            have = {taint["key"] for taint in taints if taint["effect"] == effect}
            now = timestamp(self._clock.now())
            taints += [{"key": key, "effect": effect, "timeAdded": now} for key in wanted if key not in have]
            if taints != present:
                spec["taints"] = taints or None
                self._registry.update(NODES, None, name, node, field_manager=self.name)

    def _annotate(self, node: Object) -> None:
        """How long kubelets may keep ConfigMaps and Secrets: the TTL controller's annotation, 0 for small clusters."""
        if _TTL not in (node["metadata"].get("annotations") or {}):
            node["metadata"].setdefault("annotations", {})[_TTL] = "0"
            self._registry.update(NODES, None, node["metadata"]["name"], node, field_manager="ttl-controller")

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


def _taints_for(node: Object, effect: str) -> list[str]:
    """The keys of the taints with this effect that a Node should have."""
    ready = condition(node, "Ready")
    status = ready["status"] if ready is not None else "Unknown"
    wanted = {"Unknown": [_UNREACHABLE], "False": [_NOT_READY]}.get(status, [])
    cordoned = effect == "NoSchedule" and node["spec"].get("unschedulable")
    return [*wanted, _UNSCHEDULABLE] if cordoned else wanted
