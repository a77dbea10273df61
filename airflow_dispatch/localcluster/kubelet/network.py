"""One loopback address for each pod.

Linux answers on the whole of 127.0.0.0/8, so pods get addresses of their own without any set-up: a cluster takes a
``127.x.0.0/16``, each of its nodes a ``127.x.y.0/24``, each pod one address of its node's. Since a wildcard bind still
takes a port of all addresses, a server in a pod must bind to its own (``status.podIP`` through the downward API).
"""

from __future__ import annotations

import secrets
import socket
from typing import Final

__all__ = ["AddressPool", "ClusterNetwork"]

_LOCK_PORT: Final = 47127
_FIRST: Final = 64
_LAST: Final = 254


class ClusterNetwork:
    """The ``127.x.0.0/16`` of one cluster, not shared with another cluster on this machine.

    The claim is a socket that listens on ``127.x.255.254`` for as long as the network is open; a second cluster finds
    the address taken and picks another.
    """

    def __init__(self) -> None:
        octets = list(range(_FIRST, _LAST + 1))
        secrets.SystemRandom().shuffle(octets)
        for octet in octets:
            claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                claim.bind((f"127.{octet}.255.254", _LOCK_PORT))
                claim.listen(1)
            except OSError:
                claim.close()
                continue
            self._claim = claim
            self._octet = octet
            return
        raise RuntimeError("every 127.x.0.0/16 of this machine is claimed by a local cluster")

    def node(self, index: int) -> AddressPool:
        """The addresses of the node with this number, from 0."""
        return AddressPool(f"127.{self._octet}.{index + 1}")

    def close(self) -> None:
        """Gives the network up."""
        self._claim.close()


class AddressPool:
    """The addresses of one node.

    An address that was given back is used again last, so that a late client of a dead pod does not meet a new one.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._free = list(range(2, 255))

    @property
    def host(self) -> str:
        """The node's own address."""
        return f"{self._prefix}.1"

    def take(self) -> str:
        """A free address.

        Raises:
            RuntimeError: All 253 are taken.
        """
        if not self._free:
            raise RuntimeError(f"no free address in {self._prefix}.0/24")
        return f"{self._prefix}.{self._free.pop(0)}"

    def give_back(self, address: str) -> None:
        """Makes an address free again."""
        self._free.append(int(address.rpartition(".")[2]))
