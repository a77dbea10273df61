"""The JobSet controller: Jobs for replicated jobs, restarts by failure policy, suspension, conditions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object, clone, condition, parse_time
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
from airflow_dispatch.localcluster.controllers.events import EventRecorder
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, SERVICES, Resource

__all__ = ["JobSetController"]

PREFIX: Final = "jobset.sigs.k8s.io/"
ATTEMPT: Final = PREFIX + "restart-attempt"
_RESTART_ACTIONS: Final = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")


class JobSetController:
    """Keys are JobSets; a Job concerns the JobSet that controls it."""

    name = "jobset"
    watches: tuple[Resource, ...] = (JOBSETS, JOBS)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._events = EventRecorder(registry, clock, self.name)

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The JobSet itself, or the one that controls the Job."""
        if resource == JOBSETS:
            yield from keys_of(obj, old)
            return
        for state in (obj, old):
            owner = controller_of(state, "JobSet") if state is not None else None
            if state is not None and owner is not None:
                yield state["metadata"]["namespace"], owner["name"]

    def reconcile(self, key: Key) -> float | None:
        """One look at a JobSet and its Jobs: what has ended, what is to restart, what is missing, what is suspended."""
        jobset = find(self._registry, JOBSETS, key)
        if jobset is None or "deletionTimestamp" in jobset["metadata"]:
            return None
        before = clone(jobset)
        status = jobset.setdefault("status", {})
        status.setdefault("restarts", 0)
        jobs = owned(self._registry, JOBS, jobset)
        current = [job for job in jobs if int(job["metadata"]["labels"].get(ATTEMPT, 0)) >= status["restarts"]]
        status["replicatedJobsStatus"] = self._counts(jobset, current)
        if is_true(jobset, "Completed", "Failed"):
            self._delete_active(current)
        else:
            self._act(jobset, jobs, current)
        if jobset != before:
            self._write(jobset)
        return self._expire(jobset)

    def _expire(self, jobset: Object) -> float | None:
        """Deletes a finished JobSet whose ``ttlSecondsAfterFinished`` have passed; seconds until they have."""
        seconds = jobset["spec"].get("ttlSecondsAfterFinished")
        ends = [condition(jobset, kind) for kind in ("Completed", "Failed") if is_true(jobset, kind)]
        if seconds is None or not ends or ends[0] is None:
            return None
        due = parse_time(ends[0]["lastTransitionTime"]) + timedelta(seconds=seconds)
        left = (due - self._clock.now()).total_seconds()
        if left > 0:
            return left
        metadata = jobset["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        self._registry.delete(JOBSETS, namespace, name, uid=metadata["uid"], propagation="Foreground")
        return None

    def _act(self, jobset: Object, jobs: list[Object], current: list[Object]) -> None:
        for job in jobs:
            if job not in current and "deletionTimestamp" not in job["metadata"]:
                self._delete(job)
        if not jobset["spec"].get("suspend") and _all_ready(jobset):
            self._restart_over(jobset, "JobsReady", "all jobs are ready")
        failed = [job for job in current if is_true(job, "Failed")]
        if failed:
            self._on_failure(jobset, failed)
            return
        if current and self._all_complete(jobset, current):
            message = "jobset completed successfully"
            self._condition(jobset, "Completed", "True", ("AllJobsCompleted", message))
            self._restart_over(jobset, "JobSetCompleted", message)
            jobset["status"]["terminalState"] = "Completed"
            return
        self._create_service(jobset)
        self._create_missing(jobset, jobs)
        if jobset["spec"].get("suspend"):
            self._suspend(jobset, current)
        else:
            self._resume(jobset, current)

    # ------------------------------------------------------------ ends and restarts

    def _on_failure(self, jobset: Object, failed: list[Object]) -> None:
        first = min(failed, key=lambda job: str((condition(job, "Failed") or {}).get("lastTransitionTime", "")))
        name = first["metadata"]["name"]
        policy = jobset["spec"].get("failurePolicy")
        if policy is None:
            message = f"jobset failed due to one or more job failures (first failed job: {name})"
            self._fail(jobset, "FailedJobs", message)
            return
        rule = self._rule(policy, first)
        action = rule["action"] if rule else "RestartJobSet"
        if action == "FailJobSet":
            message = f"applying FailJobSet failure policy action (first failed job: {name})"
            self._fail(jobset, "FailJobSetFailurePolicyAction", message)
            return
        counts = action != "RestartJobSetAndIgnoreMaxRestarts"
        towards = jobset["status"].get("restartsCountTowardsMax", 0)
        if counts and towards >= policy.get("maxRestarts", 0):
            message = f"jobset failed due to reaching max number of restarts (first failed job: {name})"
            self._fail(jobset, "ReachedMaxRestarts", message)
            return
        jobset["status"]["restarts"] += 1
        jobset["status"]["restartsCountTowardsMax"] = towards + counts
        reason = f"FailurePolicy_{rule['name']}" if rule and rule.get("name") else "DefaultFailurePolicy"
        message = f"applying {action} failure policy action (first failed job: {name})"
        self._condition(jobset, "RestartingJobSet", "True", (reason, message), "Warning")
        self._events.record(JOBSETS, jobset, "Warning", f"{action}FailurePolicyAction", message)

    @staticmethod
    def _rule(policy: Object, job: Object) -> Object | None:
        """The first rule of the policy that matches."""
        reason = (condition(job, "Failed") or {}).get("reason")
        target = job["metadata"]["labels"][PREFIX + "replicatedjob-name"]
        for rule in policy.get("rules") or ():
            reasons, targets = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
            if (not reasons or reason in reasons) and (not targets or target in targets):
                return rule  # type: ignore[no-any-return]
        return None

    def _fail(self, jobset: Object, reason: str, message: str) -> None:
        self._condition(jobset, "Failed", "True", (reason, message), "Warning")
        self._restart_over(jobset, "JobSetFailed", "jobset failed")
        jobset["status"]["terminalState"] = "Failed"

    @staticmethod
    def _all_complete(jobset: Object, current: list[Object]) -> bool:
        wanted = sum(replicated.get("replicas", 1) for replicated in jobset["spec"].get("replicatedJobs") or ())
        return bool(sum(1 for job in current if is_true(job, "Complete")) == wanted)

    def _delete_active(self, current: list[Object]) -> None:
        for job in current:
            if not is_true(job, "Complete", "Failed") and "deletionTimestamp" not in job["metadata"]:
                self._delete(job)

    def _delete(self, job: Object) -> None:
        metadata = job["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        self._registry.delete(JOBS, namespace, name, uid=metadata["uid"], propagation="Foreground")

    # ------------------------------------------------------------ suspension

    def _suspend(self, jobset: Object, current: list[Object]) -> None:
        for job in current:
            if not is_true(job, "Complete", "Failed") and not job["spec"].get("suspend"):
                job["spec"]["suspend"] = True
                self._update(JOBS, job)
        message = "jobset is suspended"
        self._condition(jobset, "Suspended", "True", ("SuspendedJobs", message))
        self._restart_over(jobset, "JobSetSuspended", message)

    def _resume(self, jobset: Object, current: list[Object]) -> None:
        templates = {each["name"]: each["template"] for each in jobset["spec"].get("replicatedJobs") or ()}
        for job in current:
            if is_true(job, "Complete", "Failed") or not job["spec"].get("suspend"):
                continue
            if job.get("status", {}).get("startTime"):
                del job["status"]["startTime"]
                job["metadata"] = self._update(JOBS, job, subresource="status")["metadata"]
            template = templates[job["metadata"]["labels"][PREFIX + "replicatedjob-name"]]
            _merge_template(job["spec"]["template"], template["spec"]["template"])
            job["spec"]["suspend"] = False
            self._update(JOBS, job)
        if condition(jobset, "Suspended") is not None:
            self._condition(jobset, "Suspended", "False", ("ResumeJobs", "jobset is resumed"))

    def _restart_over(self, jobset: Object, reason: str, message: str) -> None:
        """Says of a JobSet that has ever restarted why it no longer does."""
        if condition(jobset, "RestartingJobSet") is not None:
            self._condition(jobset, "RestartingJobSet", "False", (reason, message))

    # ------------------------------------------------------------ what is made

    def _create_service(self, jobset: Object) -> None:
        """The headless Service that gives pods their names."""
        network = jobset["spec"].get("network") or {}
        metadata = jobset["metadata"]
        name = network.get("subdomain") or metadata["name"]
        if not network.get("enableDNSHostnames") or self._registry.exists(SERVICES, metadata["namespace"], name):
            return
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "ownerReferences": [owner_ref("jobset.x-k8s.io/v1alpha2", "JobSet", jobset)]},
            "spec": {
                "clusterIP": "None",
                "selector": {PREFIX + "jobset-name": metadata["name"]},
                "publishNotReadyAddresses": bool(network.get("publishNotReadyAddresses")),
            },
        }
        self._registry.create(SERVICES, metadata["namespace"], body, field_manager=self.name)

    def _create_missing(self, jobset: Object, jobs: list[Object]) -> None:
        """Creates the Jobs of this attempt; one of an earlier attempt with the same name has to go first."""
        present = {job["metadata"]["name"] for job in jobs}
        for number, (replicated, index) in enumerate(_replicas(jobset)):
            name = f"{jobset['metadata']['name']}-{replicated['name']}-{index}"
            if name not in present:
                body = self._job(jobset, replicated, index, number, name)
                self._registry.create(JOBS, jobset["metadata"]["namespace"], body, field_manager=self.name)

    def _job(self, jobset: Object, replicated: Object, index: int, number: int, name: str) -> Object:
        metadata = jobset["metadata"]
        replicas = replicated.get("replicas", 1)
        total = sum(each.get("replicas", 1) for each in jobset["spec"]["replicatedJobs"])
        key = hashlib.sha1(f"{metadata['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest()
        marks = {
            "global-replicas": str(total),
            "group-name": replicated.get("groupName", "default"),
            "group-replicas": str(total),
            "job-global-index": str(number),
            "job-group-index": str(number),
            "job-index": str(index),
            "job-key": key,
            "jobset-name": metadata["name"],
            "jobset-uid": metadata["uid"],
            "replicatedjob-name": replicated["name"],
            "replicatedjob-replicas": str(replicas),
            "restart-attempt": str(jobset["status"]["restarts"]),
        }
        own = {PREFIX + suffix: value for suffix, value in marks.items()}
        template = clone(replicated["template"])
        spec = template["spec"]
        pod = spec["template"].setdefault("metadata", {})
        job_metadata = template.get("metadata") or {}
        for target in (job_metadata, pod):
            for part in ("labels", "annotations"):
                target[part] = {**(target.get(part) or {}), **own}
        network = jobset["spec"].get("network") or {}
        if network.get("enableDNSHostnames"):
            spec["template"]["spec"]["subdomain"] = network.get("subdomain") or metadata["name"]
        spec["suspend"] = bool(jobset["spec"].get("suspend"))
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": job_metadata["labels"],
                "annotations": job_metadata["annotations"],
                "ownerReferences": [owner_ref("jobset.x-k8s.io/v1alpha2", "JobSet", jobset)],
            },
            "spec": spec,
        }

    # ------------------------------------------------------------ status

    @staticmethod
    def _counts(jobset: Object, current: list[Object]) -> list[dict[str, Any]]:
        """How many Jobs of each replicated job are what; no count knows terminating pods."""
        counts = []
        for replicated in jobset["spec"].get("replicatedJobs") or ():
            name = replicated["name"]
            jobs = [job for job in current if job["metadata"]["labels"][PREFIX + "replicatedjob-name"] == name]
            entry: dict[str, Any] = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0)
            entry["name"] = name
            for job in jobs:
                status = job.get("status", {})
                if is_true(job, "Failed"):
                    entry["failed"] += 1
                elif is_true(job, "Complete"):
                    entry["succeeded"] += 1
                else:
                    entry["active"] += bool(status.get("active"))
                    entry["suspended"] += bool(job["spec"].get("suspend"))
                    wanted = min(job["spec"].get("parallelism", 1), job["spec"].get("completions") or 1_000_000)
                    ready = status.get("ready", 0) + status.get("succeeded", 0)
                    entry["ready"] += ready >= wanted
            counts.append(entry)
        return counts

    def _condition(self, jobset: Object, kind: str, status: str, words: tuple[str, str], level: str = "Normal") -> None:
        if change_condition(jobset, kind, status, words, self._clock.now()):
            self._events.record(JOBSETS, jobset, level, *words)

    def _write(self, jobset: Object) -> None:
        self._update(JOBSETS, jobset, subresource="status")

    def _update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        metadata = obj["metadata"]
        return self._registry.update(
            resource,
            metadata["namespace"],
            metadata["name"],
            obj,
            subresource=subresource,
            field_manager=self.name,
        )


def _all_ready(jobset: Object) -> bool:
    """Each Job of each replicated job is ready or has succeeded."""
    wanted = sum(replicated.get("replicas", 1) for replicated in jobset["spec"].get("replicatedJobs") or ())
    counts = jobset["status"]["replicatedJobsStatus"]
    return bool(sum(each["ready"] + each["succeeded"] for each in counts) == wanted)


def _replicas(jobset: Object) -> Iterator[tuple[Object, int]]:
    for replicated in jobset["spec"].get("replicatedJobs") or ():
        for index in range(replicated.get("replicas", 1)):
            yield replicated, index


def _merge_template(target: Object, source: Object) -> None:
    """What resuming takes over from the JobSet: new values win, nothing is removed."""
    for part in ("labels", "annotations"):
        values = (source.get("metadata") or {}).get(part)
        if values:
            target.setdefault("metadata", {}).setdefault(part, {}).update(values)
    spec, wanted = target["spec"], source["spec"]
    if wanted.get("nodeSelector"):
        spec.setdefault("nodeSelector", {}).update(wanted["nodeSelector"])
    for part in ("tolerations", "schedulingGates"):
        for entry in wanted.get(part) or ():
            if entry not in spec.setdefault(part, []):
                spec[part].append(entry)
