"""One hub for all who wait in a namespace: who opens it, who closes it, and what becomes of one that has failed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from airflow_dispatch.core.snapshot import Site
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub

__all__ = ["shared_hub"]


class _Shared:
    """A hub, the task in which it runs and which owns its client, and how many use it."""

    def __init__(self, config: ClusterConfig, namespace: str, site: Site) -> None:
        self.users = 0
        self._hub: asyncio.Future[Hub] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(config, namespace, site), name=f"hub {namespace}")

    async def _run(self, config: ClusterConfig, namespace: str, site: Site) -> None:
        async with await KubeClient.connect(config) as client:
            hub = Hub(client, namespace, site=site)
            self._hub.set_result(hub)
            await hub.run()
            await asyncio.Event().wait()  # whoever still holds the hub may use its client, until the last has left

    @property
    def ended(self) -> bool:
        """It is of no use to a new user."""
        return self._task.done() or (self._hub.done() and self._hub.result().failed)

    async def hub(self) -> Hub:
        """The hub, once its configuration is loaded; raises what keeps it from that, to each who waits."""
        either: set[asyncio.Future[Any]] = {self._hub, self._task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._hub.done():
            self._task.result()
        return self._hub.result()

    async def close(self) -> None:
        """Ends the watches and closes the client; goes on with it even when the caller is cancelled meanwhile."""
        self._task.cancel()
        await asyncio.wait({self._task})


_hubs: dict[tuple[ClusterConfig, str, Site, asyncio.AbstractEventLoop], _Shared] = {}


@contextlib.asynccontextmanager
async def shared_hub(config: ClusterConfig, namespace: str, *, site: Site = Site()) -> AsyncIterator[Hub]:  # noqa: B008
    """The hub of this connection and namespace in this event loop, opened by the first user and closed by the last.

    A hub that has failed is left to those who have it; who comes next opens a new one. Raises
    :class:`ConfigurationError` when the configuration can't be loaded.
    """
    key = (config, namespace, site, asyncio.get_running_loop())
    shared = _hubs.get(key)
    if shared is None or shared.ended:
        shared = _hubs[key] = _Shared(config, namespace, site)
    shared.users += 1
    try:
        yield await shared.hub()
    finally:
        shared.users -= 1
        if shared.users == 0:
            if _hubs.get(key) is shared:
                del _hubs[key]
            await shared.close()
