"""The training runtimes that a local cluster comes with.

``torch-distributed`` is safe: a rank that ended, or whose node is lost, is never replaced beside one that may still
run. ``torch-distributed-unsafe`` is what Trainer 2.3 itself ships as ``torch-distributed``: containers restart in
place, and Kubernetes starts a replacement beside a pod that is stuck on a lost node.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_dispatch.core import names
from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE

__all__ = ["SAFE_RUNTIME", "UNSAFE_RUNTIME", "shipped_runtimes"]

SAFE_RUNTIME: Final = "torch-distributed"
UNSAFE_RUNTIME: Final = "torch-distributed-unsafe"
_TRAINERS_IMAGE: Final = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"


def _runtime(name: str, job: dict[str, Any], pod: dict[str, Any], image: str) -> dict[str, Any]:
    containers = [{"name": names.TRAINER_CONTAINER, "image": image}]
    replicated_job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {names.LABEL_ANCESTOR_STEP: names.ANCESTOR_STEP_TRAINER}},
            "spec": {**job, "template": {"spec": {**pod, "containers": containers}}},
        },
    }
    return {
        "apiVersion": names.API_VERSION_TRAINER,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [replicated_job]}},
        },
    }


def shipped_runtimes() -> list[dict[str, Any]]:
    """The ClusterTrainingRuntimes to create."""
    return [
        _runtime(
            SAFE_RUNTIME,
            {"backoffLimit": 0, "podReplacementPolicy": "Failed"},
            {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30},
            PYTHON_IMAGE,
        ),
        _runtime(UNSAFE_RUNTIME, {}, {}, _TRAINERS_IMAGE),
    ]
