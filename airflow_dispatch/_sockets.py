"""The sockets of an HTTP session, so that none outlives it: for every room that speaks to an API server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from typing import Final

from aiohttp.connector import AddrInfoType

__all__ = ["Sockets"]

_TURNS: Final = 100
"""Turns of the event loop after which a socket that was shut down is left to the garbage collector."""


class Sockets:
    """Makes a connector's sockets, and sees to it that they are closed.

    asyncio does not close a connection whose making is cancelled before or in its TLS handshake: ``close`` of such a
    transport does nothing, and the handshake goes on for nobody. aiohttp does not know of it either. Shutting the
    socket down is what such a transport notices.
    """

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, address: AddrInfoType) -> socket.socket:
        """A new socket, for ``aiohttp.TCPConnector(socket_factory=...)``."""
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Ends the connections that are left, and lets the event loop see it before it may end."""
        for _ in range(_TURNS):
            left = [each for each in self._made if each.fileno() >= 0]
            if not left:
                return
            for each in left:
                with contextlib.suppress(OSError):  # it is not connected yet, or no longer
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0)
