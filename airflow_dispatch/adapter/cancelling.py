"""``cancel``: delete a TrainJob, and only the one that is meant."""

from __future__ import annotations

from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Refused
from airflow_dispatch.core.task import Submitted
from airflow_dispatch.kube import paths

__all__ = ["cancel", "remove"]


async def cancel(target: Target, name: str, uid: str | None) -> None:
    """Deletes by UID, in the background; an object that is gone, or another by now, is success."""
    meant = uid

    async def once() -> None:
        nonlocal meant
        if meant is None:
            try:
                meant = (await target.client.read(paths.TRAINJOBS, name, target.namespace)).metadata.uid
            except NotFound:
                return
        await _delete(target, name, meant)

    await retrying(once)


async def remove(target: Target, job_id: str, submitted: Submitted) -> None:
    """Deletes a submission that has to go before another, under its guard (contract, section 12).

    Raises :class:`Conflict` when it changed since it was read, so that it has to be decided anew whether it goes.
    """
    name = names.object_name(job_id, submitted.number)

    async def once() -> bool:
        try:
            await _delete(target, name, submitted.uid, submitted.guard)
        except Conflict:
            if submitted.guard is None:
                raise
            return False
        return True

    if not await retrying(once):
        raise Conflict(f"{target.ref(name)}: changed while it was to be withdrawn")


async def _delete(target: Target, name: str, uid: str, version: str | None = None) -> None:
    """Raises what the deletion raised while the object is there, of this UID and not being deleted."""
    try:
        await target.client.delete(paths.TRAINJOBS, name, target.namespace, uid=uid, resource_version=version)
    except NotFound:
        return
    except Forbidden:
        raise
    except (Conflict, OutcomeUnknown, Refused):
        if await _is_there(target, name, uid):
            raise


async def _is_there(target: Target, name: str, uid: str) -> bool:
    try:
        found = (await target.client.read(paths.TRAINJOBS, name, target.namespace)).metadata
    except NotFound:
        return False
    return found.uid == uid and found.deletion_timestamp is None
