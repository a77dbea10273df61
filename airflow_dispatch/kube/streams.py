"""Answers that go on and on: watches and logs, line by line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import aiohttp

from airflow_dispatch.core.errors import Unreachable

__all__ = ["LINE_LIMIT", "abandon", "lines_of"]

LINE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes that are gathered until a line ends; etcd takes objects of 1.5 MiB at most, but a progress bar has no end."""


def abandon(response: aiohttp.ClientResponse) -> None:
    """Drops the connection of a stream that is left before its end: a TLS goodbye would outlive the event loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def lines_of(response: aiohttp.ClientResponse, what: str) -> AsyncGenerator[bytes, None]:
    """The lines of a stream without their ends, as they come; what stands behind the last line's end is one more.

    A line longer than :data:`LINE_LIMIT` comes in pieces. Raises :class:`Unreachable` when the stream breaks.
    """
    rest = bytearray()
    try:
        async for chunk in response.content.iter_any():
            *complete, tail = (rest + chunk).split(b"\n")
            for line in complete:
                yield bytes(line)
            rest = tail
            if len(rest) > LINE_LIMIT:
                yield bytes(rest)
                rest = bytearray()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable(f"{what}: the stream broke: {str(error) or type(error).__name__}") from error
    if rest:
        yield bytes(rest)
