"""What a ``kubernetes`` connection says of a cluster and of dispatch: one resolution, used by worker and triggerer.

The connection type is the cncf provider's. Its fields lie in ``extra``, those of old connections under the prefix
``extra__kubernetes__``:

========================= ============== ======================================================================
extra                     type           meaning
========================= ============== ======================================================================
``in_cluster``            bool           the service account of the pod this runs in
``kube_config_path``      str            a kubeconfig on the host, the worker's and the triggerer's alike
``kube_config``           str or dict    a kubeconfig itself, as JSON or YAML text or as an object; a secret
``cluster_context``       str            which of the kubeconfig's contexts
``namespace``             str            where jobs go when the operator names no namespace
``disable_verify_ssl``    bool           take any certificate
``dispatch_*``            see below      settings of this provider
========================= ============== ======================================================================

The first three exclude each other. Without any of them: the pod's service account inside a cluster, else the default
kubeconfig (``KUBECONFIG``, else ``~/.kube/config``). ``dispatch_deployment`` (str) names the Airflow deployment;
``dispatch_labels`` and ``dispatch_annotations`` (objects) go onto every TrainJob; ``dispatch_node_loss_taints`` and
``dispatch_disruption_taints`` (lists of taint keys) add to the well-known ones; ``dispatch_unsafe_runtime`` is
``refuse``, ``harden`` or ``allow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from airflow_dispatch.core.errors import ConfigurationError
from airflow_dispatch.kube.config import ClusterConfig, runs_in_pod

__all__ = ["Connection", "read_connection"]

DEFAULT_NAMESPACE: Final = "default"
_OLD_PREFIX: Final = "extra__kubernetes__"
_WAYS: Final = ("in_cluster", "kube_config_path", "kube_config")
_UNSAFE_RUNTIME: Final = ("refuse", "harden", "allow")


@dataclass(frozen=True)
class Connection:
    """A connection as this provider understands it. ``cluster`` may hold secrets: it never leaves the process."""

    conn_id: str
    cluster: ClusterConfig = field(repr=False)
    namespace: str
    deployment: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_loss_taints: tuple[str, ...] = ()
    disruption_taints: tuple[str, ...] = ()
    unsafe_runtime: str | None = None


def read_connection(conn_id: str, extra: Mapping[str, Any], *, in_pod: bool | None = None) -> Connection:
    """Reads the ``extra`` of a connection.

    ``in_pod`` says whether this process runs in a pod with a service account; None: look. Raises
    :class:`ConfigurationError`, which names the connection and the field and never a secret.
    """
    reader = _Reader(conn_id, extra)
    chosen = [name for name in _WAYS if reader.get(name) not in (None, False, "false", "False")]
    if len(chosen) > 1:
        raise ConfigurationError(f"connection {conn_id!r} names the cluster in {len(chosen)} ways: {', '.join(chosen)}")
    in_cluster = reader.boolean("in_cluster")
    if not chosen and in_cluster is None and (runs_in_pod() if in_pod is None else in_pod):
        in_cluster = True
    namespace = reader.text("namespace")
    unsafe_runtime = reader.text("dispatch_unsafe_runtime")
    if unsafe_runtime is not None and unsafe_runtime not in _UNSAFE_RUNTIME:
        raise reader.wrong("dispatch_unsafe_runtime", f"one of {', '.join(_UNSAFE_RUNTIME)}")
    return Connection(
        conn_id=conn_id,
        cluster=ClusterConfig(
            kubeconfig=reader.path("kube_config_path"),
            kubeconfig_dict=reader.document("kube_config"),
            context=reader.text("cluster_context"),
            in_cluster=bool(in_cluster),
            namespace=namespace,
            verify_tls=not reader.boolean("disable_verify_ssl"),
        ),
        namespace=namespace or DEFAULT_NAMESPACE,
        deployment=reader.text("dispatch_deployment"),
        labels=reader.texts("dispatch_labels"),
        annotations=reader.texts("dispatch_annotations"),
        node_loss_taints=reader.names("dispatch_node_loss_taints"),
        disruption_taints=reader.names("dispatch_disruption_taints"),
        unsafe_runtime=unsafe_runtime,
    )


class _Reader:
    """Typed access to the fields of one connection's ``extra``; an empty value counts as absent."""

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        self._conn_id = conn_id
        self._extra = extra

    def get(self, name: str) -> Any:
        value = self._extra[name] if name in self._extra else self._extra.get(_OLD_PREFIX + name)
        return None if value in ("", {}, []) else value

    def wrong(self, name: str, expected: str) -> ConfigurationError:
        return ConfigurationError(f"connection {self._conn_id!r}: extra {name!r} must be {expected}")

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "text")
        return value

    def path(self, name: str) -> str | None:
        value = self.text(name)
        return str(Path(value).expanduser()) if value else None

    def boolean(self, name: str) -> bool | None:
        value = self.get(name)
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            value = value.strip().lower() == "true"
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def document(self, name: str) -> dict[str, Any] | None:
        value = self.get(name)
        if isinstance(value, str):
            try:
                value = yaml.safe_load(value)
            except yaml.YAMLError:
                value = "unreadable"
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "a kubeconfig as JSON or YAML text, or as an object")
        return value

    def texts(self, name: str) -> dict[str, str]:
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
            raise self.wrong(name, "an object whose values are text")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        value = self.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self.wrong(name, "a list of text")
        return tuple(value)
