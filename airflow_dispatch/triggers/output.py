"""Rank 0's output in the task log: set apart, in order, in bounded portions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import DispatchError, Forbidden, Refused
from airflow_dispatch.core.identity import parse_decimal
from airflow_dispatch.core.objects import Pod
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.triggers.journal import Log

__all__ = ["Output", "last_lines"]

_WINDOW: Final = 5.0
"""Seconds of one portion."""
_LINES_PER_WINDOW: Final = 100
_LINE_LENGTH: Final = 500
_FIRST_TAIL: Final = 1000
"""Lines of the past that are read when a stream is opened."""
_KEPT: Final = 20
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_RETRY: Final = 5.0
"""Seconds before a broken stream is opened again."""


class Output:
    """Follows the container ``node`` of rank 0 from one execution to the next.

    Losing the stream says nothing of the job: it is opened again from the time of the last line that was shown.
    ``position`` is that time (RFC 3339 with nanoseconds, as the kubelet writes it), for another process to go on from.
    """

    def __init__(self, client: KubeClient, namespace: str, log: Log, position: str | None = None) -> None:
        self._client = client
        self._namespace = namespace
        self._log = log
        self._portion = _Portion(log)
        self._task: asyncio.Task[None] | None = None
        self._pod_uid = ""
        self.pod_name = ""
        self.position = position
        self.kept: deque[str] = deque(maxlen=_KEPT)

    def attend(self, snapshot: Snapshot) -> None:
        """Turns to the pod that is rank 0 now, when its container has started."""
        pod = _rank_zero(snapshot)
        if pod is None or pod.metadata.uid == self._pod_uid:
            return
        self.stop()
        self._pod_uid, self.pod_name = pod.metadata.uid, pod.metadata.name
        self.kept.clear()
        self._task = asyncio.create_task(self._follow(pod.metadata.name), name=f"output of {pod.metadata.name}")

    def stop(self) -> None:
        """Stops following, at once."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def finish(self, seconds: float = 5.0) -> None:
        """Waits for the rest of an ended container's output, but not for long, and closes."""
        if self._task is None:
            return
        task, self._task = self._task, None
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._portion.close()

    async def _follow(self, pod: str) -> None:
        while True:
            after = _instant(self.position) if self.position else None
            try:
                async for raw in self._client.log(
                    pod,
                    self._namespace,
                    container=names.TRAINER_CONTAINER,
                    follow=True,
                    since_time=_since(self.position),
                    tail_lines=_FIRST_TAIL,
                    timestamps=True,
                ):
                    self._show(raw, after)
                return
            except Forbidden as error:
                self._log.log(logging.WARNING, "rank 0's output is not shown: %s", error)
                return
            except Refused as error:
                self._log.log(logging.DEBUG, "the output of %s can't be read: %s", pod, error)
                return
            except DispatchError as error:
                self._log.log(logging.DEBUG, "the output of %s broke off: %s", pod, error)
            await asyncio.sleep(_RETRY)

    def _show(self, raw: bytes, after: tuple[datetime, str] | None) -> None:
        """Shows a line, unless it is no later than ``after``: then the stream before this one has shown it.

        Lines of one stream may well share a time.
        """
        text = raw.decode(errors="replace").rstrip("\n")
        stamp, _, rest = text.partition(" ")
        instant = _instant(stamp)
        if instant is not None:
            if after is not None and instant <= after:
                return
            self.position, text = stamp, rest
        line = text.rstrip("\r").rpartition("\r")[2]
        self.kept.append(line)
        self._portion.add(line)


class _Portion:
    """At most so many lines in so many seconds; what is left out is counted and said."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._began = clock()
        self._shown = 0
        self._left_out = 0

    def add(self, line: str) -> None:
        if self._clock() - self._began >= _WINDOW:
            self.close()
        if self._shown >= _LINES_PER_WINDOW:
            self._left_out += 1
            return
        self._shown += 1
        cut = line if len(line) <= _LINE_LENGTH else f"{line[:_LINE_LENGTH]} … ({len(line)} characters)"
        self._log.log(logging.INFO, "%s", f"rank 0 | {cut}")

    def close(self) -> None:
        """Ends the portion and says what it left out."""
        if self._left_out:
            self._log.log(logging.INFO, "%s", f"rank 0 | … {self._left_out} lines left out")
        self._began, self._shown, self._left_out = self._clock(), 0, 0


async def last_lines(client: KubeClient, namespace: str, pod: str, output: Output) -> Sequence[str]:
    """The last lines of a pod's container ``node``, oldest first; empty when they can no longer be read."""
    try:
        lines = [
            raw.decode(errors="replace").rstrip("\n")
            async for raw in client.log(
                pod, namespace, container=names.TRAINER_CONTAINER, tail_lines=_KEPT, limit_bytes=16 * 1024
            )
        ]
    except DispatchError:
        lines = []
    return lines or (list(output.kept) if pod == output.pod_name else [])


def _rank_zero(snapshot: Snapshot) -> Pod | None:
    """The newest live pod of completion index 0 whose container ``node`` has started."""
    pods = [pod for pod in snapshot.pods if pod.metadata.label(names.LABEL_COMPLETION_INDEX) == "0" and _started(pod)]
    return max(pods, key=_age, default=None)


def _age(pod: Pod) -> tuple[int, datetime, str]:
    admission = parse_decimal(pod.metadata.annotation(names.ANNOTATION_ADMISSION)) or 0
    restart = parse_decimal(pod.metadata.label(names.LABEL_RESTART_ATTEMPT)) or 0
    created = pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return admission + restart, created, pod.metadata.name


def _started(pod: Pod) -> bool:
    statuses = (pod.status.container_statuses if pod.status else None) or []
    states: list[Any] = [status.state for status in statuses if status.name == names.TRAINER_CONTAINER]
    return any(state is not None and (state.running or state.terminated) for state in states)


def _since(position: str | None) -> datetime | None:
    """The second in which the last line was written: Kubernetes takes whole seconds, :meth:`Output._show` the rest."""
    instant = _instant(position) if position else None
    return instant[0] if instant else None


def _instant(stamp: str) -> tuple[datetime, str] | None:
    """A kubelet's timestamp in an order that keeps its nanoseconds; None when it is none."""
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None
    return datetime.fromisoformat(match[1] + match[3]), (match[2] or "").ljust(9, "0")
