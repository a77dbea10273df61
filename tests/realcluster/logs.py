"""Where the API server gets logs from: the part of a kubelet's own HTTPS port that ``pods/log`` needs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from aiohttp import web

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.logs import LogOptions, stream
from airflow_dispatch.localcluster.kubelet import Kubelet, KubeletLogs
from tests.realcluster.controlplane import ControlPlane


class LogServer(NamedTuple):
    """A running server."""

    port: int


@contextlib.asynccontextmanager
async def log_server(
    plane: ControlPlane,
    kubelets: dict[str, Kubelet],
    hosts: Sequence[str],
) -> AsyncIterator[LogServer]:
    """Serves the logs of all kubelets on one port of every node's own loopback address.

    A client certificate of the control plane's CA is wanted, and only the API server has one.
    """
    source = KubeletLogs(kubelets)

    async def logs(request: web.Request) -> web.StreamResponse:
        namespace, name, container = (request.match_info[key] for key in ("namespace", "pod", "container"))
        pod = _pod(kubelets, namespace, name)
        if pod is None:
            raise web.HTTPNotFound(text=f"pod {name!r} does not run here")
        options = LogOptions.parse({"container": container, **request.query}, datetime.now(UTC))
        response = web.StreamResponse()
        try:
            async for chunk in stream(source, pod, options):
                if not response.prepared:
                    await response.prepare(request)
                await response.write(chunk)
        except ApiError as error:
            raise web.HTTPBadRequest(text=error.message) from error
        if not response.prepared:
            await response.prepare(request)
        return response

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", logs)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        tls = plane.certificates.server_context("kubelets")
        port = 0
        for host in hosts:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
            port = runner.addresses[0][1]
        yield LogServer(port)
    finally:
        await runner.cleanup()


def _pod(kubelets: dict[str, Kubelet], namespace: str, name: str) -> dict[str, object] | None:
    for kubelet in kubelets.values():
        for worker in kubelet.workers:
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return worker.pod
    return None
