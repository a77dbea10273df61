"""The way from a kubelet to its API server, which a lost node does not have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import Api
from airflow_dispatch.localcluster.clock import Clock

__all__ = ["Gone", "Link"]

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_RETRY_AFTER: Final = 1.0
_GONE: Final = (404, 409)
_REFUSED: Final = range(400, 429)


class Gone(Exception):
    """The object is not there any more, or another one has its name."""


class Link:
    """Calls to the API server, held back while the link is down.

    What a kubelet wants to write while its node is lost waits here, and is written when the node returns.
    """

    def __init__(self, api: Api, clock: Clock) -> None:
        self.api = api
        self._clock = clock
        self._up = asyncio.Event()
        self._up.set()
        self.calls = 0

    def cut(self) -> None:
        """Lets no further call through."""
        self._up.clear()

    def restore(self) -> None:
        """Lets calls through again."""
        self._up.set()

    async def up(self) -> None:
        """Returns when calls go through."""
        await self._up.wait()

    async def read(self, what: Callable[[Api], Awaitable[_T]]) -> _T:
        """Makes a call, again and again while the server can't be reached or is busy.

        Raises:
            ApiError: It refuses.
        """
        while True:
            await self._up.wait()
            self.calls += 1
            try:
                return await what(self.api)
            except ApiError as error:
                if error.code in _REFUSED:
                    raise
                _LOG.warning("the API server answered %d: %s", error.code, error.message)
            except ConnectionError as error:
                _LOG.warning("the API server can't be reached: %s", error)
            finally:
                self.calls -= 1
            await self._clock.sleep(_RETRY_AFTER)

    async def write(self, what: Callable[[Api], Awaitable[_T]]) -> _T:
        """The same for a write that names the UID of its object.

        Raises:
            Gone: The object is not there any more (404), or another one has its name (409).
            ApiError: Any other refusal.
        """
        try:
            return await self.read(what)
        except ApiError as error:
            if error.code in _GONE:
                raise Gone(error.message) from error
            raise
