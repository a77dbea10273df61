"""The hook: a ``kubernetes`` connection, resolved once for worker and triggerer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_dispatch.adapter import Adapter, Settings
from airflow_dispatch.core.errors import ConfigurationError
from airflow_dispatch.core.snapshot import Site
from airflow_dispatch.hooks.connection import Connection, read_connection
from airflow_dispatch.hooks.deployment import configured_deployment
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub

__all__ = ["DispatchHook"]


class DispatchHook(BaseHook):
    """Reaches the cluster that a ``kubernetes`` connection names.

    :param kubernetes_conn_id: the connection's id. When ``kubernetes_default`` is not defined, an empty connection
        takes its place: the service account inside a cluster, else the default kubeconfig.
    :param namespace: where jobs live; None: the connection's ``namespace``, else ``default``.

    Its methods raise :class:`~airflow_dispatch.core.errors.ConfigurationError` when the connection is unknown or
    can't be read, naming the host that looked: worker and triggerer are often different hosts. The fields are listed
    in :mod:`airflow_dispatch.hooks.connection`.
    """

    conn_name_attr = "kubernetes_conn_id"
    default_conn_name = "kubernetes_default"
    conn_type = "kubernetes"
    hook_name = "Kubernetes Cluster Connection"

    def __init__(self, kubernetes_conn_id: str = default_conn_name, *, namespace: str | None = None) -> None:
        super().__init__()
        self.kubernetes_conn_id = kubernetes_conn_id
        self._namespace = namespace

    @cached_property
    def connection(self) -> Connection:
        """The connection, read; blocks on Airflow's API: in an event loop await :meth:`load` first."""
        return read_connection(self.kubernetes_conn_id, self._extra())

    async def load(self) -> Connection:
        """The connection, read in a thread."""
        return await asyncio.to_thread(lambda: self.connection)

    @property
    def namespace(self) -> str:
        """Where jobs live."""
        return self._namespace or self.connection.namespace

    @property
    def deployment(self) -> str:
        """The name of this Airflow deployment, part of every JobID (contract, section 13).

        Raises :class:`ConfigurationError` when nothing names it: two deployments that share a namespace would adopt
        each other's jobs.
        """
        name = self.connection.deployment or configured_deployment()
        if not name:
            raise ConfigurationError(
                "this Airflow deployment has no name, so its jobs could be taken for another deployment's: set "
                f"[dispatch] deployment, or dispatch_deployment in the extra of connection "
                f"{self.kubernetes_conn_id!r}, or [api] base_url"
            )
        return name

    @property
    def settings(self) -> Settings:
        """What the site says of all its jobs, for the adapter."""
        connection = self.connection
        return Settings(
            labels=connection.labels,
            annotations=connection.annotations,
            node_loss_taints=connection.node_loss_taints,
            disruption_taints=connection.disruption_taints,
            **({"unsafe_runtime": connection.unsafe_runtime} if connection.unsafe_runtime else {}),
        )

    @asynccontextmanager
    async def adapter(self) -> AsyncIterator[Adapter]:
        """An adapter with a client of its own, closed at the end."""
        await self.load()
        async with await KubeClient.connect(self.connection.cluster) as client:
            yield Adapter(client, self.namespace, self.settings)

    @asynccontextmanager
    async def hub(self) -> AsyncIterator[Hub]:
        """The watches on the namespace that all waiting tasks of this process share."""
        await self.load()
        connection = self.connection
        site = Site(node_loss_taints=connection.node_loss_taints, disruption_taints=connection.disruption_taints)
        async with shared_hub(connection.cluster, self.namespace, site=site) as hub:
            yield hub

    def get_conn(self) -> Any:
        """Not offered: a client lives in one event loop. Use :meth:`adapter`."""
        raise NotImplementedError("use adapter(): a client lives in one event loop")

    def _extra(self) -> dict[str, Any]:
        try:
            return dict(self.get_connection(self.kubernetes_conn_id).extra_dejson)
        except AirflowNotFoundException:
            if self.kubernetes_conn_id == self.default_conn_name:
                return {}
            raise ConfigurationError(
                f"connection {self.kubernetes_conn_id!r} is not known on host {socket.gethostname()}: workers and "
                "triggerers must all see it, through the metadata database, a secrets backend or "
                f"AIRFLOW_CONN_{self.kubernetes_conn_id.upper()}"
            ) from None
