"""The verbs over HTTP: a thin layer that turns requests into calls of the registry and its answers into responses."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

import msgspec
from aiohttp import web

from airflow_dispatch.localcluster.apiserver import errors
from airflow_dispatch.localcluster.apiserver.access import Access, User
from airflow_dispatch.localcluster.apiserver.logs import LogOptions, LogSource, stream
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.patch import APPLY, JSON, MERGE, STRATEGIC
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.requests import (
    DeleteOptions,
    Routes,
    Target,
    body_of,
    dry_run,
    flag,
)
from airflow_dispatch.localcluster.apiserver.schema import unknown_fields
from airflow_dispatch.localcluster.apiserver.tables import table
from airflow_dispatch.localcluster.apiserver.watches import WatchRequest, parse_timeout, watch_events
from airflow_dispatch.localcluster.resources import PODS, Resource

__all__ = ["Handlers", "answer", "body_of_request"]

_PATCH_FORMATS: Final = (JSON, MERGE, STRATEGIC, APPLY)


def answer(
    body: Any, status: int = 200, *, media: str = "application/json", warnings: list[str] | None = None
) -> web.Response:
    """A JSON response, with a ``Warning`` header for each warning."""
    response = web.Response(body=msgspec.json.encode(body), status=status, headers={"Content-Type": media})
    for text in warnings or ():
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response


async def body_of_request(request: web.Request) -> Any:
    """The decoded body, None without one."""
    raw = await request.read()
    return body_of(raw, request.content_type) if raw else None


class Handlers:
    """Serves objects: everything below ``/api/v1`` and ``/apis/<group>/<version>`` that is no discovery."""

    def __init__(self, registry: Registry, access: Access, logs: LogSource) -> None:
        self._registry = registry
        self._access = access
        self._logs = logs
        self._routes = Routes(registry.resources)

    async def handle(self, request: web.Request, user: User) -> web.StreamResponse:
        """Routes, authorizes and answers one request.

        Raises:
            ApiError: whatever the request is refused with.
        """
        target = self._routes.find(request.path)
        watching = request.method == "GET" and not target.name and flag(request.query, "watch")
        self._access.authorize(user, target.resource, target.attributes(request.method, watching=watching))
        if watching:
            return await self._watch(request, target)
        if target.subresource == "log" and request.method == "GET":
            return await self._log(request, target)
        return self._respond(request, target, await body_of_request(request))

    def _respond(self, request: web.Request, target: Target, body: Any) -> web.Response:
        match request.method:
            case "GET" if not target.subresource or target.subresource == "status":
                return self._read(request, target)
            case "POST":
                return self._create(request, target, body)
            case "PUT" if target.name:
                return self._update(request, target, body)
            case "PATCH" if target.name:
                return self._patch(request, target, body)
            case "DELETE" if not target.subresource:
                return self._delete(request, target, body)
        raise errors.method_not_allowed()

    # Reading

    def _read(self, request: web.Request, target: Target) -> web.Response:
        if target.name:
            obj = self._registry.get(target.resource, target.namespace, target.name)
            return self._objects(
                request, target.resource, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}, obj
            )
        query = request.query
        try:
            limit = int(query.get("limit") or 0)
        except ValueError:
            raise errors.bad_request(f"limit: cannot parse {query['limit']!r} as a number") from None
        listing = self._registry.list(
            target.resource,
            target.namespace or None,
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            limit=limit,
            continue_token=query.get("continue", ""),
        )
        metadata: Object = {"resourceVersion": listing.resource_version}
        if listing.continue_token:
            metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
        return self._objects(request, target.resource, listing.items, metadata, None)

    def _objects(
        self, request: web.Request, resource: Resource, items: list[Object], metadata: Object, single: Object | None
    ) -> web.Response:
        if _wants_table(request):
            now, include = self._registry.clock.now(), request.query.get("includeObject", "Metadata")
            return answer(table(resource, items, metadata, now, include=include))
        if single is not None:
            return answer(single)
        if not resource.custom:
            for obj in items:
                del obj["apiVersion"], obj["kind"]
        kind = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return answer({**kind, "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        wanted = WatchRequest(
            resource=target.resource,
            namespace=target.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            resource_version=query.get("resourceVersion", ""),
            bookmarks=flag(query, "allowWatchBookmarks"),
            send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
            version_match=query.get("resourceVersionMatch", ""),
            timeout=parse_timeout(query.get("timeoutSeconds", "")),
        )
        wanted.check()
        as_table, include = _wants_table(request), query.get("includeObject", "Metadata")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async with aclosing(watch_events(self._registry, wanted)) as events:
            async for event in events:
                if as_table and event["type"] not in ("BOOKMARK", "ERROR"):
                    obj, now = event["object"], self._registry.clock.now()
                    event["object"] = table(target.resource, [obj], _version_of(obj), now, include=include)
                await response.write(msgspec.json.encode(event) + b"\n")
        await response.write_eof()
        return response

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        pod = self._registry.get(PODS, target.namespace, target.name)
        options = LogOptions.parse(request.query, self._registry.clock.now())
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        async with aclosing(stream(self._logs, pod, options)) as lines:
            # What is refused is refused before the first chunk; only then may the response begin.
            first = await anext(lines, b"")
            await response.prepare(request)
            await response.write(first)
            async for line in lines:
                await response.write(line)
        await response.write_eof()
        return response

    # Writing

    def _create(self, request: web.Request, target: Target, body: Any) -> web.Response:
        obj = _object(body)
        query = request.query
        if target.subresource == "binding":
            uid = obj.get("metadata", {}).get("uid")
            self._registry.bind(target.namespace, target.name, obj.get("target", {}).get("name", ""), uid=uid)
            return answer(errors.success(code=201), 201)
        if target.subresource == "eviction":
            options = DeleteOptions.parse({}, (), obj.get("deleteOptions"))
            self._registry.evict(target.namespace, target.name, uid=options.uid, grace_period=options.grace_period)
            return answer(errors.success(code=201), 201)
        if target.name:
            raise errors.method_not_allowed()
        mode = query.get("fieldValidation") or "Warn"
        made = self._registry.create(
            target.resource,
            target.namespace,
            obj,
            field_manager=_manager(request),
            dry_run=dry_run(query.getall("dryRun", [])),
            field_validation=mode,
        )
        return self._written(request, target.resource, made, obj, 201)

    def _update(self, request: web.Request, target: Target, body: Any) -> web.Response:
        obj = _object(body)
        changed = self._registry.update(
            target.resource,
            target.namespace,
            target.name,
            obj,
            subresource=target.subresource,
            field_manager=_manager(request),
            dry_run=dry_run(request.query.getall("dryRun", [])),
            field_validation=request.query.get("fieldValidation") or "Warn",
        )
        return self._written(request, target.resource, changed, obj, 200)

    def _patch(self, request: web.Request, target: Target, body: Any) -> web.Response:
        if request.content_type not in _PATCH_FORMATS:
            raise errors.unsupported_media_type(_PATCH_FORMATS)
        missing = not self._registry.exists(target.resource, target.namespace, target.name)
        changed = self._registry.patch(
            target.resource,
            target.namespace,
            target.name,
            body,
            request.content_type,
            subresource=target.subresource,
            field_manager=_manager(request, required=request.content_type == APPLY),
            force=flag(request.query, "force"),
            dry_run=dry_run(request.query.getall("dryRun", [])),
            field_validation=request.query.get("fieldValidation") or "Warn",
        )
        return self._written(request, target.resource, changed, changed, 201 if missing else 200)

    def _written(
        self, request: web.Request, resource: Resource, obj: Object, sent: Object, status: int
    ) -> web.Response:
        warnings = []
        if (request.query.get("fieldValidation") or "Warn") == "Warn":
            warnings = [f'unknown field "{path}"' for path in unknown_fields(resource, sent)]
        if _wants_table(request):
            shown = table(resource, [obj], _version_of(obj), self._registry.clock.now())
            return answer(shown, status, warnings=warnings)
        return answer(obj, status, warnings=warnings)

    def _delete(self, request: web.Request, target: Target, body: Any) -> web.Response:
        options = DeleteOptions.parse(request.query, request.query.getall("dryRun", []), body)
        if target.name:
            return answer(self._delete_one(target.resource, target.namespace, target.name, options))
        listing = self._registry.list(
            target.resource,
            target.namespace or None,
            request.query.get("labelSelector", ""),
            request.query.get("fieldSelector", ""),
        )
        for obj in listing.items:
            metadata = obj["metadata"]
            self._delete_one(target.resource, metadata.get("namespace"), metadata["name"], options)
        metadata = {"resourceVersion": listing.resource_version}
        return self._objects(request, target.resource, listing.items, metadata, None)

    def _delete_one(self, resource: Resource, namespace: str | None, name: str, options: DeleteOptions) -> Object:
        return self._registry.delete(
            resource,
            namespace,
            name,
            uid=options.uid,
            resource_version=options.resource_version,
            propagation=options.propagation,
            grace_period=options.grace_period,
            dry_run=options.dry_run,
        )


def _version_of(obj: Object) -> Object:
    return {"resourceVersion": obj["metadata"].get("resourceVersion", "")}


def _wants_table(request: web.Request) -> bool:
    """Whether the client would rather have a table than the objects: the first media type it accepts says so."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def _object(body: Any) -> Object:
    if not isinstance(body, dict):
        raise errors.bad_request("the object provided is unrecognized: it is not a JSON object")
    return body


def _manager(request: web.Request, *, required: bool = False) -> str:
    """The field manager: as named, else the first word of the user agent, as the real server takes it."""
    named = request.query.get("fieldManager", "")
    if named or required:
        return named
    return request.headers.get("User-Agent", "unknown").partition("/")[0]
