"""How a kubelet reaches its API server: the few verbs it needs, over HTTP or within the process.

The kubelet knows nothing but :class:`Api`, so the same one serves the local cluster and a real kube-apiserver.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import aiohttp
from yarl import URL

from airflow_dispatch._sockets import Sockets
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.kubeconfig import Connection, read_kubeconfig
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Api", "Event", "HttpApi", "InProcessApi", "Objects"]

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
_STATUS_UNREADABLE = "the server answered {code} without a Status body"


class Objects(NamedTuple):
    """What a list answers: the objects, and the resourceVersion that a watch goes on from."""

    items: list[Object]
    resource_version: str


class Event(NamedTuple):
    """One change that a watch brings: ADDED, MODIFIED or DELETED, and the object."""

    type: str
    object: Object


class Api(Protocol):
    """Reads and writes of plain objects.

    Every method raises :class:`~airflow_dispatch.localcluster.apiserver.errors.ApiError` with the server's refusal,
    and :class:`ConnectionError` when it can't be reached.
    """

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object."""
        ...

    async def list(self, resource: Resource, namespace: str | None = None, *, field_selector: str = "") -> Objects:
        """All objects of a kind, or those of a namespace or a field selector."""
        ...

    def watch(
        self, resource: Resource, since: str, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncGenerator[Event, None]:
        """The changes after a resourceVersion; ends when the server ends the stream, 410 when it is too old."""
        ...

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, name: str = "", subresource: str = ""
    ) -> Object:
        """Makes an object, or posts to a subresource of the object ``name``."""
        ...

    async def update(self, resource: Resource, namespace: str | None, name: str, body: Object) -> Object:
        """Replaces an object."""
        ...

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """Changes an object or its status."""
        ...

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_period: int | None = None,
    ) -> None:
        """Deletes an object; with ``uid`` only the one of that UID."""
        ...


class InProcessApi:
    """The registry of a local cluster in this process."""

    def __init__(self, registry: Registry, *, field_manager: str = "kubelet") -> None:
        self._registry = registry
        self._manager = field_manager

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return self._registry.get(resource, namespace, name)

    async def list(self, resource: Resource, namespace: str | None = None, *, field_selector: str = "") -> Objects:
        listing = self._registry.list(resource, namespace, field_selector=field_selector)
        return Objects(list(listing.items), listing.resource_version)

    async def watch(
        self, resource: Resource, since: str, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncGenerator[Event, None]:
        subscription = self._registry.subscribe(resource, namespace, since, field_selector=field_selector)
        try:
            async for event in subscription:
                yield Event(event.type, event.object)
        finally:
            subscription.close()

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, name: str = "", subresource: str = ""
    ) -> Object:
        if subresource:
            raise ApiError(404, "NotFound", f"{resource.plural}/{subresource} of {name} is not served in process")
        return self._registry.create(resource, namespace, body, field_manager=self._manager)

    async def update(self, resource: Resource, namespace: str | None, name: str, body: Object) -> Object:
        return self._registry.update(resource, namespace, name, body, field_manager=self._manager)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        return self._registry.patch(
            resource, namespace, name, body, content_type, subresource=subresource, field_manager=self._manager
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_period: int | None = None,
    ) -> None:
        self._registry.delete(resource, namespace, name, uid=uid, grace_period=grace_period)


class HttpApi:
    """An API server over HTTPS: ``async with await HttpApi.connect(kubeconfig) as api``."""

    def __init__(self, connection: Connection, tls: ssl.SSLContext | None, *, field_manager: str = "kubelet") -> None:
        self._connection = connection
        self._manager = field_manager
        headers = {"Accept": "application/json"}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        self._sockets = Sockets()
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(
                ssl=tls if tls is not None else True, limit=0, socket_factory=self._sockets.make
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )

    @classmethod
    async def connect(cls, kubeconfig: str | Path, *, field_manager: str = "kubelet") -> HttpApi:
        """Opens a session with the current context of a kubeconfig file."""
        connection = read_kubeconfig(Path(kubeconfig))
        return cls(connection, connection.tls(), field_manager=field_manager)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the session, and every connection of it."""
        await self._session.close()
        await self._sockets.close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await self._request("GET", self._path(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str | None = None, *, field_selector: str = "") -> Objects:
        query = {"fieldSelector": field_selector} if field_selector else {}
        answer = await self._request("GET", self._path(resource, namespace), query)
        for item in answer["items"]:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return Objects(answer["items"], answer["metadata"]["resourceVersion"])

    async def watch(
        self, resource: Resource, since: str, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncGenerator[Event, None]:
        query = {"watch": "true", "resourceVersion": since}
        if field_selector:
            query["fieldSelector"] = field_selector
        url = self._url(self._path(resource, namespace), query)
        try:
            async with self._session.get(url) as response:
                if response.status >= 400:  # noqa: PLR2004 - HTTP's own border
                    raise _refusal(response.status, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise _refusal(int(event["object"].get("code", 500)), json.dumps(event["object"]).encode())
                        if event["type"] != "BOOKMARK":
                            yield Event(event["type"], event["object"])
        except aiohttp.ClientError as error:
            raise ConnectionError(f"watch of {resource.plural}: {error}") from error

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, name: str = "", subresource: str = ""
    ) -> Object:
        path = self._path(resource, namespace, name, subresource)
        return await self._request("POST", path, {"fieldManager": self._manager}, body)

    async def update(self, resource: Resource, namespace: str | None, name: str, body: Object) -> Object:
        return await self._request("PUT", self._path(resource, namespace, name), {"fieldManager": self._manager}, body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        path = self._path(resource, namespace, name, subresource)
        return await self._request("PATCH", path, {"fieldManager": self._manager}, body, content_type)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_period: int | None = None,
    ) -> None:
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_period is not None:
            body["gracePeriodSeconds"] = grace_period
        await self._request("DELETE", self._path(resource, namespace, name), {}, body)

    def _path(self, resource: Resource, namespace: str | None, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        scope = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
        return "/".join(part for part in (root + scope, resource.plural, name, subresource) if part)

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        return URL(self._connection.server.rstrip("/") + path).with_query(query)

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        try:
            async with self._session.request(
                method, self._url(path, query or {}), data=data, headers=headers, timeout=aiohttp.ClientTimeout(30)
            ) as response:
                answer = await response.read()
                if response.status >= 400:  # noqa: PLR2004 - HTTP's own border
                    raise _refusal(response.status, answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{method} {path}: {error or type(error).__name__}") from error
        result: Object = json.loads(answer)
        return result


def _refusal(code: int, body: bytes) -> ApiError:
    try:
        status = json.loads(body)
    except ValueError:
        return ApiError(code, "Unknown", _STATUS_UNREADABLE.format(code=code))
    return ApiError(code, status.get("reason", "Unknown"), status.get("message", ""), status.get("details"))
