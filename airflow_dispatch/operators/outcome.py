"""The last part of a job's life, on the worker: report its verdict, or end it.

Loaded by the operators when they run, never when a DAG file is parsed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from airflow_dispatch.core.errors import DispatchError
from airflow_dispatch.core.observation import Cause, State
from airflow_dispatch.hooks.dispatch import DispatchHook
from airflow_dispatch.hooks.reference import JobReference
from airflow_dispatch.triggers.journal import Log

__all__ = ["cancel_live", "settle"]

_STOP_SECONDS: Final = 4.0
"""Airflow kills a task's process five seconds after it was told to stop."""


async def settle(hook: DispatchHook, event: Mapping[str, Any], ti_id: str, log: Log) -> None:
    """Writes to the cluster what an event asks for: the verdict of a job that ended, the end of one that is late.

    Neither decides what the task raises or returns, so a cluster that can't be reached is only said.
    """
    outcome, late = event["outcome"], event["status"] == "timeout"
    if event["status"] not in ("ended", "timeout"):
        return
    reference = JobReference.parse(outcome["ref"], hook.namespace)
    try:
        async with hook.adapter() as adapter:
            if late:
                await adapter.cancel(reference.name, uid=outcome["uid"])
                log.log(logging.WARNING, "cancelled %s: its time is up", reference.ref)
            else:
                verdict = msgspec.convert(outcome["cause"], Cause)
                await adapter.report(reference.name, outcome["uid"], verdict, ti_id)
    except DispatchError as error:
        consequence = "it may run on" if late else "a further try would take the same verdict"
        log.log(logging.WARNING, "%s could not be told, %s: %s", reference.ref, consequence, error)


async def cancel_live(hook: DispatchHook, job_id: str, log: Log) -> None:
    """Cancels whatever of a job has not ended, by name and UID; what can't be done in time is said."""
    try:
        async with asyncio.timeout(_STOP_SECONDS), hook.adapter() as adapter:
            for seen in await adapter.find(job_id):
                if seen.state is not State.ENDED and seen.ref.count("/") == 1:
                    await adapter.cancel(JobReference.of(seen).name, uid=seen.uid)
                    log.log(logging.WARNING, "cancelled %s", seen.ref)
    except (DispatchError, TimeoutError) as error:
        log.log(logging.WARNING, "job %s could not be cancelled, it may run on: %r", job_id, error)
