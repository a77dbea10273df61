"""Builders of the objects that a classification reads: ``pod("a").terminated(137).on("node-1")``.

Each builder holds the object as Kubernetes writes it and changes it in place; what a test does not say is as it is for
a healthy job: submission 1, opened, admitted once (A = 1, J = 0), with two ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.objects import Event, Job, JobSet, Node, Pod, TrainingRuntime, TrainJob, Workload
from airflow_dispatch.core.observation import Cause, Observation
from airflow_dispatch.core.snapshot import CapturedPod, NodeAbsence, Site, Snapshot

JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"
NAME = names.object_name(JOB_ID, 1)
NAMESPACE = "ml"
UID = "trainjob-uid"
JOBSET_UID = "jobset-uid"
JOB_UID = "job-uid"
JOB_NAME = f"{NAME}-node-0"

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """The test's clock: seconds after midnight, 1 January 2026, UTC."""
    return _EPOCH + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    """The same, as Kubernetes writes it."""
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(
    kind: str, reason: str = "", message: str = "", *, status: str = "True", since: float = 0
) -> dict[str, Any]:
    """A condition whose last transition was ``since``."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp(since)}


class _Builder:
    """What all objects have."""

    def __init__(self, name: str, uid: str) -> None:
        self.raw: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": uid,
                "creationTimestamp": stamp(0),
                "labels": {},
                "annotations": {},
            },
            "spec": {},
            "status": {"conditions": []},
        }

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.raw["metadata"]
        return metadata

    def labelled(self, **labels: str | None) -> Self:
        """Labels of ours: ``labelled(job_id=..., submission=None)``; None removes one."""
        return self._mark("labels", {names.PREFIX + key.replace("_", "-"): value for key, value in labels.items()})

    def label(self, key: str, value: str | None) -> Self:
        return self._mark("labels", {key: value})

    def annotated(self, **annotations: str | None) -> Self:
        """Annotations of ours, like :meth:`labelled`."""
        found = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        return self._mark("annotations", found)

    def annotation(self, key: str, value: str | None) -> Self:
        return self._mark("annotations", {key: value})

    def owned_by(self, kind: str, uid: str) -> Self:
        self.metadata["ownerReferences"] = [{"kind": kind, "name": "owner", "uid": uid}]
        return self

    def created(self, seconds: float) -> Self:
        self.metadata["creationTimestamp"] = stamp(seconds)
        return self

    def deleted(self, seconds: float, grace: int = 30) -> Self:
        """Its deletion was asked for at ``seconds``; it is due ``grace`` seconds later."""
        self.metadata.update(deletionTimestamp=stamp(seconds + grace), deletionGracePeriodSeconds=grace)
        return self

    def with_condition(
        self, kind: str, reason: str = "", message: str = "", *, status: str = "True", since: float = 0
    ) -> Self:
        """Sets the condition of this type."""
        others = [each for each in self.raw["status"]["conditions"] if each["type"] != kind]
        self.raw["status"]["conditions"] = [*others, condition(kind, reason, message, status=status, since=since)]
        return self

    def _mark(self, where: str, values: Mapping[str, str | None]) -> Self:
        marks = {**self.metadata[where], **values}
        self.metadata[where] = {key: value for key, value in marks.items() if value is not None}
        return self


class PodBuilder(_Builder):
    """A pod of rank ``index`` in the execution A.J."""

    def __init__(self, name: str, *, index: int | None = 0, admission: int = 1, restart: int = 0) -> None:
        super().__init__(name, f"uid-{name}")
        self.labelled(job_id=JOB_ID, submission="1").annotated(admission=str(admission))
        self.label(names.LABEL_JOBSET_NAME, NAME).label(names.LABEL_JOB_NAME, JOB_NAME)
        self.label(names.LABEL_RESTART_ATTEMPT, str(restart))
        self.label(names.LABEL_COMPLETION_INDEX, None if index is None else str(index))
        self.owned_by("Job", JOB_UID)
        self.raw["status"] |= {"phase": "Pending", "containerStatuses": [], "initContainerStatuses": []}

    def on(self, node: str) -> Self:
        """Bound to this Node."""
        self.raw["spec"]["nodeName"] = node
        return self

    def phase(self, phase: str, reason: str | None = None, message: str | None = None) -> Self:
        self.raw["status"] |= {"phase": phase, "reason": reason, "message": message}
        return self

    def running(self, container: str = "node") -> Self:
        """The container runs."""
        return self.phase("Running").container(container, {"running": {"startedAt": stamp(1)}})

    def terminated(
        self, code: int, reason: str = "Error", message: str | None = None, *, finished: float | None = 10
    ) -> Self:
        """The container ``node`` has ended, and the pod with it."""
        return self.phase("Failed" if code else "Succeeded").ended("node", code, reason, message, finished=finished)

    def ended(
        self,
        container: str,
        code: int,
        reason: str = "Error",
        message: str | None = None,
        *,
        finished: float | None = 10,
    ) -> Self:
        """One container has ended; the phase stays."""
        return self.container(container, {"terminated": exited(code, reason, message, finished=finished)})

    def restarted_in_place(self, code: int, *, finished: float = 10) -> Self:
        """The container ``node`` has ended and runs again."""
        last = {"terminated": exited(code, "Error", None, finished=finished)}
        return self.phase("Running").container("node", {"running": {}}, last)

    def waiting(self, reason: str, message: str | None = None, *, container: str = "node") -> Self:
        return self.container(container, {"waiting": {"reason": reason, "message": message}})

    def container(self, name: str, state: Mapping[str, Any], last: Mapping[str, Any] | None = None) -> Self:
        return self._container("containerStatuses", name, state, last)

    def init_container(self, name: str, state: Mapping[str, Any]) -> Self:
        return self._container("initContainerStatuses", name, state, None)

    def disrupted(self, reason: str, message: str = "", *, since: float = 10) -> Self:
        """``DisruptionTarget=True``."""
        return self.with_condition("DisruptionTarget", reason, message, since=since)

    def unschedulable(self, message: str = "0/3 nodes are available", *, since: float = 5) -> Self:
        return self.with_condition("PodScheduled", "Unschedulable", message, status="False", since=since)

    def build(self) -> Pod:
        return msgspec.convert(self.raw, Pod)

    def captured(self, node: NodeBuilder | NodeAbsence = NodeAbsence.NOT_READABLE) -> CapturedPod:
        """The last state of the deleted pod, with its Node as it was then."""
        return CapturedPod(pod=self.build(), node=node.build() if isinstance(node, NodeBuilder) else node)

    def _container(self, where: str, name: str, state: Mapping[str, Any], last: Mapping[str, Any] | None) -> Self:
        others = [each for each in self.raw["status"][where] if each["name"] != name]
        self.raw["status"][where] = [*others, {"name": name, "state": dict(state), "lastState": dict(last or {})}]
        return self


def exited(
    code: int, reason: str = "Error", message: str | None = None, *, finished: float | None = 10
) -> dict[str, Any]:
    """A container's ``terminated`` state."""
    finished_at = stamp(finished) if finished is not None else None
    return {"exitCode": code, "reason": reason, "message": message, "finishedAt": finished_at}


class NodeBuilder(_Builder):
    """A Node that is Ready since the beginning."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"uid-{name}")
        self.raw["spec"]["taints"] = []
        self.raw["status"]["nodeInfo"] = {"bootID": f"boot-{name}"}
        self.ready("True", "KubeletReady")

    def ready(self, status: str, reason: str = "", *, since: float = 0) -> Self:
        return self.with_condition("Ready", reason, status=status, since=since)

    def lost(self, *, since: float = 10) -> Self:
        """Nothing is heard of it: ``Ready=Unknown`` and the taint that goes with it."""
        return self.ready("Unknown", "NodeStatusUnknown", since=since).tainted(names.TAINT_UNREACHABLE)

    def tainted(self, key: str) -> Self:
        self.raw["spec"]["taints"].append({"key": key, "effect": "NoExecute"})
        return self

    def rebooted(self) -> Self:
        self.raw["status"]["nodeInfo"] = {"bootID": "boot-after"}
        return self

    def build(self) -> Node:
        return msgspec.convert(self.raw, Node)


class ObjectBuilder(_Builder):
    """Any other object; ``spec`` is changed through ``raw``."""

    def spec(self, **fields: Any) -> Self:
        self.raw["spec"] |= fields
        return self

    def status(self, **fields: Any) -> Self:
        self.raw["status"] |= fields
        return self


def pod(name: str, *, index: int | None = 0, admission: int = 1, restart: int = 0) -> PodBuilder:
    return PodBuilder(name, index=index, admission=admission, restart=restart)


def node(name: str) -> NodeBuilder:
    return NodeBuilder(name)


def trainjob(*, admission: str | None = "1", suspend: bool = False) -> ObjectBuilder:
    """The TrainJob, opened, with our entry of the runtime patches."""
    built = ObjectBuilder(NAME, UID).labelled(job_id=JOB_ID, submission="1")
    built.annotated(comment="dispatch:s=1;a=1", opened="true", admission_floor="1", jobset_uid=JOBSET_UID)
    built.spec(suspend=suspend, runtimePatches=[runtime_patch(admission=admission)])
    return built.with_condition(
        "Suspended", "Suspended" if suspend else "Resumed", status="True" if suspend else "False", since=0
    )


def runtime_patch(
    *, job_id: str | None = JOB_ID, submission: str | None = "1", admission: str | None = "1"
) -> dict[str, Any]:
    """Our entry of ``spec.runtimePatches``."""
    labels = {names.LABEL_JOB_ID: job_id, names.LABEL_SUBMISSION: submission}
    metadata = {
        "labels": {key: value for key, value in labels.items() if value is not None},
        "annotations": {names.ANNOTATION_ADMISSION: admission} if admission is not None else {},
    }
    replicated = [{"name": "node", "template": {"spec": {"template": {"metadata": metadata}}}}]
    return {
        "manager": names.PATCH_MANAGER,
        "time": stamp(0),
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated}}},
    }


def jobset(*, suspend: bool = False, restarts: int = 0) -> ObjectBuilder:
    built = ObjectBuilder(NAME, JOBSET_UID).owned_by("TrainJob", UID)
    return built.spec(suspend=suspend).status(restarts=restarts)


def job(*, suspend: bool = False, completed: str = "", completions: int = 2) -> ObjectBuilder:
    built = ObjectBuilder(JOB_NAME, JOB_UID).owned_by("JobSet", JOBSET_UID)
    built.label(names.LABEL_ANCESTOR_STEP, names.ANCESTOR_STEP_TRAINER)
    return built.spec(suspend=suspend, completions=completions).status(completedIndexes=completed)


def runtime(*, generation: int = 1) -> ObjectBuilder:
    built = ObjectBuilder(NAME, "runtime-uid").owned_by("TrainJob", UID).labelled(job_id=JOB_ID, submission="1")
    built.metadata["generation"] = generation
    return built


def workload(*, active: bool = True, admitted: bool = False) -> ObjectBuilder:
    """The Workload; when admitted, with quota."""
    built = ObjectBuilder(f"trainjob-{NAME}", "workload-uid").label(names.LABEL_KUEUE_JOB_UID, UID).spec(active=active)
    if admitted:
        built.with_condition("QuotaReserved", "QuotaReserved").with_condition("Admitted", "Admitted")
    return built


def event(reason: str, message: str, *, kind: str, uid: str, seen: float = 5, name: str = "event") -> Event:
    raw = {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "involvedObject": {"kind": kind, "name": "object", "uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": stamp(seen),
    }
    return msgspec.convert(raw, Event)


class Scenario:
    """All that belongs to one TrainJob; attributes are replaced or changed, then :meth:`observe` classifies it."""

    def __init__(self, *pods: PodBuilder, mode: str = "plain") -> None:
        self.trainjob = trainjob()
        self.jobset: ObjectBuilder | None = jobset()
        self.job: ObjectBuilder | None = job()
        self.runtime: ObjectBuilder | None = runtime()
        self.workload: ObjectBuilder | None = None
        if mode == "kueue":
            self.trainjob.label(names.LABEL_KUEUE_QUEUE, "queue").annotated(opened=None)
            self.workload = workload(admitted=True)
        self.pods: list[PodBuilder] = list(pods)
        self.captured: list[CapturedPod] = []
        self.vanished: list[CapturedPod] = []
        self.confirmed: frozenset[str] = frozenset()
        self.unreadable: tuple[str, ...] = ()
        self.nodes: list[NodeBuilder] = [node("node-0"), node("node-1")]
        self.nodes_readable = True
        self.events: list[Event] = []
        self.seen_end: Cause | None = None
        self.site = Site()

    def suspended(self, *, since: float = 0) -> Self:
        """``spec.suspend`` is true of the TrainJob, its JobSet and its Job, and they say so."""
        self.trainjob.spec(suspend=True).with_condition("Suspended", "Suspended", since=since)
        for each in (self.jobset, self.job):
            if each is not None:
                each.spec(suspend=True)
        return self

    def snapshot(self) -> Snapshot:
        nodes = [each.build() for each in self.nodes]
        return Snapshot(
            namespace=NAMESPACE,
            trainjob=msgspec.convert(self.trainjob.raw, TrainJob),
            jobset=msgspec.convert(self.jobset.raw, JobSet) if self.jobset else None,
            jobs=(msgspec.convert(self.job.raw, Job),) if self.job else (),
            runtime=msgspec.convert(self.runtime.raw, TrainingRuntime) if self.runtime else None,
            workload=msgspec.convert(self.workload.raw, Workload) if self.workload else None,
            pods=tuple(each.build() for each in self.pods),
            captured=tuple(self.captured),
            vanished=tuple(self.vanished),
            confirmed=self.confirmed,
            unreadable=self.unreadable,
            nodes={each.metadata.name: each for each in nodes},
            nodes_readable=self.nodes_readable,
            events=tuple(self.events),
            seen_end=self.seen_end,
            site=self.site,
        )

    def observe(self, now: float = 30) -> Observation:
        return classify(self.snapshot(), at(now))

    def cause(self, now: float = 30) -> tuple[str, str, str]:
        """Kind, provenance and detail."""
        found = self.observe(now).cause
        return found.kind.value, found.provenance.value, found.detail

    def notes(self, now: float = 30) -> list[str]:
        """The parts of the detail."""
        detail = self.observe(now).cause.detail
        return detail.split("; ") if detail else []


def scenario(*pods: PodBuilder, mode: str = "plain") -> Scenario:
    return Scenario(*pods, mode=mode)
