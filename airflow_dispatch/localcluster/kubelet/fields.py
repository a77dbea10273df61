"""What the downward API shows of a pod: ``fieldRef`` and ``resourceFieldRef``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_dispatch.localcluster.kubelet.quantity import scaled

__all__ = ["FieldError", "container_resource", "pod_field"]

_SUBSCRIPT: Final = re.compile(r"metadata\.(annotations|labels)\['([^']+)'\]")


class FieldError(Exception):
    """A reference to a field that the downward API does not have."""


def _quoted(values: Mapping[str, str]) -> str:
    escaped = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in values.items()}
    return "\n".join(f'{key}="{escaped[key]}"' for key in sorted(escaped))


def pod_field(pod: dict[str, Any], path: str, *, pod_ip: str, host_ip: str) -> str:
    """The text of a ``fieldPath``; an absent label or annotation is empty, as in Kubernetes.

    Raises:
        FieldError: There is no such field.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    match = _SUBSCRIPT.fullmatch(path)
    if match is not None:
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "metadata.labels": _quoted(metadata.get("labels") or {}),
        "metadata.annotations": _quoted(metadata.get("annotations") or {}),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path not in simple:
        raise FieldError(f"unsupported fieldPath: {path}")
    return str(simple[path])


def container_resource(
    pod: dict[str, Any], reference: dict[str, Any], *, container: str, allocatable: Mapping[str, str]
) -> str:
    """The value of a ``resourceFieldRef``; a limit that is not set is the node's allocatable amount.

    Raises:
        FieldError: There is no such container or resource.
    """
    wanted = reference.get("containerName") or container
    of = next(
        (c for c in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())) if c["name"] == wanted), None
    )
    kind, _, resource = str(reference["resource"]).partition(".")
    if of is None or kind not in ("limits", "requests") or not resource:
        raise FieldError(f"unsupported container resource: {wanted}.{reference['resource']}")
    amounts = of.get("resources", {}).get(kind) or {}
    amount = amounts.get(resource, allocatable.get(resource, "0") if kind == "limits" else "0")
    return str(scaled(str(amount), str(reference.get("divisor") or "1")))
