"""Which cluster, and how to reach it: one explicit choice, the same on workers and triggerers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.kube_config import (
    list_kube_config_contexts,
    load_kube_config,
    load_kube_config_from_dict,
)

from airflow_dispatch.core.errors import ConfigurationError

__all__ = [
    "ClusterConfig",
    "Credentials",
    "context_namespace",
    "default_kubeconfig",
    "load_credentials",
    "runs_in_pod",
]

_TOKEN_FILE_PERIOD: Final = timedelta(seconds=60)
"""Tokens in files are renewed there by others (the kubelet renews a pod's own), so they are read again each minute."""

_EXPIRY_SKEW: Final = timedelta(seconds=30)

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

LOAD_SECONDS: Final = 60.0
"""What an exec plugin may take; one that waits for somebody to log in would hold up all who share the hub."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterConfig:
    """How to reach a cluster; equal configurations share one hub.

    ``kubeconfig`` is a path, ``kubeconfig_dict`` a kubeconfig itself; both exclude each other and ``in_cluster``.
    Without any of them the default kubeconfig is read (``KUBECONFIG``, else ``~/.kube/config``).
    ``namespace`` is where a caller that names none works.
    """

    kubeconfig: str | None = None
    kubeconfig_dict: Mapping[str, Any] | None = None
    context: str | None = None
    in_cluster: bool | None = None
    namespace: str | None = None
    verify_tls: bool = True

    @property
    def key(self) -> str:
        """Equal for configurations that come to the same."""
        return json.dumps(
            [self.kubeconfig, self.kubeconfig_dict, self.context, bool(self.in_cluster), self.verify_tls],
            sort_keys=True,
            default=str,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterConfig) and (self.key, self.namespace) == (other.key, other.namespace)

    def __hash__(self) -> int:
        return hash((self.key, self.namespace))

    def __repr__(self) -> str:
        inline = "inline" if self.kubeconfig_dict else None
        where = inline or self.kubeconfig or ("in-cluster" if self.in_cluster else "default kubeconfig")
        return f"ClusterConfig({where}, context={self.context!r})"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a loaded configuration comes to: address, bearer token or client certificate, and when to load it again."""

    server: str
    token: str | None
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    reload_at: datetime | None

    def __repr__(self) -> str:
        return f"Credentials({self.server})"


def runs_in_pod() -> bool:
    """This process has a pod's service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").is_file()


def context_namespace(config: ClusterConfig) -> str | None:
    """The namespace of the kubeconfig's context, or the pod's own; None when it names none.

    Reads files. Raises :class:`ConfigurationError`.
    """
    try:
        if config.in_cluster:
            return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or None
        contexts, current = list_kube_config_contexts(_path(config))
        meant = [each for each in contexts if each["name"] == config.context] if config.context else [current or {}]
        return next((each.get("context", {}).get("namespace") for each in meant), None)
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(_describe(config), error) from error


def default_kubeconfig() -> str:
    """The path that is read when a configuration names none."""
    return os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


async def load_credentials(config: ClusterConfig, *, now: datetime, tls: ssl.SSLContext | None = None) -> Credentials:
    """Loads address and credentials, running an exec plugin when the kubeconfig names one.

    ``tls`` is an earlier context to go on with; without it one is built, in a thread since that takes some 20 ms.
    Raises :class:`ConfigurationError`, which says which host looked where.
    """
    loaded = Configuration()
    loaded.verify_ssl = config.verify_tls
    where = _describe(config)
    reload_at = None
    try:
        if config.in_cluster:
            load_incluster_config(client_configuration=loaded, try_refresh_token=False)  # type: ignore[no-untyped-call]
            reload_at = now + _TOKEN_FILE_PERIOD
        else:
            async with asyncio.timeout(LOAD_SECONDS):
                loader = await _load_kubeconfig(config, loaded)
            expiry = getattr(loader, "exec_plugin_expiry", None)
            if expiry is not None:
                reload_at = expiry.astimezone(UTC) - _EXPIRY_SKEW
            elif loader._user and "tokenFile" in loader._user:  # noqa: SLF001 (the loader tells it nowhere else)
                reload_at = now + _TOKEN_FILE_PERIOD
    except TimeoutError as error:
        raise _unreadable(where, f"no answer from its exec plugin in {LOAD_SECONDS:g} s") from error
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(where, error) from error
    if not config.verify_tls:
        loaded.verify_ssl = False
    token = (loaded.api_key or {}).get("BearerToken")
    server = (loaded.host or "").rstrip("/")
    if server.startswith("https:") and tls is None:
        tls = await asyncio.to_thread(_tls_context, loaded, where)
    return Credentials(
        server=server,
        token=token.removeprefix("Bearer ") if token else None,
        tls=tls,
        server_name=getattr(loaded, "tls_server_name", None),
        proxy=loaded.proxy,
        reload_at=reload_at,
    )


def _describe(config: ClusterConfig) -> str:
    """Where a configuration is read from, in words."""
    if config.in_cluster:
        return "the pod's service account"
    if config.kubeconfig_dict is not None:
        return "the connection's inline kubeconfig"
    return f"kubeconfig {_path(config)}"


def _path(config: ClusterConfig) -> str:
    """One path, or several joined as ``KUBECONFIG`` has them."""
    return os.path.expanduser(config.kubeconfig or default_kubeconfig())  # noqa: PTH111 (may be several)


async def _load_kubeconfig(config: ClusterConfig, into: Configuration) -> Any:
    if config.kubeconfig_dict is not None:
        content = dict(config.kubeconfig_dict)
        return await load_kube_config_from_dict(content, context=config.context, client_configuration=into)
    path = _path(config)
    if not await asyncio.to_thread(_any_exists, path.split(os.pathsep)):
        raise ConfigurationError(f"there is no kubeconfig at {path} on host {socket.gethostname()}")
    return await load_kube_config(config_file=path, context=config.context, client_configuration=into)


def _any_exists(paths: list[str]) -> bool:
    return any(os.path.exists(path) for path in paths)  # noqa: PTH110 (as they stand in KUBECONFIG)


def _tls_context(loaded: Configuration, where: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=loaded.ssl_ca_cert or None)
        if loaded.cert_file:
            context.load_cert_chain(loaded.cert_file, keyfile=loaded.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable(f"a certificate of {where}", error) from error
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _unreadable(where: str, error: Exception | str) -> ConfigurationError:
    return ConfigurationError(f"{where} could not be used on host {socket.gethostname()}: {error}")
