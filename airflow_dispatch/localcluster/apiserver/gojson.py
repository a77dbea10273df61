"""JSON as the real programs print it into refusals: fields in the order of their Go types, keys of maps sorted."""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["go_json"]

_OBJECT_META: Final = ("name", "generateName", "namespace", "labels", "annotations", "finalizers")
_RUNTIME_PATCH: Final = ("manager", "time", "trainingRuntimeSpec")
_REPLICATED_JOB: Final = ("groupName",)
_JOB: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimit",
)
_TEMPLATE: Final = ("metadata", "selector", "manualSelector", "spec", "template", "replicatedJobs")
_JOB_AFTER: Final = ("ttlSecondsAfterFinished", "completionMode", "suspend", "podReplacementPolicy", "replicas")
_POD: Final = (
    "volumes",
    "initContainers",
    "containers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
)
_CONTAINER: Final = (
    "image",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "volumeMounts",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
)
_POD_AFTER: Final = (
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "affinity",
    "schedulerName",
    "tolerations",
    "priorityClassName",
    "schedulingGates",
)
_SMALL: Final = (
    "containerPort",
    "protocol",
    "readOnly",
    "mountPath",
    "subPath",
    "limits",
    "requests",
    "key",
    "operator",
    "value",
    "valueFrom",
    "effect",
    "tolerationSeconds",
    "fieldRef",
    "apiVersion",
    "fieldPath",
    "secretName",
    "items",
    "defaultMode",
    "optional",
)
_ORDER: Final = {
    field: index
    for index, field in enumerate(
        (
            *_OBJECT_META,
            *_RUNTIME_PATCH,
            *_REPLICATED_JOB,
            *_JOB,
            *_TEMPLATE,
            *_JOB_AFTER,
            *_POD,
            *_CONTAINER,
            *_POD_AFTER,
            *_SMALL,
        )
    )
}
"""No two types that are shown have two of these fields in opposite orders, so one order does for all."""

_MAPS: Final = ("labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels")


def go_json(value: Any) -> str:
    """The value in one line."""
    return json.dumps(_ordered(value), separators=(",", ":"))


def _ordered(value: Any, *, of_map: bool = False) -> Any:
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (0 if of_map else _ORDER.get(key, len(_ORDER)), key))
    return {key: _ordered(value[key], of_map=key in _MAPS) for key in keys}
