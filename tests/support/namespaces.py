"""Namespaces for tests, on either cluster."""

from __future__ import annotations

import asyncio
import contextlib

from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.resources import NAMESPACES, SERVICE_ACCOUNTS

__all__ = ["create_namespace"]

_WAIT_SECONDS = 60.0


async def create_namespace(api: HttpApi, name: str) -> None:
    """Creates a namespace, and waits for its service account, without which no pod can be made there."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await api.create(NAMESPACES, None, body)
    listed = await api.list(SERVICE_ACCOUNTS, name)
    if any(item["metadata"]["name"] == "default" for item in listed.items):
        return
    async with (
        asyncio.timeout(_WAIT_SECONDS),
        contextlib.aclosing(api.watch(SERVICE_ACCOUNTS, listed.resource_version, name)) as events,
    ):
        async for event in events:
            if event.object["metadata"]["name"] == "default":
                return
