"""etcd, API server, controller manager, scheduler, JobSet, Trainer and Kueue as ordinary processes on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from demo.services import Service, ServiceError
from tests.realcluster import manifests
from tests.realcluster.build import programs
from tests.realcluster.certificates import Certificates, new_token, write_kubeconfig

EVICTION_SECONDS: Final = 4
"""How long pods tolerate a lost Node: Kubernetes' default is 300."""

_KUEUE_METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")
"""Kueue reads this folder, and no other, when its own certificate management is off."""

_CORE_PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_CONTROLLERS = ("jobset", "trainer", "kueue")


class ControlPlane:
    """A running control plane; there are no Nodes until somebody's kubelet registers them.

    ``kubeconfig`` is an administrator's, ``server`` the API server's address, ``folder`` holds logs by process,
    ``certificates`` issues more.
    """

    def __init__(self, folder: Path, *, kueue: bool) -> None:
        self.folder = folder
        self.processes: dict[str, Service] = {}
        self._kueue = kueue
        self._logs = folder / "logs"
        self.certificates = Certificates(folder / "pki")
        self._token = new_token()
        names = [*_CORE_PORTS, *(f"{name}-{port}" for name in _CONTROLLERS for port in ("webhook", "health"))]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.server = f"https://127.0.0.1:{self._ports['kube-apiserver']}"
        self.kubeconfig = self._kubeconfig("admin", {"token": self._token})

    @property
    def resident_bytes(self) -> dict[str, int]:
        """Resident memory of each process."""
        return {name: process.resident_bytes for name, process in self.processes.items()}

    async def start(self) -> None:
        """Starts everything and returns when all is ready; raises :class:`ServiceError`, which names the process."""
        self._logs.mkdir()
        binaries = await asyncio.to_thread(programs)
        tls = ssl.create_default_context(cafile=str(self.certificates.authority))
        headers = {"Authorization": f"Bearer {self._token}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=headers) as session:
            self._start_etcd(binaries)
            await self._ready(session, "etcd", f"http://127.0.0.1:{self._ports['etcd']}/health")
            self._start_api_server(binaries)
            await self._ready(session, "kube-apiserver", f"{self.server}/readyz", seconds=90)
            self._start_core_controllers(binaries)
            await self._create_custom_resources(session)
            for namespace in ("kubeflow-system", "jobset-system", "kueue-system"):
                await self._create(session, "/api/v1/namespaces", _object("v1", "Namespace", namespace))
            controllers = [name for name in _CONTROLLERS if name != "kueue" or self._kueue]
            for name in controllers:
                self._start_controller(binaries, name)
            for name in controllers:
                await self._ready(session, name, f"http://127.0.0.1:{self._ports[f'{name}-health']}/readyz")
            ports = {name: self._ports[f"{name}-webhook"] for name in controllers}
            for document in await asyncio.to_thread(list, manifests.webhooks(self.certificates.authority_data, ports)):
                kind = document["kind"].lower() + "s"
                await self._create(session, f"/apis/admissionregistration.k8s.io/v1/{kind}", document)
            await self._ready(
                session,
                "kube-controller-manager",
                f"{self.server}/api/v1/namespaces/default/serviceaccounts/default",
            )

    def stop(self) -> None:
        """Ends every process: controllers by SIGTERM; etcd and API server, which hold nothing of worth, at once."""
        graceful = [process for name, process in self.processes.items() if name not in ("etcd", "kube-apiserver")]
        for process in graceful:
            process.terminate()
        for process in graceful:
            process.stop(patience=5)
        for name in ("kube-apiserver", "etcd"):
            if name in self.processes:
                self.processes[name].kill()

    # ------------------------------------------------------------ the processes

    def _spawn(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "AIRFLOW"))}
        log = self._logs / f"{name}.log"
        self.processes[name] = Service(name, command, log, {**inherited, **(environment or {})})

    def _start_etcd(self, binaries: Path) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "etcd-peer"))
        options = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
        self._spawn("etcd", [str(binaries / "etcd"), *_flags(options)])

    def _start_api_server(self, binaries: Path) -> None:
        certificates = self.certificates
        serving = certificates.server("kube-apiserver")
        kubelet_client, kubelet_client_key = certificates.client("kube-apiserver-kubelet-client", "system:masters")
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._token},admin,1,"system:masters"\n')
        options = {
            "etcd-servers": f"http://127.0.0.1:{self._ports['etcd']}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self._ports["kube-apiserver"],
            "endpoint-reconciler-type": "none",
            "tls-cert-file": serving / "tls.crt",
            "tls-private-key-file": serving / "tls.key",
            "client-ca-file": certificates.authority,
            "requestheader-client-ca-file": certificates.front_proxy_authority,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "requestheader-allowed-names": "front-proxy-client",
            "token-auth-file": tokens,
            "anonymous-auth": "false",
            "kubelet-client-certificate": kubelet_client,
            "kubelet-client-key": kubelet_client_key,
            "kubelet-preferred-address-types": "InternalIP",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.96.0.0/16",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": certificates.service_account_public_key,
            "service-account-signing-key-file": certificates.service_account_key,
            "cert-dir": self.folder / "kube-apiserver-certificates",
            "profiling": "false",
            "default-not-ready-toleration-seconds": EVICTION_SECONDS,
            "default-unreachable-toleration-seconds": EVICTION_SECONDS,
        }
        self._spawn("kube-apiserver", [str(binaries / "kube-apiserver"), *_flags(options)])

    def _start_core_controllers(self, binaries: Path) -> None:
        short_node_timings = {
            "node-monitor-period": "500ms",
            "node-monitor-grace-period": "5s",
            "node-startup-grace-period": "10s",
            "node-eviction-rate": 10,
            "secondary-node-eviction-rate": 10,
            # A zone of three Nodes is small: without these two, one lost Node in it stops or slows down all evictions.
            "large-cluster-size-threshold": 0,
            "unhealthy-zone-threshold": 1,
        }
        options = {
            "service-account-private-key-file": self.certificates.service_account_key,
            "root-ca-file": self.certificates.authority,
            "use-service-account-credentials": "true",
            "allocate-node-cidrs": "false",
            "kube-api-qps": 200,
            "kube-api-burst": 300,
            **short_node_timings,
        }
        for name, more in (("kube-controller-manager", options), ("kube-scheduler", {})):
            kubeconfig = self._client_kubeconfig(name, f"system:{name}", None)
            common = {
                "kubeconfig": kubeconfig,
                "authentication-kubeconfig": kubeconfig,
                "authorization-kubeconfig": kubeconfig,
                "bind-address": "127.0.0.1",
                "secure-port": self._ports[name],
                "leader-elect": "false",
                "cert-dir": self.folder / f"{name}-certificates",
                "profiling": "false",
            }
            self._spawn(name, [str(binaries / name), *_flags({**common, **more})])

    def _start_controller(self, binaries: Path, name: str) -> None:
        serving = self.certificates.server(f"{name}-webhook")
        configuration: dict[str, Any] = {
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports[f'{name}-health']}"},
            "webhook": {"host": "127.0.0.1", "port": self._ports[f"{name}-webhook"]},
        }
        program = name
        extra: list[str] = []
        environment: dict[str, str] = {}
        match name:
            case "jobset":
                configuration |= {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"}
                configuration["internalCertManagement"] = {"enable": False}
                configuration["webhook"]["certDir"] = str(serving)
            case "trainer":
                program = "trainer-controller-manager"
                configuration |= {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"}
                configuration["certManagement"] = {"enable": False}
                configuration["metrics"]["secureServing"] = False
                # Its certificate folder is fixed below the folder for temporary files: it gets one of its own.
                temporary = self.folder / "trainer"
                shutil.copytree(serving, temporary / "k8s-webhook-server" / "serving-certs")
                environment = {"TMPDIR": str(temporary)}
            case "kueue":
                configuration |= {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
                configuration |= {"namespace": "kueue-system", "internalCertManagement": {"enable": False}}
                configuration["webhook"]["certDir"] = str(serving)
                configuration["integrations"] = {
                    "frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"],
                }
                extra = ["--feature-gates", "VisibilityOnDemand=false"]
                try:
                    shutil.copytree(serving, _KUEUE_METRICS_CERTIFICATES, dirs_exist_ok=True)
                except PermissionError as error:
                    raise ServiceError(
                        f"kueue reads its certificate for metrics from {_KUEUE_METRICS_CERTIFICATES} alone, which may "
                        "not be written: make it writable, or start without Kueue",
                    ) from error
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(configuration))
        kubeconfig = self._client_kubeconfig(name, f"{name}-controller-manager", "system:masters")
        command = [str(binaries / program), "--config", str(path), "--kubeconfig", str(kubeconfig), *extra]
        self._spawn(name, command, environment)

    # ------------------------------------------------------------ talking to them

    def _kubeconfig(self, name: str, user: dict[str, Any]) -> Path:
        return write_kubeconfig(
            self.folder / f"{name}.kubeconfig",
            self.server,
            self.certificates.authority_data,
            user,
        )

    def _client_kubeconfig(self, name: str, user: str, group: str | None) -> Path:
        certificate, key = self.certificates.client(user, group)
        return self._kubeconfig(name, {"client-certificate": str(certificate), "client-key": str(key)})

    async def _ready(self, session: aiohttp.ClientSession, name: str, url: str, seconds: float = 60) -> None:
        process = self.processes[name]
        deadline = time.monotonic() + seconds
        while True:
            try:
                async with session.get(url, timeout=aiohttp.ClientTimeout(total=3)) as response:
                    if response.status == 200:
                        return
                    last = f"{response.status} {(await response.text())[:300]}"
            except (aiohttp.ClientError, TimeoutError) as error:
                last = repr(error)
            process.check()
            if time.monotonic() > deadline:
                raise ServiceError(f"{name}: {url} not ready after {seconds:.0f} s: {last}\n{process.tail()}")
            await asyncio.sleep(0.05)

    async def _create(self, session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
        async with session.post(self.server + path, json=body) as response:
            if response.status >= 300:
                raise ServiceError(f"creating {body['kind']} {body['metadata']['name']}: {await response.text()}")

    async def _create_custom_resources(self, session: aiohttp.ClientSession) -> None:
        webhook = self._ports["kueue-webhook"] if self._kueue else None
        documents = await asyncio.to_thread(
            list,
            manifests.custom_resources(self.certificates.authority_data, webhook),
        )
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for document in documents:
            await self._create(session, path, document)
        for document in documents:
            spec = document["spec"]
            version = next(version["name"] for version in spec["versions"] if version["storage"])
            served = f"{self.server}/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            await self._ready(session, "kube-apiserver", f"{served}?limit=1")


@contextlib.asynccontextmanager
async def control_plane(folder: Path | None = None, *, kueue: bool = True) -> AsyncIterator[ControlPlane]:
    """A control plane for as long as the block runs.

    What it writes goes into ``folder``, which stays, with a log for each process in ``logs``; without one into a
    temporary folder, which stays only when the block raises.
    """
    kept = folder is not None
    folder = folder or Path(tempfile.mkdtemp(prefix="realcluster-"))
    plane = ControlPlane(folder, kueue=kueue)
    try:
        await plane.start()
        yield plane
    finally:
        plane.stop()
    if not kept:
        shutil.rmtree(folder)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _flags(options: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
