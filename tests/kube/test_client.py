"""The client against a server that misbehaves in ways that the local one does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unreachable,
)
from airflow_dispatch.core.objects import Pod
from airflow_dispatch.kube import config, paths, session, streams
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.decoding import Unreadable
from tests.support.fakeapi import Handler, kubeconfig, serving, status


@contextlib.asynccontextmanager
async def client_of(handler: Handler, folder: Path, **user: Any) -> AsyncIterator[KubeClient]:
    """A client of a server that answers everything with ``handler``."""
    async with serving(handler) as port:
        cluster = ClusterConfig(kubeconfig=kubeconfig(folder, port, user or {"token": "first"}))
        async with await KubeClient.connect(cluster) as client:
            yield client


def answering(code: int, reason: str, message: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return status(code, reason, message)

    return handler


def answering_with(response: web.Response) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return response

    return handler


def unreachable(folder: Path, port: int) -> ClusterConfig:
    return ClusterConfig(kubeconfig=kubeconfig(folder, port, {"token": "t"}))


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


@pytest.mark.parametrize("code", [502, 504])
def test_a_write_that_the_server_gave_up_waiting_for_has_an_unknown_outcome(tmp_path: Path, code: int) -> None:
    async def main() -> None:
        async with client_of(answering(code, "Timeout", "request did not complete"), tmp_path) as client:
            with pytest.raises(OutcomeUnknown, match=rf"update pods ml/p: request did not complete \(HTTP {code}\)"):
                await client.replace(paths.PODS, POD)
            with pytest.raises(Unreachable):
                await client.get(paths.PODS, "p", "ml")

    asyncio.run(main())


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
        async with await KubeClient.connect(unreachable(tmp_path, 1)) as client:
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
    odd = {"metadata": {"name": "odd", "uid": "o", "labels": 7}}

    async def listing(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [odd, 7, POD]})

    async def main() -> None:
        async with client_of(listing, tmp_path) as client:
            found = await client.list(paths.JOBSETS, "ml")
            assert [item.metadata.name for item in found.items] == ["odd", "", "p"]
            assert [isinstance(item, Unreadable) for item in found.items] == [False, True, False]
            assert [bool(item.problem) for item in found.items] == [True, True, False]
            assert found.resource_version == "9"

    asyncio.run(main())


def test_a_pod_of_which_only_the_status_is_odd_is_not_missed(tmp_path: Path) -> None:
    """It may still run: whoever asks for that reads its labels and its Node."""
    odd = {**POD, "spec": {"nodeName": "node-0"}, "status": {"phase": 7}}

    async def main() -> None:
        async with client_of(answering_with(web.json_response(odd)), tmp_path) as client:
            found = await client.read(paths.PODS, "p", "ml")
            assert isinstance(found, Pod)
            assert (found.spec.node_name, found.status) == ("node-0", None)

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


# ---------------------------------------------------------------- answers that are none


Call = Callable[[KubeClient], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda client: client.get(paths.PODS, "p", "ml"), Unreachable),
        (lambda client: client.read(paths.PODS, "p", "ml"), Unreachable),
        (lambda client: client.list(paths.PODS, "ml"), Unreachable),
        (lambda client: client.can_i("get", paths.PODS, "ml"), Unreachable),
        (lambda client: client.create(paths.PODS, "ml", POD), OutcomeUnknown),
        (lambda client: client.delete(paths.PODS, "p", "ml"), OutcomeUnknown),
    ],
)
def test_an_answer_that_is_no_json_is_no_answer(tmp_path: Path, call: Call, expected: type[Exception]) -> None:
    page = web.Response(text="<html>Welcome to the proxy</html>", content_type="text/html")

    async def main() -> None:
        async with client_of(answering_with(page), tmp_path) as client:
            with pytest.raises(expected):
                await call(client)

    asyncio.run(main())


def test_a_token_is_not_carried_where_a_server_points_to(tmp_path: Path) -> None:
    calls = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        calls.append(request.path)
        raise web.HTTPTemporaryRedirect("/login")

    async def main() -> None:
        async with client_of(elsewhere, tmp_path) as client:
            with pytest.raises(Refused, match="307"):
                await client.create(paths.PODS, "ml", POD)
        assert calls == ["/api/v1/namespaces/ml/pods"]

    asyncio.run(main())


def test_a_write_that_never_reached_the_server_has_no_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full lets a connection time out before anything is sent."""
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.05)

    async def main() -> None:
        with contextlib.ExitStack() as stack:
            full = stack.enter_context(socket.socket())
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            async with await KubeClient.connect(unreachable(tmp_path, full.getsockname()[1])) as client:
                with pytest.raises(Unreachable, match="can't be reached"):
                    await client.create(paths.PODS, "ml", POD)

    asyncio.run(main())


def test_every_write_carries_our_field_manager_and_a_dry_run_says_so(tmp_path: Path) -> None:
    seen = []

    async def server(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, dict(request.query)))
        return web.json_response(POD)

    async def main() -> None:
        async with client_of(server, tmp_path) as client:
            await client.create(paths.PODS, "ml", POD, dry_run=True)
            await client.replace(paths.PODS, POD)
            await client.patch(paths.PODS, "p", "ml", {})
            await client.delete(paths.PODS, "p", "ml")

    asyncio.run(main())
    ours = {"fieldManager": names.FIELD_MANAGER}
    assert seen == [("POST", {**ours, "dryRun": "All"}), ("PUT", ours), ("PATCH", ours), ("DELETE", {})]


# ---------------------------------------------------------------- credentials


def test_many_that_are_refused_at_once_call_the_exec_plugin_once(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    api = "client.authentication.k8s.io/v1"
    plugin.write_text(
        f"#!/bin/sh\necho called >> {tmp_path}/calls\nnumber=$(wc -l < {tmp_path}/calls | tr -d ' ')\n"
        f'echo "{{\\"apiVersion\\": \\"{api}\\", \\"kind\\": \\"ExecCredential\\",'
        ' \\"status\\": {\\"token\\": \\"token-$number\\"}}"\n'
    )
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}

    async def picky(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer token-2":
            return web.json_response(POD)
        return status(401, "Unauthorized", "Unauthorized")

    async def main() -> None:
        async with client_of(picky, tmp_path, **user) as client:
            await asyncio.gather(*(client.get(paths.PODS, "p", "ml") for _ in range(8)))
        assert (tmp_path / "calls").read_text().count("called") == 2

    asyncio.run(main())


def test_credentials_that_are_refused_twice_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_of(answering(401, "Unauthorized", "Unauthorized"), tmp_path) as client:
            with pytest.raises(Refused, match="does not accept the credentials"):
                await client.get(paths.PODS, "p", "ml")

    asyncio.run(main())


def test_a_token_file_is_read_again_before_the_server_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_TOKEN_FILE_PERIOD", timedelta(0))
    token = tmp_path / "token"
    token.write_text("old")
    seen = []

    async def accepting(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.json_response(POD)

    async def main() -> None:
        async with client_of(accepting, tmp_path, tokenFile=str(token)) as client:
            await client.get(paths.PODS, "p", "ml")
            token.write_text("new")
            await client.get(paths.PODS, "p", "ml")
        assert seen == ["Bearer old", "Bearer new"]

    asyncio.run(main())


def test_credentials_that_cannot_be_renewed_serve_until_they_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(config, "_TOKEN_FILE_PERIOD", timedelta(0))
    token = tmp_path / "token"
    token.write_text("old")
    refuses: list[bool] = []

    async def server(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Bearer old"
        return status(401, "Unauthorized", "Unauthorized") if refuses else web.json_response(POD)

    async def main() -> None:
        async with client_of(server, tmp_path, tokenFile=str(token)) as client:
            (tmp_path / "kubeconfig").unlink()
            for _ in range(3):
                await client.get(paths.PODS, "p", "ml")
            refuses.append(True)
            with pytest.raises(ConfigurationError, match="there is no kubeconfig"):
                await client.get(paths.PODS, "p", "ml")

    asyncio.run(main())
    assert caplog.text.count("could not be renewed yet") == 1


# ---------------------------------------------------------------- logs


def test_a_log_has_its_blank_lines_and_the_last_one_that_has_no_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_of(answering_with(web.Response(body=b"one\n\nthree\nSegmentation fa")), tmp_path) as client:
            lines = [line async for line in client.log("p", "ml", container="node")]
            assert lines == [b"one", b"", b"three", b"Segmentation fa"]

    asyncio.run(main())


def test_a_log_line_without_an_end_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar that only ever returns to the line's begin."""
    monkeypatch.setattr(streams, "LINE_LIMIT", 10)

    shown = asyncio.Event()

    async def bar(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\r 10 %\r 20 %")
        await shown.wait()
        await response.write(b"\r 30 %\n")
        return response

    async def main() -> None:
        async with asyncio.timeout(10), client_of(bar, tmp_path) as client:
            pieces = []
            async for piece in client.log("p", "ml", container="node", follow=True):
                pieces.append(piece)
                shown.set()
            assert pieces == [b"\r 10 %\r 20 %", b"\r 30 %"]

    asyncio.run(main())


def test_a_reader_that_leaves_ends_the_stream(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return response

    async def main() -> None:
        async with asyncio.timeout(10), client_of(endless, tmp_path) as client:
            async with contextlib.aclosing(client.log("p", "ml", container="node", follow=True)) as lines:
                assert await anext(lines) == b"one"
            await ended.wait()

    asyncio.run(main())
