"""What a store holds, observed: the same for a hub, a single read, a dump and a replayed recording."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.identity import parse_name
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube.store import Store

__all__ = ["jobs_of", "observations"]


def observations(store: Store, now: datetime, job_id: str | None = None) -> list[Observation]:
    """Every object of a job, or of all jobs: TrainJobs, by job and lowest submission first, then orphans."""
    listed = store.trainjob_names() if job_id is None else store.names_of_job(job_id)
    snapshots = [snapshot for name in listed if (snapshot := store.snapshot(name)) is not None]
    found = [
        classify(snapshot, now)
        for snapshot in snapshots
        if job_id is not None or _job_id(snapshot.trainjob.metadata.name, snapshot)
    ]
    if job_id is None:
        found.sort(key=lambda each: (each.job_id, each.submission, each.ref))
    return found + [orphan for orphan in orphans(store.leftovers(), now) if job_id in (None, orphan.job_id)]


def jobs_of(store: Store, trainjobs: Iterable[str]) -> list[str]:
    """The JobIDs of TrainJobs, by name or else by label; those of others are left out."""
    found = {_job_id(name, store.snapshot(name)) for name in trainjobs}
    return sorted(job_id for job_id in found if job_id is not None)


def _job_id(name: str, snapshot: Snapshot | None) -> str | None:
    submission = parse_name(name)
    if submission is not None:
        return submission.job_id
    return snapshot.trainjob.metadata.label(names.LABEL_JOB_ID) if snapshot is not None else None
