"""The fields of every kind that is served: what strict validation knows.

A type is a mapping of field names to types, or one of ``str``, ``int``, ``float``, ``bool``; ``[]T`` is a list of T,
``{}T`` a map of T, and ``object`` is anything. The core kinds' types are in ``core_schema.json``, as the published
OpenAPI description names them; those of JobSet 0.12 and Trainer 2.3 are below.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["type_errors", "types", "unknown_fields"]

_CUSTOM: Final[Mapping[str, Mapping[str, str]]] = {
    "JobSet": {
        "apiVersion": "str",
        "kind": "str",
        "metadata": "ObjectMeta",
        "spec": "JobSetSpec",
        "status": "JobSetStatus",
    },
    "JobSetSpec": {
        "coordinator": "Coordinator",
        "failurePolicy": "JobSetFailurePolicy",
        "managedBy": "str",
        "network": "JobSetNetwork",
        "replicatedJobs": "[]ReplicatedJob",
        "startupPolicy": "StartupPolicy",
        "successPolicy": "JobSetSuccessPolicy",
        "suspend": "bool",
        "ttlSecondsAfterFinished": "int",
        "volumeClaimPolicies": "[]object",
    },
    "Coordinator": {"replicatedJob": "str", "jobIndex": "int", "podIndex": "int"},
    "JobSetFailurePolicy": {"maxRestarts": "int", "restartStrategy": "str", "rules": "[]JobSetFailureRule"},
    "JobSetFailureRule": {
        "name": "str",
        "action": "str",
        "onJobFailureReasons": "[]str",
        "onJobFailureMessagePatterns": "[]str",
        "targetReplicatedJobs": "[]str",
    },
    "JobSetNetwork": {"enableDNSHostnames": "bool", "subdomain": "str", "publishNotReadyAddresses": "bool"},
    "ReplicatedJob": {
        "name": "str",
        "groupName": "str",
        "template": "JobTemplateSpec",
        "replicas": "int",
        "dependsOn": "[]DependsOn",
    },
    "DependsOn": {"name": "str", "status": "str"},
    "StartupPolicy": {"startupPolicyOrder": "str"},
    "JobSetSuccessPolicy": {"operator": "str", "targetReplicatedJobs": "[]str"},
    "JobSetStatus": {
        "conditions": "[]Condition",
        "restarts": "int",
        "restartsCountTowardsMax": "int",
        "terminalState": "str",
        "replicatedJobsStatus": "[]ReplicatedJobStatus",
        "individualJobRestarts": "object",
        "previousInPlaceRestartAttempt": "int",
        "currentInPlaceRestartAttempt": "int",
    },
    "ReplicatedJobStatus": {
        "name": "str",
        "ready": "int",
        "succeeded": "int",
        "failed": "int",
        "active": "int",
        "suspended": "int",
    },
    "TrainJob": {
        "apiVersion": "str",
        "kind": "str",
        "metadata": "ObjectMeta",
        "spec": "TrainJobSpec",
        "status": "TrainJobStatus",
    },
    "TrainJobSpec": {
        "runtimeRef": "RuntimeRef",
        "initializer": "Initializer",
        "trainer": "Trainer",
        "runtimePatches": "[]RuntimePatch",
        "suspend": "bool",
        "activeDeadlineSeconds": "int",
        "managedBy": "str",
    },
    "RuntimeRef": {"name": "str", "apiGroup": "str", "kind": "str"},
    "Initializer": {"dataset": "InitializerSource", "model": "InitializerSource"},
    "InitializerSource": {"storageUri": "str", "env": "[]EnvVar", "secretRef": "LocalObjectReference"},
    "Trainer": {
        "image": "str",
        "command": "[]str",
        "args": "[]str",
        "env": "[]EnvVar",
        "numNodes": "int",
        "resourcesPerNode": "ResourceRequirements",
        "numProcPerNode": "int",
    },
    "RuntimePatch": {"manager": "str", "time": "str", "trainingRuntimeSpec": "RuntimeSpecPatch"},
    "RuntimeSpecPatch": {"template": "JobSetTemplatePatch"},
    "JobSetTemplatePatch": {"metadata": "ObjectMeta", "spec": "JobSetSpecPatch"},
    "JobSetSpecPatch": {"replicatedJobs": "[]ReplicatedJobPatch"},
    "ReplicatedJobPatch": {"name": "str", "template": "JobTemplatePatch"},
    "JobTemplatePatch": {"metadata": "ObjectMeta", "spec": "JobSpecPatch"},
    "JobSpecPatch": {"template": "PodTemplatePatch"},
    "PodTemplatePatch": {"metadata": "ObjectMeta", "spec": "PodSpecPatch"},
    "PodSpecPatch": {
        "serviceAccountName": "str",
        "volumes": "[]Volume",
        "initContainers": "[]ContainerPatch",
        "containers": "[]ContainerPatch",
        "imagePullSecrets": "[]LocalObjectReference",
        "securityContext": "PodSecurityContext",
        "terminationGracePeriodSeconds": "int",
        "nodeSelector": "{}str",
        "affinity": "Affinity",
        "tolerations": "[]Toleration",
        "schedulingGates": "[]PodSchedulingGate",
    },
    "ContainerPatch": {
        "name": "str",
        "env": "[]EnvVar",
        "volumeMounts": "[]VolumeMount",
        "securityContext": "SecurityContext",
    },
    "TrainJobStatus": {
        "conditions": "[]Condition",
        "jobsStatus": "[]ReplicatedJobStatus",
        "trainerStatus": "object",
    },
    "TrainingRuntime": {"apiVersion": "str", "kind": "str", "metadata": "ObjectMeta", "spec": "RuntimeSpec"},
    "ClusterTrainingRuntime": {"apiVersion": "str", "kind": "str", "metadata": "ObjectMeta", "spec": "RuntimeSpec"},
    "RuntimeSpec": {"mlPolicy": "MLPolicy", "podGroupPolicy": "object", "template": "JobSetTemplate"},
    "MLPolicy": {
        "numNodes": "int",
        "torch": "object",
        "mpi": "object",
        "flux": "object",
        "jax": "object",
        "xgboost": "object",
    },
    "JobSetTemplate": {"metadata": "ObjectMeta", "spec": "JobSetSpec"},
}

_SCALARS: Final[Mapping[str, str]] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_QUANTITIES: Final = frozenset({"allocatable", "capacity", "limits", "overhead", "requests", "sizeLimit"})
"""Fields whose values may be numbers, though they are described as text."""


@functools.cache
def types() -> Mapping[str, Mapping[str, str]]:
    """Every known type by name."""
    core: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("core_schema.json").read_bytes())
    return {**core, **_CUSTOM}


def unknown_fields(resource: Resource, obj: Object) -> list[str]:
    """The paths of fields that the kind does not have: ``spec.nonsense``, ``spec.containers[0].nonsense``."""
    return [path for path, wanted, _ in _problems(resource.kind, obj, "") if wanted == "unknown"]


def type_errors(resource: Resource, obj: Object) -> list[tuple[str, str, str]]:
    """Fields whose JSON type is wrong: path, the type that is wanted, the type that was found."""
    return [(path, wanted, found) for path, wanted, found in _problems(resource.kind, obj, "") if wanted != "unknown"]


def _problems(kind: str, value: Any, path: str, field: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields path, ``unknown`` or the wanted type, and the found type."""
    if value is None or kind == "object" or field in _QUANTITIES:
        return
    wanted = _json_type(kind)
    found = _json(value)
    if found != wanted and (wanted, found) != ("number", "integer"):
        yield path, wanted, found
    elif wanted == "array":
        for index, item in enumerate(value):
            yield from _problems(kind[2:], item, f"{path}[{index}]")
    elif wanted == "object":
        yield from _problems_of_fields(kind, value, path)


def _problems_of_fields(kind: str, value: Object, path: str) -> Iterator[tuple[str, str, str]]:
    fields = None if kind.startswith("{}") else types()[kind]
    for key, item in value.items():
        below = f"{path}.{key}" if path else key
        if fields is None:
            yield from _problems(kind[2:], item, below)
        elif key in fields:
            yield from _problems(fields[key], item, below, key)
        else:
            yield below, "unknown", ""


def _json_type(kind: str) -> str:
    return "array" if kind.startswith("[]") else _SCALARS.get(kind, "object")


def _json(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number", list: "array", dict: "object"}[type(value)]
