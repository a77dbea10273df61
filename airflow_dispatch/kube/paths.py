"""The resources that are spoken to, and their addresses."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from airflow_dispatch.core import names, objects


class Resource(NamedTuple):
    """One kind of object: ``api`` is ``v1`` or ``<group>/<version>``, ``record`` what it is decoded into."""

    api: str
    plural: str
    kind: str
    record: type[objects.Object]
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api.rpartition("/")[0]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The address below the server's: of a collection, an object or a subresource."""
        parts = ["apis" if "/" in self.api else "api", self.api]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


TRAINJOBS: Final = Resource(names.API_VERSION_TRAINER, "trainjobs", "TrainJob", objects.TrainJob)
RUNTIMES: Final = Resource(names.API_VERSION_TRAINER, "trainingruntimes", "TrainingRuntime", objects.TrainingRuntime)
CLUSTER_RUNTIMES: Final = Resource(
    names.API_VERSION_TRAINER,
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    objects.TrainingRuntime,
    namespaced=False,
)
JOBSETS: Final = Resource(names.API_VERSION_JOBSET, "jobsets", "JobSet", objects.JobSet)
JOBS: Final = Resource("batch/v1", "jobs", "Job", objects.Job)
PODS: Final = Resource("v1", "pods", "Pod", objects.Pod)
NODES: Final = Resource("v1", "nodes", "Node", objects.Node, namespaced=False)
EVENTS: Final = Resource("v1", "events", "Event", objects.Event)
EVENTS_SELECTOR: Final = "type=Warning,involvedObject.kind!=Pod"
"""The Events that a rule reads are all Warnings and about no pod; the others, most of them, stay on the server."""

CONFIGMAPS: Final = Resource("v1", "configmaps", "ConfigMap", objects.Object)
WORKLOADS: Final = Resource("kueue.x-k8s.io/v1beta2", "workloads", "Workload", objects.Workload)
