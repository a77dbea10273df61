"""From runtime, patches and TrainJob to a JobSet, as Trainer's torch policy builds it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.apiserver.patch import strategic
from airflow_dispatch.localcluster.controllers.common import owner_ref
from airflow_dispatch.localcluster.kubelet.quantity import parse_quantity

__all__ = ["ANCESTOR", "build_jobset"]

ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_PORT: Final = 29500
_RANK: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def build_jobset(trainjob: Object, runtime: Object) -> Object:
    """The JobSet that a TrainJob stands for."""
    metadata = trainjob["metadata"]
    template = clone((runtime["spec"].get("template")) or {})
    spec = template.setdefault("spec", {})
    jobset_metadata: Object = {
        "name": metadata["name"],
        "ownerReferences": [owner_ref("trainer.kubeflow.org/v1alpha1", "TrainJob", trainjob)],
    }
    for part in ("labels", "annotations"):
        values = dict((template.get("metadata") or {}).get(part) or {})
        for patch in _patches(trainjob):
            values.update((patch.get("metadata") or {}).get(part) or {})
        if values:
            jobset_metadata[part] = values
    for patch in _patches(trainjob):
        _apply_patch(spec, patch.get("spec") or {})
    for replicated in spec.get("replicatedJobs") or ():
        replicated["replicas"] = replicated.get("replicas", 1)
        labels = (replicated["template"].get("metadata") or {}).get("labels") or {}
        if labels.get(ANCESTOR) == "trainer":
            _trainer(replicated, trainjob, runtime)
    spec["suspend"] = bool(trainjob["spec"].get("suspend"))
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": jobset_metadata, "spec": spec}


def _patches(trainjob: Object) -> Iterator[Object]:
    for entry in trainjob["spec"].get("runtimePatches") or ():
        yield (entry.get("trainingRuntimeSpec") or {}).get("template") or {}


def _apply_patch(spec: Object, patch: Object) -> None:
    by_name = {each["name"]: each for each in spec.get("replicatedJobs") or ()}
    for entry in patch.get("replicatedJobs") or ():
        target = by_name.get(entry["name"])
        if target is None:
            continue
        changes = clone(entry)
        pod = (changes.get("template") or {}).get("spec", {}).get("template", {}).get("spec") or {}
        for containers in (pod.get("containers"), pod.get("initContainers")):
            for container in containers or ():
                for field in set(container) - {"name", "env", "volumeMounts", "securityContext"}:
                    del container[field]
        target["template"] = strategic(target["template"], changes.get("template") or {})


def _trainer(replicated: Object, trainjob: Object, runtime: Object) -> None:
    trainer = trainjob["spec"].get("trainer") or {}
    policy = runtime["spec"].get("mlPolicy") or {}
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    job = replicated["template"]["spec"]
    job["parallelism"] = job["completions"] = nodes
    for container in job["template"]["spec"].get("containers") or ():
        if container["name"] == "node":
            _container(container, trainjob, policy, nodes)


def _container(container: Object, trainjob: Object, policy: Object, nodes: int) -> None:
    trainer = trainjob["spec"].get("trainer")
    if trainer is None:
        return
    for field in ("image", "command", "args"):
        if trainer.get(field):
            container[field] = clone(trainer[field])
    if trainer.get("resourcesPerNode"):
        container["resources"] = clone(trainer["resourcesPerNode"])
    env = {entry["name"]: entry for entry in container.get("env") or ()}
    env |= {entry["name"]: clone(entry) for entry in trainer.get("env") or ()}
    if "torch" in policy:
        env |= {entry["name"]: entry for entry in _torch_env(trainjob, container.get("resources") or {}, nodes)}
        port = {"containerPort": _PORT, "protocol": "TCP"}
        container["ports"] = [*(container.get("ports") or ()), port]
    if env:
        container["env"] = list(env.values())


def _processes(resources: Object) -> str:
    """``auto`` where there are GPUs, which torchrun then counts; else one for each CPU that is asked for."""
    parts = [resources.get(part) or {} for part in ("requests", "limits")]
    if any(parse_quantity(str(amount)) for part in parts for unit, amount in part.items() if "gpu" in unit.lower()):
        return "auto"
    cpus = next((cpus for part in parts if (cpus := parse_quantity(str(part.get("cpu", 0))))), Decimal(0))
    return str(max(1, math.ceil(cpus)))


def _torch_env(trainjob: Object, resources: Object, nodes: int) -> list[dict[str, Any]]:
    name = trainjob["metadata"]["name"]
    processes = trainjob["spec"]["trainer"].get("numProcPerNode") or _processes(resources)
    return [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _RANK}}},
        {"name": "PET_MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "PET_MASTER_PORT", "value": str(_PORT)},
    ]
