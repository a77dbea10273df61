"""``output``: the log of rank 0 of the current execution."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_dispatch.adapter.reading import get_trainjob, read_snapshot
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.errors import NotFound

__all__ = ["Wanted", "output"]


class Wanted(NamedTuple):
    """Which part of a log: its last ``tail_lines``, what came after ``since``, at most ``limit_bytes``."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


async def output(target: Target, name: str, wanted: Wanted) -> AsyncGenerator[str, None]:
    """Line by line; raises :class:`NotFound` when the current execution has no pod of rank 0."""
    facts = Facts(await read_snapshot(target, await get_trainjob(target, name)), datetime.now(UTC))
    pods = [view for view in facts.current if view.live and view.index == 0]
    if not pods:
        raise NotFound(f"{target.ref(name)}: no pod of rank 0 is there")
    newest = max(pods, key=lambda view: view.age)
    stream = target.client.log(
        newest.name,
        target.namespace,
        container=names.TRAINER_CONTAINER,
        follow=wanted.follow,
        tail_lines=wanted.tail_lines,
        since_time=wanted.since,
        limit_bytes=wanted.limit_bytes,
    )
    async with aclosing(stream) as lines:
        async for line in lines:
            yield line.decode(errors="replace")
