"""The columns that kubectl prints, computed by the server as the real one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from airflow_dispatch.localcluster.apiserver.objects import Object, condition, parse_time
from airflow_dispatch.localcluster.resources import EVENTS, JOBS, JOBSETS, NAMESPACES, NODES, PODS, TRAINJOBS, Resource

__all__ = ["table"]


_SHOWN_IN_SECONDS: Final = 120
_SHOWN_WITH_SECONDS: Final = 10
_SHOWN_IN_MINUTES: Final = 3
_SHOWN_IN_HOURS: Final = 2
"""Up to which age kubectl prints seconds alone, minutes with seconds, minutes (hours below), hours (days below)."""


class _Column(NamedTuple):
    name: str
    value: Callable[[Object, datetime], Any]
    kind: str = "string"
    priority: int = 0


def _age(obj: Object, now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _since(text: str | None, now: datetime) -> str:
    return _duration((now - parse_time(text)).total_seconds()) if text else "<unknown>"


def _duration(seconds: float) -> str:
    """As kubectl prints ages: ``42s``, ``3m5s``, ``2h``, ``5d``."""
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < _SHOWN_IN_SECONDS:
        return f"{whole}s"
    if minutes < _SHOWN_WITH_SECONDS:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < _SHOWN_IN_MINUTES:
        return f"{minutes}m"
    return f"{hours}h" if days < _SHOWN_IN_HOURS else f"{days}d"


def _pod_ready(pod: Object, _: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    total = len(pod.get("spec", {}).get("containers") or [])
    return f"{sum(1 for status in statuses if status.get('ready'))}/{total}"


def _pod_status(pod: Object, _: datetime) -> str:
    status = pod.get("status", {})
    shown = status.get("reason") or status.get("phase") or "Unknown"
    for entry in status.get("initContainerStatuses") or []:
        state = entry.get("state", {})
        if "waiting" in state and state["waiting"].get("reason") not in (None, "PodInitializing"):
            return f"Init:{state['waiting']['reason']}"
        if state.get("terminated", {}).get("exitCode"):
            return f"Init:{state['terminated'].get('reason') or 'Error'}"
    for entry in status.get("containerStatuses") or []:
        state = entry.get("state", {})
        shown = (state.get("waiting") or state.get("terminated") or {}).get("reason") or shown
    if "deletionTimestamp" in pod["metadata"] and status.get("phase") not in ("Succeeded", "Failed"):
        return "Terminating"
    return str(shown)


def _pod_restarts(pod: Object, _: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return str(sum(entry.get("restartCount", 0) for entry in statuses))


def _node_status(node: Object, _: datetime) -> str:
    ready = condition(node, "Ready")
    words = ["Ready" if ready and ready.get("status") == "True" else "NotReady" if ready else "Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or "<none>"


def _field(path: str, default: Any = "") -> Callable[[Object, datetime], Any]:
    def read(obj: Object, _: datetime) -> Any:
        value: Any = obj
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return read


def _last_condition(obj: Object, _: datetime) -> str:
    conditions = obj.get("status", {}).get("conditions") or []
    return str(conditions[-1].get("type", "")) if conditions else ""


def _job_status(job: Object, _: datetime) -> str:
    for kind in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        found = condition(job, kind)
        if found and found.get("status") == "True":
            return kind
    return "Running"


def _completions(job: Object, _: datetime) -> str:
    wanted = job.get("spec", {}).get("completions", 1)
    return f"{job.get('status', {}).get('succeeded', 0)}/{wanted}"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status", {})
    if "startTime" not in status:
        return ""
    end = parse_time(status["completionTime"]) if "completionTime" in status else now
    return _duration((end - parse_time(status["startTime"])).total_seconds())


def _last_seen(event: Object, now: datetime) -> str:
    return _since(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"), now)


def _involved(event: Object, _: datetime) -> str:
    involved = event.get("involvedObject", {})
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_NAME: Final = _Column("Name", _field("metadata.name"))
_AGE: Final = _Column("Age", _age)
_COLUMNS: Final[Mapping[Resource, Sequence[_Column]]] = {
    PODS: (
        _NAME,
        _Column("Ready", _pod_ready),
        _Column("Status", _pod_status),
        _Column("Restarts", _pod_restarts),
        _AGE,
        _Column("IP", _field("status.podIP", "<none>"), priority=1),
        _Column("Node", _field("spec.nodeName", "<none>"), priority=1),
    ),
    NODES: (
        _NAME,
        _Column("Status", _node_status),
        _Column("Roles", _node_roles),
        _AGE,
        _Column("Version", _field("status.nodeInfo.kubeletVersion")),
    ),
    NAMESPACES: (_NAME, _Column("Status", _field("status.phase")), _AGE),
    JOBS: (
        _NAME,
        _Column("Status", _job_status),
        _Column("Completions", _completions),
        _Column("Duration", _job_duration),
        _AGE,
    ),
    JOBSETS: (
        _NAME,
        _Column("TerminalState", _field("status.terminalState")),
        _Column("Restarts", _field("status.restarts"), "integer"),
        _Column("Suspended", _field("spec.suspend"), "boolean"),
        _AGE,
    ),
    TRAINJOBS: (_NAME, _Column("State", _last_condition), _AGE),
    EVENTS: (
        _Column("Last Seen", _last_seen),
        _Column("Type", _field("type")),
        _Column("Reason", _field("reason")),
        _Column("Object", _involved),
        _Column("Message", _field("message")),
    ),
}


def table(
    resource: Resource, objects: Sequence[Object], metadata: Object, now: datetime, *, include: str = "Metadata"
) -> Object:
    """A ``Table`` of the objects; ``include`` is ``Metadata``, ``Object`` or ``None``: what each row carries."""
    columns = _COLUMNS.get(resource, (_NAME, _AGE))
    rows = []
    for obj in objects:
        row: Object = {"cells": [column.value(obj, now) for column in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        rows.append(row)
    definitions = [
        {
            "name": column.name,
            "type": column.kind,
            "format": "name" if column is _NAME else "",
            "description": "",
            "priority": column.priority,
        }
        for column in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }
