"""The client against a server that misbehaves in ways that the local one does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from airflow_dispatch.core.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unreachable,
)
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.decoding import Unreadable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


@contextlib.asynccontextmanager
async def client_of(handler: Handler, folder: Path, **user: Any) -> AsyncIterator[KubeClient]:
    """A client of a server that answers everything with ``handler``."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = kubeconfig(folder, runner.addresses[0][1], user or {"token": "first"})
        async with await KubeClient.connect(config) as client:
            yield client
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, port: int, user: dict[str, Any]) -> ClusterConfig:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "fake", "user": user}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return ClusterConfig(kubeconfig=str(path))


def answering(code: int, reason: str, message: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return status(code, reason, message)

    return handler


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"},
}

ANSWERS = [
    (404, "NotFound", 'pods "p" not found', NotFound),
    (409, "AlreadyExists", 'pods "p" already exists', AlreadyExists),
    (409, "Conflict", "the object has been modified", Conflict),
    (409, "Conflict", "StorageError: Precondition failed: UID in precondition: a, UID in object meta: b", Refused),
    (409, "Conflict", "the UID in the precondition (a) does not match the UID in record (b)", Refused),
    (410, "Expired", "too old resource version", Gone),
    (422, "Invalid", "spec is invalid", Refused),
    (429, "TooManyRequests", "try again", Unreachable),
    (500, "InternalError", "etcd is not well", Unreachable),
    (503, "ServiceUnavailable", "starting", Unreachable),
    (403, "Forbidden", "specified trainingRuntime must be created before the TrainJob is created", Unreachable),
    (403, "Forbidden", "the JobSet's ReplicatedJob node is still active", Unreachable),
    (403, "Forbidden", 'admission webhook "x" denied the request', Refused),
]


@pytest.mark.parametrize(("code", "reason", "message", "expected"), ANSWERS)
def test_an_answer_becomes_the_error_that_says_what_a_caller_can_do(
    tmp_path: Path, code: int, reason: str, message: str, expected: type[Exception]
) -> None:
    async def main() -> None:
        async with client_of(answering(code, reason, message), tmp_path) as client:
            with pytest.raises(expected) as raised:
                await client.replace(paths.PODS, POD)
            assert type(raised.value) is expected
            assert message in str(raised.value)
            assert "update pods ml/p" in str(raised.value)

    asyncio.run(main())


def test_a_denied_call_names_verb_resource_and_namespace(tmp_path: Path) -> None:
    message = 'User "a" cannot create resource "trainjobs" in API group "trainer.kubeflow.org" in the namespace "ml"'

    async def main() -> None:
        async with client_of(answering(403, "Forbidden", message), tmp_path) as client:
            with pytest.raises(Forbidden, match=r'create trainjobs\.trainer\.kubeflow\.org in the namespace "ml"'):
                await client.create(paths.TRAINJOBS, "ml", {"metadata": {"name": "x"}})

    asyncio.run(main())


def test_a_write_whose_answer_is_lost_has_an_unknown_outcome_and_a_read_is_only_unreachable(tmp_path: Path) -> None:
    calls = []

    async def drop(request: web.Request) -> web.StreamResponse:
        calls.append(request.method)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def main() -> None:
        async with client_of(drop, tmp_path) as client:
            with pytest.raises(OutcomeUnknown, match="update pods ml/p: sent"):
                await client.replace(paths.PODS, POD)
            assert calls == ["PUT"]
            with pytest.raises(Unreachable):
                await client.get(paths.PODS, "p", "ml")

    asyncio.run(main())


def test_a_server_that_is_not_there_is_unreachable_before_anything_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with await KubeClient.connect(kubeconfig(tmp_path, 1, {"token": "t"})) as client:
            with pytest.raises(Unreachable, match="can't be reached"):
                await client.replace(paths.PODS, POD)

    asyncio.run(main())


def test_retry_after_is_kept(tmp_path: Path) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({"message": "busy"}, status=429, headers={"Retry-After": "7"})

    async def main() -> None:
        async with client_of(busy, tmp_path) as client:
            with pytest.raises(Unreachable) as raised:
                await client.get(paths.PODS, "p", "ml")
            assert raised.value.retry_after == 7

    asyncio.run(main())


def test_a_401_is_met_with_a_new_token_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen = []

    async def picky(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        if seen[-1] == "Bearer new":
            return web.json_response(POD)
        token.write_text("new")
        return status(401, "Unauthorized", "Unauthorized")

    async def main() -> None:
        async with client_of(picky, tmp_path, tokenFile=str(token)) as client:
            assert (await client.get(paths.PODS, "p", "ml"))["metadata"]["uid"] == "u"
        assert seen == ["Bearer old", "Bearer new"]

    asyncio.run(main())


def test_an_odd_object_does_not_spoil_a_list(tmp_path: Path) -> None:
    odd = {"metadata": {"name": "odd", "uid": "o"}, "status": {"phase": 7}}

    async def listing(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [odd, POD]})

    async def main() -> None:
        async with client_of(listing, tmp_path) as client:
            found = await client.list(paths.PODS, "ml")
            assert [item.metadata.name for item in found.items] == ["odd", "p"]
            assert isinstance(found.items[0], Unreadable)
            assert found.resource_version == "9"

    asyncio.run(main())


def test_a_list_that_expires_between_two_pages_begins_anew(tmp_path: Path) -> None:
    asked: list[str | None] = []

    async def paged(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue")
        asked.append(token)
        if token == "stale":
            return status(410, "Expired", "the continue parameter is too old")
        following = "" if token else "stale" if len(asked) == 1 else "fresh"
        metadata = {"resourceVersion": "1", "continue": following}
        return web.json_response({"metadata": metadata, "items": [POD]})

    async def main() -> None:
        async with client_of(paged, tmp_path) as client:
            assert len((await client.list(paths.PODS, "ml")).items) == 2
        assert asked == [None, "stale", None, "fresh"]

    asyncio.run(main())


def test_a_watch_yields_events_and_ends_with_what_the_server_says(tmp_path: Path) -> None:
    lines = [
        {"type": "ADDED", "object": POD},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}},
        {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old resource version"}},
    ]

    async def watch(request: web.Request) -> web.StreamResponse:
        assert request.query["allowWatchBookmarks"] == "true"
        response = web.StreamResponse()
        await response.prepare(request)
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        for start in range(0, len(text), 7):
            await response.write(text[start : start + 7])
        return response

    async def main() -> None:
        async with client_of(watch, tmp_path) as client:
            events = client.watch(paths.PODS, "ml", resource_version="1")
            seen = [await anext(events), await anext(events)]
            assert [(event.type, event.resource_version) for event in seen] == [("ADDED", "1"), ("BOOKMARK", "5")]
            with pytest.raises(Gone):
                await anext(events)

    asyncio.run(main())


def test_a_watch_that_breaks_in_mid_line_is_unreachable(tmp_path: Path) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "obj')
        assert request.transport is not None
        request.transport.abort()
        return response

    async def main() -> None:
        async with client_of(watch, tmp_path) as client:
            with pytest.raises(Unreachable):
                await anext(client.watch(paths.PODS, "ml", resource_version="1"))

    asyncio.run(main())


def test_an_update_without_preconditions_is_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_of(answering(500, "", ""), tmp_path) as client:
            with pytest.raises(ValueError, match="UID and the resourceVersion"):
                await client.replace(paths.PODS, {"metadata": {"name": "p", "namespace": "ml"}})

    asyncio.run(main())
