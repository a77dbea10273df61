"""What binding and eviction write on a pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from airflow_dispatch.localcluster.apiserver.objects import Object, clone, set_condition, timestamp

__all__ = ["bound", "evicting", "place"]

_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def place(pod: Object, node_labels: Mapping[str, str]) -> None:
    """Copies the labels that say where a Node is to a pod on it, in place (from Kubernetes 1.35 on)."""
    copied = {key: node_labels[key] for key in _TOPOLOGY if key in node_labels}
    if copied:
        pod["metadata"].setdefault("labels", {}).update(copied)


def bound(pod: Object, node: str, node_labels: Mapping[str, str], now: datetime) -> Object:
    """The pod on its Node, as the scheduler's binding leaves it."""
    result: Object = clone(pod)
    result["spec"]["nodeName"] = node
    place(result, node_labels)
    set_condition(result, {"type": "PodScheduled", "status": "True", **_times(now)})
    return result


def evicting(pod: Object, now: datetime) -> Object:
    """The pod with the disruption that the eviction API writes before it deletes."""
    result: Object = clone(pod)
    entry = {"type": "DisruptionTarget", "status": "True", **_times(now)}
    set_condition(result, {**entry, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
    return result


def _times(now: datetime) -> Object:
    return {"lastProbeTime": None, "lastTransitionTime": timestamp(now)}
