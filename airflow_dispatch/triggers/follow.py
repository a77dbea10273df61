"""The wait: one TrainJob watched from now until it ends, is gone, or the task's time is up.

It starts with a full read and may run in two processes at once or start again at any time. To the cluster it writes
little, and only for the task whose job it is: it opens a job that could not be opened before (contract, sections 10
and 12), and notes which JobSet was the job's first (section 7).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core.classify import began, classify
from airflow_dispatch.core.errors import (
    ConfigurationError,
    DispatchError,
    NotFound,
    PodsRemain,
    Refused,
    Unreachable,
)
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.paths import TRAINJOBS
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
_EVIDENCE: Final = 60.0
"""Seconds that a failure waits for watches that are behind: what they bring may be its cause."""
_BEHIND: Final = "the job can't be watched just now, trying again: {}"

_FAILING_POD = re.compile(r"pod (\S+): ")


@dataclass(frozen=True)
class Waited:
    """What is waited for, and how.

    An empty ``uid`` takes whatever object has the name. ``opens``: the job is the waiting task's own, to be opened.
    """

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
        self._output_published = 0.0
        self._trouble = ""
        self._behind = False
        self._failed_at: float | None = None

    async def wait(self) -> dict[str, Any]:
        """Logs what changes and returns the event; see :mod:`airflow_dispatch.triggers.event`."""
        position = await self._resume()
        while True:
            try:
                async with self._hook.hub() as hub:
                    output = Output(hub.client, self._waited.namespace, self._log, position)
                    try:
                        return await self._watch(hub, output)
                    finally:
                        position = output.position
                        await output.finish(0)
            except (ConfigurationError, Refused) as error:
                return make_event("error", None, f"{self._ref} can't be watched: {error}")
            except Unreachable as error:
                self._complain(_BEHIND.format(error))
            if self._is_late():
                return await self._timeout()
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

    async def _watch(self, hub: Hub, output: Output) -> dict[str, Any]:
        adapter = Adapter(hub.client, self._waited.namespace, self._hook.settings)
        async with aclosing(self._snapshots(hub)) as snapshots:
            async for snapshot in snapshots:
                now = datetime.now(UTC)
                if snapshot is None or not self._is_it(snapshot):
                    if await self._is_gone(hub):
                        return await self._end("gone", self._gone(now), hub, output)
                else:
                    observation = classify(snapshot, now)
                    if observation.state is not State.ENDED:
                        await self._attend(snapshot, observation, adapter, output)
                    elif not self._may_learn_more(observation, hub):
                        return await self._end("ended", observation, hub, output)
                if self._is_late():
                    return await self._timeout()
        raise Unreachable("the watch ended")

    async def _attend(self, snapshot: Snapshot, observation: Observation, adapter: Adapter, output: Output) -> None:
        """Does what a job that goes on asks for."""
        now = datetime.now(UTC)
        if self._journal.observe(observation, now, began(snapshot, now)):
            await self._publish()
        if self._waited.opens:
            await adapter.remember_jobset(snapshot)
            if observation.state is State.GATED:
                await self._open(adapter)
        if self._waited.stream_output:
            output.attend(snapshot)
            await self._publish_position(output)

    async def _snapshots(self, hub: Hub) -> AsyncGenerator[Snapshot | None, None]:
        """The job as it is, at each change and at least once a tick; None when the watches know no such TrainJob.

        Nothing comes before the watches have been listed once; meanwhile, what keeps them from it is said.
        """
        changes = hub.subscribe(self._waited.name)
        upcoming = asyncio.ensure_future(anext(changes))
        listed = False
        try:
            while True:
                await asyncio.wait({upcoming}, timeout=self._pause(_TICK))
                if upcoming.done():
                    snapshot, listed = upcoming.result(), True
                    upcoming = asyncio.ensure_future(anext(changes))
                    yield snapshot
                elif listed:
                    yield hub.snapshot(self._waited.name)
                elif self._is_late():
                    raise Unreachable(hub.trouble or "the watches have not been listed in time")
                self._follow_trouble(hub.trouble)
        finally:
            upcoming.cancel()
            await asyncio.wait({upcoming})
            await changes.aclose()

    async def _open(self, adapter: Adapter) -> None:
        """Opens the job, when nothing of an earlier execution may still run; else says what it waits for."""
        try:
            await adapter.open(self._waited.name, uid=self._waited.uid or None)
        except PodsRemain as error:
            self._complain(f"waiting for pods of the previous execution to go: {', '.join(error.remaining)}")
        except DispatchError as error:
            self._complain(f"{self._ref} can't be opened yet: {error}")
        else:
            self._trouble = ""
            self._log.log(logging.INFO, "opened")

    async def _end(self, status: str, observation: Observation, hub: Hub, output: Output) -> dict[str, Any]:
        await output.finish()
        failing = _FAILING_POD.search(observation.cause.detail)
        tail: Sequence[str] = ()
        if failing and observation.cause.kind is not CauseKind.COMPLETED:
            tail = await last_lines(hub.client, self._waited.namespace, failing[1], output)
        self._journal.observe(observation, datetime.now(UTC))
        await self._publish()
        return make_event(status, observation, self._journal.last_line, tail)

    def _is_it(self, snapshot: Snapshot) -> bool:
        return self._waited.uid in ("", snapshot.trainjob.metadata.uid)

    async def _is_gone(self, hub: Hub) -> bool:
        """Asks the API server itself: a job that was created a moment ago may not have come through the watch yet."""
        try:
            found = await hub.client.read(TRAINJOBS, self._waited.name, self._waited.namespace)
        except NotFound:
            return True
        return self._waited.uid not in ("", found.metadata.uid)

    def _gone(self, now: datetime) -> Observation:
        waited = self._waited
        return gone(self._ref, waited.job_id, waited.submission, waited.uid, now)

    async def _timeout(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        observation = timed_out(self._journal.previous or self._gone(now), self._waited.time_limit, now)
        self._journal.observe(observation, now)
        await self._publish()
        return make_event("timeout", observation, self._journal.last_line)

    def _is_late(self) -> bool:
        return self._waited.deadline is not None and datetime.now(UTC) >= self._waited.deadline

    def _pause(self, seconds: float) -> float:
        """Seconds to wait, shortened so that the deadline does not pass meanwhile."""
        if self._waited.deadline is None:
            return seconds
        return max(0.0, min(seconds, (self._waited.deadline - datetime.now(UTC)).total_seconds()))

    def _may_learn_more(self, observation: Observation, hub: Hub) -> bool:
        """Whether an end is a failure whose cause may stand in what can't be watched just now."""
        if hub.trouble is None or observation.cause.kind is CauseKind.COMPLETED or self._is_late():
            return False
        now = asyncio.get_running_loop().time()
        if self._failed_at is None:
            self._failed_at = now
        return now - self._failed_at < _EVIDENCE

    def _follow_trouble(self, trouble: str | None) -> None:
        """Says what keeps the watches from going on, and when they do again: until then the job may be elsewhere."""
        if trouble:
            self._complain(_BEHIND.format(trouble))
        elif self._behind:
            self._trouble = ""
            self._log.log(logging.INFO, "the job is watched again")
        self._behind = bool(trouble)

    def _complain(self, text: str) -> None:
        """Says what stands in the way, once for as long as it is the same."""
        if text != self._trouble:
            self._trouble = text
            self._log.log(logging.WARNING, "%s", text)

    async def _publish(self) -> None:
        if self._task is not None:
            await self._task.publish({STATUS_KEY: self._journal.published()})

    async def _publish_position(self, output: Output) -> None:
        """Publishes how far the output was shown, so that a restart repeats half a minute of it at most."""
        now = asyncio.get_running_loop().time()
        if self._task is None or output.position is None:
            return
        if now - self._output_published >= _OUTPUT_PUBLISHED:
            self._output_published = now
            await self._task.publish({OUTPUT_KEY: output.position})
