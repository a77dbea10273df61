"""The control endpoint of a running cluster: how another process injects faults, or ends it.

HTTP on loopback, with a token of its own that only the owner of the state file can read. One request is one act:
``POST /`` with ``{"act": "lose-node", "node": "node-1"}``; the answer is ``{}``, or ``{"error": text}`` with 404 when
there is no such node or pod, 400 when the request makes no sense, 401 without the token.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from airflow_dispatch.localcluster.faults import Faults

__all__ = ["ControlServer"]

_Act = Callable[[Faults, dict[str, Any]], Awaitable[None]]


def _pod(request: dict[str, Any]) -> dict[str, Any]:
    return {"namespace": str(request.get("namespace", "default")), "container": request.get("container")}


_ACTS: Final[dict[str, _Act]] = {
    "lose-node": lambda faults, request: faults.lose_node(request["node"]),
    "return-node": lambda faults, request: faults.return_node(request["node"]),
    "delete-node": lambda faults, request: faults.delete_node(request["node"]),
    "reboot-node": lambda faults, request: faults.reboot_node(request["node"]),
    "out-of-service": lambda faults, request: faults.out_of_service(request["node"]),
    "in-service": lambda faults, request: faults.in_service(request["node"]),
    "pod-exit": lambda faults, request: faults.pod_exit(request["pod"], int(request["code"]), **_pod(request)),
    "pod-oom": lambda faults, request: faults.pod_oom(request["pod"], **_pod(request)),
    "force-delete": lambda faults, request: faults.force_delete(request["pod"], namespace=_pod(request)["namespace"]),
}


class ControlServer:
    """Listens while it is entered. :attr:`down` is set when somebody asks the cluster to end."""

    def __init__(self, faults: Faults) -> None:
        self.token = secrets.token_urlsafe(32)
        self.down = asyncio.Event()
        self._faults = faults
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._runner is None:
            raise RuntimeError("the control endpoint does not listen")
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post("/", self._handle)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return _answer(401, "the token is missing or wrong")
        try:
            body = json.loads(await request.read())
            act = body["act"]
            if act == "down":
                self.down.set()
            elif act in _ACTS:
                await _ACTS[act](self._faults, body)
            else:
                return _answer(400, f"unknown act {act!r}")
        except KeyError as error:
            return _answer(400, f"the request lacks {error}")
        except LookupError as error:
            return _answer(404, str(error))
        except (ValueError, TypeError) as error:
            return _answer(400, f"the request makes no sense: {error}")
        return web.json_response({})


def _answer(code: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=code)
