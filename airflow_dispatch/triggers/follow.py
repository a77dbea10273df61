"""The wait: one TrainJob watched from now until it ends, is gone, or the task's time is up.

It starts with a full read and may run in two processes at once or start again at any time. It writes to the cluster
only to open a job that could not be opened before (contract, sections 10 and 12).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.errors import ConfigurationError, DispatchError, Forbidden, PodsRemain, Unreachable
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.triggers.event import gone, make_event, timed_out
from airflow_dispatch.triggers.journal import Journal, Log
from airflow_dispatch.triggers.output import Output, last_lines
from airflow_dispatch.triggers.status import OUTPUT_KEY, STATUS_KEY, TaskReference

__all__ = ["Follower", "Waited"]

_TICK: Final = 15.0
"""Seconds after which an unchanged job is looked at again: some rules depend on the time alone."""
_OUTPUT_PUBLISHED: Final = 30.0
"""Seconds between two publications of how far rank 0's output was shown."""
_RETRY: Final = 10.0
"""Seconds before a cluster that could not be reached is tried again."""

_FAILING_POD = re.compile(r"pod (\S+): ")


@dataclass(frozen=True)
class Waited:
    """What is waited for, and how."""

    namespace: str
    name: str
    uid: str
    job_id: str
    submission: int
    opens: bool = False
    deadline: datetime | None = None
    time_limit: float | None = None
    stream_output: bool = True


class Follower:
    """Waits for one job; ``task`` is where the status is published, or None."""

    def __init__(self, hook: DispatchHook, waited: Waited, log: Log, task: TaskReference | None = None) -> None:
        self._hook = hook
        self._waited = waited
        self._journal = Journal(log)
        self._log = log
        self._task = task
        self._output: Output | None = None
        self._output_published = 0.0
        self._trouble = ""

    async def wait(self) -> dict[str, Any]:
        """Logs what changes and returns the event; see :mod:`airflow_dispatch.triggers.event`."""
        position = await self._resume()
        while True:
            try:
                async with self._hook.hub() as hub:
                    return await self._watch(hub, position)
            except (ConfigurationError, Forbidden) as error:
                return make_event("error", None, f"the triggerer can't watch {self._ref}: {error}")
            except Unreachable as error:
                self._complain(f"the cluster can't be reached, trying again: {error}")
                if self._is_late():
                    return self._timeout()
            finally:
                if self._output is not None:
                    position = self._output.position
                    await self._output.finish(0)
            await asyncio.sleep(self._pause(_RETRY))

    @property
    def _ref(self) -> str:
        return f"{self._waited.namespace}/{self._waited.name}"

    async def _resume(self) -> str | None:
        """Where another process stopped, from what it published; returns the position in the output."""
        if self._task is None:
            return None
        status = await self._task.read(STATUS_KEY)
        if isinstance(status, dict) and (status.get("observation") or {}).get("uid") == self._waited.uid:
            self._journal.resume(status)
        position = await self._task.read(OUTPUT_KEY)
        return position if isinstance(position, str) else None

    async def _watch(self, hub: Hub, position: str | None) -> dict[str, Any]:
        self._output = Output(hub.client, self._waited.namespace, self._log, position)
        adapter = Adapter(hub.client, self._waited.namespace, self._hook.settings)
        async for snapshot in self._snapshots(hub):
            now = datetime.now(UTC)
            if snapshot is None or not self._is_it(snapshot):
                return await self._end("gone", self._gone(now), now)
            observation = classify(snapshot, now)
            if observation.state is State.ENDED:
                return await self._end("ended", observation, now, hub)
            if self._journal.observe(observation, now):
                await self._publish()
            if self._is_late():
                return self._timeout()
            if self._waited.opens and observation.state is State.GATED:
                await self._open(adapter)
            if self._waited.stream_output:
                self._output.attend(snapshot)
                await self._publish_position()
        raise Unreachable("the watch ended")

    async def _snapshots(self, hub: Hub) -> AsyncIterator[Snapshot | None]:
        """The job as it is, at each change and at least once a tick; None when there is no such TrainJob."""
        changes = hub.subscribe(self._waited.name)
        upcoming: asyncio.Task[Snapshot | None] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.ensure_future(anext(changes))
                done, _ = await asyncio.wait({upcoming}, timeout=self._pause(_TICK))
                if done:
                    try:
                        snapshot = upcoming.result()
                    except StopAsyncIteration:
                        return
                    upcoming = None
                    yield snapshot
                else:
                    yield hub.snapshot(self._waited.name)
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.wait({upcoming})
            await changes.aclose()

    async def _open(self, adapter: Adapter) -> None:
        """Opens the job, when nothing of an earlier execution may still run; else says what it waits for."""
        try:
            opened = await adapter.open(self._waited.name, uid=self._waited.uid)
        except PodsRemain as error:
            self._complain(f"waiting for pods of the previous execution to go: {', '.join(error.remaining)}")
        except DispatchError as error:
            self._complain(f"{self._ref} can't be opened yet: {error}")
        else:
            self._trouble = ""
            admission = f" (admission {opened.execution.admission})" if opened.execution else ""
            self._journal.say(f"opened{admission}")

    async def _end(
        self, status: str, observation: Observation, now: datetime, hub: Hub | None = None
    ) -> dict[str, Any]:
        output: list[str] = []
        if self._output is not None:
            await self._output.finish()
            failing = _FAILING_POD.search(observation.cause.detail)
            if hub is not None and observation.cause.kind is not CauseKind.COMPLETED and failing:
                output = list(await last_lines(hub.client, self._waited.namespace, failing[1], self._output))
        self._journal.observe(observation, now)
        await self._publish()
        return make_event(status, observation, self._journal.last_line, output)

    def _is_it(self, snapshot: Snapshot) -> bool:
        return self._waited.uid in ("", snapshot.trainjob.metadata.uid)

    def _gone(self, now: datetime) -> Observation:
        waited = self._waited
        return gone(self._ref, waited.job_id, waited.submission, waited.uid, now)

    def _timeout(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        observation = timed_out(self._journal.previous or self._gone(now), self._waited.time_limit)
        self._journal.observe(observation, now)
        return make_event("timeout", observation, self._journal.last_line)

    def _is_late(self) -> bool:
        return self._waited.deadline is not None and datetime.now(UTC) >= self._waited.deadline

    def _pause(self, seconds: float) -> float:
        """Seconds to wait, shortened so that the deadline is not passed in one's sleep."""
        if self._waited.deadline is None:
            return seconds
        return max(0.0, min(seconds, (self._waited.deadline - datetime.now(UTC)).total_seconds()))

    def _complain(self, text: str) -> None:
        """Says what stands in the way, once for as long as it is the same."""
        if text != self._trouble:
            self._trouble = text
            self._journal.say(text, logging.WARNING)

    async def _publish(self) -> None:
        if self._task is not None:
            await self._task.publish({STATUS_KEY: self._journal.published()})

    async def _publish_position(self) -> None:
        """Publishes how far the output was shown, so that a restart repeats half a minute of it at most."""
        now = asyncio.get_running_loop().time()
        if self._task is None or self._output is None or self._output.position is None:
            return
        if now - self._output_published >= _OUTPUT_PUBLISHED:
            self._output_published = now
            await self._task.publish({OUTPUT_KEY: self._output.position})
