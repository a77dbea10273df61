"""One pod of a TrainJob, live or captured, with its Node and the counters it carries."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Self

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.identity import MAX_NUMBER, parse_decimal
from airflow_dispatch.core.objects import ContainerStatus, Pod, Terminated
from airflow_dispatch.core.snapshot import CapturedPod, Machine, NodeView

_FIRST = datetime.min.replace(tzinfo=UTC)


class PodView:
    """A pod as a rule sees it, read once; ``node`` is None for a pod that is bound to none, ``machine`` for a live one.

    ``phase`` and ``node_name`` are empty where there is none; ``finished``: the phase is terminal. ``admission`` is A,
    which a pod may carry without J; ``counters`` are A and J, None when either is missing, malformed or out of bounds
    (contract, section 6.4). ``index`` is the completion index: the rank, where there is one replicated job.
    ``position`` sorts by it, then by name. ``rank`` is what at most one pod of an execution may be: the index of a Job,
    or itself when it has no index. ``disruption`` is DisruptionTarget when True, ``trainer`` the container ``node``.
    """

    __slots__ = (
        "admission",
        "containers",
        "counters",
        "disruption",
        "finished",
        "index",
        "init_containers",
        "live",
        "machine",
        "name",
        "node",
        "node_name",
        "phase",
        "pod",
        "position",
        "rank",
        "trainer",
    )

    def __init__(self, pod: Pod, node: NodeView | None, *, live: bool, machine: Machine | None = None) -> None:
        metadata, status = pod.metadata, pod.status
        self.pod = pod
        self.node = node
        self.live = live
        self.machine = machine
        self.name = metadata.name
        self.node_name = pod.spec.node_name or ""
        self.phase = (status.phase if status is not None else None) or ""
        self.finished = self.phase in ("Succeeded", "Failed")
        self.admission = parse_decimal(metadata.annotation(names.ANNOTATION_ADMISSION))
        self.counters = _counters(self.admission, parse_decimal(metadata.label(names.LABEL_RESTART_ATTEMPT)))
        self.index = parse_decimal(metadata.label(names.LABEL_COMPLETION_INDEX))
        self.position = (self.index if self.index is not None else sys.maxsize), self.name
        job = metadata.label(names.LABEL_JOB_NAME) or ""
        self.rank = (job, str(self.index)) if self.index is not None else ("", self.name)
        self.disruption = true(status, "DisruptionTarget")
        self.containers = (status.container_statuses if status is not None else None) or []
        self.init_containers = (status.init_container_statuses if status is not None else None) or []
        self.trainer = _named(self.containers, names.TRAINER_CONTAINER)

    @classmethod
    def of(cls, captured: CapturedPod) -> Self:
        """A deleted pod."""
        return cls(captured.pod, captured.node, live=False, machine=captured.machine)

    @property
    def age(self) -> tuple[datetime, bool, str]:
        """Sorts from the oldest to the newest; of one second, the one that still lives is the newer."""
        return self.pod.metadata.creation_timestamp or _FIRST, self.live, self.name

    @property
    def deletion_requested(self) -> datetime | None:
        """When its deletion was asked for: ``deletionTimestamp`` is that moment plus the grace period."""
        due = self.pod.metadata.deletion_timestamp
        if due is None:
            return None
        grace = self.pod.metadata.deletion_grace_period_seconds or 0
        return due - timedelta(seconds=min(max(grace, 0), _elapsed_seconds(due)))

    @property
    def started(self) -> bool:
        """The container ``node`` runs or has run."""
        return self.trainer is not None and (running(self.trainer) or termination_of(self.trainer) is not None)

    @property
    def runs(self) -> bool:
        """A container of it runs, as its status says."""
        return bool(self.running_containers())

    def running_containers(self) -> list[str]:
        """The names of all containers, init containers first, that its status says are running."""
        return [each.name for each in (*self.init_containers, *self.containers) if running(each)]


def running(status: ContainerStatus) -> bool:
    """The container runs now."""
    return status.state is not None and status.state.running is not None


def termination_of(status: ContainerStatus) -> Terminated | None:
    """How the container ended: now (``state``), else before it was started again (``lastState``)."""
    if status.state is not None and status.state.terminated is not None:
        return status.state.terminated
    return status.last_state.terminated if status.last_state is not None else None


def newest_of_each_rank(pods: Iterable[PodView]) -> list[PodView]:
    """Of each completion index the newest pod, in order of index, then name."""
    newest: dict[tuple[str, str], PodView] = {}
    for view in pods:
        rank = view.rank
        if rank not in newest or newest[rank].age <= view.age:
            newest[rank] = view
    return sorted(newest.values(), key=lambda each: each.position)


def _counters(admission: int | None, restart: int | None) -> tuple[int, int] | None:
    if admission is None or restart is None or admission + restart > MAX_NUMBER:
        return None
    return admission, restart


def _named(statuses: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    for each in statuses:
        if each.name == name:
            return each
    return None


def _elapsed_seconds(instant: datetime) -> float:
    """Seconds since the first instant there is: no grace period reaches further back."""
    return (instant - _FIRST).total_seconds()
