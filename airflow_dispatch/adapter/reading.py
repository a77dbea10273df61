"""Reading a TrainJob with all that belongs to it, without a watch.

The order is part of the never-two rule (contract, section 12): the TrainJob first, so that its resourceVersion guards
the write that follows; then JobSet and Jobs; then the pods. What JobSet and Jobs said was said before the pods were
listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from airflow_dispatch.adapter.editing import is_queued
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Forbidden, NotFound, Refused
from airflow_dispatch.core.objects import Object, TrainJob
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store

__all__ = ["get_trainjob", "read_namespace", "read_snapshot", "record_of", "snapshot_in", "with_trainjob"]


async def get_trainjob(target: Target, name: str, uid: str | None = None) -> dict[str, Any]:
    """The whole TrainJob, for an update; raises :class:`NotFound`, and :class:`Refused` when its UID is another."""
    found = await target.client.get(paths.TRAINJOBS, name, target.namespace)
    if uid and found["metadata"]["uid"] != uid:
        raise Refused(f"{target.ref(name)}: its UID is {found['metadata']['uid']}, not {uid}: it is another object")
    return found


async def read_snapshot(target: Target, trainjob: dict[str, Any]) -> Snapshot:
    """All that belongs to a TrainJob that has just been read; raises :class:`Refused` when it can't be understood."""
    store = Store(target.namespace, site=target.settings.site)
    name = trainjob["metadata"]["name"]
    of_jobset = f"{names.LABEL_JOBSET_NAME}={name}"
    jobset, runtime, jobs, events = await asyncio.gather(
        _read_one(target, paths.JOBSETS, name),
        _read_one(target, paths.RUNTIMES, name),
        _list(target, paths.JOBS, label_selector=of_jobset),
        _list_if_allowed(target, paths.EVENTS, field_selector=paths.EVENTS_SELECTOR),
    )
    store.replace_all(paths.JOBSETS.kind, jobset)
    store.replace_all(paths.RUNTIMES.kind, runtime)
    store.replace_all(paths.JOBS.kind, jobs)
    store.replace_all(paths.EVENTS.kind, events)
    if is_queued(trainjob):
        store.replace_all(paths.WORKLOADS.kind, await _list_if_allowed(target, paths.WORKLOADS))
    store.replace_all(paths.PODS.kind, await _list(target, paths.PODS))
    snapshot = snapshot_in(target, store, trainjob)
    await _read_nodes(target, store, [pod.spec.node_name for pod in snapshot.pods])
    return store.snapshot(name) or snapshot


async def read_namespace(target: Target, job_id: str | None = None) -> Store:
    """Everything of the namespace that a classification reads, and the Nodes of one job's pods, or of all."""
    store = Store(target.namespace, site=target.settings.site)
    trainjobs = await _list(target, paths.TRAINJOBS)
    store.replace_all(paths.TRAINJOBS.kind, trainjobs)
    for resource in (paths.JOBSETS, paths.JOBS, paths.RUNTIMES):
        store.replace_all(resource.kind, await _list(target, resource))
    store.replace_all(
        paths.EVENTS.kind, await _list_if_allowed(target, paths.EVENTS, field_selector=paths.EVENTS_SELECTOR)
    )
    if any(item.metadata.label(names.LABEL_KUEUE_QUEUE) for item in trainjobs):
        store.replace_all(paths.WORKLOADS.kind, await _list_if_allowed(target, paths.WORKLOADS))
    store.replace_all(paths.PODS.kind, await _list(target, paths.PODS))
    prefix = f"dj-{job_id.lower()}-s" if job_id else ""
    wanted = [
        pod.spec.node_name
        for pod in store.leftovers().pods
        if job_id is None
        or pod.metadata.label(names.LABEL_JOB_ID) == job_id
        or (pod.metadata.label(names.LABEL_JOBSET_NAME) or "").startswith(prefix)
    ]
    await _read_nodes(target, store, wanted)
    return store


def snapshot_in(target: Target, store: Store, trainjob: dict[str, Any]) -> Snapshot:
    """All that belongs to a TrainJob in a read of its namespace, with the TrainJob as it was read for an update.

    The update is guarded by that version, so it is that version that is judged. Raises :class:`Refused` when it can't
    be understood.
    """
    store.apply("MODIFIED", paths.TRAINJOBS.kind, record_of(paths.TRAINJOBS, trainjob))
    name = trainjob["metadata"]["name"]
    snapshot = store.snapshot(name)
    if snapshot is None or snapshot.trainjob.problem:
        problem = snapshot.trainjob.problem if snapshot is not None else "it has no name"
        raise Refused(f"{target.ref(name)}: the TrainJob is not of the shape that Trainer documents: {problem}")
    return snapshot


def record_of(resource: Resource, raw: dict[str, Any]) -> Object:
    """The slim record of an object that was read whole."""
    return decode_record(resource, msgspec.json.encode(raw))


def with_trainjob(snapshot: Snapshot, raw: dict[str, Any]) -> Snapshot:
    """The snapshot with its TrainJob as an update answered it."""
    record = record_of(paths.TRAINJOBS, raw)
    readable = isinstance(record, TrainJob) and not record.problem
    return msgspec.structs.replace(snapshot, trainjob=record) if readable else snapshot


async def _read_one(target: Target, resource: Resource, name: str) -> list[Object]:
    try:
        return [await target.client.read(resource, name, target.namespace)]
    except NotFound:
        return []


async def _list(
    target: Target, resource: Resource, *, label_selector: str = "", field_selector: str = ""
) -> list[Object]:
    listing = await target.client.list(
        resource, target.namespace, label_selector=label_selector, field_selector=field_selector
    )
    return listing.items


async def _list_if_allowed(target: Target, resource: Resource, *, field_selector: str = "") -> list[Object]:
    """What only adds to the detail, or what a cluster may lack: nothing where it may not be read."""
    try:
        return await _list(target, resource, field_selector=field_selector)
    except (NotFound, Forbidden):
        return []


async def _read_nodes(target: Target, store: Store, wanted: Iterable[str | None]) -> None:
    """The Nodes that pods are bound to, one by one; without permission they are not readable, which proves nothing."""
    nodes: list[Object] = []
    for name in sorted({name for name in wanted if name}):
        try:
            nodes.append(await target.client.read(paths.NODES, name))
        except NotFound:
            continue
        except Forbidden:
            store.nodes_readable = False
            return
    store.replace_all(paths.NODES.kind, nodes)
