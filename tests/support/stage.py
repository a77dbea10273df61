"""A namespace on one cluster, where a scenario is played through HTTP and recorded.

The lines are those of the recordings in ``tests/golden``: watch events, what was done with its answer, marks. Nothing
here knows which of the two clusters it speaks to.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
from yarl import URL

from airflow_dispatch._sockets import Sockets
from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.kubeconfig import read_kubeconfig
from airflow_dispatch.localcluster.resources import (
    EVENTS,
    JOBS,
    JOBSETS,
    NODES,
    PODS,
    TRAINING_RUNTIMES,
    TRAINJOBS,
    Resource,
)
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.support.namespaces import create_namespace

__all__ = ["Answer", "Stage", "path_of", "stage"]

Object = dict[str, Any]

WATCHED: Final = (TRAINJOBS, TRAINING_RUNTIMES, JOBSETS, JOBS, PODS, EVENTS, NODES)
WAIT_SECONDS: Final = 90.0
STILL_SECONDS: Final = 2.0
"""The Job controller of Kubernetes gathers what pods report for one second before it writes."""

_CONFLICT: Final = 409
_REFUSED: Final = 400


class Answer(NamedTuple):
    """What the API server answered."""

    code: int
    body: Object


class Stage:
    """One namespace of one cluster; made by :func:`stage`."""

    def __init__(self, cluster: ClusterThread, namespace: str, api: HttpApi, session: aiohttp.ClientSession) -> None:
        self.namespace = namespace
        self.faults = cluster.faults
        self.lines: list[dict[str, Any]] = []
        self._server = read_kubeconfig(cluster.kubeconfig).server
        self._api = api
        self._session = session
        self._began = time.monotonic()
        self._written = asyncio.Event()
        self._objects: dict[str, dict[str, Object]] = {resource.kind: {} for resource in WATCHED}
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ what is done

    async def act(
        self,
        words: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one request, and records it with its answer."""
        answer = await self._send(method, path, body, content_type, params or {})
        self._record(words, {"method": method, "path": path, "body": body, "params": params}, answer)
        return answer

    async def create(self, words: str, resource: Resource, body: Object) -> Object:
        """Makes an object that must not be refused."""
        return _accepted(await self.act(words, "POST", path_of(resource, self.namespace), body))

    async def change(self, words: str, resource: Resource, name: str, change: Callable[[Object], None]) -> Object:
        """Reads an object, changes it and writes it back, once more when somebody else was faster."""
        path = path_of(resource, self.namespace, name)
        while True:
            body = _accepted(await self._send("GET", path))
            change(body)
            answer = await self._send("PUT", path, body)
            if answer.code != _CONFLICT:
                self._record(words, {"method": "PUT", "path": path, "body": body}, answer)
                return _accepted(answer)

    async def delete(self, words: str, resource: Resource, name: str, **options: Any) -> Answer:
        """Deletes an object with these DeleteOptions."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return await self.act(words, "DELETE", path_of(resource, self.namespace, name), body)

    async def version_of(self, path: str) -> str:
        """The resourceVersion of the object at a path."""
        return str(_accepted(await self._send("GET", path))["metadata"]["resourceVersion"])

    async def fault(self, words: str, what: Callable[[], None]) -> None:
        """Does something to a node or a container, and marks it."""
        await asyncio.to_thread(what)
        self.mark(words)

    def mark(self, words: str) -> None:
        self.lines.append({"t": self._now(), "mark": words})

    # ------------------------------------------------------------ what is seen

    def objects(self, resource: Resource) -> list[Object]:
        """What the watch of a kind knows now, by name."""
        return [obj for _, obj in sorted(self._objects[resource.kind].items())]

    async def until(self, words: str, holds: Callable[[], object]) -> None:
        """Returns when something holds, looking again after each event, and marks it."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            last = json.dumps([self._objects[each.kind] for each in (TRAINJOBS, JOBSETS, JOBS, PODS)])
            raise AssertionError(f"{self._server}: never: {words}; last seen: {last}") from None
        self.mark(words)

    async def still(self) -> None:
        """Returns when for some time nobody has written anything in the namespace."""
        async with asyncio.timeout(WAIT_SECONDS):
            while await self._written_within(STILL_SECONDS):
                pass

    async def _written_within(self, seconds: float) -> bool:
        self._written.clear()
        try:
            await asyncio.wait_for(self._written.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def list(self, resource: Resource) -> str:
        """Records what there is of one kind; the version that a watch goes on from."""
        listing = await self._api.list(resource, self.namespace if resource.namespaced else None)
        for obj in listing.items:
            self._note("ADDED", obj)
        return listing.resource_version

    async def watch(self, resource: Resource, version: str) -> None:
        """Records what becomes of one kind, for ever."""
        namespace = self.namespace if resource.namespaced else None
        while True:
            async with contextlib.aclosing(self._api.watch(resource, version, namespace)) as events:
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    self._note(event.type, event.object)

    def write(self, path: Path, head: Object) -> None:
        """Writes the recording."""
        path.write_text(
            "".join(json.dumps(line) + "\n" for line in ({**head, "namespace": self.namespace}, *self.lines))
        )

    def _note(self, event: str, obj: Object) -> None:
        obj["metadata"].pop("managedFields", None)
        kind, name = obj["kind"], obj["metadata"]["name"]
        if event == "DELETED":
            self._objects[kind].pop(name, None)
        else:
            self._objects[kind][name] = obj
        self.lines.append({"t": self._now(), "event": event, "object": obj})
        if kind != NODES.kind:
            self._written.set()
        self._changed.set()

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def _record(self, words: str, request: Object, answer: Answer) -> None:
        self.lines.append({"t": self._now(), "act": words, "request": request, "response": answer._asdict()})

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        url = URL(self._server + path).with_query(params or {})
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, url, data=data, headers={"Content-Type": content_type}) as response:
            return Answer(response.status, json.loads(await response.text()))


def path_of(resource: Resource, namespace: str, name: str = "") -> str:
    """The path of a kind in a namespace, or of one object there."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"namespaces/{namespace}" if resource.namespaced else ""
    return "/".join(part for part in (root, scope, resource.plural, name) if part)


def _accepted(answer: Answer) -> Object:
    assert answer.code < _REFUSED, answer
    return answer.body


@contextlib.asynccontextmanager
async def stage(cluster: ClusterThread, namespace: str) -> AsyncIterator[Stage]:
    """A fresh namespace, watched as long as the block runs."""
    connection = read_kubeconfig(cluster.kubeconfig)
    headers = {"Authorization": f"Bearer {connection.token}"}
    sockets = Sockets()
    connector = aiohttp.TCPConnector(ssl=connection.tls() or True, socket_factory=sockets.make)
    async with (
        contextlib.AsyncExitStack() as stack,
        await HttpApi.connect(cluster.kubeconfig) as api,
        aiohttp.ClientSession(headers=headers, connector=connector) as session,
    ):
        stack.push_async_callback(sockets.close)
        await create_namespace(api, namespace)
        made = Stage(cluster, namespace, api, session)
        versions = {resource: await made.list(resource) for resource in WATCHED}
        watches = [asyncio.create_task(made.watch(*each)) for each in versions.items()]
        try:
            yield made
        finally:
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
