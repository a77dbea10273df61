"""The API server's inside: every verb on every kind, in memory and synchronous.

The HTTP server, the controllers and the in-process client all go through one :class:`Registry`, so each meets the
same defaulting, admission, validation, versions and refusals. All of it runs in one event loop's thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from airflow_dispatch.localcluster.apiserver import deletion, errors, validation
from airflow_dispatch.localcluster.apiserver.admission import Admission
from airflow_dispatch.localcluster.apiserver.apply import FieldOwners
from airflow_dispatch.localcluster.apiserver.defaults import DEFAULT_TOLERATION_SECONDS, apply_defaults
from airflow_dispatch.localcluster.apiserver.objects import (
    Object,
    clone,
    generated_suffix,
)
from airflow_dispatch.localcluster.apiserver.paging import Listing
from airflow_dispatch.localcluster.apiserver.patch import APPLY, apply_patch
from airflow_dispatch.localcluster.apiserver.pods import bound, evicting
from airflow_dispatch.localcluster.apiserver.preparation import (
    complete_priority,
    drop_nulls,
    prepare_create,
    prepare_update,
    stamp_generation,
)
from airflow_dispatch.localcluster.apiserver.reads import Reads
from airflow_dispatch.localcluster.apiserver.store import Reference, Store, Subscription, WatchEvent
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.resources import (
    ALL,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Resource,
)

__all__ = ["Listing", "Reference", "Registry", "Subscription", "WatchEvent"]

_GENERATE_ATTEMPTS = 8


class _ApplyOptions(NamedTuple):
    subresource: str
    field_manager: str
    force: bool
    dry_run: bool
    field_validation: str


class Registry(Reads):
    """The objects of one cluster.

    ``admission`` takes webhooks and rules of kinds. They see objects themselves, not their status or other
    subresources.

    Args:
        clock: What timestamps are taken from.
        resources: The kinds that are served.
        toleration_seconds: How long pods tolerate a Node that is not ready or unreachable, unless they say it.
        history_limit: How many changes a watch may lag behind.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        resources: Iterable[Resource] = ALL,
        toleration_seconds: int = DEFAULT_TOLERATION_SECONDS,
        history_limit: int = 10_000,
    ) -> None:
        self.clock = clock
        self.resources = tuple(resources)
        self.toleration_seconds = toleration_seconds
        super().__init__(Store(history_limit))
        self.admission = Admission()
        self._owners: dict[str, FieldOwners] = {}
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(NAMESPACES, None, {"metadata": {"name": name}})

    # Writing

    def create(
        self,
        resource: Resource,
        namespace: str | None,
        obj: Object,
        *,
        field_manager: str = "",
        dry_run: bool = False,
        field_validation: str = "Ignore",
    ) -> Object:
        """Makes an object; ``generateName`` is honoured.

        Raises:
            ApiError: 409 when the name is taken, 404 without the namespace, 400, 403 or 422 when it is refused.
        """
        new = drop_nulls(obj)
        validation.check_fields(resource, new, field_validation)
        validation.check_envelope(resource, namespace, new)
        new = prepare_create(resource, namespace, new, self.clock.now(), str(uuid.uuid4()))
        self._name(resource, new)
        name = new["metadata"]["name"]
        if resource.namespaced:
            self._check_namespace(resource, new["metadata"]["namespace"], name)
        apply_defaults(resource, new, toleration_seconds=self.toleration_seconds)
        if resource == PODS:
            classes = {entry["metadata"]["name"]: entry for entry in self._store.items(PRIORITY_CLASSES)}
            complete_priority(new, classes)
        new = self.admission.mutate(resource, new, None)
        validation.check_object(resource, new, None, self.admission.causes(resource, new, None))
        self.admission.validate(resource, new, None)
        if self._find(resource, new["metadata"].get("namespace"), name) is not None:
            raise errors.already_exists(resource, name)
        if dry_run:
            return clone(new)  # type: ignore[no-any-return]
        stored = self._write(resource, None, new, field_manager)
        if resource == NAMESPACES:
            self.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})
        return clone(stored)  # type: ignore[no-any-return]

    def update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        obj: Object,
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        field_validation: str = "Ignore",
    ) -> Object:
        """Replaces an object, or with ``subresource="status"`` its status alone.

        Raises:
            ApiError: 404, 409 when its UID or resourceVersion is another, 403 or 422 when it is refused.
        """
        old = self._existing(resource, namespace, name)
        new = drop_nulls(obj)
        validation.check_fields(resource, new, field_validation)
        validation.check_envelope(resource, namespace, new, name)
        if not new["metadata"].get("resourceVersion") and validation.needs_version(resource):
            message = "Invalid value: 0x0: must be specified for an update"
            raise errors.invalid(resource, name, [("FieldValueInvalid", "metadata.resourceVersion", message)])
        return self._replace(resource, old, new, subresource, field_manager, dry_run=dry_run)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        content_type: str,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
        field_validation: str = "Ignore",
    ) -> Object:
        """Changes an object by a patch of one of the four formats; apply makes it when it is missing.

        A UID or resourceVersion in the patch is a precondition, as in an update.

        Raises:
            ApiError: as :meth:`update`, and 415 for a format that the kind does not take, 409 for an apply conflict.
        """
        if content_type == APPLY:
            options = _ApplyOptions(subresource, field_manager, force, dry_run, field_validation)
            return self._apply(resource, namespace, name, body, options)
        old = self._existing(resource, namespace, name)
        new = drop_nulls(apply_patch(resource, old, body, content_type))
        validation.check_fields(resource, new, field_validation)
        validation.check_envelope(resource, namespace, new, name)
        return self._replace(resource, old, new, subresource, field_manager, dry_run=dry_run)

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Deletes an object, or marks it when finalizers or a pod's grace period stand before.

        Returns:
            The object where it still exists, or where the real server answers it; else a ``Status`` of success.

        Raises:
            ApiError: 404, 409 when a precondition fails.
        """
        old = self._existing(resource, namespace, name)
        found = old["metadata"]
        if uid is not None and uid != found["uid"]:
            raise errors.uid_precondition(resource, name, uid, found["uid"])
        if resource_version is not None and resource_version != found["resourceVersion"]:
            raise errors.conflict(
                resource,
                name,
                f"the ResourceVersion in the precondition ({resource_version}) does not match the ResourceVersion in "
                f"record ({found['resourceVersion']}). The object might have been modified",
            )
        present = found.get("finalizers") or []
        finalizers = deletion.wanted_finalizers(resource, present, propagation)
        grace = deletion.grace_period(resource, old, grace_period)
        new = deletion.marked(resource, old, finalizers, grace, self.clock.now())
        if deletion.gone(new):
            last = new if resource == PODS else old
            if not dry_run and last != old and "deletionTimestamp" in found:
                old = last = self._store.write(resource, old, last)  # a pod is seen to have no grace left
            new = last if dry_run else self._remove(resource, old, last)
            if deletion.returns_object(resource):
                return clone(new)  # type: ignore[no-any-return]
            details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": found["uid"]}
            return errors.success(details={key: value for key, value in details.items() if value})
        if not dry_run and new != old:
            new = self._store.write(resource, old, new)
        return clone(new)  # type: ignore[no-any-return]

    def bind(self, namespace: str, name: str, node: str, *, uid: str | None = None) -> None:
        """Assigns a pod to a Node: what the scheduler does through ``pods/binding``.

        Raises:
            ApiError: 404, 409 when the pod is bound already or is being deleted.
        """
        old = self._existing(PODS, namespace, name)
        if uid and uid != old["metadata"]["uid"]:
            raise errors.uid_mismatch(PODS, namespace, name, uid, old["metadata"]["uid"])
        if "deletionTimestamp" in old["metadata"]:
            raise errors.conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if node_name := old["spec"].get("nodeName"):
            raise errors.conflict(PODS, name, f'pod {name} is already assigned to node "{node_name}"')
        labels = self._node_labels(node)
        self._write(PODS, old, bound(old, node, labels, self.clock.now()), "kube-scheduler")

    def evict(self, namespace: str, name: str, *, uid: str | None = None, grace_period: int | None = None) -> None:
        """Evicts a pod through ``pods/eviction``: its DisruptionTarget is written, then it is deleted."""
        old = self._existing(PODS, namespace, name)
        if uid and uid != old["metadata"]["uid"]:
            raise errors.uid_precondition(PODS, name, uid, old["metadata"]["uid"])
        if not deletion.finished(old) and "deletionTimestamp" not in old["metadata"]:
            self._write(PODS, old, evicting(old, self.clock.now()), "kube-apiserver")
        self.delete(PODS, namespace, name, grace_period=grace_period)

    # Steps of the above

    def _node_labels(self, name: str) -> dict[str, str]:
        node = self._find(NODES, None, name)
        return {} if node is None else dict(node["metadata"].get("labels") or {})

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self._existing(NAMESPACES, None, namespace)
        if "deletionTimestamp" in found["metadata"]:
            raise errors.namespace_terminating(resource, namespace, name)

    def _name(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        prefix = metadata.get("generateName")
        if metadata.get("name"):
            return
        if not prefix:
            message = "Required value: name or generateName is required"
            raise errors.invalid(resource, "", [("FieldValueRequired", "metadata.name", message)])
        for _ in range(_GENERATE_ATTEMPTS):
            metadata["name"] = prefix[:58] + generated_suffix()
            if self._find(resource, metadata.get("namespace"), metadata["name"]) is None:
                return
        raise errors.already_exists(resource, metadata["name"])

    def _replace(
        self, resource: Resource, old: Object, new: Object, subresource: str, field_manager: str, *, dry_run: bool
    ) -> Object:
        if subresource and subresource not in resource.subresources:
            raise errors.path_not_found()
        prepare_update(resource, old, new, subresource)
        if subresource:
            validation.check_object(resource, new, old)
        else:
            new = self.admission.mutate(resource, new, old)
            stamp_generation(resource, old, new)
            validation.check_object(resource, new, old, self.admission.causes(resource, new, old))
            self.admission.validate(resource, new, old)
        if dry_run or new == old:
            return clone(new)  # type: ignore[no-any-return]
        if deletion.gone(new):
            # The last finalizer is never seen to go: what is deleted is the state before.
            return clone(self._remove(resource, old, old))  # type: ignore[no-any-return]
        return clone(self._write(resource, old, new, field_manager))  # type: ignore[no-any-return]

    def _apply(self, resource: Resource, namespace: str | None, name: str, body: Any, options: _ApplyOptions) -> Object:
        if not isinstance(body, dict):
            raise errors.bad_request("error decoding YAML: the applied configuration is not an object")
        if not options.field_manager:
            raise errors.manager_required()
        config = drop_nulls(body)
        validation.check_fields(resource, config, options.field_validation)
        validation.check_envelope(resource, namespace, config, name)
        old = self._find(resource, namespace, name)
        if old is None:
            if options.subresource:
                raise errors.not_found(resource, name)
            owners = FieldOwners()
            owners.applied(options.field_manager, {}, config, force=options.force)
            made = self.create(
                resource, namespace, config, field_manager=options.field_manager, dry_run=options.dry_run
            )
            if not options.dry_run:
                self._owners[made["metadata"]["uid"]] = owners
            return made
        uid = old["metadata"]["uid"]
        owners = self._owners.get(uid, FieldOwners()).copy()
        new = owners.applied(options.field_manager, old, config, force=options.force)
        result = self._replace(resource, old, new, options.subresource, options.field_manager, dry_run=options.dry_run)
        if not options.dry_run and self._store.by_uid(uid) is not None:
            self._owners[uid] = owners
        return result

    def _write(self, resource: Resource, old: Object | None, new: Object, field_manager: str) -> Object:
        owners = self._owners.setdefault(new["metadata"]["uid"], FieldOwners())
        owners.written(field_manager or "unknown", old or {}, new)
        return self._store.write(resource, old, new)

    def _remove(self, resource: Resource, old: Object, last: Object) -> Object:
        self._owners.pop(old["metadata"]["uid"], None)
        return self._store.remove(resource, old, last)
