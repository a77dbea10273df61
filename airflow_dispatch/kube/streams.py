"""Answers that go on and on: watches and logs, line by line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import aiohttp

from airflow_dispatch.core.errors import Unreachable

__all__ = ["LINE_LIMIT", "abandon", "lines_of"]

LINE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one line; etcd takes objects of 1.5 MiB at most."""


def abandon(response: aiohttp.ClientResponse) -> None:
    """Drops the connection of a stream that is left before its end: a TLS goodbye would outlive the event loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def lines_of(response: aiohttp.ClientResponse, what: str) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, however long, as they come."""
    rest = bytearray()
    try:
        async for chunk in response.content.iter_any():
            rest += chunk
            *complete, tail = rest.split(b"\n")
            rest = bytearray(tail)
            for line in complete:
                if line:
                    yield bytes(line)
            if len(rest) > LINE_LIMIT:
                raise Unreachable(f"{what}: a line of more than {LINE_LIMIT} bytes")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable(f"{what}: the stream broke: {str(error) or type(error).__name__}") from error
    if rest:
        yield bytes(rest)
