"""What workers and triggerers must be allowed to do, verb by verb, and what each is for."""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_dispatch.kube import paths
from airflow_dispatch.kube.paths import Resource

__all__ = ["NEEDS", "QUEUE_NEEDS", "ROLES", "Need"]

ROLES: Final = ("worker", "triggerer")


class Need(NamedTuple):
    """Verbs on a resource, or on a part of it, by role; ``why`` says what is missed without them."""

    resource: Resource
    worker: tuple[str, ...]
    triggerer: tuple[str, ...]
    why: str
    part: str = ""

    def verbs(self, role: str | None) -> tuple[str, ...]:
        """The verbs that a role needs; None is both."""
        of_role = {"worker": self.worker, "triggerer": self.triggerer}
        both = (*self.worker, *(verb for verb in self.triggerer if verb not in self.worker))
        return both if role is None else of_role[role]

    @property
    def name(self) -> str:
        """As RBAC writes it, with its group."""
        plural = f"{self.resource.plural}/{self.part}" if self.part else self.resource.plural
        return f"{plural}.{self.resource.group}" if self.resource.group else plural


_EDIT: Final = ("get", "list", "create", "update", "delete")
_FOLLOW: Final = ("list", "watch")

NEEDS: Final = (
    Need(paths.TRAINJOBS, _EDIT, ("get", "list", "watch", "update", "delete"), "a job is a TrainJob"),
    Need(paths.RUNTIMES, _EDIT, _FOLLOW, "each job runs on a copy of its runtime"),
    Need(paths.JOBSETS, ("list",), _FOLLOW, "what may still run is asked of the JobSet too"),
    Need(paths.JOBS, ("list",), _FOLLOW, "what may still run is asked of the Jobs too"),
    Need(paths.PODS, ("list",), _FOLLOW, "what may still run, and why a rank ended, is read from its pod"),
    Need(paths.EVENTS, ("list",), _FOLLOW, "without it nothing says why a JobSet, Job or pod can't be created"),
    Need(paths.PODS, (), ("get",), "without it the task log has no output of the training", part="log"),
    Need(
        paths.CLUSTER_RUNTIMES,
        ("get", "list"),
        (),
        "the cluster's runtimes are found there; without list one that does not exist is refused without those that do",
    ),
    Need(
        paths.CONFIGMAPS,
        ("get",),
        ("get", "create", "update"),
        "pods that vanished while they may still run are remembered there; without create and update only the "
        "triggerer that saw it knows",
    ),
    Need(
        paths.NODES,
        ("get",),
        ("get", "list", "watch"),
        "without get a lost node can't be told from a slow one, and what it holds is not known to have ended; without "
        "list and watch each Node is read by itself every five seconds",
    ),
)
QUEUE_NEEDS: Final = (Need(paths.WORKLOADS, ("list",), _FOLLOW, "what Kueue says of a job is read from its Workload"),)
"""More, where jobs are queued."""
