"""The API server over HTTPS on loopback, with a CA and tokens of its own."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import trustme
import yaml
from aiohttp import web

from airflow_dispatch.localcluster.apiserver import errors
from airflow_dispatch.localcluster.apiserver.access import Access, User
from airflow_dispatch.localcluster.apiserver.discovery import AGGREGATED, Discovery
from airflow_dispatch.localcluster.apiserver.handlers import Handlers, answer, body_of_request
from airflow_dispatch.localcluster.apiserver.logs import LogSource, NoLogs
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.reviews import ACCESS_REVIEWS, SELF_REVIEWS, access_review, self_review

__all__ = ["ApiServer"]

_LOG: Final = logging.getLogger(__name__)
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_LARGEST_BODY: Final = 3 * 1024 * 1024
"""Bytes of a request, as etcd's default limit makes it for the real server."""

_GOODBYE_SECONDS: Final = 0.1
"""How long open requests get when the server stops; what is open by then are watches and followed logs."""


class ApiServer:
    """Serves a registry. An async context manager; it listens from entering to leaving.

    Args:
        registry: The objects.
        directory: Where kubeconfigs are written.
        logs: Where container logs come from.
        port: The port on loopback, 0 for a free one.
    """

    def __init__(self, registry: Registry, directory: Path, *, logs: LogSource | None = None, port: int = 0) -> None:
        self.registry = registry
        self.access = Access()
        self._directory = directory
        self._handlers = Handlers(registry, self.access, logs or NoLogs())
        self._discovery = Discovery(registry.resources)
        self._authority = trustme.CA()
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """``https://127.0.0.1:<port>``, once it listens."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca(self) -> str:
        """The certificate of the CA, PEM."""
        return self._authority.cert_pem.bytes().decode()

    async def start(self) -> None:
        """Listens."""
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._serve)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=_GOODBYE_SECONDS
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=context).start()
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Ends all requests, watches among them, and closes the port."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        transports = [connection.transport for connection in runner.server.connections] if runner.server else []
        await runner.cleanup()
        for transport in transports:
            # A client that keeps its connection does not answer the TLS goodbye; its socket would outlive the loop.
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def kubeconfig(self, user: User | None = None, *, namespace: str = "default") -> Path:
        """Writes a kubeconfig for the user (the administrator by default), readable by its owner alone."""
        who = user or self.access.admin
        path = self._directory / f"{who.name}.kubeconfig"
        content = yaml.safe_dump(self.kubeconfig_dict(who, namespace=namespace), sort_keys=False)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def kubeconfig_dict(self, user: User | None = None, *, namespace: str = "default") -> Object:
        """The content of :meth:`kubeconfig`."""
        who = user or self.access.admin
        authority = base64.b64encode(self.ca.encode()).decode()
        context = {"cluster": "local", "user": who.name, "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": who.name, "user": {"token": who.token}}],
            "contexts": [{"name": "local", "context": context}],
            "current-context": "local",
        }

    def add_user(self, name: str, rules: Sequence[Mapping[str, Any]], *, namespace: str = "default") -> Path:
        """A user with these RBAC-like rules; answers the path of its kubeconfig."""
        return self.kubeconfig(self.access.add_user(name, rules), namespace=namespace)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.path in _HEALTH:
                return web.Response(text="ok")
            return await self._answered(request)
        except errors.ApiError as error:
            return answer(error.status(), error.code)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_LARGEST_BODY}"
            return answer(errors.ApiError(413, "RequestEntityTooLarge", message).status(), 413)
        except ConnectionError:
            _LOG.debug("client went away during %s %s", request.method, request.path)
            raise asyncio.CancelledError from None  # there is nobody to answer, and nothing to report
        except Exception as error:  # noqa: BLE001 - the edge of the server: a bug is answered with 500, and logged
            _LOG.exception("%s %s failed", request.method, request.path)
            internal = errors.ApiError(500, "InternalError", f"Internal error occurred: {error!r}")
            return answer(internal.status(), internal.code)

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return answer(self._discovery.version)
        user = self.access.authenticate(request.headers.get("Authorization", ""))
        if request.method == "POST" and request.path in (ACCESS_REVIEWS, SELF_REVIEWS):
            body = await body_of_request(request)
            return answer(self_review(user) if request.path == SELF_REVIEWS else access_review(user, body), 201)
        found = self._discovered(request)
        return found if found is not None else await self._handlers.handle(request, user)

    def _discovered(self, request: web.Request) -> web.Response | None:
        """The answer of a discovery path, or None when the path is none."""
        accepted = request.headers.get("Accept", "")
        parts = request.path.strip("/").split("/")
        if parts in (["api"], ["apis"]) and "v=v2;as=APIGroupDiscoveryList" in accepted:
            return answer(self._discovery.aggregated(core=parts == ["api"]), media=AGGREGATED)
        document = self._document(request.host, parts)
        return None if document is None else answer(document)

    def _document(self, host: str, parts: list[str]) -> Object | None:
        found: Object | None
        match parts:
            case ["api"]:
                found = self._discovery.core_versions(host)
            case ["apis"]:
                found = self._discovery.groups()
            case ["apis", group]:
                found = self._discovery.group(group)
            case ["api", version]:
                found = self._discovery.resources("", version)
            case ["apis", group, version]:
                found = self._discovery.resources(group, version)
            case ["openapi", "v3", *below]:
                found = self._openapi(below)
            case _:
                found = None
        return found

    def _openapi(self, below: list[str]) -> Object | None:
        match below:
            case []:
                return self._discovery.openapi_paths()
            case ["api", version]:
                return self._discovery.openapi("", version)
            case ["apis", group, version]:
                return self._discovery.openapi(group, version)
        return None
