"""A local cluster in a thread of its own, for callers without an event loop: tests of DAGs, scripts, notebooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from airflow_dispatch.localcluster.cluster import LocalCluster

__all__ = ["BlockingFaults", "ClusterThread"]

_T = TypeVar("_T")


class BlockingFaults:
    """The faults of :class:`~airflow_dispatch.localcluster.faults.Faults`, each done when the call returns."""

    def __init__(self, thread: ClusterThread) -> None:
        self._thread = thread

    def lose_node(self, node: str) -> None:
        """Cuts a node off; its processes go on."""
        self._thread.call(lambda cluster: cluster.faults.lose_node(node))

    def return_node(self, node: str) -> None:
        """A lost or deleted node is back."""
        self._thread.call(lambda cluster: cluster.faults.return_node(node))

    def delete_node(self, node: str) -> None:
        """Deletes the Node object of a machine that is cut off."""
        self._thread.call(lambda cluster: cluster.faults.delete_node(node))

    def reboot_node(self, node: str) -> None:
        """Restarts a machine."""
        self._thread.call(lambda cluster: cluster.faults.reboot_node(node))

    def out_of_service(self, node: str) -> None:
        """Taints a node out-of-service."""
        self._thread.call(lambda cluster: cluster.faults.out_of_service(node))

    def in_service(self, node: str) -> None:
        """Takes the out-of-service taint off again."""
        self._thread.call(lambda cluster: cluster.faults.in_service(node))

    def pod_exit(self, pod: str, code: int, *, namespace: str = "default", container: str | None = None) -> None:
        """Ends a container with this exit code."""
        self._thread.call(lambda cluster: cluster.faults.pod_exit(pod, code, namespace=namespace, container=container))

    def pod_oom(self, pod: str, *, namespace: str = "default", container: str | None = None) -> None:
        """Ends a container for its memory."""
        self._thread.call(lambda cluster: cluster.faults.pod_oom(pod, namespace=namespace, container=container))

    def force_delete(self, pod: str, *, namespace: str = "default") -> None:
        """Deletes a pod with no grace."""
        self._thread.call(lambda cluster: cluster.faults.force_delete(pod, namespace=namespace))


class ClusterThread:
    """Runs a :class:`LocalCluster` in a daemon thread; a context manager.

    What ``make`` gives need not be one: whatever has its ``url``, ``kubeconfig`` and ``faults`` will do.

    Everything of the cluster itself lives in that thread: :meth:`call` does something there.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._ready: Future[tuple[Any, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._main, name="local cluster", daemon=True)
        self._error: BaseException | None = None
        self.faults = BlockingFaults(self)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed over to the caller's thread
            if self._ready.done():
                self._error = error
            else:
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        stop = asyncio.Event()
        async with self._make() as cluster:
            self._ready.set_result((cluster, asyncio.get_running_loop(), stop))
            await stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, loop, stop = self._ready.result()
        if self._thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def call(self, what: Callable[[LocalCluster], Awaitable[_T]]) -> _T:
        """Does something in the cluster's thread and waits for its result."""
        cluster, loop, _ = self._ready.result()

        async def run() -> _T:
            return await what(cluster)

        return asyncio.run_coroutine_threadsafe(run(), loop).result()

    def read(self, what: Callable[[LocalCluster], Any]) -> Any:
        """Reads something in the cluster's thread: ``cluster.read(lambda c: c.registry.list(PODS).items)``."""

        async def run(cluster: LocalCluster) -> Any:
            return what(cluster)

        return self.call(run)

    @property
    def url(self) -> str:
        """The API server's URL."""
        return str(self.read(lambda cluster: cluster.url))

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return Path(self.read(lambda cluster: cluster.kubeconfig))
