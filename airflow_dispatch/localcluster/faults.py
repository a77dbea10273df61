"""What goes wrong on real clusters, on demand: lost nodes, reboots, exit codes, memory, forced deletions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_dispatch.core.names import TAINT_OUT_OF_SERVICE
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import MERGE_PATCH, Api
from airflow_dispatch.localcluster.kubelet import Kubelet
from airflow_dispatch.localcluster.kubelet.worker import PodWorker
from airflow_dispatch.localcluster.resources import NODES, PODS

__all__ = ["Faults"]

_OOM_EXIT_CODE: Final = 137
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class Faults:
    """The faults of one cluster. Nodes and pods are named as in the API; unknown ones raise :class:`LookupError`."""

    def __init__(self, api: Api, kubelets: Mapping[str, Kubelet]) -> None:
        self._api = api
        self._kubelets = kubelets

    async def lose_node(self, node: str) -> None:
        """Cuts a node off: its heartbeats stop and its kubelet neither reads nor acts. Its processes go on."""
        await self._kubelet(node).lose()

    async def return_node(self, node: str) -> None:
        """A lost or deleted node is back: its kubelet acts on what it has missed, and kills what was deleted."""
        await self._kubelet(node).restore()

    async def delete_node(self, node: str) -> None:
        """Deletes the Node object of a machine that is cut off: its processes go on until it is returned."""
        await self._kubelet(node).lose()
        try:
            await self._api.delete(NODES, None, node)
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise

    async def reboot_node(self, node: str) -> None:
        """Restarts a machine: its processes die at once, and it comes back with another boot ID."""
        await self._kubelet(node).reboot()

    async def out_of_service(self, node: str) -> None:
        """What an operator does who has seen that a machine is off: the taint that lets Kubernetes clean up.

        Nothing checks that its processes have really ended, on the local cluster as on any other.
        """
        taint = {"key": TAINT_OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        await self._set_taints(node, lambda taints: [*taints, taint])

    async def in_service(self, node: str) -> None:
        """Takes the out-of-service taint off again."""
        await self._set_taints(node, lambda taints: taints)

    async def pod_exit(self, pod: str, code: int, *, namespace: str = "default", container: str | None = None) -> None:
        """Ends a container with this exit code: the named one, else the pod's first that runs."""
        self._worker(namespace, pod).end(code, "Completed" if code == 0 else "Error", container)

    async def pod_oom(self, pod: str, *, namespace: str = "default", container: str | None = None) -> None:
        """Ends a container as the kernel does one that has used more memory than it may."""
        self._worker(namespace, pod).end(_OOM_EXIT_CODE, "OOMKilled", container)

    async def force_delete(self, pod: str, *, namespace: str = "default") -> None:
        """Deletes a pod with no grace: its object goes at once, whatever its node does or can't do."""
        try:
            await self._api.delete(PODS, namespace, pod, grace_period=0)
        except ApiError as error:
            if error.code == _NOT_FOUND:
                raise LookupError(error.message) from error
            raise

    def _kubelet(self, node: str) -> Kubelet:
        if node not in self._kubelets:
            known = ", ".join(sorted(self._kubelets))
            raise LookupError(f"there is no node {node!r}; there are {known}")
        return self._kubelets[node]

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        for kubelet in self._kubelets.values():
            for worker in kubelet.workers:
                if (worker.namespace, worker.name) == (namespace, pod) and not worker.done:
                    return worker
        raise LookupError(f"no node runs a pod {namespace}/{pod}")

    async def _set_taints(self, node: str, change: Any) -> None:
        """Sets the taints anew from the others; whoever else writes the Node meanwhile makes it begin again."""
        self._kubelet(node)
        while True:
            try:
                found = await self._api.get(NODES, None, node)
                taints = [taint for taint in found["spec"].get("taints") or () if taint["key"] != TAINT_OUT_OF_SERVICE]
                metadata = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
                body = {"metadata": metadata, "spec": {"taints": change(taints) or None}}
                await self._api.patch(NODES, None, node, body, content_type=MERGE_PATCH)
            except ApiError as error:
                if error.code == _NOT_FOUND:
                    raise LookupError(error.message) from error
                if error.code != _CONFLICT:
                    raise
            else:
                return
