"""No connection outlives its session, wherever the making of it was cut off."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import trustme

from airflow_dispatch.core.errors import DispatchError
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from tests.support.fakeapi import kubeconfig

TURNS = range(0, 200, 3)
"""Turns of the event loop: from before the connection is begun until long after the request was sent."""


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """A TLS server in a thread of its own that takes connections, and then neither answers nor closes; its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    taken: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                taken.append(context.wrap_socket(accepted, server_side=True))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in taken:
                each.close()


async def cut_off_after(turns: int, config: ClusterConfig) -> None:
    """Begins a request, and gives it up after so many turns of the event loop."""
    async with await KubeClient.connect(config) as client:
        request = asyncio.create_task(client.get(paths.PODS, "pod", "default"))
        for _ in range(turns):
            await asyncio.sleep(0)
        request.cancel()
        with contextlib.suppress(asyncio.CancelledError, DispatchError):
            await request


def test_a_connection_that_is_given_up_while_it_is_made_or_used_is_closed(tmp_path: Path) -> None:
    with silent_server() as port, warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        config = ClusterConfig(kubeconfig=kubeconfig(tmp_path, port, {"token": "any"}, secure=True))
        for turns in TURNS:
            asyncio.run(cut_off_after(turns, config))
        gc.collect()
    assert [str(each.message) for each in left_open] == []
