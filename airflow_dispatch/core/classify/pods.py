"""One pod of a TrainJob, live or captured, with its Node and the counters it carries."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Self

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import true
from airflow_dispatch.core.identity import MAX_NUMBER, parse_decimal
from airflow_dispatch.core.objects import Condition, ContainerStatus, Pod
from airflow_dispatch.core.snapshot import CapturedPod, Machine, NodeView

_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class PodView:
    """A pod as a rule sees it; ``node`` is None for a pod that is bound to none, ``machine`` for a live one."""

    pod: Pod
    node: NodeView | None
    live: bool
    machine: Machine | None = None

    @classmethod
    def of(cls, captured: CapturedPod) -> Self:
        """A deleted pod."""
        return cls(captured.pod, captured.node, live=False, machine=captured.machine)

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def node_name(self) -> str:
        return self.pod.spec.node_name or ""

    @property
    def finished(self) -> bool:
        """Its phase is terminal."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def phase(self) -> str:
        return (self.pod.status.phase if self.pod.status else None) or ""

    @property
    def counters(self) -> tuple[int, int] | None:
        """A and J, or None when either is missing, malformed or out of bounds (contract, section 6.4)."""
        admission = parse_decimal(self.pod.metadata.annotation(names.ANNOTATION_ADMISSION))
        restart = parse_decimal(self.pod.metadata.label(names.LABEL_RESTART_ATTEMPT))
        if admission is None or restart is None or admission + restart > MAX_NUMBER:
            return None
        return admission, restart

    @property
    def admission(self) -> int | None:
        """A alone, which a pod may carry without J."""
        return parse_decimal(self.pod.metadata.annotation(names.ANNOTATION_ADMISSION))

    @property
    def index(self) -> int | None:
        """The completion index: the rank, where there is one replicated job."""
        return parse_decimal(self.pod.metadata.label(names.LABEL_COMPLETION_INDEX))

    @property
    def rank(self) -> tuple[str, str]:
        """What at most one pod of an execution may be: the index of a Job, or itself when it has no index."""
        if self.index is None:
            return "", self.name
        return self.pod.metadata.label(names.LABEL_JOB_NAME) or "", str(self.index)

    @property
    def position(self) -> tuple[int, str]:
        """Sorts by completion index, then by name."""
        return (self.index if self.index is not None else sys.maxsize), self.name

    @property
    def age(self) -> tuple[datetime, bool, str]:
        """Sorts from the oldest to the newest; of one second, the one that still lives is the newer."""
        return self.pod.metadata.creation_timestamp or _FIRST, self.live, self.name

    @cached_property
    def disruption(self) -> Condition | None:
        """Its DisruptionTarget condition when True."""
        return true(self.pod.status, "DisruptionTarget")

    @property
    def deletion_requested(self) -> datetime | None:
        """When its deletion was asked for: ``deletionTimestamp`` is that moment plus the grace period."""
        due = self.pod.metadata.deletion_timestamp
        if due is None:
            return None
        grace = self.pod.metadata.deletion_grace_period_seconds or 0
        return due - timedelta(seconds=min(max(grace, 0), _elapsed_seconds(due)))

    @property
    def containers(self) -> list[ContainerStatus]:
        return (self.pod.status.container_statuses if self.pod.status else None) or []

    @property
    def init_containers(self) -> list[ContainerStatus]:
        return (self.pod.status.init_container_statuses if self.pod.status else None) or []

    @property
    def trainer(self) -> ContainerStatus | None:
        """The container ``node``."""
        return next((each for each in self.containers if each.name == names.TRAINER_CONTAINER), None)

    @property
    def started(self) -> bool:
        """The container ``node`` runs or has run."""
        return self.trainer is not None and (running(self.trainer) or has_terminated(self.trainer))

    @property
    def runs(self) -> bool:
        """A container of it runs, as its status says."""
        return any(True for _ in self.running_containers())

    def running_containers(self) -> Iterator[str]:
        """The names of all containers, init containers first, that its status says are running."""
        yield from (each.name for each in (*self.init_containers, *self.containers) if running(each))


def running(status: ContainerStatus) -> bool:
    """The container runs now."""
    return status.state is not None and status.state.running is not None


def has_terminated(status: ContainerStatus) -> bool:
    """The container has terminated, now or before it was started again."""
    return any(state is not None and state.terminated is not None for state in (status.state, status.last_state))


def newest_of_each_rank(pods: Iterable[PodView]) -> list[PodView]:
    """Of each completion index the newest pod, in order of index, then name."""
    newest: dict[tuple[str, str], PodView] = {}
    for view in sorted(pods, key=lambda each: each.age):
        newest[view.rank] = view
    return sorted(newest.values(), key=lambda each: each.position)


def _elapsed_seconds(instant: datetime) -> float:
    """Seconds since the first instant there is: no grace period reaches further back."""
    return (instant - _FIRST).total_seconds()
