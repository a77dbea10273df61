"""Requests with credentials that are kept fresh, and answers that are errors raised as such."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

import aiohttp
import msgspec

from airflow_dispatch._sockets import Sockets
from airflow_dispatch.core.errors import ConfigurationError, OutcomeUnknown, Unreachable
from airflow_dispatch.kube.answers import error_of
from airflow_dispatch.kube.config import ClusterConfig, Credentials, load_credentials
from airflow_dispatch.kube.streams import LINE_LIMIT, abandon

__all__ = ["CONNECT_SECONDS", "REQUEST_SECONDS", "Session"]

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0

_RENEWAL_PAUSE: Final = timedelta(seconds=15)
"""Between two tries to renew credentials that are still accepted."""

_UNDECIDED: Final = frozenset({502, 504})
"""A server or a gateway before it gave up waiting: the write may have happened, or may yet."""

_NEVER_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


class Session:
    """The connections to one API server, in one event loop."""

    def __init__(self, config: ClusterConfig, credentials: Credentials) -> None:
        self._config = config
        self._credentials = credentials
        self._renewal = asyncio.Lock()
        self._sockets = Sockets()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._sockets.make),
            read_bufsize=LINE_LIMIT // 4,
            trust_env=False,
        )
        # aiohttp repeats a PUT or DELETE whose connection broke; whether it is to be repeated is not for it to decide.
        self._http._retry_connection = False  # noqa: SLF001 (there is no public switch)

    @classmethod
    async def open(cls, config: ClusterConfig) -> Self:
        """Loads the configuration; raises :class:`ConfigurationError`. Sends nothing."""
        return cls(config, await load_credentials(config, now=datetime.now(UTC)))

    async def close(self) -> None:
        """Closes all connections, and lets the event loop see them closed before it may end."""
        await self._http.close()
        await self._sockets.close()

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._credentials.server

    @contextlib.asynccontextmanager
    async def answer(
        self,
        method: str,
        path: str,
        what: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        writes: bool = False,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 (aiohttp's own, for connect and read)
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; yields a successful response and raises what any other answer means.

        An answer that breaks off or can't be decoded is :class:`Unreachable`, of a write :class:`OutcomeUnknown`.
        A 401 is answered with new credentials, once: no server has acted upon such a request.
        """
        await self._renew_if_due()
        try:
            for last in (False, True):
                credentials = self._credentials
                headers = {"Accept": "application/json", "Content-Type": content_type}
                if credentials.token:
                    headers["Authorization"] = f"Bearer {credentials.token}"
                async with self._http.request(
                    method,
                    credentials.server + path,
                    params=query,
                    data=body,
                    headers=headers,
                    timeout=timeout or aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS),
                    allow_redirects=False,
                    ssl=credentials.tls or True,
                    proxy=credentials.proxy,
                    server_hostname=credentials.server_name,
                ) as response:
                    if response.status == 401 and not last:  # noqa: PLR2004
                        await self._renew(credentials)
                        continue
                    if response.status >= 300:  # noqa: PLR2004
                        retry_after = response.headers.get("Retry-After")
                        error = error_of(response.status, await response.read(), what=what, retry_after=retry_after)
                        raise OutcomeUnknown(str(error)) if writes and response.status in _UNDECIDED else error
                    try:
                        yield response
                    finally:
                        abandon(response)
                    return
        except _NEVER_SENT as error:
            raise Unreachable(f"{what}: {self.server} can't be reached: {error}") from error
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as error:
            reason = str(error) or type(error).__name__
            if writes:
                raise OutcomeUnknown(f"{what}: sent, but the answer was lost: {reason}") from error
            raise Unreachable(f"{what}: {reason}") from error

    async def _renew_if_due(self) -> None:
        """Renews credentials that expire soon; when that fails they serve until the server refuses them."""
        used = self._credentials
        if used.reload_at is None or datetime.now(UTC) < used.reload_at:
            return
        try:
            await self._renew(used, tls=used.tls)
        except ConfigurationError as error:
            logger.warning("the credentials could not be renewed yet: %s", error)
            if self._credentials is used:
                self._credentials = replace(used, reload_at=datetime.now(UTC) + _RENEWAL_PAUSE)

    async def _renew(self, used: Credentials, *, tls: ssl.SSLContext | None = None) -> None:
        """Loads the credentials anew, unless somebody did since ``used`` was read.

        Without ``tls`` the certificates are read again too: it may have been these that the server refused.
        """
        async with self._renewal:
            if self._credentials is used:
                self._credentials = await load_credentials(self._config, now=datetime.now(UTC), tls=tls)
