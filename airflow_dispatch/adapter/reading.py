"""Reading a TrainJob with all that belongs to it, without a watch.

The order is part of the never-two rule (contract, section 12): the TrainJob first, so that its resourceVersion guards
the write that follows; then JobSet and Jobs; then the pods, and the ledger of those that vanished. What JobSet and Jobs
said was said before the pods were listed; a pod that goes after that is still among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from airflow_dispatch.adapter.editing import is_queued
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Forbidden, NotFound, Refused
from airflow_dispatch.core.identity import Submission, parse_name
from airflow_dispatch.core.objects import Object, TrainJob
from airflow_dispatch.core.snapshot import Snapshot
from airflow_dispatch.kube import ledgers, paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store

__all__ = [
    "Read",
    "complete",
    "get_trainjob",
    "read_namespace",
    "read_snapshot",
    "read_submissions",
    "read_to_admit",
    "record_of",
    "snapshot_in",
    "snapshot_named",
    "snapshot_of",
    "with_trainjob",
]


class Read(NamedTuple):
    """A TrainJob, whole, in a read of its namespace."""

    submission: Submission
    trainjob: dict[str, Any]
    store: Store
    snapshot: Snapshot


async def get_trainjob(target: Target, name: str, uid: str | None = None) -> dict[str, Any]:
    """The whole TrainJob, for an update; raises :class:`NotFound`, and :class:`Refused` when its UID is another."""
    found = await target.client.get(paths.TRAINJOBS, name, target.namespace)
    _check_uid(target, found, uid)
    return found


def _check_uid(target: Target, trainjob: dict[str, Any], uid: str | None) -> None:
    name, found = trainjob["metadata"]["name"], trainjob["metadata"]["uid"]
    if uid and found != uid:
        raise Refused(f"{target.ref(name)}: its UID is {found}, not {uid}: it is another object")


async def read_snapshot(target: Target, trainjob: dict[str, Any]) -> Snapshot:
    """All that belongs to a TrainJob that has just been read; raises :class:`Refused` when it can't be understood."""
    store = Store(target.namespace, site=target.settings.site)
    name = trainjob["metadata"]["name"]
    of_jobset = f"{names.LABEL_JOBSET_NAME}={name}"
    jobset, runtime, jobs, events = await asyncio.gather(
        _named(target, paths.JOBSETS, name),
        _named(target, paths.RUNTIMES, name),
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
    submission = parse_name(name)
    if submission is not None:
        await _read_ledger(target, store, submission.job_id)
    snapshot = snapshot_in(target, store, trainjob)
    gone = (each.pod for each in snapshot.vanished)
    await _read_nodes(target, store, [pod.spec.node_name for pod in (*snapshot.pods, *gone)])
    return store.snapshot(name) or snapshot


async def read_namespace(target: Target, job_id: str | None = None) -> Store:
    """Everything of the namespace that a classification reads: the Nodes of all pods, or one job's and its ledger.

    Which pods have vanished is asked of one job alone: nothing is admitted on a read of all of them.
    """
    store = Store(target.namespace, site=target.settings.site)
    await _fill(target, store, paths.TRAINJOBS, paths.JOBSETS, paths.JOBS, paths.RUNTIMES)
    await _fill_events(target, store)
    await _fill(target, store, paths.PODS)
    await _read_nodes_of(target, store, job_id)
    return store


async def read_submissions(target: Target) -> Store:
    """What tells which submissions of a job there are or have been; a snapshot of one needs :func:`complete`."""
    store = Store(target.namespace, site=target.settings.site)
    await _fill(target, store, paths.TRAINJOBS, paths.JOBSETS, paths.RUNTIMES, paths.PODS)
    return store


async def complete(target: Target, store: Store, job_id: str) -> None:
    """Adds what :func:`read_submissions` left out."""
    await _fill(target, store, paths.JOBS)
    await _fill_events(target, store)
    await _read_nodes_of(target, store, job_id)


async def read_to_admit(target: Target, name: str, uid: str | None) -> Read:
    """A TrainJob and all that the never-two rule asks of its job; Events, which only explain, are left out.

    Raises :class:`NotFound`, and :class:`Refused` when its UID or its name is another's.
    """
    submission = parse_name(name)
    if submission is None:
        raise Refused(f"{target.ref(name)}: is no name of dispatch's")
    store = Store(target.namespace, site=target.settings.site)
    trainjobs = await target.client.list(paths.TRAINJOBS, target.namespace, whole=name)
    if trainjobs.whole is None:
        raise NotFound(f"get trainjobs {target.ref(name)}: there is no such TrainJob")
    _check_uid(target, trainjobs.whole, uid)
    store.replace_all(paths.TRAINJOBS.kind, trainjobs.items)
    await _fill(target, store, paths.JOBSETS, paths.JOBS)
    store.replace_all(paths.RUNTIMES.kind, await _named(target, paths.RUNTIMES, name))
    if is_queued(trainjobs.whole):
        store.replace_all(paths.WORKLOADS.kind, await _list_if_allowed(target, paths.WORKLOADS))
    await _fill(target, store, paths.PODS)
    await _read_nodes_of(target, store, submission.job_id)
    return Read(submission, trainjobs.whole, store, snapshot_in(target, store, trainjobs.whole))


async def _fill(target: Target, store: Store, *resources: Resource) -> None:
    for resource in resources:
        store.replace_all(resource.kind, await _list(target, resource))


async def _fill_events(target: Target, store: Store) -> None:
    """Events, and in Kueue mode the Workloads."""
    events = await _list_if_allowed(target, paths.EVENTS, field_selector=paths.EVENTS_SELECTOR)
    store.replace_all(paths.EVENTS.kind, events)
    if any(item.metadata.label(names.LABEL_KUEUE_QUEUE) for item in store.leftovers().trainjobs):
        store.replace_all(paths.WORKLOADS.kind, await _list_if_allowed(target, paths.WORKLOADS))


async def _read_nodes_of(target: Target, store: Store, job_id: str | None) -> None:
    """The Nodes of one job's pods and what its ledger holds, or the Nodes of all."""
    prefix = f"dj-{job_id.lower()}-s" if job_id else ""
    wanted = [
        pod.spec.node_name
        for pod in store.leftovers().pods
        if job_id is None
        or pod.metadata.label(names.LABEL_JOB_ID) == job_id
        or (pod.metadata.label(names.LABEL_JOBSET_NAME) or "").startswith(prefix)
    ]
    if job_id:
        wanted += await _read_ledger(target, store, job_id)
    await _read_nodes(target, store, wanted)


def snapshot_in(target: Target, store: Store, trainjob: dict[str, Any]) -> Snapshot:
    """All that belongs to a TrainJob in a read of its namespace, with the TrainJob as it was read for an update.

    The update is guarded by that version, so it is that version that is judged. Raises :class:`Refused` when it can't
    be understood.
    """
    store.apply("MODIFIED", paths.TRAINJOBS.kind, record_of(paths.TRAINJOBS, trainjob))
    return snapshot_named(target, store, trainjob["metadata"]["name"])


def snapshot_of(target: Target, trainjob: Object, runtime: Object) -> Snapshot:
    """A TrainJob and its runtime copy that have just been made, with nothing else that may have their name."""
    store = Store(target.namespace, site=target.settings.site)
    store.apply("ADDED", paths.TRAINJOBS.kind, trainjob)
    store.apply("ADDED", paths.RUNTIMES.kind, runtime)
    return snapshot_named(target, store, trainjob.metadata.name)


def snapshot_named(target: Target, store: Store, name: str) -> Snapshot:
    """All that a read has of a TrainJob that is there; raises :class:`Refused` when it can't be understood."""
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


async def _named(target: Target, resource: Resource, name: str) -> list[Object]:
    """The object of that name, or nothing; a list of one, since whoever watches need not be allowed to get."""
    return await _list(target, resource, field_selector=f"metadata.name={name}")


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


async def _read_ledger(target: Target, store: Store, job_id: str) -> set[str]:
    """Takes what is remembered of a job's vanished pods; answers the Nodes that they ran on."""
    found = await ledgers.read(target.client, target.namespace, job_id)
    store.take_ledger(found)
    return found.node_names


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
