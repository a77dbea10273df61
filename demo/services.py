"""Services of this machine: started each on its own, stopped each by its pid, and none outlives who started it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["Service", "ServiceError", "free_port", "start_cluster", "wait_for"]

POLL_SECONDS = 0.2
ROOT = Path(__file__).parent.parent

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL("libc.so.6", use_errno=True)


class ServiceError(Exception):
    """A service that did not come up, or has ended; shows its last lines."""


class Service:
    """One process with a log of its own, in a session of its own: Ctrl-C reaches it through :meth:`stop` alone.

    The kernel ends it when the thread that has started it ends, however that comes.
    """

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
                preexec_fn=_end_with_parent,  # noqa: PLW1509 (one system call, which takes no lock)
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Its resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal: SIGSTOP and SIGCONT, say, to freeze it and let it go on."""
        self._process.send_signal(number)

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


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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


def start_cluster(folder: Path, nodes: int = 3, *, real: bool = False) -> tuple[Service, dict[str, Any]]:
    """A cluster as a process of its own, and the content of its state file, ``cluster.json`` in ``folder``.

    It is the local cluster, or with ``real`` the real control plane under the local cluster's nodes, which has to have
    been built. Raises :class:`ServiceError`, with the cluster stopped, when it does not come up.
    """
    state = folder / "cluster.json"
    name, program = "local cluster", [str(Path(sys.executable).parent / "airflow-dispatch"), "local", "up"]
    environment = dict(os.environ)
    if real:
        name, program = "real control plane", [sys.executable, "-m", "tests.realcluster"]
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    options = ["--nodes", str(nodes), "--state", str(state), "--directory", str(folder / "cluster")]
    cluster = Service(name, [*program, *options], folder / "cluster.log", environment)
    try:
        wait_for(f"the {name}", state.exists, [cluster], 60)
    except BaseException:
        cluster.stop()
        raise
    return cluster, json.loads(state.read_text())
