"""Slim typed records of the Kubernetes objects that are read, decoded straight from the wire.

Only fields that a rule looks at are here; everything else is skipped while decoding. Every field has a default, and
``null`` is taken for an absent one where Kubernetes writes it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""An instant; Kubernetes writes RFC 3339 with a zone, and one without is refused so that any two can be compared."""


class Record(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of all records: camelCase on the wire, snake_case here."""


class OwnerReference(Record):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Record):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def label(self, key: str) -> str | None:
        """The label's value, or None."""
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        """The annotation's value, or None."""
        return self.annotations.get(key) if self.annotations else None


class Condition(Record):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class Object(Record):
    """What every object has.

    ``problem`` says which part of it was left out, since it is not of the shape that Kubernetes documents; no object
    has it on the wire.
    """

    metadata: Metadata
    problem: str = msgspec.field(default="", name="dispatch.phpboyscout.uk/problem")


# ---------------------------------------------------------------- TrainJob


class RuntimePatch(Record):
    """One entry of ``spec.runtimePatches``; its inside stays as it came, since other managers' shapes are theirs."""

    manager: str = ""
    time: Time | None = None
    training_runtime_spec: dict[str, Any] | None = None


class TrainerSpec(Record):
    num_nodes: int | None = None


class TrainJobSpec(Record):
    suspend: bool | None = None
    runtime_patches: list[RuntimePatch] | None = None
    trainer: TrainerSpec | None = None


class ConditionsStatus(Record):
    conditions: list[Condition] | None = None


class TrainJob(Object):
    spec: TrainJobSpec = msgspec.field(default_factory=TrainJobSpec)
    status: ConditionsStatus | None = None


class TrainingRuntime(Object):
    """A runtime copy: only its metadata is looked at."""


# ---------------------------------------------------------------- JobSet and Job


class JobSetSpec(Record):
    suspend: bool | None = None
    replicated_jobs: list[dict[str, Any]] | None = None


class JobSetStatus(Record):
    conditions: list[Condition] | None = None
    restarts: int | None = None


class JobSet(Object):
    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus | None = None


class JobSpec(Record):
    suspend: bool | None = None
    completions: int | None = None
    parallelism: int | None = None


class JobStatus(Record):
    conditions: list[Condition] | None = None
    completed_indexes: str | None = None
    active: int | None = None
    terminating: int | None = None


class Job(Object):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus | None = None


# ---------------------------------------------------------------- Pod


class Terminated(Record):
    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: Time | None = None


class Waiting(Record):
    reason: str | None = None
    message: str | None = None


class Running(Record):
    started_at: Time | None = None


class ContainerState(Record):
    running: Running | None = None
    terminated: Terminated | None = None
    waiting: Waiting | None = None


class ContainerStatus(Record):
    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodSpec(Record):
    node_name: str | None = None


class PodStatus(Record):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: Time | None = None
    conditions: list[Condition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Object):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None


# ---------------------------------------------------------------- Node


class Taint(Record):
    key: str = ""
    value: str | None = None
    effect: str | None = None
    time_added: Time | None = None


class NodeSpec(Record):
    taints: list[Taint] | None = None


class NodeInfo(Record):
    boot_id: str | None = msgspec.field(default=None, name="bootID")


class NodeStatus(Record):
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Object):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus | None = None


# ---------------------------------------------------------------- Workload of Kueue, Event


class AdmissionCheckState(Record):
    name: str = ""
    state: str = ""
    message: str | None = None


class WorkloadSpec(Record):
    active: bool | None = None


class WorkloadStatus(Record):
    conditions: list[Condition] | None = None
    admission_checks: list[AdmissionCheckState] | None = None


class Workload(Object):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None


class InvolvedObject(Record):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSeries(Record):
    last_observed_time: Time | None = None


class Event(Object):
    """A ``v1`` Event; the newer API writes ``eventTime`` and ``series`` where the older one wrote ``lastTimestamp``."""

    involved_object: InvolvedObject | None = None
    reason: str | None = None
    message: str | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: EventSeries | None = None
