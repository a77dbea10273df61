"""An API server that plays a cluster: objects are written by the test, the trigger reads them over HTTPS."""

from __future__ import annotations

from typing import Any

from airflow_dispatch.core import names
from airflow_dispatch.localcluster.resources import PODS, TRAINJOBS
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

    def condition(self, kind: str, reason: str, message: str) -> None:
        """Sets a condition of the TrainJob."""
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        self._status(TRAINJOBS, NAME, {"conditions": [condition]})

    def pod(self, rank: int, state: dict[str, Any], phase: str) -> str:
        """A pod of the first execution whose container ``node`` is in ``state``."""
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

    def delete_trainjob(self) -> None:
        self._live.call(lambda: self._live.registry.delete(TRAINJOBS, NAMESPACE, NAME))

    @property
    def exists(self) -> bool:
        listing = self._live.call(lambda: self._live.registry.list(TRAINJOBS, NAMESPACE))
        return any(each["metadata"]["name"] == NAME for each in listing.items)

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
