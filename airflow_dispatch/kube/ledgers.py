"""The ledgers of vanished pods on the cluster: read, added to by who watches, confirmed by an operator (section 12).

Many processes may watch the same job, so each write is an update of the version that was read: who loses the race
reads again and adds what is missing still. An entry stands once, whoever wrote it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from airflow_dispatch.core import ledger, names
from airflow_dispatch.core.errors import (
    AlreadyExists,
    Conflict,
    DispatchError,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Unreachable,
)
from airflow_dispatch.core.ledger import Confirmation, Entry, Ledger
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import CONFIGMAPS

__all__ = ["LedgerWriter", "confirm", "read", "remember"]

logger = logging.getLogger(__name__)

Found = Mapping[str, Mapping[str, Entry]]
"""Vanished pods by JobID and pod UID."""

PENDING: Final = 4096
"""Entries of all jobs that wait to be written at most; of more, the oldest are dropped."""

_RACE_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 60.0
"""After an answer that no repetition mends: somebody may give the permission meanwhile."""

_READ_AGAIN_SECONDS: Final = 30.0
"""How long a confirmation may stay unseen by who watches; what admits reads it itself."""

_LAST_WORDS_SECONDS: Final = 5.0
"""What a hub that ends may take to write what it has seen."""


async def read(client: KubeClient, namespace: str, job_id: str) -> Ledger:
    """A job's ledger; raises :class:`Forbidden` without permission to get ConfigMaps."""
    return ledger.read(await _get(client, namespace, job_id), job_id=job_id, namespace=namespace)


async def remember(client: KubeClient, namespace: str, job_id: str, found: Mapping[str, Entry]) -> Ledger:
    """Adds what a job's ledger does not hold yet, by one write or none; answers what it holds then.

    Raises :class:`Conflict` when another wrote meanwhile, and :class:`OutcomeUnknown` when the answer was lost: both
    are to be repeated.
    """
    config_map = await _get(client, namespace, job_id)
    data = ledger.remember(config_map, found, datetime.now(UTC))
    if config_map is None:
        config_map = await _create(client, namespace, job_id, data or {})
    elif data is not None:
        config_map = await client.replace(CONFIGMAPS, {**config_map, "data": data})
    return ledger.read(config_map, job_id=job_id, namespace=namespace)


async def _create(client: KubeClient, namespace: str, job_id: str, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": names.ledger_name(job_id), "labels": {names.LABEL_JOB_ID: job_id}}
    body = {"apiVersion": CONFIGMAPS.api, "kind": CONFIGMAPS.kind, "metadata": metadata, "data": data}
    try:
        return await client.create(CONFIGMAPS, namespace, body)
    except AlreadyExists as error:
        raise Conflict(f"{namespace}/{metadata['name']}: made by another who watches") from error


async def confirm(client: KubeClient, namespace: str, job_id: str, by: Confirmation) -> tuple[str, ...]:
    """Confirms every open entry of a job's ledger, by one write or none; answers what carries this confirmation.

    Raises as :func:`remember` does.
    """
    config_map = await _get(client, namespace, job_id)
    if config_map is None:
        return ()
    data, done = ledger.confirm(config_map, by)
    if data != config_map.get("data"):
        body = {key: value for key, value in config_map.items() if key != "binaryData"}
        await client.replace(CONFIGMAPS, {**body, "data": data})
    return done


async def _get(client: KubeClient, namespace: str, job_id: str) -> dict[str, Any] | None:
    try:
        return await client.get(CONFIGMAPS, names.ledger_name(job_id), namespace)
    except NotFound:
        return None


class LedgerWriter:
    """Writes what a hub has seen vanish, beside its watches: they never wait for it.

    What can't be written is said once for as long as it is the same, and tried again; meanwhile this process alone
    knows of it. A ledger that was written is read again from time to time, until all of it is confirmed; ``take`` gets
    it each time, and answers whether its job is still there.
    """

    def __init__(self, client: KubeClient, namespace: str, take: Callable[[Ledger], bool]) -> None:
        self._client = client
        self._namespace = namespace
        self._take = take
        self._pending: dict[tuple[str, str], Entry] = {}
        self._unconfirmed: set[str] = set()
        self._wanted = asyncio.Event()
        self._said: set[str] = set()

    def add(self, found: Found) -> None:
        """To be written as soon as may be; costs nothing."""
        for job_id, entries in found.items():
            self._pending |= {(job_id, uid): entry for uid, entry in entries.items()}
        if found:
            self._wanted.set()
        if len(self._pending) > PENDING:
            dropped = list(self._pending)[: len(self._pending) - PENDING]
            logger.warning("%d vanished pods are forgotten: they could not be written for too long", len(dropped))
            for key in dropped:
                del self._pending[key]

    async def run(self) -> None:
        """Writes, and reads again, for ever."""
        pause: float | None = None
        while True:
            await self._rest(pause)
            if not self._pending:
                await self._read_again()
            pauses = [await self._write(), _READ_AGAIN_SECONDS if self._unconfirmed else None]
            pause = min((each for each in pauses if each is not None), default=None)

    async def close(self) -> None:
        """Writes what is left, in some seconds at most: a job that ends may take the hub with it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                while (pause := await self._write()) is not None and pause < _REFUSED_SECONDS:
                    await self._rest(pause)
        if self._pending:
            logger.warning("%d vanished pods could not be written before the watches ended", len(self._pending))

    async def _rest(self, seconds: float | None) -> None:
        """Waits about so long, or until there is more to write."""
        spread = random.uniform(0.75, 1.25)  # noqa: S311 (spreads load, guards nothing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds and seconds * spread):
                await self._wanted.wait()
        self._wanted.clear()

    async def _write(self) -> float | None:
        """Tries each job once; the seconds to wait before what is left is tried again, or None when nothing is."""
        pauses = []
        for job_id in dict.fromkeys(job_id for job_id, _ in self._pending):
            entries = {uid: entry for (of, uid), entry in self._pending.items() if of == job_id}
            try:
                found = await remember(self._client, self._namespace, job_id, entries)
            except (Conflict, OutcomeUnknown):
                pauses.append(_RACE_SECONDS)
            except Unreachable as error:
                self._complain(job_id, entries, error)
                pauses.append(min(error.retry_after or _RETRY_SECONDS, _REFUSED_SECONDS))
            except DispatchError as error:
                self._complain(job_id, entries, error)
                pauses.append(_REFUSED_SECONDS)
            else:
                self._said -= {job_id, Forbidden.__name__}
                self._took(found)
                for uid, entry in entries.items():
                    self._pending.pop((job_id, uid), None)
                    logger.info("pod %s vanished from node %s while it ran: noted", entry.pod, entry.node)
        return min(pauses, default=None)

    async def _read_again(self) -> None:
        """Looks whether an operator has confirmed meanwhile."""
        for job_id in sorted(self._unconfirmed):
            try:
                self._took(await read(self._client, self._namespace, job_id))
            except DispatchError as error:
                logger.debug("the ledger of job %s could not be read: %s", job_id, error)

    def _took(self, found: Ledger) -> None:
        """It is read again for as long as anybody may confirm and somebody may want to know."""
        if self._take(found) and (found.open or found.unreadable):
            self._unconfirmed.add(found.job_id)
        else:
            self._unconfirmed.discard(found.job_id)

    def _complain(self, job_id: str, entries: Mapping[str, Entry], error: DispatchError) -> None:
        """A permission is missed for all jobs alike; anything else is said of each job."""
        about = Forbidden.__name__ if isinstance(error, Forbidden) else job_id
        if about in self._said:
            return
        self._said.add(about)
        logger.warning(
            "pods that vanished while they ran can't be noted in ConfigMap %s/%s, so only this process knows that they "
            "may still run: %s: %s",
            self._namespace,
            names.ledger_name(job_id),
            ", ".join(sorted(f"{entry.pod} on {entry.node}" for entry in entries.values())),
            error,
        )
