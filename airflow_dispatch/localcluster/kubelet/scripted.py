"""Containers that are played on the cluster's clock: for tests under virtual time.

A container runs until its script, or a fault, ends it. Nothing is executed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.kubelet.runtime import ContainerExit, ContainerSpec, StartError, exit_reason

__all__ = ["Script", "ScriptedContainer", "ScriptedRuntime", "runs_until_told"]

_KILLED = 137


@dataclass(frozen=True)
class Script:
    """What one run of a container does.

    Attributes:
        seconds: How long it runs; None is until it is stopped.
        exit_code: What it then exits with.
        reason: The reason beside it; found from the exit code when empty.
        output: What it prints when it starts.
        term_seconds: How long it takes to obey SIGTERM; None ignores it.
        term_exit_code: What it exits with on SIGTERM.
        start_error: Why it can't be started at all, when not empty.
    """

    seconds: float | None = None
    exit_code: int = 0
    reason: str = ""
    output: bytes = b""
    term_seconds: float | None = 0.3
    term_exit_code: int = 143
    start_error: str = ""


def runs_until_told(spec: ContainerSpec) -> Script:
    """The script of every container when a test gives none."""
    del spec
    return Script()


class ScriptedContainer:
    """One played container."""

    def __init__(self, spec: ContainerSpec, script: Script, clock: Clock, number: int) -> None:
        self.spec = spec
        self._script = script
        self._clock = clock
        self._started_at = clock.now()
        self._id = f"scripted://{spec.pod_uid[:8]}-{spec.name}-{number}"
        self._exit: asyncio.Future[ContainerExit] = asyncio.get_running_loop().create_future()
        self._timers: set[asyncio.Task[None]] = set()
        if script.output:
            spec.log.write(script.output, clock.now())
        if script.seconds is not None:
            self._after(script.seconds, script.exit_code, script.reason)

    @property
    def id(self) -> str:
        return self._id

    @property
    def started_at(self) -> datetime:
        return self._started_at

    async def wait(self) -> ContainerExit:
        return await asyncio.shield(self._exit)

    def write(self, output: bytes) -> None:
        """Prints something now."""
        self.spec.log.write(output, self._clock.now())

    def terminate(self) -> None:
        if self._script.term_seconds is not None:
            self._after(self._script.term_seconds, self._script.term_exit_code, "")

    def kill(self) -> None:
        self.end(_KILLED, "Error")

    def end(self, exit_code: int, reason: str) -> None:
        if self._exit.done():
            return
        now = self._clock.now()
        self.spec.log.close(now)
        self._exit.set_result(ContainerExit(exit_code, reason or exit_reason(exit_code), now))
        for timer in self._timers:
            timer.cancel()

    def _after(self, seconds: float, exit_code: int, reason: str) -> None:
        async def end() -> None:
            await self._clock.sleep(seconds)
            self._timers.discard(timer)
            self.end(exit_code, reason)

        timer = asyncio.ensure_future(end())
        self._timers.add(timer)


class ScriptedRuntime:
    """Plays containers.

    Args:
        clock: The cluster's clock.
        script: Says for each run of a container what it does.
    """

    name = "scripted://1"

    def __init__(self, clock: Clock, script: Callable[[ContainerSpec], Script] = runs_until_told) -> None:
        self._clock = clock
        self._script = script
        self._numbers = itertools.count(1)
        self.containers: list[ScriptedContainer] = []

    async def start(self, spec: ContainerSpec) -> ScriptedContainer:
        script = self._script(spec)
        if script.start_error:
            raise StartError("StartError", script.start_error)
        container = ScriptedContainer(spec, script, self._clock, next(self._numbers))
        self.containers.append(container)
        return container

    async def close(self) -> None:
        for container in self.containers:
            container.kill()
