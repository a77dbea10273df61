"""``watch``: every observation of a job's objects that differs from the last one of that object (section 11)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from airflow_dispatch.adapter.editing import note_jobset
from airflow_dispatch.adapter.finding import observations
from airflow_dispatch.adapter.reading import get_trainjob
from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import DispatchError, NotFound, Unreachable
from airflow_dispatch.core.identity import parse_job_id
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub

__all__ = ["remember_jobset", "watch"]

logger = logging.getLogger(__name__)


async def watch(target: Target, job_id: str) -> AsyncGenerator[Observation, None]:
    """Begins with what is there; ends without error when the watches break, and the caller subscribes again."""
    job = parse_job_id(job_id)
    last: dict[tuple[str, str], Observation] = {}
    async with shared_hub(target.client.config, target.namespace, site=target.settings.site) as hub:
        try:
            async with aclosing(hub.changes(job)) as changes:
                async for _ in changes:
                    for seen in observations(hub.store, job):
                        key = (seen.ref, seen.uid)
                        if last.get(key) != seen:
                            last[key] = seen
                            yield seen
                    await _remember_jobsets(target, hub, job)
        except Unreachable as error:
            logger.info("the watch of job %s has ended: %s", job, error)


async def _remember_jobsets(target: Target, hub: Hub, job_id: str) -> None:
    for name in hub.store.names_of_job(job_id):
        snapshot = hub.snapshot(name)
        if snapshot is not None:
            await remember_jobset(target, snapshot)


async def remember_jobset(target: Target, snapshot: Snapshot) -> None:
    """Writes ``jobset-uid`` on the TrainJob when its JobSet is seen for the first time; costs nothing afterwards.

    A write that fails is said at debug level and made again at the next sight: it guards against a JobSet that is
    replaced later, and is no reason to stop watching.
    """
    metadata = snapshot.trainjob.metadata
    if snapshot.jobset is None or metadata.annotation(names.ANNOTATION_JOBSET_UID) is not None:
        return

    async def once() -> None:
        trainjob = await get_trainjob(target, metadata.name, metadata.uid)
        if note_jobset(trainjob, snapshot.jobset):
            await target.client.replace(paths.TRAINJOBS, trainjob)

    try:
        await retrying(once)
    except NotFound:
        return
    except DispatchError as error:
        logger.debug("the JobSet of %s could not be noted: %s", target.ref(metadata.name), error)
