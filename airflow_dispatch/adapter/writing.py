"""Read, change, write back: the one way in which TrainJobs are updated."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

from airflow_dispatch.core.errors import Conflict, OutcomeUnknown, Refused
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import Resource

__all__ = ["update"]

_TRIES: Final = 6

Change = Callable[[dict[str, Any]], bool]
"""Changes an object in place; False when there is nothing to write. It is called anew on each read."""


async def update(
    client: KubeClient,
    resource: Resource,
    namespace: str,
    name: str,
    change: Change,
    *,
    uid: str | None = None,
) -> dict[str, Any]:
    """Reads an object, lets ``change`` alter it, and replaces it under its UID and resourceVersion.

    ``change`` must be idempotent: after a conflict, or when an answer was lost, the object is read again and
    ``change`` decides anew, so a write that did happen is found and not repeated. Returns the object as it stands.
    Raises :class:`Refused` when its UID is not ``uid``, and :class:`Conflict` or :class:`OutcomeUnknown` after six
    tries.
    """
    for attempt in range(1, _TRIES):
        with contextlib.suppress(Conflict, OutcomeUnknown):
            return await _once(client, resource, namespace, name, change, uid)
        await asyncio.sleep(random.uniform(0.05, 0.1) * attempt)  # noqa: S311 (keeps two writers apart)
    return await _once(client, resource, namespace, name, change, uid)


async def _once(
    client: KubeClient,
    resource: Resource,
    namespace: str,
    name: str,
    change: Change,
    uid: str | None,
) -> dict[str, Any]:
    read = await client.get(resource, name, namespace)
    if uid is not None and read["metadata"]["uid"] != uid:
        raise Refused(f"{resource.kind} {namespace}/{name} has UID {read['metadata']['uid']}, not {uid}")
    return await client.replace(resource, read) if change(read) else read
