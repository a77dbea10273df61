"""One set of watches for a connection and a namespace, shared by all who wait there.

However many jobs are waited for, there is one stream a kind: TrainJobs, JobSets, Jobs, pods, runtime copies, Warning
Events, Kueue's Workloads where the server has them, and Nodes, which are got one by one where they may not be listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

from airflow_dispatch.core.errors import DispatchError, Forbidden, Gone, NotFound, Refused, Unreachable
from airflow_dispatch.core.identity import parse_name
from airflow_dispatch.core.objects import Object
from airflow_dispatch.core.snapshot import Site, Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import WATCH_SECONDS, KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store

__all__ = ["Hub", "shared_hub"]

logger = logging.getLogger(__name__)

NODE_POLL_SECONDS: Final = 5.0
"""How often Nodes are got where they may not be watched."""

_BACKOFF_FIRST: Final = 0.5
_BACKOFF_LAST: Final = 30.0
_REQUIRED: Final = (paths.TRAINJOBS, paths.JOBSETS, paths.JOBS, paths.PODS, paths.RUNTIMES)
_OPTIONAL: Final = (paths.EVENTS, paths.WORKLOADS)
_FIELD_SELECTORS: Final = {paths.EVENTS.kind: "type=Warning"}
"""The Events that a rule reads are all Warnings; the others, most of them, stay on the server."""


class Hub:
    """Keeps a :class:`Store` up to date and wakes those whose TrainJob may have changed."""

    def __init__(self, client: KubeClient, namespace: str, *, site: Site = Site()) -> None:  # noqa: B008 (frozen)
        self.client = client
        self.namespace = namespace
        self.store = Store(namespace, site=site)
        self.trouble: str | None = None
        self._wakers: dict[str, set[asyncio.Event]] = {}
        self._failure: DispatchError | None = None
        self._unsynced: set[str] = set()
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Follows all kinds until cancelled; raises the first error that will not pass."""
        self._unsynced = {resource.kind for resource in (*_REQUIRED, *_OPTIONAL, paths.NODES)}
        try:
            async with asyncio.TaskGroup() as group:
                for resource in _REQUIRED:
                    group.create_task(self._follow(resource))
                for resource in _OPTIONAL:
                    group.create_task(self._follow_if_allowed(resource))
                group.create_task(self._follow_nodes())
        except* DispatchError as errors:
            self._failure = _first(errors)
        finally:
            self._failure = self._failure or Unreachable("the watches have ended")
            self._synced.set()
            self._wake(list(self._wakers))

    async def synced(self) -> None:
        """Returns when every kind has been listed once; raises what keeps it from that."""
        await self._synced.wait()
        if self._failure is not None:
            raise self._failure

    def snapshot(self, name: str) -> Snapshot | None:
        """The TrainJob of that name with all that belongs to it, as known now; None when there is none."""
        return self.store.snapshot(name)

    async def subscribe(self, name: str) -> AsyncGenerator[Snapshot | None, None]:
        """The TrainJob's snapshot now and after each change; None when there is no such TrainJob.

        Changes that come faster than they are taken are merged into the latest. Raises what the watches failed of,
        when it will not pass by itself (a permission that was taken away).
        """
        changed = asyncio.Event()
        self._wakers.setdefault(name, set()).add(changed)
        try:
            await self.synced()
            while True:
                changed.clear()
                yield self.store.snapshot(name)
                await changed.wait()
                if self._failure is not None:
                    raise self._failure
        finally:
            wakers = self._wakers[name]
            wakers.discard(changed)
            if not wakers:
                del self._wakers[name]

    async def changes(self, job_id: str) -> AsyncGenerator[None, None]:
        """Yields now, and after each change to any object of a job, in whichever submission; else as :meth:`subscribe`.

        What changed is in :attr:`store`.
        """
        async with contextlib.aclosing(self.subscribe(job_id)) as changes:
            async for _ in changes:
                yield

    # ------------------------------------------------------------ the inside

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            submission = parse_name(name)
            for key in (name, submission.job_id) if submission is not None else (name,):
                for waker in self._wakers.get(key, ()):
                    waker.set()

    def _listed(self, kind: str) -> None:
        self._unsynced.discard(kind)
        if not self._unsynced:
            self._synced.set()

    async def _follow_if_allowed(self, resource: Resource) -> None:
        """Follows a kind that a cluster may lack or that one may not be allowed to read."""
        try:
            await self._follow(resource)
        except (NotFound, Forbidden) as error:
            logger.debug("not watching %s: %s", resource.plural, error)
            self._listed(resource.kind)

    async def _follow_nodes(self) -> None:
        try:
            await self._follow(paths.NODES)
        except Forbidden:
            await self._poll_nodes()

    async def _follow(self, resource: Resource) -> None:
        """Lists and watches one kind, for ever; what breaks is taken up again after a growing, jittered pause."""
        version: str | None = None
        failures = 0
        while True:
            try:
                if version is None:
                    version = await self._list(resource)
                async for seen in self._watch(resource, version):
                    version = seen
                    failures = 0
                    self.trouble = None
            except Gone:
                version = None
            except Unreachable as error:
                failures += 1
                self.trouble = str(error)
                logger.debug("watch of %s broke: %s", resource.plural, error)
                await asyncio.sleep(error.retry_after or _pause(failures))
            else:
                # The server ends each watch after some minutes; one that ends at once, again and again, must not spin.
                failures += 1
                await asyncio.sleep(_pause(failures) if failures > 1 else 0)

    async def _list(self, resource: Resource) -> str:
        namespace = self.namespace if resource.namespaced else None
        selector = _FIELD_SELECTORS.get(resource.kind, "")
        listing = await self.client.list(resource, namespace, field_selector=selector)
        self._wake(self.store.replace_all(resource.kind, listing.items))
        self._listed(resource.kind)
        return listing.resource_version

    async def _watch(self, resource: Resource, version: str) -> AsyncIterator[str]:
        namespace = self.namespace if resource.namespaced else None
        stream = self.client.watch(
            resource,
            namespace,
            resource_version=version,
            field_selector=_FIELD_SELECTORS.get(resource.kind, ""),
            seconds=int(WATCH_SECONDS * random.uniform(0.8, 1.2)),  # noqa: S311 (spreads load, guards nothing)
        )
        async for event in stream:
            if event.type != "BOOKMARK":
                self._wake(self.store.apply(event.type, resource.kind, event.object))
            yield event.resource_version

    async def _poll_nodes(self) -> None:
        """Gets the Nodes that pods are bound to, where they may be got but not listed; else they are not readable."""
        while True:
            try:
                nodes = [await self._node(name) for name in sorted(self.store.bound_nodes())]
            except Forbidden:
                self.store.nodes_readable = False
                self._listed(paths.NODES.kind)
                return
            except Unreachable as error:
                self.trouble = str(error)
            else:
                self._wake(self.store.replace_all(paths.NODES.kind, [node for node in nodes if node is not None]))
                self._listed(paths.NODES.kind)
            await asyncio.sleep(NODE_POLL_SECONDS)

    async def _node(self, name: str) -> Object | None:
        try:
            return await self.client.read(paths.NODES, name)
        except NotFound:
            return None


@dataclass
class _Shared:
    hub: Hub
    task: asyncio.Task[None]
    users: int


_hubs: dict[tuple[ClusterConfig, str, asyncio.AbstractEventLoop], _Shared] = {}
_opening: dict[tuple[ClusterConfig, str, asyncio.AbstractEventLoop], asyncio.Lock] = {}


@contextlib.asynccontextmanager
async def shared_hub(config: ClusterConfig, namespace: str, *, site: Site = Site()) -> AsyncIterator[Hub]:  # noqa: B008
    """The hub of this connection and namespace in this event loop, opened by the first user and closed by the last."""
    key = (config, namespace, asyncio.get_running_loop())
    async with _opening.setdefault(key, asyncio.Lock()):
        shared = _hubs.get(key)
        if shared is None or shared.task.done():
            hub = Hub(await KubeClient.connect(config), namespace, site=site)
            shared = _hubs[key] = _Shared(hub, asyncio.create_task(hub.run(), name=f"hub {namespace}"), 0)
        shared.users += 1
    try:
        yield shared.hub
    finally:
        shared.users -= 1
        if shared.users == 0:
            if _hubs.get(key) is shared:
                del _hubs[key]
                if not _opening[key].locked():
                    del _opening[key]
            await _close(shared)


async def _close(shared: _Shared) -> None:
    shared.task.cancel()
    await asyncio.wait({shared.task})
    await shared.hub.client.close()
    if not shared.task.cancelled() and (error := shared.task.exception()):
        raise error


def _pause(failures: int) -> float:
    ceiling = min(_BACKOFF_LAST, _BACKOFF_FIRST * 2 ** min(failures, 10))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 (spreads load, guards nothing)


def _first(errors: BaseExceptionGroup[DispatchError]) -> DispatchError:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        return error
    return Refused("the watches ended")
