"""Owner-reference garbage collection and the end of namespaces, as level-triggered reconcilers.

Both have the shape of every controller of the local cluster (``watches``, ``keys_for``, ``reconcile``), so they can be
paused like the real ones: with a paused collector, what is left of a deleted owner stays as orphans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from airflow_dispatch.localcluster.apiserver.deletion import FOREGROUND, ORPHAN
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.registry import Reference, Registry
from airflow_dispatch.localcluster.resources import NAMESPACES, Resource

__all__ = ["GarbageCollector", "NamespaceController"]

_GONE_OR_CHANGED: Final = (404, 409)


class GarbageCollector:
    """Deletes what no living owner claims, and completes Foreground and Orphan deletions. Keys are UIDs."""

    name = "garbage-collector"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.watches: tuple[Resource, ...] = registry.resources

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[str]:
        """The object, its dependents when it goes, and the owners whose deletion may have waited for it."""
        del resource
        states = [state["metadata"] for state in (obj, old) if state is not None]
        if not states:
            return
        metadata = states[0]
        yield metadata["uid"]
        if obj is None or "deletionTimestamp" in metadata:
            for ref in self._registry.dependents(metadata["uid"]):
                yield self._registry.get(*ref)["metadata"]["uid"]
        for state in states:
            for owner in state.get("ownerReferences") or ():
                yield owner["uid"]

    def reconcile(self, key: str) -> None:
        """Does what is due for the object of that UID; an object that has gone in the meantime needs nothing."""
        ref = self._registry.by_uid(key)
        if ref is None:
            return
        obj = self._registry.get(*ref)
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        try:
            if "deletionTimestamp" not in metadata:
                self._collect(ref, obj)
            elif ORPHAN in finalizers:
                self._orphan(ref, obj)
            elif FOREGROUND in finalizers:
                self._foreground(ref, obj)
        except ApiError as error:
            if error.code not in _GONE_OR_CHANGED:
                raise

    def _collect(self, ref: Reference, obj: Object) -> None:
        """Deletes an object whose owners are all gone or going in the foreground; drops dead references otherwise."""
        owners = obj["metadata"].get("ownerReferences") or []
        if not owners:
            return
        living: list[Object] = []
        waiting: list[Object] = []
        for owner in owners:
            found = self._owner(ref, owner)
            if found is None:
                continue
            (waiting if self._waits_for_dependents(found) else living).append(owner)
        if not living:
            foreground = bool(waiting) and bool(self._registry.dependents(obj["metadata"]["uid"]))
            self._delete(ref, obj, "Foreground" if foreground else "Background")
        elif len(living) < len(owners):
            self._set_owners(ref, obj, living)

    def _owner(self, ref: Reference, owner: Object) -> Object | None:
        found = self._registry.by_uid(owner["uid"])
        if found is None or (found.namespace and found.namespace != ref.namespace):
            return None
        return self._registry.get(*found)

    @staticmethod
    def _waits_for_dependents(owner: Object) -> bool:
        metadata = owner["metadata"]
        return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())

    def _orphan(self, ref: Reference, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent in self._registry.dependents(uid):
            child = self._registry.get(*dependent)
            owners = [owner for owner in child["metadata"]["ownerReferences"] if owner["uid"] != uid]
            self._set_owners(dependent, child, owners)
        self._drop_finalizer(ref, obj, ORPHAN)

    def _foreground(self, ref: Reference, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        blocking = False
        for dependent in self._registry.dependents(uid):
            child = self._registry.get(*dependent)
            reference = next(owner for owner in child["metadata"]["ownerReferences"] if owner["uid"] == uid)
            blocking = blocking or bool(reference.get("blockOwnerDeletion"))
        if not blocking:
            self._drop_finalizer(ref, obj, FOREGROUND)

    def _set_owners(self, ref: Reference, obj: Object, owners: list[Object]) -> None:
        obj["metadata"]["ownerReferences"] = owners
        self._registry.update(*ref, obj, field_manager=self.name)

    def _drop_finalizer(self, ref: Reference, obj: Object, finalizer: str) -> None:
        obj["metadata"]["finalizers"].remove(finalizer)
        self._registry.update(*ref, obj, field_manager=self.name)

    def _delete(self, ref: Reference, obj: Object, propagation: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            propagation = "Orphan"
        elif FOREGROUND in finalizers:
            propagation = "Foreground"
        self._registry.delete(*ref, uid=obj["metadata"]["uid"], propagation=propagation)


class NamespaceController:
    """Empties a namespace that is being deleted, then lets it go. Keys are namespace names."""

    name = "namespace-controller"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.watches: tuple[Resource, ...] = registry.resources

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterable[str]:
        """The namespace itself, or the one that something lived in when it went."""
        if resource == NAMESPACES and obj is not None:
            return [obj["metadata"]["name"]]
        if obj is None and old is not None and resource.namespaced:
            return [old["metadata"]["namespace"]]
        return []

    def reconcile(self, key: str) -> None:
        """Deletes what is left in a terminating namespace; with nothing left, drops its last finalizer."""
        if not self._registry.exists(NAMESPACES, None, key):
            return
        namespace = self._registry.get(NAMESPACES, None, key)
        if "deletionTimestamp" not in namespace["metadata"]:
            return
        left = False
        for resource in self._registry.resources:
            if not resource.namespaced:
                continue
            for obj in self._registry.list(resource, key).items:
                if "deletionTimestamp" not in obj["metadata"]:
                    self._registry.delete(resource, key, obj["metadata"]["name"], propagation="Background")
            left = left or bool(self._registry.list(resource, key).items)
        if not left:
            namespace["spec"]["finalizers"] = []
            self._registry.update(NAMESPACES, None, key, namespace, subresource="finalize")
