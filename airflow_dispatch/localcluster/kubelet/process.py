"""Containers as real processes of this machine.

Each container is run by a shim (:mod:`~airflow_dispatch.localcluster.kubelet.shim`), a process of its own. Where the
system permits mount namespaces, which Linux does for root and mostly for everyone through user namespaces, a container
has its own ``/etc/hosts``, volumes and host name; elsewhere a Python hook resolves the names of pods, and volumes can
only be mounted where they are. There is no isolation beyond that: containers run as the user of the cluster, see its
files and share its network. A server inside a container must bind to its own pod's address (``status.podIP``), since
all pods share the loopback interface and a wildcard bind would take the port of every other pod.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_dispatch.localcluster.clock import Clock, WallClock
from airflow_dispatch.localcluster.kubelet.memory import MemoryWatch
from airflow_dispatch.localcluster.kubelet.runtime import ContainerExit, ContainerSpec, StartError, exit_reason

__all__ = ["HOSTS_VARIABLE", "ProcessContainer", "ProcessRuntime", "namespaces_permitted"]

_LOG = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_SHIM = (sys.executable, "-I", "-S", str(_HERE / "shim.py"))
_HOOK = str(_HERE / "hook")
_PORTION = 65536
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The mount that an API server adds to every pod by itself; where it can't be mounted, pods do without it."""
HOSTS_VARIABLE = "AIRFLOW_DISPATCH_LOCAL_HOSTS"
"""Names the hosts file to the Python hook, where there are no mount namespaces."""


def namespaces_permitted() -> bool:
    """Whether this process may give its children mount namespaces."""
    command = [*_SHIM, "--probe"]
    return subprocess.run(command, stdin=DEVNULL, capture_output=True, check=False, env={}).returncode == 0  # noqa: S603 - our own program


class ProcessContainer:
    """One container that runs as processes."""

    def __init__(self, spec: ContainerSpec, shim: Process, pid: int, clock: Clock) -> None:
        self._spec = spec
        self._shim = shim
        self._clock = clock
        self._forced: tuple[int, str] | None = None
        self._started_at = clock.now()
        self.pid = pid
        self._done = asyncio.ensure_future(self._run())

    @property
    def id(self) -> str:
        return f"process://{self._spec.pod_uid[:8]}-{self._spec.name}-{self.pid}"

    @property
    def started_at(self) -> datetime:
        return self._started_at

    @property
    def shim_pid(self) -> int:
        """The process below which all of the container's processes are."""
        return self._shim.pid

    @property
    def memory_limit(self) -> int | None:
        """Bytes, or None."""
        return self._spec.memory_limit

    async def wait(self) -> ContainerExit:
        return await asyncio.shield(self._done)

    def terminate(self) -> None:
        self._command(b"term\n")

    def kill(self) -> None:
        self._command(b"kill\n")

    def end(self, exit_code: int, reason: str) -> None:
        self._forced = (exit_code, reason)
        self.kill()

    def _command(self, line: bytes) -> None:
        stdin = self._shim.stdin
        if stdin is not None and not stdin.is_closing() and not self._done.done():
            stdin.write(line)

    async def _run(self) -> ContainerExit:
        copying = asyncio.ensure_future(self._copy_output())
        report = await _report(self._shim)
        await copying
        await self._shim.wait()
        if self._shim.stdin is not None:
            self._shim.stdin.close()
        finished = self._clock.now()
        self._spec.log.close(finished)
        code = int(report["exit"]) if "exit" in report else 128 + int(report.get("signal", signal.SIGKILL))
        reason = exit_reason(code)
        if self._forced is not None:
            code, reason = self._forced
        return ContainerExit(code, reason, finished, await asyncio.to_thread(self._last_words))

    async def _copy_output(self) -> None:
        stderr = self._shim.stderr
        while stderr is not None and (data := await stderr.read(_PORTION)):
            self._spec.log.write(data, self._clock.now())

    def _last_words(self) -> str:
        """What the container left at its ``terminationMessagePath``: at most 4096 bytes, as a kubelet reads."""
        file = self._spec.termination_message_file
        return Path(file).read_bytes()[:4096].decode(errors="replace") if file else ""


async def _report(shim: Process) -> dict[str, Any]:
    """The shim's next report; empty when it ended without one."""
    line = await shim.stdout.readline() if shim.stdout is not None else b""
    report: dict[str, Any] = json.loads(line) if line else {}
    return report


async def _raise_failure(shim: Process, report: dict[str, Any]) -> None:
    words = (await shim.stderr.read()).decode(errors="replace") if shim.stderr is not None else ""
    message = str(report.get("error") or words.strip() or "the shim ended without a report")
    raise StartError(str(report.get("reason", "CreateContainerError")), message)


class ProcessRuntime:
    """Runs containers as processes.

    Args:
        folder: Where the roots of containers are mounted; a new temporary folder when not given.
        clock: What times are read from. Processes live in real time, so it must be the wall's.
        namespaces: Whether to use mount namespaces; found out when None.
    """

    name = "process://1"

    def __init__(
        self, folder: Path | None = None, *, clock: Clock | None = None, namespaces: bool | None = None
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="airflow-dispatch-") if folder is None else None
        self._folder = Path(self._temporary.name) if self._temporary is not None else folder or Path()
        self._clock = clock or WallClock()
        self.namespaces = namespaces_permitted() if namespaces is None else namespaces
        self._containers: set[ProcessContainer] = set()
        self._waiters: set[asyncio.Task[None]] = set()
        self._memory = MemoryWatch()

    async def start(self, spec: ContainerSpec) -> ProcessContainer:
        shim = await asyncio.create_subprocess_exec(
            *_SHIM, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, start_new_session=True
        )
        try:
            request = json.dumps(self._request(spec)).encode() + b"\n"
            if shim.stdin is not None:
                shim.stdin.write(request)
            report = await _report(shim)
            if "started" not in report:
                await _raise_failure(shim, report)
        except BaseException:
            if shim.stdin is not None:
                shim.stdin.close()  # the shim ends, and with it whatever it has started
            await shim.wait()
            raise
        container = ProcessContainer(spec, shim, int(report["started"]), self._clock)
        self._containers.add(container)
        waiter = asyncio.ensure_future(self._forget_when_done(container))
        self._waiters.add(waiter)
        waiter.add_done_callback(self._waiters.discard)
        if spec.memory_limit is not None:
            self._memory.add(container)
        return container

    def _request(self, spec: ContainerSpec) -> dict[str, Any]:
        env = dict(spec.env)
        root: str | None = None
        mounts = [vars(mount) for mount in spec.mounts]
        if self.namespaces:
            # One folder does for all: each container sees its own mount on it.
            place = self._folder / "root"
            place.mkdir(parents=True, exist_ok=True)
            root = str(place)
            if spec.hosts_file is not None:
                mounts.append({"source": spec.hosts_file, "target": "/etc/hosts", "read_only": False})
            if spec.termination_message_file is not None:
                target = spec.termination_message_path
                mounts.append({"source": spec.termination_message_file, "target": target, "read_only": False})
        else:
            for mount in spec.mounts:
                if Path(mount.source) != Path(mount.target) and mount.target != _SERVICE_ACCOUNT:
                    message = (
                        f"this system permits no mount namespaces, so a volume can't be mounted at {mount.target}; "
                        "only a hostPath volume that is mounted at its own path is there"
                    )
                    raise StartError("CreateContainerConfigError", message)
            if spec.hosts_file is not None:
                env[HOSTS_VARIABLE] = spec.hosts_file
                env["PYTHONPATH"] = os.pathsep.join(part for part in (_HOOK, env.get("PYTHONPATH")) if part)
        return {
            "argv": list(spec.argv),
            "env": env,
            "cwd": spec.working_dir or spec.scratch,
            "hostname": spec.hostname,
            "root": root,
            "mounts": mounts,
        }

    async def _forget_when_done(self, container: ProcessContainer) -> None:
        await container.wait()
        self._containers.discard(container)
        self._memory.discard(container)

    async def close(self) -> None:
        for container in self._containers:
            container.kill()
        await asyncio.gather(*self._waiters)
        await self._memory.close()
        if self._temporary is not None:
            self._temporary.cleanup()
