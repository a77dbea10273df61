"""``find``, ``inspect`` and ``ceased``: what is there, orphans too."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_dispatch.adapter.reading import get_trainjob, read_namespace, read_snapshot
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import cessation
from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.errors import NotFound, Refused
from airflow_dispatch.core.identity import parse_job_id
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube import observing
from airflow_dispatch.kube.store import Store

__all__ = ["ceased", "find", "find_all", "inspect", "observations"]

_OWN_PARTS = 2


async def find(target: Target, job_id: str) -> list[Observation]:
    """Every object of a job: its TrainJobs, lowest submission first, then orphans."""
    job = parse_job_id(job_id)
    return observations(await read_namespace(target, job), job)


def observations(store: Store, job_id: str) -> list[Observation]:
    """What a store holds of a job, now."""
    return observing.observations(store, datetime.now(UTC), job_id)


async def find_all(target: Target) -> list[Observation]:
    """Every object of every job in the namespace."""
    return observing.observations(await read_namespace(target), datetime.now(UTC))


async def inspect(target: Target, ref_or_name: str) -> Observation | None:
    """The object of a reference or a TrainJob's name; None when there is none.

    Raises :class:`Refused` for a reference into another namespace than this adapter's.
    """
    name = _within(target, ref_or_name)
    if "/" in name:
        found = orphans((await read_namespace(target)).leftovers(), datetime.now(UTC))
        return next((each for each in found if each.ref == ref_or_name), None)
    try:
        trainjob = await get_trainjob(target, name)
    except NotFound:
        return None
    return classify(await read_snapshot(target, trainjob), datetime.now(UTC))


async def ceased(target: Target, ref_or_name: str) -> bool | None:
    """Whether every Node that any of its pods ran on is gone or out of service; None when that can't be known.

    Raises :class:`NotFound` when there is no such TrainJob.
    """
    trainjob = await get_trainjob(target, _within(target, ref_or_name))
    return cessation.ceased(await read_snapshot(target, trainjob))


def _within(target: Target, ref_or_name: str) -> str:
    """The reference without the namespace, which has to be ours."""
    parts = ref_or_name.split("/", 1)
    if len(parts) < _OWN_PARTS:
        return ref_or_name
    if parts[0] != target.namespace:
        raise Refused(f"{ref_or_name}: this adapter works in namespace {target.namespace}")
    return parts[1]
