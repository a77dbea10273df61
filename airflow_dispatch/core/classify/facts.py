"""What the rules of sections 3 to 8 read, worked out once from a snapshot and a clock reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import condition, true
from airflow_dispatch.core.classify.findings import Finding, findings
from airflow_dispatch.core.classify.patch import PodPatch, pod_patch
from airflow_dispatch.core.classify.pods import PodView, newest_of_each_rank
from airflow_dispatch.core.classify.remaining import may_have_outlived, may_run
from airflow_dispatch.core.identity import parse_comment, parse_decimal, parse_gates, parse_name
from airflow_dispatch.core.objects import Condition, Job, Metadata, Object
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import CapturedPod, NodeView, Site, Snapshot


class Facts:
    """One TrainJob's snapshot with the questions that several rules ask of it.

    ``submission`` is who the name says it is, None for a name that is not of our form. ``kueue``: it has the queue-name
    label or a Workload, so Kueue mode (contract, section 2). ``complete``, ``failed`` and ``suspended`` are the
    TrainJob's conditions when True; ``suspend_asked``: its ``spec.suspend`` is true.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        trainjob = snapshot.trainjob
        self.snapshot = snapshot
        self.now = now
        self.trainjob = trainjob
        self.metadata = trainjob.metadata
        self.workload = snapshot.workload
        self.submission = parse_name(trainjob.metadata.name)
        self.kueue = self.workload is not None or self.metadata.label(names.LABEL_KUEUE_QUEUE) is not None
        self.complete = true(trainjob.status, "Complete")
        self.failed = true(trainjob.status, "Failed")
        self.suspended = true(trainjob.status, "Suspended")
        self.suspend_asked = trainjob.spec.suspend is True

    # ------------------------------------------------------------ the object

    @property
    def site(self) -> Site:
        return self.snapshot.site

    @property
    def attempt(self) -> int:
        """The attempt of the comment annotation; 0 when it is absent or not of its form."""
        comment = parse_comment(self.metadata.annotation(names.ANNOTATION_COMMENT) or "")
        return comment[1] if comment else 0

    @property
    def not_suspended(self) -> bool:
        return not self.suspend_asked and self.suspended is None

    @property
    def admitted(self) -> bool:
        """Plain mode: always; Kueue mode: ``Admitted=True`` of the Workload."""
        return not self.kueue or self.workload_condition("Admitted") is not None

    def workload_condition(self, kind: str, status: str = "True") -> Condition | None:
        """A condition of the Workload with this status, or None."""
        found = condition(self.workload.status, kind) if self.workload is not None else None
        return found if found is not None and found.status == status else None

    # ------------------------------------------------------------ gates and holds

    @cached_property
    def trainjob_gates(self) -> list[str]:
        return _gates(self.metadata)

    @cached_property
    def foreign_gates(self) -> list[str]:
        """Other parties' gates on the TrainJob, then those that stand on the Workload alone."""
        on_workload = _gates(self.workload.metadata) if self.workload is not None else []
        return [gate for gate in dict.fromkeys([*self.trainjob_gates, *on_workload]) if gate != names.GATE]

    @property
    def opened(self) -> bool:
        return self.metadata.annotation(names.ANNOTATION_OPENED) == "true"

    @property
    def held_object(self) -> Metadata | None:
        """What carries a hold: the Workload in Kueue mode, the TrainJob in plain mode."""
        if self.kueue:
            return self.workload.metadata if self.workload is not None else None
        return self.metadata

    @property
    def hold_text(self) -> str | None:
        """``hold-instance`` as it stands on the held object, or None."""
        return self.held_object.annotation(names.ANNOTATION_HOLD_INSTANCE) if self.held_object is not None else None

    @property
    def hold_instance(self) -> int:
        """The hold's instance; 0 when there is none or it is malformed."""
        return parse_decimal(self.hold_text) or 0

    # ------------------------------------------------------------ the patch and the counters

    @cached_property
    def patch(self) -> PodPatch | None:
        return pod_patch(self.trainjob)

    @property
    def patch_admission(self) -> int | None:
        """A as the TrainJob asks for it."""
        return self.patch.admission_number if self.patch is not None else None

    @property
    def restarts(self) -> int:
        """``status.restarts`` of the JobSet: the J of the pods that it makes now."""
        status = self.snapshot.jobset.status if self.snapshot.jobset is not None else None
        return (status.restarts if status is not None else None) or 0

    @cached_property
    def odd(self) -> list[str]:
        """Of each object that could be read in part only: ``<kind> <name> can't be read in full: <problem>``."""
        snapshot = self.snapshot
        read: list[Object | None] = [self.trainjob, snapshot.jobset, snapshot.runtime, self.workload]
        read += [*snapshot.jobs, *snapshot.pods, *snapshot.nodes.values()]
        found = ((type(each).__name__, each.metadata.name, each.problem) for each in read if each and each.problem)
        return [f"{kind} {name} can't be read in full: {problem}" for kind, name, problem in sorted(found)]

    # ------------------------------------------------------------ the Jobs

    @cached_property
    def trainer_job(self) -> Job | None:
        """The Job that runs the ranks; a runtime without Trainer's step label has a single one."""
        jobs = sorted(self.snapshot.jobs, key=lambda job: job.metadata.name)
        steps = [job for job in jobs if job.metadata.label(names.LABEL_ANCESTOR_STEP) is not None]
        trainers = [
            job for job in steps if job.metadata.label(names.LABEL_ANCESTOR_STEP) == names.ANCESTOR_STEP_TRAINER
        ]
        return next(iter(trainers if steps else jobs), None)

    def job_condition(self, kind: str) -> Condition | None:
        """A True condition of the trainer's Job, or None."""
        return true(self.trainer_job.status, kind) if self.trainer_job is not None else None

    def pods_of(self, job: Job) -> list[PodView]:
        """The live pods of a Job."""
        return [view for view in self.live if view.pod.metadata.label(names.LABEL_JOB_NAME) == job.metadata.name]

    # ------------------------------------------------------------ the pods

    @cached_property
    def live(self) -> list[PodView]:
        """The listed pods, by index and name."""
        views = {
            _identity(pod.metadata): PodView(pod, self.snapshot.node_of(pod), live=True) for pod in self.snapshot.pods
        }
        return sorted(views.values(), key=lambda view: view.position)

    @cached_property
    def captured(self) -> list[PodView]:
        """The last states of deleted pods, by index and name; a pod that is still listed is not among them."""
        views = _captured(self.snapshot.captured, {_identity(view.pod.metadata) for view in self.live})
        return sorted(views, key=lambda view: view.position)

    @property
    def pods(self) -> list[PodView]:
        """Live and captured pods: a rule reads them alike."""
        return [*self.live, *self.captured]

    @cached_property
    def vanished(self) -> list[PodView]:
        """Deleted pods of which no kubelet said that they ended, and whose machine may still run them (section 12)."""
        live = {_identity(view.pod.metadata) for view in self.live}
        remembered = {_identity(view.pod.metadata): view for view in _captured(self.snapshot.vanished, live)}
        known = {_identity(view.pod.metadata): view for view in self.captured} | remembered
        return [
            view
            for identity, view in known.items()
            if identity not in self.snapshot.confirmed and may_have_outlived(view, self.node_now(view))
        ]

    @cached_property
    def remaining(self) -> list[PodView]:
        """Every pod of the TrainJob that may still run, in order of name."""
        views = [view for view in self.live if may_run(view)] + self.vanished
        return sorted(views, key=lambda view: view.name)

    @cached_property
    def current(self) -> list[PodView]:
        """The pods of the current execution, live or captured (section 6.4)."""
        return current_execution(self.pods)

    @cached_property
    def bound(self) -> list[PodView]:
        """The live, unfinished pods of the current execution that are bound to a Node, by index and name."""
        return [view for view in self.current if view.live and not view.finished and view.node_name]

    @cached_property
    def findings(self) -> list[Finding]:
        """What the current execution's pods say of why it broke, the cause first (section 6.3)."""
        return findings(self.current, self.site)

    @cached_property
    def _newest(self) -> dict[tuple[str, str], PodView]:
        return {view.rank: view for view in newest_of_each_rank(self.live)}

    def replaced(self, view: PodView) -> bool:
        """A newer live pod has taken its rank."""
        newest = self._newest.get(view.rank)
        return newest is not None and newest.age > view.age

    def node_now(self, view: PodView) -> NodeView | None:
        """The Node that a pod is or was bound to, as it is now."""
        return self.snapshot.node_of(view.pod)


@implements(
    Row(
        "6.4",
        "current",
        "the pods, live or captured, with the highest A + J; on a tie those with the higher A. A is the admission that "
        "dispatch counts, J JobSet's restarts. A pod without either belongs to none",
    )
)
def current_execution(pods: Sequence[PodView]) -> list[PodView]:
    """The pods with the highest R = A + J, the higher A on a tie; a pod that lacks either counts towards none."""
    executions = {view.counters for view in pods if view.counters is not None}
    highest = max(executions, key=lambda counters: (sum(counters), counters), default=None)
    return [view for view in pods if highest is not None and view.counters == highest]


def _gates(metadata: Metadata) -> list[str]:
    return parse_gates(metadata.annotation(names.ANNOTATION_KUEUE_GATED_BY))


def _identity(metadata: Metadata) -> str:
    return metadata.uid or metadata.name


def _captured(pods: Iterable[CapturedPod], live: set[str]) -> list[PodView]:
    views = {_identity(each.pod.metadata): PodView.of(each) for each in pods}
    return [view for identity, view in views.items() if identity not in live]
