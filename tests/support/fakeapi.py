"""A scripted API server for faults: lists that it is told, watches that a test feeds, breaks and silences by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

__all__ = ["FakeApi", "Handler", "Stream", "fake_api", "kubeconfig", "serving", "status"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_KINDS = {
    "trainjobs": "TrainJob",
    "jobsets": "JobSet",
    "jobs": "Job",
    "pods": "Pod",
    "nodes": "Node",
    "events": "Event",
    "trainingruntimes": "TrainingRuntime",
    "workloads": "Workload",
}


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """An answer that is no success."""
    body = {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code, headers={key.replace("_", "-"): text for key, text in headers.items()})


def kubeconfig(folder: Path, port: int, user: dict[str, Any], *, secure: bool = False) -> str:
    """Writes a kubeconfig for a server on this port, whose certificate is taken as it is; answers its path."""
    path = folder / "kubeconfig"
    cluster: dict[str, Any] = {"server": f"http://127.0.0.1:{port}"}
    if secure:
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": cluster}],
        "users": [{"name": "fake", "user": user}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """Answers everything with ``handler``; yields the port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class Stream:
    """One open watch, in the hands of the test."""

    def __init__(self, resource_version: str, response: web.StreamResponse, request: web.Request) -> None:
        self.resource_version = resource_version
        self.closed = asyncio.Event()
        self._over = asyncio.Event()
        self._response = response
        self._request = request

    async def send(self, kind: str, obj: Any) -> None:
        """An event."""
        await self.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def write(self, text: bytes) -> None:
        """Anything."""
        await self._response.write(text)

    def end(self) -> None:
        """The server is done with it, as it is with each watch after some minutes."""
        self._over.set()

    def abort(self) -> None:
        """The connection breaks."""
        if self._request.transport is not None:
            self._request.transport.abort()
        self._over.set()

    async def hold(self) -> None:
        """Keeps it open until the test or the client ends it."""
        try:
            await self._over.wait()
        finally:
            self.closed.set()


class FakeApi:
    """``items`` by plural are what lists answer; ``refusals`` by ``<verb> <plural>`` are what is answered instead."""

    def __init__(self) -> None:
        self.port = 0
        self.version = "1"
        self.items: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.refusals: defaultdict[str, deque[Callable[[], web.Response]]] = defaultdict(deque)
        self.always: dict[str, Callable[[], web.Response]] = {}
        self.requests: Counter[str] = Counter()
        self.open: set[Stream] = set()
        self._opened: defaultdict[str, asyncio.Queue[Stream]] = defaultdict(asyncio.Queue)

    async def watching(self, plural: str) -> Stream:
        """The next watch of this kind that a client opens."""
        return await self._opened[plural].get()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        parts = parts[3:] if parts[0] == "apis" else parts[2:]
        parts = parts[2:] if parts[0] == "namespaces" else parts
        plural, name = parts[0], parts[1] if len(parts) > 1 else None
        verb = "get" if name else "watch" if "watch" in request.query else "list"
        self.requests[f"{verb} {plural}"] += 1
        if self.refusals[f"{verb} {plural}"]:
            return self.refusals[f"{verb} {plural}"].popleft()()
        if f"{verb} {plural}" in self.always:
            return self.always[f"{verb} {plural}"]()
        if verb == "watch":
            return await self._watch(request, plural)
        if name is not None:
            found = next((item for item in self.items[plural] if item["metadata"]["name"] == name), None)
            return web.json_response(found) if found else status(404, "NotFound", f'{plural} "{name}" not found')
        listed = {"kind": f"{_KINDS[plural]}List", "metadata": {"resourceVersion": self.version}}
        return web.json_response({**listed, "items": self.items[plural]})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        stream = Stream(request.query["resourceVersion"], response, request)
        self.open.add(stream)
        self._opened[plural].put_nowait(stream)
        try:
            await stream.hold()
        finally:
            self.open.discard(stream)
        return response


@contextlib.asynccontextmanager
async def fake_api() -> AsyncIterator[FakeApi]:
    """A fake that listens."""
    fake = FakeApi()
    async with serving(fake.answer) as fake.port:
        yield fake
