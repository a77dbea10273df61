"""The Node object and its heartbeats: what a kubelet reports of the machine it stands for."""

from __future__ import annotations

import logging
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import MERGE_PATCH
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.kubelet.link import Gone, Link
from airflow_dispatch.localcluster.kubelet.status import timestamp
from airflow_dispatch.localcluster.resources import LEASES, NODES

__all__ = ["DEFAULT_CAPACITY", "NodeReporter", "NodeSpec"]

_LOG = logging.getLogger(__name__)
LEASE_NAMESPACE: Final = "kube-node-lease"
DEFAULT_CAPACITY: Final[Mapping[str, str]] = MappingProxyType(
    {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "100Gi", "pods": "110"}
)
_KUBELET_VERSION: Final = "v1.36.3"
_ALREADY_EXISTS: Final = 409
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True)
class NodeSpec:
    """A node to simulate.

    Attributes:
        name: Its name.
        capacity: What it offers; nothing checks that this machine has it.
        labels: Labels beside the usual ones.
        heartbeat_seconds: How often its Lease is renewed.
        status_every: Each how many heartbeats the Node's status is written too.
        lease_seconds: The duration that its Lease names.
        port: Where its kubelet serves logs to an API server that is not the local cluster's own; 0 for nowhere.
    """

    name: str
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    labels: Mapping[str, str] = field(default_factory=dict)
    heartbeat_seconds: float = 1.0
    status_every: int = 5
    lease_seconds: int = 40
    port: int = 0


class NodeReporter:
    """Registers a Node, and keeps its Lease and status fresh."""

    def __init__(self, spec: NodeSpec, link: Link, clock: Clock, *, address: str, runtime: str) -> None:
        self._spec = spec
        self._link = link
        self._clock = clock
        self._address = address
        self._runtime = runtime
        self._machine_id = uuid.uuid4().hex
        self.boot_id = str(uuid.uuid4())

    def reboot(self) -> None:
        """The machine starts anew: another boot ID."""
        self.boot_id = str(uuid.uuid4())

    async def register(self) -> None:
        """Makes the Node when there is none, and reports it ready."""
        labels = {
            "beta.kubernetes.io/arch": _architecture(),
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            "kubernetes.io/hostname": self._spec.name,
            "kubernetes.io/os": "linux",
            **self._spec.labels,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._spec.name, "labels": labels},
            "spec": {"providerID": f"local://{self._spec.name}"},
            "status": self._status({}),
        }
        try:
            await self._link.read(lambda api: api.create(NODES, None, body))
        except ApiError as error:
            if error.code != _ALREADY_EXISTS:
                raise
        await self.report()
        await self.renew()

    async def run(self) -> None:
        """Heartbeats for ever."""
        beats = 0
        while True:
            await self._clock.sleep(self._spec.heartbeat_seconds)
            beats += 1
            try:
                await self.renew()
                if beats % self._spec.status_every == 0:
                    await self.report()
            except ApiError as error:
                _LOG.warning("%s: a heartbeat was refused: %s", self._spec.name, error)

    async def report(self) -> None:
        """Writes the Node's status; a Node that was deleted is not made again."""
        name = self._spec.name
        try:
            node = await self._link.write(lambda api: api.get(NODES, None, name))
            body = {"metadata": {"uid": node["metadata"]["uid"]}, "status": self._status(node.get("status") or {})}
            await self._link.write(lambda api: api.patch(NODES, None, name, body, subresource="status"))
        except Gone:
            return

    async def renew(self) -> None:
        """Renews the Lease in ``kube-node-lease``, making it when there is none."""
        name = self._spec.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._spec.lease_seconds,
            "renewTime": _microtime(self._clock.now()),
        }
        try:
            await self._link.write(
                lambda api: api.patch(LEASES, LEASE_NAMESPACE, name, {"spec": spec}, content_type=MERGE_PATCH)
            )
        except Gone:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._link.read(lambda api: api.create(LEASES, LEASE_NAMESPACE, body))

    def _status(self, old: dict[str, Any]) -> dict[str, Any]:
        now = timestamp(self._clock.now())
        before = {condition["type"]: condition for condition in old.get("conditions") or ()}
        conditions = []
        for kind, status, reason, message in _CONDITIONS:
            known = before.get(kind, {})
            changed = known.get("status") != status
            conditions.append(
                {
                    "type": kind,
                    "status": status,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now if changed else known["lastTransitionTime"],
                    "reason": reason,
                    "message": message,
                }
            )
        return {
            "capacity": dict(self._spec.capacity),
            "allocatable": dict(self._spec.capacity),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": self._address},
                {"type": "Hostname", "address": self._spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._spec.port}},
            "nodeInfo": {
                "machineID": self._machine_id,
                "systemUUID": self._machine_id,
                "bootID": self.boot_id,
                "kernelVersion": platform.release(),
                "osImage": platform.platform(terse=True),
                "containerRuntimeVersion": self._runtime,
                "kubeletVersion": _KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": _architecture(),
            },
        }


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _microtime(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
