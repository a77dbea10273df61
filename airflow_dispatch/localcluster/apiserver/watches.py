"""Watches over HTTP: one JSON line an event, bookmarks in quiet times, an end when the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.registry import Registry, Subscription, WatchEvent
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["BOOKMARK_SECONDS", "DEFAULT_TIMEOUT_SECONDS", "WatchRequest", "parse_timeout", "watch_events"]

BOOKMARK_SECONDS: Final = 60.0
"""How often a quiet watch that allows bookmarks gets one."""

DEFAULT_TIMEOUT_SECONDS: Final = 1800.0
"""When a watch that names no timeout ends."""

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True)
class WatchRequest:
    """The query of a watch."""

    resource: Resource
    namespace: str
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    send_initial_events: bool | None = None
    version_match: str = ""
    timeout: float = DEFAULT_TIMEOUT_SECONDS

    def check(self) -> None:
        """Refuses combinations that the real server refuses.

        Raises:
            ApiError: 422.
        """
        if self.send_initial_events is not None and self.version_match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        elif self.send_initial_events is None and self.version_match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        else:
            return
        message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {why}'
        raise ApiError(422, "Invalid", message)


async def watch_events(
    registry: Registry, request: WatchRequest, *, bookmark_seconds: float = BOOKMARK_SECONDS
) -> AsyncGenerator[Object, None]:
    """The events as they go on the wire: ``{"type": ..., "object": ...}``.

    A resourceVersion that the history no longer holds gives one ERROR event with a ``Status`` of 410, then the end.
    """
    initial = request.send_initial_events or (
        request.send_initial_events is None and request.resource_version in ("", "0")
    )
    try:
        subscription = registry.subscribe(
            request.resource,
            request.namespace or None,
            None if initial else request.resource_version or registry.resource_version,
            request.label_selector,
            request.field_selector,
        )
    except ApiError as error:
        if error.code not in (410, 504):
            raise
        yield {"type": "ERROR", "object": error.status()}
        return
    try:
        while (present := subscription.poll()) is not None:
            yield {"type": present.type, "object": present.object}
        if request.send_initial_events and request.bookmarks:
            yield _bookmark(request.resource, registry.resource_version, {_INITIAL_EVENTS_END: "true"})
        async with aclosing(_until_timeout(registry, request, subscription, bookmark_seconds)) as events:
            async for event in events:
                yield event
    finally:
        subscription.close()


async def _until_timeout(
    registry: Registry, request: WatchRequest, subscription: Subscription, bookmark_seconds: float
) -> AsyncGenerator[Object, None]:
    timeout: asyncio.Future[Any] = asyncio.ensure_future(registry.clock.sleep(request.timeout))
    bookmark: asyncio.Future[Any] = asyncio.ensure_future(registry.clock.sleep(bookmark_seconds))
    following: asyncio.Future[Any] = asyncio.ensure_future(_next(subscription))
    try:
        while True:
            await asyncio.wait((timeout, bookmark, following), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                change: WatchEvent | None = following.result()
                if change is None:
                    return
                while change is not None:
                    yield {"type": change.type, "object": change.object}
                    change = subscription.poll()
                following = asyncio.ensure_future(_next(subscription))
                continue
            if timeout.done():
                return
            if request.bookmarks and not subscription.pending:
                yield _bookmark(request.resource, registry.resource_version, {})
            bookmark = asyncio.ensure_future(registry.clock.sleep(bookmark_seconds))
    finally:
        for task in (timeout, bookmark, following):
            task.cancel()
        await asyncio.gather(timeout, bookmark, following, return_exceptions=True)


async def _next(subscription: Subscription) -> WatchEvent | None:
    return await anext(subscription, None)


def _bookmark(resource: Resource, version: str, annotations: dict[str, str]) -> Object:
    metadata: Object = {"resourceVersion": version, "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "type": "BOOKMARK",
        "object": {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata},
    }


def parse_timeout(text: str) -> float:
    """``timeoutSeconds`` of a watch, the default when it is absent or 0.

    Raises:
        ApiError: 400.
    """
    try:
        return float(text or 0) or DEFAULT_TIMEOUT_SECONDS
    except ValueError:
        raise bad_request(f"timeoutSeconds: cannot parse {text!r} as a number") from None
