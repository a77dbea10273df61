"""One asynchronous client for a cluster: requests, watches and logs over one aiohttp session."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import aiohttp
import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Gone
from airflow_dispatch.core.objects import Object
from airflow_dispatch.kube.answers import error_of_event
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import PODS, Resource
from airflow_dispatch.kube.session import CONNECT_SECONDS, REQUEST_SECONDS, Session
from airflow_dispatch.kube.streams import lines_of

__all__ = ["Decoder", "Document", "KubeClient", "Listing", "WatchEvent"]

Decoder = Callable[[Resource, bytes | msgspec.Raw], Object]
"""From one object's bytes to its record."""

_Read = TypeVar("_Read")

MERGE_PATCH: Final = "application/merge-patch+json"

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = 300
WATCH_SILENCE_SECONDS: Final = 90.0
"""Bookmarks come about once a minute, so a watch that says nothing for longer than this is dead."""


class Listing(NamedTuple):
    """The objects of a list, all pages of it, and the resourceVersion to watch from.

    ``whole`` is one of them for read-modify-write, when it was asked for and is there.
    """

    items: list[Object]
    resource_version: str
    whole: dict[str, Any] | None = None


class WatchEvent(NamedTuple):
    """``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``; of a bookmark only ``resource_version`` means anything."""

    type: str
    object: Object
    resource_version: str


class Document(NamedTuple):
    """What a server says about itself, and its clock when it said so, to the second."""

    body: dict[str, Any]
    date: datetime | None


class _PageMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    following: str = msgspec.field(default="", name="continue")


class _RawPage(msgspec.Struct):
    metadata: _PageMetadata
    items: list[msgspec.Raw] | None = None


class _Page(NamedTuple):
    items: list[Object]
    resource_version: str
    following: str
    whole: dict[str, Any] | None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class KubeClient:
    """Speaks to one cluster; belongs to the event loop in which it was connected.

    All writes carry our field manager. A write whose answer was lost raises :class:`OutcomeUnknown` and is never
    repeated here; reads are not repeated either, but for one new token after a 401, which no server has acted upon.
    """

    def __init__(self, config: ClusterConfig, session: Session, *, decode: Decoder = decode_record) -> None:
        self._config = config
        self._session = session
        self._decode = decode

    @classmethod
    async def connect(cls, config: ClusterConfig, *, decode: Decoder = decode_record) -> Self:
        """Loads the configuration; raises :class:`ConfigurationError`. Sends nothing to the cluster.

        All that is read, listed and watched comes through ``decode``: whoever wants more than the slim records of
        an object sees its bytes there.
        """
        return cls(config, await Session.open(config), decode=decode)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    @property
    def config(self) -> ClusterConfig:
        """What it was connected with: equal configurations share one hub."""
        return self._config

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._session.server

    # ------------------------------------------------------------ reads

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        """The whole object, for read-modify-write."""
        return await self._read(resource, "get", namespace, name, decode=_decode_object)

    async def read(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """The object's slim record."""
        return await self._read(resource, "get", namespace, name, decode=partial(self._decode, resource))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        whole: str | None = None,
    ) -> Listing:
        """All objects of a selection, read in pages; begins anew once when a page's token has expired.

        The object of the name ``whole`` comes entire as well.
        """
        selectors = _query(labelSelector=label_selector, fieldSelector=field_selector)
        try:
            return await self._list(resource, namespace, selectors, whole)
        except Gone:
            return await self._list(resource, namespace, selectors, whole)

    async def _list(
        self, resource: Resource, namespace: str | None, selectors: Mapping[str, str], whole: str | None
    ) -> Listing:
        items: list[Object] = []
        found: dict[str, Any] | None = None
        query = {"limit": str(PAGE_SIZE), **selectors}
        while True:
            decode = partial(self._decode_page, resource, whole=whole)
            page = await self._read(resource, "list", namespace, query=query, decode=decode)
            items += page.items
            found = page.whole or found
            following = page.following
            if not following:
                return Listing(items, page.resource_version, found)
            query["continue"] = following

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        seconds: int = WATCH_SECONDS,
        on_open: Callable[[], object] = lambda: None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What changes after ``resource_version``, until the server ends the stream; ``on_open`` marks its begin.

        Raises :class:`Gone` when the version has expired (list again) and :class:`Unreachable` when the stream breaks
        or falls silent (watch again from the last event's version: nothing is lost).
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=seconds,
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        what = _describe("watch", resource, namespace)
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=WATCH_SILENCE_SECONDS)
        async with (
            self._answer("GET", resource.path(namespace), what, query=query, timeout=timeout) as response,
            contextlib.aclosing(lines_of(response, what)) as lines,
        ):
            on_open()
            async for line in lines:
                if not line:
                    continue
                event = msgspec.json.decode(line, type=_Line)
                if event.type == "ERROR":
                    raise error_of_event(bytes(event.object), what=what)
                record = self._decode(resource, event.object)
                yield WatchEvent(event.type, record, record.metadata.resource_version)

    async def document(self, path: str) -> Document:
        """A document about the server itself, such as ``/version``; raises :class:`NotFound`."""
        async with self._answer("GET", path, f"get {path}") as response:
            date = response.headers.get("Date")
            return Document(_decode_object(await response.read()), parsedate_to_datetime(date) if date else None)

    async def log(
        self,
        name: str,
        namespace: str,
        *,
        container: str,
        follow: bool = False,
        tail_lines: int | None = None,
        since_time: datetime | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """A container's log, line by line and without the line ends; a line of more than 4 MiB comes in pieces."""
        query = _query(
            container=container,
            follow="true" if follow else "",
            tailLines="" if tail_lines is None else tail_lines,
            sinceTime=since_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if since_time else "",
            limitBytes=limit_bytes or "",
            timestamps="true" if timestamps else "",
        )
        what = f"read the log of pod {namespace}/{name}"
        path = PODS.path(namespace, name, "log")
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=None if follow else REQUEST_SECONDS)
        async with (
            self._answer("GET", path, what, query=query, timeout=timeout) as response,
            contextlib.aclosing(lines_of(response, what)) as lines,
        ):
            async for line in lines:
                yield line

    # ------------------------------------------------------------ writes

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Creates an object; raises :class:`AlreadyExists`."""
        name = body["metadata"].get("name", "")
        return await self._write(
            "POST", "create", resource, namespace, name, body=body, on_object=False, dry_run=dry_run
        )

    async def replace(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replaces an object by ``body``, whose UID and resourceVersion are the preconditions.

        Raises :class:`Conflict` when it changed since it was read and :class:`Refused` when it is another by now.
        """
        metadata = body["metadata"]
        if not (metadata.get("uid") and metadata.get("resourceVersion")):
            raise ValueError("an update needs the UID and the resourceVersion of what was read")
        return await self._write("PUT", "update", resource, metadata.get("namespace"), metadata["name"], body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any] | Sequence[Any],
        content_type: str = MERGE_PATCH,
    ) -> dict[str, Any]:
        """Patches an object; a merge patch carries UID and resourceVersion in its ``metadata``."""
        return await self._write("PATCH", "patch", resource, namespace, name, body=body, content_type=content_type)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> None:
        """Deletes an object, with its UID and resourceVersion as preconditions when given; raises :class:`NotFound`."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = _query(uid=uid, resourceVersion=resource_version)
        if preconditions:
            body["preconditions"] = preconditions
        await self._write("DELETE", "delete", resource, namespace, name, body=body)

    async def can_i(self, verb: str, resource: Resource, namespace: str | None, subresource: str = "") -> bool:
        """Asks whether these credentials may do ``verb`` there, by a SelfSubjectAccessReview, which everybody may."""
        attributes = {
            "verb": verb,
            "group": resource.group,
            "resource": resource.plural,
            "subresource": subresource,
            "namespace": namespace or "",
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        async with self._answer("POST", path, "ask for permissions", body=msgspec.json.encode(body)) as response:
            answer = msgspec.json.decode(await response.read(), type=dict[str, Any])
        return bool(answer.get("status", {}).get("allowed"))

    # ------------------------------------------------------------ the inside

    def _answer(
        self, method: str, path: str, what: str, **options: Any
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """One request: all of them come through here. ``options`` are those of :meth:`Session.answer`."""
        return self._session.answer(method, path, what, **options)

    async def _read(
        self,
        resource: Resource,
        verb: str,
        namespace: str | None,
        name: str | None = None,
        *,
        decode: Callable[[bytes], _Read],
        query: Mapping[str, str] | None = None,
    ) -> _Read:
        what = _describe(verb, resource, namespace, name)
        async with self._answer("GET", resource.path(namespace, name), what, query=query) as response:
            return decode(await response.read())

    async def _write(
        self,
        method: str,
        verb: str,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        body: Mapping[str, Any] | Sequence[Any],
        content_type: str = "application/json",
        on_object: bool = True,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        what = _describe(verb, resource, namespace, name)
        path = resource.path(namespace, name if on_object else None)
        query = _query(fieldManager="" if method == "DELETE" else names.FIELD_MANAGER, dryRun="All" if dry_run else "")
        sent = msgspec.json.encode(body)
        answer = self._answer(method, path, what, query=query, body=sent, content_type=content_type, writes=True)
        async with answer as response:
            return _decode_object(await response.read())

    def _decode_page(self, resource: Resource, body: bytes, *, whole: str | None) -> _Page:
        page = msgspec.json.decode(body, type=_RawPage)
        raws = page.items or []
        items = [self._decode(resource, raw) for raw in raws]
        wanted = next((raw for raw, item in zip(raws, items, strict=True) if item.metadata.name == whole), None)
        entire = (
            {"apiVersion": resource.api, "kind": resource.kind, **_decode_object(wanted)}
            if wanted is not None
            else None
        )
        return _Page(items, page.metadata.resource_version, page.metadata.following, entire)


def _decode_object(body: bytes | msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])


def _query(**parameters: Any) -> dict[str, str]:
    return {key: str(value) for key, value in parameters.items() if value not in ("", None)}


def _describe(verb: str, resource: Resource, namespace: str | None, name: str | None = None) -> str:
    scope = "/".join(part for part in (namespace, name) if part)
    return f"{verb} {resource.plural} {scope}".rstrip()
