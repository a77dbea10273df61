"""What the kubelet's own client reads of a kubeconfig.

It is for the kubelet alone: server, certificate authority, token and client certificate of the current
context. Everything else, exec plugins first of all, is the business of real clients.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Connection", "read_kubeconfig"]


@dataclass(frozen=True)
class Connection:
    """How to reach one API server.

    Attributes:
        server: Its URL.
        ca: The certificate authority in PEM, or empty for the system's.
        token: A bearer token, or empty.
        certificate: A client certificate in PEM, or empty.
        key: Its private key in PEM, or empty.
    """

    server: str
    ca: str = ""
    token: str = ""
    certificate: str = ""
    key: str = ""

    def tls(self) -> ssl.SSLContext | None:
        """The context to connect with, None for plain HTTP."""
        if self.server.startswith("http://"):
            return None
        context = ssl.create_default_context(cadata=self.ca or None)
        if self.certificate:
            # The standard library loads a client certificate from a file alone; this one is its owner's alone.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
                pair.write(self.certificate + "\n" + self.key)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context


def _named(entries: list[dict[str, Any]], name: str, kind: str, path: Path) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            found: dict[str, Any] = entry[kind]
            return found
    raise ValueError(f"{path}: there is no {kind} named {name!r}")


def _pem(entry: dict[str, Any], key: str, folder: Path) -> str:
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data).decode()
    if name := entry.get(key):
        return (folder / str(name)).read_text()
    return ""


def read_kubeconfig(path: Path) -> Connection:
    """The connection of the current context.

    Raises:
        OSError: The file can't be read.
        ValueError: It lacks what it refers to.
    """
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"], "context", path)
    cluster = _named(config["clusters"], context["cluster"], "cluster", path)
    user = _named(config["users"], context["user"], "user", path)
    return Connection(
        server=cluster["server"],
        ca=_pem(cluster, "certificate-authority", path.parent),
        token=user.get("token", ""),
        certificate=_pem(user, "client-certificate", path.parent),
        key=_pem(user, "client-key", path.parent),
    )
