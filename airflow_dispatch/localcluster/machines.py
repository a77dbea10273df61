"""The nodes of a cluster, whichever API server they speak to: kubelets on one network, with one runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from airflow_dispatch.localcluster.client import Api
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.kubelet import ImageTable, Kubelet, NodeSpec, PodNames, Runtime
from airflow_dispatch.localcluster.kubelet.network import AddressPool

__all__ = ["running_nodes"]


@asynccontextmanager
async def running_nodes(
    api: Api,
    nodes: Sequence[tuple[NodeSpec, AddressPool]],
    runtime: Runtime,
    clock: Clock,
    *,
    kubelets: MutableMapping[str, Kubelet],
    folder: Path,
    images: ImageTable | None,
) -> AsyncIterator[None]:
    """Registers the nodes one after the other, and runs their pods as long as the block does.

    Args:
        api: The API server.
        nodes: What they are, and where their pods' addresses come from.
        runtime: What runs containers.
        clock: What times are read from and waits are made on.
        kubelets: Where each is entered by its node's name before it starts; the caller's to read.
        folder: Where the files of pods go, a folder for each node.
        images: The images that the nodes have; None takes every image for granted.
    """
    names = PodNames()
    async with AsyncExitStack() as stack:
        for spec, addresses in nodes:
            kubelet = kubelets[spec.name] = Kubelet(
                api, spec, runtime, clock, addresses=addresses, names=names, folder=folder, images=images
            )
            stack.push_async_callback(kubelet.stop)
            await kubelet.start()
        yield
