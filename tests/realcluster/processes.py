"""Child processes that end with their parent, each with a log of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL("libc.so.6", use_errno=True)


class StartError(Exception):
    """A process that did not come up; names it and shows its last lines."""


class Process:
    """One running program, its standard output and error going to ``log``."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "AIRFLOW"))}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **(environment or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (one prctl call, which takes no lock)
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def check(self) -> None:
        """Raises :class:`StartError` when the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise StartError(f"{self.name} ended with exit code {code}; its last lines:\n{self.tail()}")

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, *, graceful: bool, patience: float = 5.0) -> None:
        """Ends it: with SIGTERM and, after ``patience`` seconds, SIGKILL; or with SIGKILL at once."""
        if graceful and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, SIGSTOP and SIGCONT say, to freeze a controller and let it go on."""
        self._process.send_signal(number)


class Deadline:
    """A bound on one wait of a start."""

    def __init__(self, seconds: float, what: str, process: Process) -> None:
        self._end = time.monotonic() + seconds
        self._text = f"{what} was not ready after {seconds:.0f} s"
        self._process = process

    def check(self, last: str) -> None:
        """Raises :class:`StartError` when the process has ended or the time is over; ``last`` is what was seen last."""
        self._process.check()
        if time.monotonic() > self._end:
            raise StartError(f"{self._text}: {last}\n{self._process.name}'s last lines:\n{self._process.tail()}")


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
