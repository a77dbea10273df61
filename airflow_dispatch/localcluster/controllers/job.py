"""The Job controller: pods for completions, replacement, back-off limit, suspension, and delayed terminal conditions.

As Kubernetes 1.36 does it: ``FailureTarget`` or ``SuccessCriteriaMet`` comes first, and ``Failed`` or ``Complete`` only
when no pod is terminating any more, so a pod that is stuck on a lost node keeps its Job from ending.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from airflow_dispatch.localcluster.apiserver.objects import Object, clone, condition, parse_time, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import (
    Key,
    change_condition,
    controller_of,
    find,
    is_true,
    keys_of,
    owned,
    owner_ref,
)
from airflow_dispatch.localcluster.controllers.events import Recorder
from airflow_dispatch.localcluster.controllers.indexes import parse_indexes
from airflow_dispatch.localcluster.controllers.jobpods import (
    INDEX,
    TRACKING,
    Pods,
    count,
    failures,
    index_of,
    indexed,
    note_failed,
    successes,
    uncounted_pods,
)
from airflow_dispatch.localcluster.resources import JOBS, PODS, Resource

__all__ = ["JobController"]

_BACKOFF_FIRST: Final = 10.0
_BACKOFF_LAST: Final = 600.0
_LIMIT_MESSAGE: Final = "Job has reached the specified backoff limit"
_DEADLINE_MESSAGE: Final = "Job was active longer than specified deadline"
_SUCCESS_MESSAGE: Final = "Reached expected number of succeeded pods"


class JobController:
    """Keys are Jobs; a pod concerns the Job that controls it."""

    name = "job-controller"
    watches: tuple[Resource, ...] = (JOBS, PODS)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._events = Recorder(registry, clock, self.name)

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The Job itself, or the one that controls the pod."""
        if resource == JOBS:
            yield from keys_of(obj, old)
            return
        for state in (obj, old):
            owner = controller_of(state, "Job") if state is not None else None
            if state is not None and owner is not None:
                yield state["metadata"]["namespace"], owner["name"]

    def reconcile(self, key: Key) -> float | None:
        """One look at a Job and its pods."""
        job = find(self._registry, JOBS, key)
        self._release_orphans(key, job)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        pods = owned(self._registry, PODS, job)
        if is_true(job, "Complete", "Failed"):
            self._untrack(pods)
            return None
        return self._sync(job, pods)

    def _sync(self, job: Object, pods: list[Object]) -> float | None:
        """Decides and acts; an ended pod is named in the status before its finalizer goes, and counted after."""
        before = clone(job)
        counted = uncounted_pods(job, pods)
        now = self._clock.now()
        again = None
        failure = self._failure(job, pods)
        groups = Pods.of(pods)
        if is_true(job, "FailureTarget") or failure:
            counted += self._fail(job, groups, failure)
        elif is_true(job, "SuccessCriteriaMet") or self._succeeded(job, groups):
            self._complete(job, groups)
        elif job["spec"].get("suspend"):
            self._suspend(job, groups)
        else:
            again = self._run(job, groups, now)
        self._write_counts(job)
        self._write(job, before)
        before = clone(job)
        self._untrack(counted)
        if count(job):
            self._write_counts(job)
            self._write(job, before)
        return again

    def _write_counts(self, job: Object) -> None:
        groups = Pods.of(owned(self._registry, PODS, job))
        status = job["status"]
        if groups.active and not job["spec"].get("suspend"):
            status["active"] = len(groups.active)
        else:
            status.pop("active", None)
        status["terminating"] = len(groups.terminating)
        status["ready"] = sum(1 for pod in groups.active if is_true(pod, "Ready"))

    def _failure(self, job: Object, pods: list[Object]) -> tuple[str, str] | None:
        """Reason and message when the Job has failed."""
        spec, status = job["spec"], job["status"]
        limit = spec.get("backoffLimit", 6)
        restarts = 0
        if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            restarts = sum(each.get("restartCount", 0) for pod in pods for each in _container_statuses(pod))
        exceeded = failures(job) > limit or (restarts > 0 if limit == 0 else restarts >= limit > 0)
        if exceeded:
            return "BackoffLimitExceeded", _LIMIT_MESSAGE
        deadline = spec.get("activeDeadlineSeconds")
        started = status.get("startTime")
        if deadline is None or not started or spec.get("suspend"):
            return None
        late = self._clock.now() >= parse_time(started) + timedelta(seconds=deadline)
        return ("DeadlineExceeded", _DEADLINE_MESSAGE) if late else None

    @staticmethod
    def _succeeded(job: Object, groups: Pods) -> bool:
        """Enough pods have succeeded; without ``completions``, one has and none is left."""
        completions = job["spec"].get("completions")
        succeeded = successes(job)
        if completions is None:
            return bool(succeeded and not groups.active and not groups.terminating)
        return bool(succeeded >= completions)

    # ------------------------------------------------------------ acting

    def _fail(self, job: Object, groups: Pods, failure: tuple[str, str] | None) -> list[Object]:
        """Says that it fails and stops what runs, which counts as failed too; those pods are returned."""
        target = condition(job, "FailureTarget")
        if target is None and failure is not None:
            for pod in groups.active:
                self._delete(job, pod)
                note_failed(job, pod)
            self._condition(job, "FailureTarget", "True", *failure)
            return groups.active
        if target is not None and not groups.terminating and not groups.active:
            self._condition(job, "Failed", "True", target["reason"], target["message"])
            self._events.record(JOBS, job, "Warning", target["reason"], target["message"])
        else:
            for pod in groups.active:
                self._delete(job, pod)
        return []

    def _complete(self, job: Object, groups: Pods) -> None:
        now = self._clock.now()
        if not is_true(job, "SuccessCriteriaMet"):
            for pod in groups.active:
                self._delete(job, pod)
            self._condition(job, "SuccessCriteriaMet", "True", "CompletionsReached", _SUCCESS_MESSAGE)
        elif not groups.terminating and not groups.active:
            job["status"]["completionTime"] = timestamp(now)
            self._condition(job, "Complete", "True", "CompletionsReached", _SUCCESS_MESSAGE)
            self._events.record(JOBS, job, "Normal", "Completed", "Job completed")

    def _suspend(self, job: Object, groups: Pods) -> None:
        """Deletes the active pods, which count neither as failed nor as succeeded however they end."""
        for pod in groups.active:
            self._untrack([pod])
            self._delete(job, pod)
        job["status"].pop("startTime", None)
        if self._condition(job, "Suspended", "True", "JobSuspended", "Job suspended"):
            self._events.record(JOBS, job, "Normal", "Suspended", "Job suspended")

    def _run(self, job: Object, groups: Pods, now: datetime) -> float | None:
        """Creates the pods that are wanted and may be created; returns when one more may be."""
        status, spec = job["status"], job["spec"]
        if condition(job, "Suspended") is not None and is_true(job, "Suspended"):
            status.pop("startTime", None)
            self._condition(job, "Suspended", "False", "JobResumed", "Job resumed")
            self._events.record(JOBS, job, "Normal", "Resumed", "Job resumed")
        status.setdefault("startTime", timestamp(now))
        parallelism, completions, succeeded = (
            spec.get("parallelism", 1),
            spec.get("completions"),
            successes(job),
        )
        if completions is not None:
            wanted = min(parallelism, completions - succeeded)
        else:
            wanted = min(parallelism, len(groups.active)) if succeeded else parallelism
        held = len(groups.terminating) if spec.get("podReplacementPolicy") == "Failed" else 0
        missing = wanted - len(groups.active) - held
        if missing > 0:
            wait = self._backoff(job, groups, now)
            if wait > 0:
                return wait
            for index in self._free_indexes(job, groups)[:missing]:
                self._create(job, index)
        for pod in groups.active[wanted:] if wanted >= 0 else groups.active:
            self._delete(job, pod)
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is None:
            return None
        return max(0.1, (parse_time(status["startTime"]) + timedelta(seconds=deadline) - now).total_seconds())

    def _free_indexes(self, job: Object, groups: Pods) -> list[int | None]:
        if not indexed(job):
            return [None] * int(job["spec"].get("parallelism", 1))
        taken = {index_of(pod) for pod in groups.active} | parse_indexes(job["status"].get("completedIndexes", ""))
        if job["spec"].get("podReplacementPolicy") == "Failed":
            taken |= {index_of(pod) for pod in groups.terminating}
        return [index for index in range(job["spec"]["completions"]) if index not in taken]

    def _backoff(self, job: Object, groups: Pods, now: datetime) -> float:
        """Seconds until a failed pod may be replaced: 10, 20, 40, ... after the last failure."""
        ends = [_finished_at(pod) for pod in groups.finished if pod["status"].get("phase") == "Failed"]
        known = [moment for moment in ends if moment is not None]
        if not known or not failures(job):
            return 0.0
        pause = min(_BACKOFF_LAST, _BACKOFF_FIRST * 2 ** (failures(job) - 1))
        return (max(known) + timedelta(seconds=pause) - now).total_seconds()

    def _create(self, job: Object, index: int | None) -> None:
        metadata = job["metadata"]
        template = clone(job["spec"]["template"])
        pod_metadata = template.setdefault("metadata", {})
        base = metadata["name"] if index is None else f"{metadata['name']}-{index}"
        pod_metadata["generateName"] = f"{base}-"
        pod_metadata["ownerReferences"] = [owner_ref("batch/v1", "Job", job)]
        pod_metadata["finalizers"] = [TRACKING]
        if index is not None:
            pod_metadata.setdefault("labels", {})[INDEX] = str(index)
            pod_metadata.setdefault("annotations", {})[INDEX] = str(index)
            template["spec"]["hostname"] = base
            field = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in template["spec"].get("containers") or ():
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
        body = {"apiVersion": "v1", "kind": "Pod", **template}
        created = self._registry.create(PODS, metadata["namespace"], body, field_manager=self.name)
        message = f"Created pod: {created['metadata']['name']}"
        self._events.record(JOBS, job, "Normal", "SuccessfulCreate", message)

    def _delete(self, job: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        self._registry.delete(PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        self._events.record(JOBS, job, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")

    def _untrack(self, pods: list[Object]) -> None:
        """Takes the tracking finalizer off."""
        for pod in pods:
            current = find(self._registry, PODS, (pod["metadata"]["namespace"], pod["metadata"]["name"]))
            if current is None or TRACKING not in (current["metadata"].get("finalizers") or ()):
                continue
            current["metadata"]["finalizers"].remove(TRACKING)
            metadata = current["metadata"]
            self._registry.update(PODS, metadata["namespace"], metadata["name"], current, field_manager=self.name)

    def _release_orphans(self, key: Key, job: Object | None) -> None:
        """A pod whose Job is gone, or going, has nobody to count it."""
        if job is not None and "deletionTimestamp" not in job["metadata"]:
            return
        namespace, name = key
        for pod in self._registry.list(PODS, namespace, label_selector=f"job-name={name}").items:
            owner = controller_of(pod, "Job")
            if owner is not None and owner["name"] == name and (job is None or owner["uid"] == job["metadata"]["uid"]):
                self._untrack([pod])

    def _condition(self, job: Object, kind: str, status: str, reason: str, message: str) -> bool:
        now = self._clock.now()
        return change_condition(job, kind, status, (reason, message), now, lastProbeTime=timestamp(now))

    def _write(self, job: Object, before: Object) -> None:
        """Writes the status unless it is as before."""
        if job == before:
            return
        metadata = job["metadata"]
        written = self._registry.update(
            JOBS, metadata["namespace"], metadata["name"], job, subresource="status", field_manager=self.name
        )
        job["metadata"] = written["metadata"]


def _container_statuses(pod: Object) -> list[Object]:
    return pod["status"].get("containerStatuses") or []


def _finished_at(pod: Object) -> datetime | None:
    ends = [
        parse_time(ended["finishedAt"])
        for each in _container_statuses(pod)
        if (ended := (each.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    return max(ends, default=None)
