"""How an object goes: at once, after its grace period, or when its last finalizer has been taken out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from airflow_dispatch.localcluster.apiserver.errors import bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object, clone, parse_time, timestamp
from airflow_dispatch.localcluster.resources import JOBS, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES, Resource

__all__ = ["FOREGROUND", "ORPHAN", "finished", "gone", "grace_period", "marked", "returns_object", "wanted_finalizers"]

FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of a Foreground deletion: dependents go first."""

ORPHAN: Final = "orphan"
"""The finalizer of an Orphan deletion: dependents lose their owner reference first."""

_DEFAULT_GRACE_SECONDS: Final = 30
_RETURN_OBJECT: Final = (PODS, SERVICES, SERVICE_ACCOUNTS)


def returns_object(resource: Resource) -> bool:
    """Whether a deletion that removes at once is answered with the object, where other kinds answer a ``Status``."""
    return resource in _RETURN_OBJECT


def wanted_finalizers(resource: Resource, present: list[str], propagation: str | None) -> list[str]:
    """The finalizers an object carries once its deletion with that propagation is asked for.

    Without a propagation policy Jobs orphan their pods, for old clients' sake; every other kind deletes in the
    background. A policy finalizer that stands already stays unless another policy is asked for.
    """
    if propagation is None:
        if set(present) & {FOREGROUND, ORPHAN}:
            return present
        propagation = "Orphan" if resource == JOBS else "Background"
    if propagation not in ("Background", "Foreground", "Orphan"):
        raise bad_request(
            f'DeleteOptions "" is invalid: propagationPolicy: Unsupported value: "{propagation}": supported values: '
            '"Background", "Foreground", "Orphan"'
        )
    others = [finalizer for finalizer in present if finalizer not in (FOREGROUND, ORPHAN)]
    own = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[propagation]
    return others + own


def grace_period(resource: Resource, obj: Object, asked: int | None) -> int:
    """Seconds that the object's processes get to stop: zero but for pods that a kubelet may be running.

    A pod that is bound to no Node, or has finished, has nothing that could stop.
    """
    if resource != PODS:
        return 0
    spec = obj.get("spec", {})
    if not spec.get("nodeName") or finished(obj):
        return 0
    if asked is not None:
        return max(asked, 0)
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))


def finished(pod: Object) -> bool:
    """Whether the pod's phase says that all its containers have ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def marked(resource: Resource, obj: Object, finalizers: list[str], grace: int, now: datetime) -> Object:
    """The object with its deletion asked for; a later, shorter grace period shortens one that runs already."""
    result: Object = clone(obj)
    metadata = result["metadata"]
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    running = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in metadata and running is not None:
        if running > grace:
            began = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=running)
            metadata["deletionTimestamp"] = timestamp(began + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
        return result
    metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if resource == NAMESPACES:
        result["status"] = {**result.get("status", {}), "phase": "Terminating"}
    if resource.generation:
        metadata["generation"] = metadata.get("generation", 0) + 1
    return result


def gone(obj: Object) -> bool:
    """Whether nothing keeps the object: it is being deleted, no finalizer stands, no grace period runs.

    A namespace has finalizers in its spec besides: ``kubernetes`` stands there until its content has gone.
    """
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj.get("kind") == NAMESPACES.kind and obj.get("spec", {}).get("finalizers"))
    )
