"""How a Job counts its pods: one that has ended keeps its finalizer until the Job's status names it, so none is missed.

First the status names it by its UID (``uncountedTerminatedPods``), then its finalizer goes, then it is counted. Of an
Indexed Job the completed indexes say the same, so nothing else names a pod that has succeeded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.controllers.common import is_finished
from airflow_dispatch.localcluster.controllers.indexes import format_indexes, parse_indexes

__all__ = [
    "INDEX",
    "TRACKING",
    "Pods",
    "count",
    "failures",
    "index_of",
    "indexed",
    "note_failed",
    "successes",
    "uncounted_pods",
]

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


class Pods(NamedTuple):
    """A Job's pods by what they mean to it."""

    active: list[Object]
    terminating: list[Object]
    finished: list[Object]

    @classmethod
    def of(cls, pods: list[Object]) -> Pods:
        """Sorts a Job's pods."""
        live = [pod for pod in pods if not is_finished(pod)]
        return cls(
            active=[pod for pod in live if "deletionTimestamp" not in pod["metadata"]],
            terminating=[pod for pod in live if "deletionTimestamp" in pod["metadata"]],
            finished=[pod for pod in pods if is_finished(pod)],
        )


def indexed(job: Object) -> bool:
    """Each completion has an index of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int:
    """The pod's completion index; -1 when it has none."""
    return int(pod["metadata"].get("labels", {}).get(INDEX, -1))


def failures(job: Object) -> int:
    """How many pods have failed, those that are not counted as yet among them."""
    return _ended(job, "failed")


def successes(job: Object) -> int:
    """How many pods have succeeded, those that are not counted as yet among them."""
    return _ended(job, "succeeded")


def _ended(job: Object, end: str) -> int:
    status = job["status"]
    return int(status.get(end, 0)) + len(status["uncountedTerminatedPods"].get(end) or ())


def uncounted_pods(job: Object, pods: list[Object]) -> list[Object]:
    """The pods that have ended and still carry the finalizer, named in the Job's status from now on.

    Without ``podReplacementPolicy: Failed`` a pod has failed as soon as it is being deleted.
    """
    status = job.setdefault("status", {})
    status.setdefault("uncountedTerminatedPods", {})
    replaces_terminating = job["spec"].get("podReplacementPolicy") != "Failed"
    done = parse_indexes(status.get("completedIndexes", ""))
    found = []
    for pod in pods:
        if TRACKING not in (pod["metadata"].get("finalizers") or ()):
            continue
        if pod["status"].get("phase") == "Succeeded":
            found.append(pod)
            if indexed(job):
                done.add(index_of(pod))
            else:
                _note(job, "succeeded", pod)
        elif is_finished(pod) or ("deletionTimestamp" in pod["metadata"] and replaces_terminating):
            found.append(pod)
            note_failed(job, pod)
    if indexed(job) and done:
        status["completedIndexes"] = format_indexes(done)
        status["succeeded"] = len(done)
    return found


def note_failed(job: Object, pod: Object) -> None:
    """Names a pod that has failed, or is stopped because the Job does."""
    _note(job, "failed", pod)


def _note(job: Object, end: str, pod: Object) -> None:
    uids = job["status"]["uncountedTerminatedPods"].setdefault(end, [])
    if pod["metadata"]["uid"] not in uids:
        uids.append(pod["metadata"]["uid"])


def count(job: Object) -> bool:
    """Counts the pods that the status names, whose finalizers have gone; whether there were any."""
    named = job["status"]["uncountedTerminatedPods"]
    job["status"]["uncountedTerminatedPods"] = {}
    for end, uids in named.items():
        job["status"][end] = job["status"].get(end, 0) + len(uids)
    return bool(named)
