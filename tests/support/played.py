"""An API server that plays a cluster: objects are written by the test, the trigger reads them over HTTPS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, PODS, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import shipped_runtimes
from airflow_dispatch.triggers.trainjob import TrainJobTrigger
from tests.support.apiserver import Live

NAMESPACE = "default"
JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"
NAME = names.object_name(JOB_ID, 1)


class PlayedCluster:
    """One TrainJob whose fate the test decides."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.uid = ""
        for runtime in shipped_runtimes():
            live.call(partial(live.registry.create, CLUSTER_TRAINING_RUNTIMES, None, runtime))

    def create_trainjob(self) -> None:
        body = {
            "apiVersion": names.API_VERSION_TRAINER,
            "kind": "TrainJob",
            "metadata": {
                "name": NAME,
                "labels": {names.LABEL_JOB_ID: JOB_ID, names.LABEL_SUBMISSION: "1"},
                "annotations": {names.ANNOTATION_COMMENT: "dispatch:s=1;a=1", names.ANNOTATION_OPENED: "true"},
            },
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "suspend": False},
        }
        created = self._live.call(lambda: self._live.registry.create(TRAINJOBS, NAMESPACE, body))
        self.uid = created["metadata"]["uid"]

    def condition(self, kind: str, reason: str, message: str, name: str = NAME) -> None:
        """Sets a condition of a TrainJob."""
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        self._status(TRAINJOBS, name, {"conditions": [condition]})

    def pod(self, rank: int, state: dict[str, Any], phase: str) -> str:
        """A pod of the job whose container ``node`` is in ``state``."""
        name = f"{NAME}-node-0-{rank}-abcde"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {
                    names.LABEL_JOB_ID: JOB_ID,
                    names.LABEL_SUBMISSION: "1",
                    names.LABEL_JOBSET_NAME: NAME,
                    names.LABEL_RESTART_ATTEMPT: "0",
                    names.LABEL_COMPLETION_INDEX: str(rank),
                },
                "annotations": {names.ANNOTATION_ADMISSION: "0"},
            },
            "spec": {"containers": [{"name": "node", "image": "example.invalid/train:1"}]},
        }
        self._live.call(lambda: self._live.registry.create(PODS, NAMESPACE, body))
        status = {"name": "node", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        self._status(PODS, name, {"phase": phase, "containerStatuses": [status]})
        return name

    def delete_trainjobs(self) -> None:
        """Deletes whatever there is."""
        for each in self.trainjobs:
            name = each["metadata"]["name"]
            self._live.call(partial(self._live.registry.delete, TRAINJOBS, NAMESPACE, name))

    @property
    def exists(self) -> bool:
        return any(each["metadata"]["name"] == NAME for each in self.trainjobs)

    @property
    def trainjobs(self) -> list[dict[str, Any]]:
        """All TrainJobs of the namespace."""
        return list(self._live.call(lambda: self._live.registry.list(TRAINJOBS, NAMESPACE)).items)

    def trigger(self, **kwargs: Any) -> TrainJobTrigger:
        """A trigger that waits for it."""
        values: dict[str, Any] = {"name": NAME, "uid": self.uid, "job_id": JOB_ID, "submission": 1, **kwargs}
        return TrainJobTrigger(**values)

    def _status(self, resource: Any, name: str, status: dict[str, Any]) -> None:
        def write() -> None:
            registry = self._live.registry
            found = registry.get(resource, NAMESPACE, name)
            found["status"] = status
            registry.update(resource, NAMESPACE, name, found, subresource="status")

        self._live.call(write)


@contextmanager
def played_cluster(directory: Path, environment: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    """A cluster that ``kubernetes_default`` names."""
    with Live(directory) as live:
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": live.kubeconfig}}
        environment.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        yield PlayedCluster(live)
