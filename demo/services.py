"""Services of this machine: started each on its own, stopped each by its pid."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Service", "ServiceError", "free_port", "start_cluster", "wait_for"]

POLL_SECONDS = 0.2


class ServiceError(Exception):
    """A service that did not come up, or has ended; shows its last lines."""


class Service:
    """One process with a log of its own, in a session of its own: Ctrl-C reaches it through :meth:`stop` alone."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._asked = False
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 (our own commands)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises :class:`ServiceError` when it has ended."""
        code = self._process.poll()
        if code is not None:
            raise ServiceError(f"{self.name} has ended with exit code {code}; its last lines:\n{self.tail()}")

    def tail(self, lines: int = 25) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def terminate(self) -> None:
        """Asks it to end, once, without waiting: many services take a second request as an order to drop everything."""
        if not self._asked and self._process.poll() is None:
            self._asked = True
            self._process.terminate()

    def stop(self, patience: float = 15.0) -> None:
        """Asks it to end, and after ``patience`` seconds ends it with whatever it has started."""
        self.terminate()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._kill_session()
        self._kill_session()
        self._process.wait()

    def kill(self) -> None:
        """Ends it at once with whatever it has started, as the loss of its machine would: nobody is told."""
        self._kill_session()
        self._process.wait()

    def _kill_session(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def wait_for(what: str, ready: Callable[[], bool], services: Sequence[Service], seconds: float) -> None:
    """Returns when ``ready`` says so; raises :class:`ServiceError` when a service ends first or time is up."""
    deadline = time.monotonic() + seconds
    while not ready():
        for service in services:
            service.check()
        if time.monotonic() > deadline:
            tails = "\n".join(f"--- {service.name}\n{service.tail(8)}" for service in services)
            raise ServiceError(f"{what}: not after {seconds:.0f} s\n{tails}")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_cluster(folder: Path, nodes: int = 3) -> tuple[Service, dict[str, Any]]:
    """A local cluster as a process of its own, and the content of its state file, ``cluster.json`` in ``folder``.

    Raises :class:`ServiceError`, with the cluster stopped, when it does not come up.
    """
    state = folder / "cluster.json"
    program = str(Path(sys.executable).parent / "airflow-dispatch")
    options = ["--nodes", str(nodes), "--state", str(state), "--directory", str(folder / "cluster")]
    cluster = Service("local cluster", [program, "local", "up", *options], folder / "cluster.log", os.environ)
    try:
        wait_for("the local cluster", state.exists, [cluster], 60)
    except BaseException:
        cluster.stop()
        raise
    return cluster, json.loads(state.read_text())
