"""The TrainJob controller of Trainer 2.3: a JobSet from runtime, patches and TrainJob, and conditions copied back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.objects import Object, clone, condition, parse_time, set_condition
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import (
    Key,
    change_condition,
    find,
    is_true,
    keys_of,
    owner_ref,
)
from airflow_dispatch.localcluster.controllers.events import EventRecorder
from airflow_dispatch.localcluster.controllers.trainerbuild import build_jobset
from airflow_dispatch.localcluster.resources import (
    CLUSTER_TRAINING_RUNTIMES,
    CONFIGMAPS,
    JOBSETS,
    TRAINING_RUNTIMES,
    TRAINJOBS,
    Resource,
)

__all__ = ["TrainJobController", "runtime_of"]

_DEADLINE: Final = "DeadlineExceeded"
_API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"
_SUFFIX: Final = "-runtime-snapshot"


class TrainJobController:
    """Keys are TrainJobs; a JobSet concerns the TrainJob of its name."""

    name = "trainer"
    watches: tuple[Resource, ...] = (TRAINJOBS, JOBSETS)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._events = EventRecorder(registry, clock, "trainer-trainjob-controller")

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The TrainJob itself, or the one that the JobSet is named after."""
        del resource
        yield from keys_of(obj, old)

    def reconcile(self, key: Key) -> float | None:
        """Erases Failed and works it out anew, unless it is a deadline's: so 2.3 does (and 2.4 no longer)."""
        trainjob = find(self._registry, TRAINJOBS, key)
        if trainjob is None or "deletionTimestamp" in trainjob["metadata"]:
            return None
        before = clone(trainjob)
        failed = condition(trainjob, "Failed")
        if is_true(trainjob, "Complete") or (failed is not None and failed.get("reason") == _DEADLINE):
            return None
        if failed is not None:
            trainjob["status"]["conditions"].remove(failed)
        again = self._check_deadline(trainjob)
        if not is_true(trainjob, "Failed"):
            self._apply(trainjob)
            self._copy_status(trainjob)
        if trainjob.get("status") != before.get("status"):
            self._update(TRAINJOBS, trainjob, "status")
        return again

    # ------------------------------------------------------------ JobSet

    def _apply(self, trainjob: Object) -> None:
        """Creates the JobSet, or brings a suspended one in line; an unsuspended JobSet is never touched."""
        metadata = trainjob["metadata"]
        key = metadata["namespace"], metadata["name"]
        present = find(self._registry, JOBSETS, key)
        suspended = bool(trainjob["spec"].get("suspend"))
        if present is not None and not suspended and not present["spec"].get("suspend"):
            return
        try:
            built = build_jobset(trainjob, self._runtime(trainjob))
            if present is None:
                self._registry.create(JOBSETS, key[0], built, field_manager=self.name)
            elif "deletionTimestamp" not in present["metadata"]:
                self._apply_to(present, built)
        except ApiError as error:
            self._events.record(TRAINJOBS, trainjob, "Warning", "TrainJobResourcesCreationFailed", error.message)
            raise

    def _apply_to(self, present: Object, built: Object) -> None:
        """As a forced server-side apply does: what is built wins, what others added stays."""
        changed = clone(present)
        for part in ("labels", "annotations"):
            if built["metadata"].get(part):
                changed["metadata"].setdefault(part, {}).update(built["metadata"][part])
        changed["spec"]["suspend"] = built["spec"]["suspend"]
        wanted = {each["name"]: each for each in built["spec"].get("replicatedJobs") or ()}
        for replicated in changed["spec"].get("replicatedJobs") or ():
            template = wanted[replicated["name"]]["template"]["spec"]["template"]
            target = replicated["template"]["spec"]["template"]
            if template.get("metadata"):
                target["metadata"] = template["metadata"]
            for part in ("nodeSelector", "tolerations", "schedulingGates"):
                if part in template["spec"]:
                    target["spec"][part] = template["spec"][part]
        if changed != present:
            self._update(JOBSETS, changed, "")

    def _runtime(self, trainjob: Object) -> Object:
        """The runtime as it was at the first look, kept in a ConfigMap: later edits of it change nothing."""
        metadata = trainjob["metadata"]
        name = metadata["name"] + _SUFFIX
        kept = find(self._registry, CONFIGMAPS, (metadata["namespace"], name))
        if kept is not None:
            if not any(owner["uid"] == metadata["uid"] for owner in kept["metadata"].get("ownerReferences") or ()):
                raise ApiError(409, "Conflict", "a snapshot configmap exists but is owned by another object")
            stored: Object = json.loads(kept["data"]["runtime"])
            return stored
        runtime = runtime_of(self._registry, trainjob)
        if runtime is None:
            raise ApiError(404, "NotFound", "the runtime does not exist")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [owner_ref(_API_VERSION, "TrainJob", trainjob)]},
            "data": {"runtime": json.dumps({"kind": runtime["kind"], "spec": runtime["spec"]})},
        }
        self._registry.create(CONFIGMAPS, metadata["namespace"], body, field_manager=self.name)
        return runtime

    # ------------------------------------------------------------ status

    def _copy_status(self, trainjob: Object) -> None:
        metadata = trainjob["metadata"]
        now = self._clock.now()
        if trainjob["spec"].get("suspend"):
            change_condition(trainjob, "Suspended", "True", ("Suspended", "TrainJob is suspended"), now)
        elif is_true(trainjob, "Suspended"):
            change_condition(trainjob, "Suspended", "False", ("Resumed", "TrainJob is resumed"), now)
        jobset = find(self._registry, JOBSETS, (metadata["namespace"], metadata["name"]))
        if jobset is None:
            return
        for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
            found = condition(jobset, theirs)
            if found is not None and found["status"] == "True":
                set_condition(trainjob, {**found, "type": ours})
        counts = jobset.get("status", {}).get("replicatedJobsStatus")
        if counts:
            trainjob.setdefault("status", {})["jobsStatus"] = clone(counts)
        else:
            trainjob.get("status", {}).pop("jobsStatus", None)

    def _check_deadline(self, trainjob: Object) -> float | None:
        """Ends a TrainJob whose time is up, its JobSet first; seconds until that is so."""
        seconds = trainjob["spec"].get("activeDeadlineSeconds")
        if seconds is None or trainjob["spec"].get("suspend"):
            return None
        resumed = condition(trainjob, "Suspended")
        if resumed is not None and resumed["status"] == "True":
            return 0.1  # resumed a moment ago: the time counts from when that is written
        since = resumed["lastTransitionTime"] if resumed else trainjob["metadata"]["creationTimestamp"]
        now = self._clock.now()
        left = (parse_time(since) + timedelta(seconds=seconds) - now).total_seconds()
        if left > 0:
            return left
        metadata = trainjob["metadata"]
        if self._registry.exists(JOBSETS, metadata["namespace"], metadata["name"]):
            self._registry.delete(JOBSETS, metadata["namespace"], metadata["name"], propagation="Background")
        change_condition(trainjob, "Failed", "True", (_DEADLINE, "TrainJob exceeded its active deadline"), now)
        return None

    def _update(self, resource: Resource, obj: Object, subresource: str) -> None:
        metadata = obj["metadata"]
        self._registry.update(
            resource,
            metadata["namespace"],
            metadata["name"],
            obj,
            subresource=subresource,
            field_manager=self.name,
        )


def runtime_of(registry: Registry, trainjob: Object) -> Object | None:
    """The live runtime that a TrainJob names, or None."""
    reference = trainjob["spec"].get("runtimeRef") or {}
    name = reference.get("name", "")
    if reference.get("kind", CLUSTER_TRAINING_RUNTIMES.kind) == TRAINING_RUNTIMES.kind:
        return find(registry, TRAINING_RUNTIMES, (trainjob["metadata"]["namespace"], name))
    if registry.exists(CLUSTER_TRAINING_RUNTIMES, None, name):
        return registry.get(CLUSTER_TRAINING_RUNTIMES, None, name)
    return None
