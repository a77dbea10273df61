"""Objects in memory, with one counter of resourceVersions and a history that watches read from."""

from __future__ import annotations

import asyncio
import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from airflow_dispatch.localcluster.apiserver.errors import expired, too_new
from airflow_dispatch.localcluster.apiserver.objects import Object, clone, key_of
from airflow_dispatch.localcluster.apiserver.selectors import Selection
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Change", "Listener", "Reference", "Store", "Subscription", "WatchEvent"]

Listener = Callable[[Resource, str, Object | None, Object | None], None]
"""``listener(resource, type, new, old)``: ``new`` is None for DELETED, ``old`` is None for ADDED."""


class Reference(NamedTuple):
    """Where an object lives; the namespace of a cluster-scoped one is empty."""

    resource: Resource
    namespace: str
    name: str


class Change(NamedTuple):
    """One write: ``new`` is None when the object was removed, ``old`` when it was made.

    ``last`` is what a watch shows of it: the object after the write, or as it was when it went, with this version.
    """

    version: int
    resource: Resource
    old: Object | None
    new: Object | None
    last: Object


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED or DELETED, and the object (a copy) with the resourceVersion of the change."""

    type: str
    object: Object


class Subscription:
    """The changes of one selection, in order. An async iterator; :meth:`close` ends it."""

    def __init__(self, resource: Resource, selects: Selection, on_close: Callable[[Subscription], None]) -> None:
        self.resource = resource
        self._selects = selects
        self._on_close = on_close
        self._pending: deque[tuple[str, Object]] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def add(self, obj: Object) -> None:
        """Queues an object that exists already, as ADDED, if it is selected."""
        if self._selects(obj):
            self._put("ADDED", obj)

    def offer(self, change: Change) -> None:
        """Queues a change as this selection sees it: what leaves the selection is DELETED, what enters is ADDED."""
        before = change.old is not None and self._selects(change.old)
        after = change.new is not None and self._selects(change.new)
        if after:
            self._put("MODIFIED" if before else "ADDED", change.last)
        elif before:
            self._put("DELETED", change.last)

    def _put(self, kind: str, obj: Object) -> None:
        self._pending.append((kind, obj))
        self._wake.set()

    @property
    def pending(self) -> bool:
        """Whether an event is waiting to be taken."""
        return bool(self._pending)

    def poll(self) -> WatchEvent | None:
        """The next event that is already here, or None."""
        if not self._pending:
            return None
        kind, obj = self._pending.popleft()
        return WatchEvent(kind, clone(obj))

    def close(self) -> None:
        """Ends the iteration and forgets what is pending."""
        if not self._closed:
            self._closed = True
            self._pending.clear()
            self._on_close(self)
            self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        while True:
            if (event := self.poll()) is not None:
                return event
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()


class Store:
    """The objects, their versions and who is told of changes. Synchronous, for one event loop's thread.

    Stored objects are never mutated: a write replaces the whole object, so history can share them.

    Args:
        history_limit: How many changes a watch may lag behind before it must list again (410).
    """

    def __init__(self, history_limit: int = 10_000) -> None:
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = defaultdict(dict)
        self._history: deque[Change] = deque()
        self._history_limit = history_limit
        self._version = 1
        self._compacted = 1
        self._subscriptions: dict[Resource, list[Subscription]] = defaultdict(list)
        self._listeners: list[Listener] = []
        self._untold: deque[Change] = deque()
        self._telling = False
        self._uids: dict[str, Reference] = {}
        self._dependents: dict[str, set[Reference]] = defaultdict(set)

    @property
    def version(self) -> int:
        """The resourceVersion of the newest write."""
        return self._version

    def get(self, ref: Reference) -> Object | None:
        """The stored object itself: not to be mutated."""
        return self._objects[ref.resource].get((ref.namespace, ref.name))

    def items(self, resource: Resource) -> list[Object]:
        """All stored objects of the kind, by namespace and name; not to be mutated."""
        objects = self._objects[resource]
        return [objects[key] for key in sorted(objects)]

    def items_at(self, resource: Resource, version: int) -> list[Object]:
        """The objects of the kind as they stood at an earlier version.

        Raises:
            ApiError: 410 when the history does not go back that far.
        """
        if version < self._compacted:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        objects = dict(self._objects[resource])
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.resource == resource:
                key = key_of(resource, change.last)
                if change.old is None:
                    objects.pop(key, None)
                else:
                    objects[key] = change.old
        return [objects[key] for key in sorted(objects)]

    def by_uid(self, uid: str) -> Reference | None:
        """Where the object of that UID lives, or None."""
        return self._uids.get(uid)

    def dependents(self, uid: str) -> list[Reference]:
        """The objects whose ``ownerReferences`` name that UID."""
        return sorted(self._dependents.get(uid, ()))

    def write(self, resource: Resource, old: Object | None, new: Object) -> Object:
        """Stores a new state, stamps its version, tells everybody, and answers what is stored."""
        return self._commit(resource, old, new, removed=False)

    def remove(self, resource: Resource, old: Object, last: Object) -> Object:
        """Takes an object out; ``last`` is what watches show of it."""
        return self._commit(resource, old, last, removed=True)

    def _commit(self, resource: Resource, old: Object | None, shown: Object, *, removed: bool) -> Object:
        self._version += 1
        last = {**shown, "metadata": {**shown["metadata"], "resourceVersion": str(self._version)}}
        namespace, name = key_of(resource, last)
        new = None if removed else last
        self._index(Reference(resource, namespace, name), old, new)
        if new is None:
            del self._objects[resource][namespace, name]
        else:
            self._objects[resource][namespace, name] = new
        change = Change(self._version, resource, old, new, last)
        self._history.append(change)
        while len(self._history) > self._history_limit:
            self._compacted = self._history.popleft().version
        for subscription in self._subscriptions[resource]:
            subscription.offer(change)
        self._untold.append(change)
        self._tell()
        return last

    def _index(self, ref: Reference, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._uids.pop(old["metadata"]["uid"], None)
            for owner in old["metadata"].get("ownerReferences") or ():
                self._dependents[owner["uid"]].discard(ref)
                if not self._dependents[owner["uid"]]:
                    del self._dependents[owner["uid"]]
        if new is not None:
            self._uids[new["metadata"]["uid"]] = ref
            for owner in new["metadata"].get("ownerReferences") or ():
                self._dependents[owner["uid"]].add(ref)

    def _tell(self) -> None:
        """Calls the listeners in the order of the writes, also when a listener writes."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                kind = "ADDED" if change.old is None else "DELETED" if change.new is None else "MODIFIED"
                before = change.last if change.new is None else change.old
                for listener in tuple(self._listeners):
                    listener(change.resource, kind, clone(change.new), clone(before))
        finally:
            self._telling = False

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Registers a callback for each write; the answer takes it out again."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def subscribe(self, resource: Resource, selects: Selection, since: int | None) -> Subscription:
        """Changes after ``since``; with None, first what exists as ADDED, then what changes.

        Raises:
            ApiError: 410 when the history does not go back to ``since``, 400 when it lies in the future.
        """
        subscription = Subscription(resource, selects, self._unsubscribe)
        if since is None:
            for obj in self.items(resource):
                subscription.add(obj)
        else:
            if since < self._compacted:
                raise expired(f"too old resource version: {since} ({self._compacted})")
            if since > self._version:
                raise too_new(since, self._version)
            for change in self._after(since):
                if change.resource == resource:
                    subscription.offer(change)
        self._subscriptions[resource].append(subscription)
        return subscription

    def _after(self, version: int) -> Iterator[Change]:
        start = bisect.bisect_right(self._history, version, key=lambda change: change.version)
        return (self._history[index] for index in range(start, len(self._history)))

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.resource].remove(subscription)

    def compact(self) -> None:
        """Forgets the history: a watch or page from an earlier version is answered with 410."""
        self._history.clear()
        self._compacted = self._version
