"""``cancel``: delete a TrainJob, and only the one that is meant."""

from __future__ import annotations

from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core.errors import Conflict, Forbidden, NotFound, Refused
from airflow_dispatch.kube import paths

__all__ = ["cancel"]


async def cancel(target: Target, name: str, uid: str | None) -> None:
    """Deletes by UID, in the background; an object that is gone, or another by now, is success."""

    async def once() -> None:
        await _cancel(target, name, uid)

    await retrying(once)


async def _cancel(target: Target, name: str, uid: str | None) -> None:
    try:
        meant = uid or (await target.client.read(paths.TRAINJOBS, name, target.namespace)).metadata.uid
        await target.client.delete(paths.TRAINJOBS, name, target.namespace, uid=meant)
    except NotFound:
        return
    except Forbidden:
        raise
    except (Conflict, Refused):
        if await _is_there(target, name, meant):
            raise


async def _is_there(target: Target, name: str, uid: str) -> bool:
    try:
        return (await target.client.read(paths.TRAINJOBS, name, target.namespace)).metadata.uid == uid
    except NotFound:
        return False
