"""The reading half of the registry: get, list, subscribe, and who depends on whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_dispatch.localcluster.apiserver import errors
from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.apiserver.paging import Listing, page
from airflow_dispatch.localcluster.apiserver.selectors import Selection
from airflow_dispatch.localcluster.apiserver.store import Listener, Reference, Store, Subscription
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Reads"]


class Reads:
    """What can be asked of a store. Answers are copies that callers may change."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def resource_version(self) -> str:
        """The version of the newest write."""
        return str(self._store.version)

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object.

        Raises:
            ApiError: 404.
        """
        return clone(self._existing(resource, namespace, name))  # type: ignore[no-any-return]

    def exists(self, resource: Resource, namespace: str | None, name: str) -> bool:
        """Whether there is such an object."""
        return self._find(resource, namespace, name) is not None

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        *,
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing:
        """The selected objects by namespace and name, a page of at most ``limit`` when that is not 0."""
        selects = Selection(resource, namespace, label_selector, field_selector)
        return page(self._store, resource, selects, limit, continue_token)

    def subscribe(
        self,
        resource: Resource,
        namespace: str | None = None,
        since: str | int | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Subscription:
        """The changes after resourceVersion ``since``; with None, first everything that exists as ADDED.

        Raises:
            ApiError: 410 when the history does not go back that far.
        """
        selects = Selection(resource, namespace, label_selector, field_selector)
        return self._store.subscribe(resource, selects, None if since is None else _version(since))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls ``listener(resource, type, new, old)`` after each write; the answer takes it out again."""
        return self._store.listen(listener)

    def by_uid(self, uid: str) -> Reference | None:
        """Where the object of that UID lives, or None when there is none."""
        return self._store.by_uid(uid)

    def dependents(self, uid: str) -> Sequence[Reference]:
        """The objects whose ownerReferences name that UID."""
        return self._store.dependents(uid)

    def compact(self) -> None:
        """Forgets the history: watches and pages from before are answered with 410."""
        self._store.compact()

    def _find(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        return self._store.get(Reference(resource, (namespace or "") if resource.namespaced else "", name))

    def _existing(self, resource: Resource, namespace: str | None, name: str) -> Object:
        found = self._find(resource, namespace, name)
        if found is None:
            raise errors.not_found(resource, name)
        return found


def _version(since: str | int) -> int:
    try:
        return int(since)
    except ValueError:
        raise errors.bad_request(f"resourceVersion: Invalid value: {since!r}: must be a number") from None
