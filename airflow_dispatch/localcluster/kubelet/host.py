"""What the pods of one node share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.kubelet.env import object_data
from airflow_dispatch.localcluster.kubelet.images import Image, ImageTable
from airflow_dispatch.localcluster.kubelet.link import Link
from airflow_dispatch.localcluster.kubelet.names import PodNames
from airflow_dispatch.localcluster.kubelet.network import AddressPool
from airflow_dispatch.localcluster.kubelet.runtime import Runtime
from airflow_dispatch.localcluster.resources import SERVICE_ACCOUNTS, Resource

__all__ = ["Host"]


@dataclass(frozen=True)
class Host:
    """One node, as its pods' workers see it.

    Attributes:
        node: The Node's name.
        link: The way to the API server.
        runtime: What runs containers.
        clock: What times are read from, and waits are made on.
        images: The images it has; None when every image is as good as any other (scripted containers).
        addresses: Where pods' addresses come from.
        names: The names of all pods of the cluster.
        folder: Where pods' files are.
        allocatable: What the Node offers.
    """

    node: str
    link: Link
    runtime: Runtime
    clock: Clock
    images: ImageTable | None
    addresses: AddressPool
    names: PodNames
    folder: Path
    allocatable: Mapping[str, str]

    def pull(self, image: str) -> Image:
        """The image.

        Raises:
            ImageNotFound: The node can't get it.
        """
        return Image() if self.images is None else self.images.pull(image)

    async def read_data(self, resource: Resource, namespace: str, name: str) -> dict[str, bytes]:
        """The keys of a ConfigMap or Secret."""
        return object_data(resource, await self.link.read(lambda api: api.get(resource, namespace, name)))

    async def service_account_token(self, pod: dict[str, Any], source: Mapping[str, Any]) -> str:
        """A token of the pod's service account, bound to the pod."""
        namespace = pod["metadata"]["namespace"]
        spec: dict[str, Any] = {
            "audiences": [source["audience"]] if source.get("audience") else [],
            "expirationSeconds": source.get("expirationSeconds", 3600),
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
            },
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod["spec"].get("serviceAccountName", "default")
        answer = await self.link.read(
            lambda api: api.create(SERVICE_ACCOUNTS, namespace, body, name=account, subresource="token")
        )
        return str(answer["status"]["token"])
