"""A reverse proxy before an API server that counts what something costs, and lets requests go wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from airflow_dispatch.kube.streams import abandon

UNSENT = "unsent"
"""The connection breaks before the server has the request."""

UNANSWERED = "unanswered"
"""The server does what it is asked, and its answer is lost."""


class CountingProxy:
    """``requests`` counts by method and resource, ``streams`` the watches that are open now.

    ``kubeconfig`` names the proxy as the cluster. ``fault`` says of each request what goes wrong with it: an answer
    that is given instead, :data:`UNSENT` or :data:`UNANSWERED`; None for nothing.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.requests: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.kubeconfig = kubeconfig
        self.fault: Callable[[web.Request], web.Response | str | None] = lambda _: None
        self._changed = asyncio.Event()
        self._open: defaultdict[str, set[aiohttp.ClientResponse]] = defaultdict(set)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when the counts are such that ``condition`` holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @contextlib.contextmanager
    def stream(self, resource: str, answer: aiohttp.ClientResponse) -> Iterator[None]:
        """Counts a watch for as long as it is open."""
        self.streams[resource] += 1
        self._open[resource].add(answer)
        self._changed.set()
        try:
            yield
        finally:
            abandon(answer)
            self._open[resource].discard(answer)
            self.streams[resource] -= 1
            self._changed.set()

    def break_streams(self, resource: str) -> None:
        """Breaks the connections of all watches of a kind that are open."""
        for answer in list(self._open[resource]):
            abandon(answer)

    @property
    def total(self) -> int:
        """All requests, watches included."""
        return sum(self.requests.values())


@contextlib.asynccontextmanager
async def counting_proxy(kubeconfig: Path, folder: Path) -> AsyncIterator[CountingProxy]:
    """Serves plain HTTP on loopback, and passes everything on with the token that it came with."""
    content = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    cluster = content["clusters"][0]["cluster"]
    upstream = cluster["server"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    proxy = CountingProxy(folder / "proxy.kubeconfig")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0)) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            resource = _resource(request.path)
            watch = request.query.get("watch") == "true" or request.query.get("follow") == "true"
            proxy.requests[f"{request.method} {resource}"] += 1
            fault = proxy.fault(request)
            if isinstance(fault, web.Response):
                return fault
            if fault == UNSENT:
                return _broken(request)
            headers = {key: value for key, value in request.headers.items() if key.lower() != "host"}
            async with session.request(
                request.method,
                upstream + request.path_qs,
                headers=headers,
                data=await request.read(),
                timeout=aiohttp.ClientTimeout(),
            ) as answer:
                if fault == UNANSWERED:
                    await answer.read()
                    return _broken(request)
                response = web.StreamResponse(status=answer.status)
                response.content_type = answer.content_type
                await response.prepare(request)
                try:
                    with proxy.stream(resource, answer) if watch else contextlib.nullcontext():
                        async for chunk in answer.content.iter_any():
                            await response.write(chunk)
                except ConnectionResetError:
                    return response
                except aiohttp.ClientError:
                    if request.transport is not None:
                        request.transport.abort()
                return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
            await asyncio.to_thread(proxy.kubeconfig.write_text, yaml.safe_dump(content))
            yield proxy
        finally:
            await runner.cleanup()


def _broken(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _resource(path: str) -> str:
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return parts[0] if parts else path
