"""The kinds that the local cluster serves: where they live, what they are called, which subresources they have."""

from __future__ import annotations

from typing import Final, NamedTuple


class Resource(NamedTuple):
    """One kind of object, as discovery describes it.

    Attributes:
        group: The API group, empty for the core.
        version: The one version that is served and stored.
        plural: The resource's name in paths.
        kind: The object's kind.
        singular: What kubectl calls one of it.
        namespaced: Whether it lives in a namespace.
        short_names: What kubectl also calls it.
        subresources: The paths below one object, ``status`` among them where the status is written separately.
        generation: Whether ``metadata.generation`` is kept (it rises with each change of the desired state).
        custom: Whether it is defined by a CustomResourceDefinition: no strategic merge, no update without a
            resourceVersion.
    """

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    generation: bool = False
    custom: bool = False

    @property
    def api_version(self) -> str:
        """What stands in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``trainjobs.trainer.kubeflow.org``, or ``pods`` in the core: how error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """``TrainJob.trainer.kubeflow.org``, or ``Pod`` in the core."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def has_status(self) -> bool:
        """Whether the status is written through its own subresource."""
        return "status" in self.subresources


_TRAINER: Final = "trainer.kubeflow.org"

NAMESPACES: Final = Resource(
    "",
    "v1",
    "namespaces",
    "Namespace",
    "namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=("status", "finalize"),
)
PODS: Final = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    "pod",
    short_names=("po",),
    subresources=("status", "log", "binding", "eviction"),
    generation=True,
)
NODES: Final = Resource(
    "", "v1", "nodes", "Node", "node", namespaced=False, short_names=("no",), subresources=("status",)
)
EVENTS: Final = Resource("", "v1", "events", "Event", "event", short_names=("ev",))
SECRETS: Final = Resource("", "v1", "secrets", "Secret", "secret")
CONFIGMAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", "configmap", short_names=("cm",))
SERVICES: Final = Resource("", "v1", "services", "Service", "service", short_names=("svc",), subresources=("status",))
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", "serviceaccount", short_names=("sa",))
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", "lease")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    "priorityclass",
    namespaced=False,
    short_names=("pc",),
    generation=True,
)
JOBS: Final = Resource("batch", "v1", "jobs", "Job", "job", subresources=("status",), generation=True)
JOBSETS: Final = Resource(
    "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", "jobset", subresources=("status",), generation=True, custom=True
)
TRAINJOBS: Final = Resource(
    _TRAINER, "v1alpha1", "trainjobs", "TrainJob", "trainjob", subresources=("status",), generation=True, custom=True
)
TRAINING_RUNTIMES: Final = Resource(
    _TRAINER, "v1alpha1", "trainingruntimes", "TrainingRuntime", "trainingruntime", generation=True, custom=True
)
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    _TRAINER,
    "v1alpha1",
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    "clustertrainingruntime",
    namespaced=False,
    generation=True,
    custom=True,
)

ALL: Final = (
    NAMESPACES,
    PODS,
    NODES,
    EVENTS,
    SECRETS,
    CONFIGMAPS,
    SERVICES,
    SERVICE_ACCOUNTS,
    LEASES,
    PRIORITY_CLASSES,
    JOBS,
    JOBSETS,
    TRAINJOBS,
    TRAINING_RUNTIMES,
    CLUSTER_TRAINING_RUNTIMES,
)
