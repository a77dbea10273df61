"""What binding and eviction write on a pod."""

from __future__ import annotations

from datetime import datetime

from airflow_dispatch.localcluster.apiserver.objects import Object, clone, set_condition, timestamp

__all__ = ["bound", "evicting"]


def bound(pod: Object, node: str, now: datetime) -> Object:
    """The pod on its Node, as the scheduler's binding leaves it."""
    result: Object = clone(pod)
    result["spec"]["nodeName"] = node
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
