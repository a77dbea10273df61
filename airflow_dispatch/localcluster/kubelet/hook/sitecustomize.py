# ruff: noqa: INP001 - its folder goes on PYTHONPATH as it is
"""Resolves the names of pods inside a container's Python processes, where ``/etc/hosts`` can't be replaced.

Python imports this module by itself when its folder is on ``PYTHONPATH``. Name look-ups through :mod:`socket` consult
the hosts file first; programs that are not Python don't know the pods' names.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import socket
import sys
from typing import Any


def _addresses(name: Any) -> list[str]:
    wanted = name.decode() if isinstance(name, bytes) else name
    found = []
    with open(os.environ["AIRFLOW_DISPATCH_LOCAL_HOSTS"]) as hosts:  # noqa: PTH123 - a light start counts here
        for line in hosts:
            address, *names = line.partition("#")[0].split() or [""]
            if wanted in names:
                found.append(address)
    return found


def _install() -> None:
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        addresses = _addresses(host) if host else []
        return [entry for known in addresses or [host] for entry in look_up(known, port, *args, **kwargs)]

    by_name = socket.gethostbyname

    def gethostbyname(name: str) -> str:
        return by_name(next(iter(_addresses(name)), name))

    socket.getaddrinfo = getaddrinfo
    socket.gethostbyname = gethostbyname
    hostname = os.environ.get("HOSTNAME")
    if hostname:
        socket.gethostname = lambda: hostname


def _run_the_hidden_one() -> None:
    """Runs the ``sitecustomize`` that this one stands in front of, if there is one."""
    here = os.path.dirname(__file__)  # noqa: PTH120 - a light start counts here
    elsewhere = [entry for entry in sys.path if entry != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "AIRFLOW_DISPATCH_LOCAL_HOSTS" in os.environ:
    _install()
_run_the_hidden_one()
