"""One set of watches for a connection and a namespace; all who wait there share it (``kube.sharing``).

However many jobs are waited for, there is one stream a kind: TrainJobs, JobSets, Jobs, pods, runtime copies, Warning
Events, Kueue's Workloads where the server has them, and Nodes, which are got one by one where they may not be listed.
A pod that vanishes while it runs is written into its job's ledger (contract, section 12); nothing else is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from airflow_dispatch.core.errors import DispatchError, Forbidden, Gone, NotFound, Unreachable
from airflow_dispatch.core.identity import parse_name
from airflow_dispatch.core.ledger import Ledger
from airflow_dispatch.core.objects import Object
from airflow_dispatch.core.snapshot import Site, Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import WATCH_SECONDS, KubeClient
from airflow_dispatch.kube.ledgers import LedgerWriter
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store

__all__ = ["Hub"]

logger = logging.getLogger(__name__)

NODE_POLL_SECONDS: Final = 5.0
"""How often Nodes are got where they may not be watched."""

_BACKOFF_FIRST: Final = 0.5
_BACKOFF_LAST: Final = 30.0
_RETRY_AFTER_LAST: Final = 60.0
"""What a server may ask for at most: longer, and evidence would be missed."""

_DENIED_SECONDS: Final = 5.0
"""How often a kind that was watched until the permission for it was taken away is asked for again."""

_NOT_ALLOWED_SECONDS: Final = 300.0
"""How often a kind that may be left out is asked for again: no more often than a watch of it is made anew."""

_STEADY_SECONDS: Final = 10.0
"""A watch that held for as long as this has not failed, however quiet it was."""

_REQUIRED: Final = (paths.TRAINJOBS, paths.JOBSETS, paths.JOBS, paths.PODS, paths.RUNTIMES)
_OPTIONAL: Final = (paths.EVENTS, paths.WORKLOADS)
_FIELD_SELECTORS: Final = {paths.EVENTS.kind: paths.EVENTS_SELECTOR}


class Hub:
    """Keeps a :class:`Store` up to date and wakes those whose TrainJob may have changed."""

    def __init__(self, client: KubeClient, namespace: str, *, site: Site = Site()) -> None:  # noqa: B008 (frozen)
        self.client = client
        self.namespace = namespace
        self.store = Store(namespace, site=site)
        self._troubles: dict[str, str] = {}
        self._watched: set[str] = set()
        self._wakers: dict[str, set[asyncio.Event]] = {}
        self._failure: Exception | None = None
        self._unsynced = {resource.kind for resource in (*_REQUIRED, *_OPTIONAL, paths.NODES)}
        self._synced = asyncio.Event()
        self._nodes_wanted = asyncio.Event()
        self._ledgers = LedgerWriter(client, namespace, self._take_ledger)

    async def run(self) -> None:
        """Follows all kinds until cancelled, or until something that will not pass, which every subscriber raises."""
        try:
            async with asyncio.TaskGroup() as group:
                for resource in _REQUIRED:
                    group.create_task(self._follow_required(resource))
                for resource in _OPTIONAL:
                    group.create_task(self._follow_if_allowed(resource))
                group.create_task(self._follow_nodes())
                group.create_task(self._get_unseen_nodes())
                group.create_task(self._ledgers.run())
        except* DispatchError as errors:
            self._failure = _first(errors)
        except* Exception as errors:
            logger.exception("the watches on namespace %s failed", self.namespace)
            self._failure = _first(errors)
        finally:
            self._failure = self._failure or Unreachable("the watches have ended")
            self._synced.set()
            self._wake(list(self._wakers))
            await self._ledgers.close()

    @property
    def failed(self) -> bool:
        """It follows nothing any more."""
        return self._failure is not None

    @property
    def trouble(self) -> str | None:
        """What keeps a kind from being followed just now and may pass by itself, in words."""
        return next(iter(self._troubles.values()), None)

    async def synced(self) -> None:
        """Returns when every kind has been listed once; raises what keeps it from that."""
        await self._synced.wait()
        self._raise_failure()

    def snapshot(self, name: str) -> Snapshot | None:
        """The TrainJob of that name with all that belongs to it, as known now; None when there is none."""
        return self.store.snapshot(name)

    async def subscribe(self, name: str) -> AsyncGenerator[Snapshot | None, None]:
        """The TrainJob's snapshot now and after each change; None when there is no such TrainJob.

        Changes that come faster than they are taken are merged into the latest. Raises what the watches failed of, when
        it will not pass by itself: a permission that was never there. One that is taken away later is a
        :attr:`trouble`, of which subscribers are woken; the snapshot stands as it was until it is given back.
        """
        changed = asyncio.Event()
        self._wakers.setdefault(name, set()).add(changed)
        try:
            await self.synced()
            while True:
                changed.clear()
                yield self.store.snapshot(name)
                await changed.wait()
                self._raise_failure()
        finally:
            wakers = self._wakers[name]
            wakers.discard(changed)
            if not wakers:
                del self._wakers[name]

    async def changes(self, job_id: str) -> AsyncGenerator[None, None]:
        """As :meth:`subscribe`, after each change to any object of a job in any submission; :attr:`store` has them."""
        async with contextlib.aclosing(self.subscribe(job_id)) as changes:
            async for _ in changes:
                yield

    # ------------------------------------------------------------ the inside

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            submission = parse_name(name)
            for key in (name, submission.job_id) if submission is not None else (name,):
                for waker in self._wakers.get(key, ()):
                    waker.set()
        if self.store.unseen_nodes:
            self._nodes_wanted.set()
        self._ledgers.add(self.store.take_vanished())

    def _take_ledger(self, found: Ledger) -> bool:
        """Takes what a job's ledger says, for as long as there is a TrainJob to say it of; answers whether there is."""
        if not self.store.names_of_job(found.job_id):
            self.store.forget_ledger(found.job_id)
            return False
        self._wake(self.store.take_ledger(found))
        return True

    def _listed(self, kind: str) -> None:
        self._unsynced.discard(kind)
        self._troubles.pop(kind, None)
        if not self._unsynced:
            self._synced.set()

    def _opened(self, kind: str) -> None:
        self._watched.add(kind)
        self._troubles.pop(kind, None)

    async def _follow_required(self, resource: Resource) -> None:
        """Follows a kind without which nothing can be said.

        Raises :class:`Forbidden` when it never could be watched. A permission that is taken away while it is watched
        may come back, as when roles are deleted and made anew: that is waited for, and said.
        """
        while True:
            try:
                await self._follow(resource)
            except Forbidden as error:
                if resource.kind not in self._watched:
                    raise
                self._troubles[resource.kind] = str(error)
                self._wake(list(self._wakers))
            await asyncio.sleep(_DENIED_SECONDS)

    async def _follow_if_allowed(self, resource: Resource) -> None:
        """Follows a kind that a cluster may lack or that one may not be allowed to read."""
        while True:
            try:
                await self._follow(resource)
            except (NotFound, Forbidden) as error:
                logger.debug("not watching %s: %s", resource.plural, error)
                self._wake(self.store.replace_all(resource.kind, []))
                self._listed(resource.kind)
                if isinstance(error, NotFound):
                    return
            await asyncio.sleep(_NOT_ALLOWED_SECONDS)

    async def _follow(self, resource: Resource) -> None:
        """Lists and watches one kind, for ever; what breaks is taken up again after a growing, jittered pause.

        A watch goes on from the last event's version, so a broken one loses nothing; when the server has forgotten that
        version, the kind is listed again. No answer makes it spin: what ends at once again and again is paced too.
        """
        version: str | None = None
        failures = 0
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            pause = 0.0
            try:
                if version is None:
                    version = await self._list(resource)
                async with contextlib.aclosing(self._watch(resource, version)) as versions:
                    async for seen in versions:
                        version = seen or version
                        failures = 0
            except Gone:
                version = None
            except Unreachable as error:
                logger.debug("watch of %s broke: %s", resource.plural, error)
                self._troubles[resource.kind] = str(error)
                pause = min(error.retry_after or _pause(failures + 1), _RETRY_AFTER_LAST)
            failures = 1 if clock() - began >= _STEADY_SECONDS else failures + 1
            await asyncio.sleep(pause or (_pause(failures) if failures > 1 else 0))

    async def _list(self, resource: Resource) -> str:
        namespace = self.namespace if resource.namespaced else None
        selector = _FIELD_SELECTORS.get(resource.kind, "")
        listing = await self.client.list(resource, namespace, field_selector=selector)
        for item in listing.items:
            _warn_if_odd(resource.kind, item)
        self._wake(self.store.replace_all(resource.kind, listing.items))
        self._listed(resource.kind)
        return listing.resource_version

    async def _watch(self, resource: Resource, version: str) -> AsyncGenerator[str, None]:
        stream = self.client.watch(
            resource,
            self.namespace if resource.namespaced else None,
            resource_version=version,
            field_selector=_FIELD_SELECTORS.get(resource.kind, ""),
            seconds=int(WATCH_SECONDS * random.uniform(0.8, 1.2)),  # noqa: S311 (spreads load, guards nothing)
            on_open=lambda: self._opened(resource.kind),
        )
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    _warn_if_odd(resource.kind, event.object)
                    self._wake(self.store.apply(event.type, resource.kind, event.object))
                yield event.resource_version

    # ------------------------------------------------------------ Nodes

    async def _follow_nodes(self) -> None:
        while True:
            try:
                await self._follow(paths.NODES)
            except Forbidden as error:
                logger.debug("getting the Nodes one by one: %s", error)
            await self._poll_nodes()

    async def _poll_nodes(self) -> None:
        """Gets the Nodes that pods are bound to, where they may be got but not listed; else they are not readable.

        Returns when it is time to ask for the list again.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + _NOT_ALLOWED_SECONDS
        while clock() < end:
            pause = NODE_POLL_SECONDS
            try:
                nodes = [await self._node(name) for name in sorted(self.store.bound_nodes())]
            except Forbidden as error:
                logger.debug("Nodes are not readable: %s", error)
                self.store.nodes_denied()
                self._listed(paths.NODES.kind)
                self._wake(list(self._wakers))
                pause = _NOT_ALLOWED_SECONDS
            except Unreachable as error:
                self._troubles[paths.NODES.kind] = str(error)
            else:
                self._wake(self.store.replace_all(paths.NODES.kind, [node for node in nodes if node is not None]))
                self._listed(paths.NODES.kind)
            await asyncio.sleep(pause)

    async def _get_unseen_nodes(self) -> None:
        """Gets each Node that a pod is bound to and no stream has shown: it is new, or it went before the pod came.

        Until then such a Node is not readable; it would be taken for a lost one else.
        """
        await self._synced.wait()
        while True:
            await self._nodes_wanted.wait()
            self._nodes_wanted.clear()
            for name in sorted(self.store.unseen_nodes) if self.store.nodes_readable else ():
                try:
                    node = await self._node(name)
                except Forbidden as error:
                    logger.debug("Node %s is not readable: %s", name, error)
                    break
                except Unreachable as error:
                    logger.debug("Node %s could not be got: %s", name, error)
                    self._nodes_wanted.set()
                    await asyncio.sleep(error.retry_after or NODE_POLL_SECONDS)
                    break
                self._wake(self._take_node(name, node))

    def _take_node(self, name: str, node: Object | None) -> set[str]:
        if name not in self.store.unseen_nodes:
            return set()
        return self.store.node_is_gone(name) if node is None else self.store.apply("ADDED", paths.NODES.kind, node)

    async def _node(self, name: str) -> Object | None:
        try:
            return await self.client.read(paths.NODES, name)
        except NotFound:
            return None


def _warn_if_odd(kind: str, item: Object) -> None:
    if item.problem:
        logger.warning("%s %s can't be read in full: %s", kind, item.metadata.name, item.problem)


def _pause(failures: int) -> float:
    ceiling = min(_BACKOFF_LAST, _BACKOFF_FIRST * 2 ** min(failures, 10))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 (spreads load, guards nothing)


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    error: Exception | BaseExceptionGroup[Exception] = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
