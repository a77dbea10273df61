"""The names of pods: what the cluster's DNS and a kubelet's ``/etc/hosts`` together answer.

A pod with ``hostname`` and ``subdomain`` is known in its namespace as ``<hostname>.<subdomain>`` and by the longer
forms up to ``.svc.cluster.local``, ready or not, as through a headless Service that publishes addresses of pods that
are not ready (the kind that JobSet makes). Each pod has a hosts file with its own name and those of its namespace's
pods; it is rewritten in place, on the same inode, since it is mounted into running containers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

__all__ = ["PodNames", "hostname_of"]

_HEADER: Final = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


def hostname_of(pod: dict[str, Any]) -> str:
    """What the pod calls itself: ``spec.hostname``, else its name, at most 63 characters."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def _names(pod: dict[str, Any]) -> list[str]:
    subdomain = pod["spec"].get("subdomain")
    if not subdomain or not pod["spec"].get("hostname"):
        return []
    short = f"{pod['spec']['hostname']}.{subdomain}"
    namespace = pod["metadata"]["namespace"]
    return [f"{short}.{namespace}.svc.cluster.local", f"{short}.{namespace}.svc", f"{short}.{namespace}", short]


class PodNames:
    """The names of all pods of a cluster, and the hosts files of those that run here."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, str]] = {}
        self._files: dict[str, tuple[str, Path, str]] = {}

    def open_file(self, pod: dict[str, Any], address: str, path: Path) -> None:
        """Writes the pod's hosts file, and keeps it current until :meth:`forget`."""
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        own = [*_names(pod), hostname_of(pod)]
        self._files[uid] = (namespace, path, f"{address}\t{' '.join(own)}\n")
        self._write(uid)
        self.publish(pod, address)

    def publish(self, pod: dict[str, Any], address: str) -> None:
        """Makes a pod's names known in its namespace."""
        names = _names(pod)
        if not names:
            return
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        lines = self._lines.setdefault(namespace, {})
        line = f"{address}\t{' '.join(names)}\n"
        if lines.get(uid) != line:
            lines[uid] = line
            self._rewrite(namespace)

    def forget(self, pod: dict[str, Any]) -> None:
        """The pod is gone: its names are, and its file is kept no longer."""
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        self._files.pop(uid, None)
        if self._lines.get(namespace, {}).pop(uid, None) is not None:
            self._rewrite(namespace)

    def _rewrite(self, namespace: str) -> None:
        for uid, (of, _, _) in self._files.items():
            if of == namespace:
                self._write(uid)

    def _write(self, uid: str) -> None:
        namespace, path, own = self._files[uid]
        # Newest first: while a pod and its successor of the same name are both there, the name is the successor's.
        others = (line for of, line in reversed(self._lines.get(namespace, {}).items()) if of != uid)
        text = _HEADER + own + "".join(others)
        if not path.exists():
            path.write_text(text)
            return
        with path.open("r+") as file:
            file.write(text)
            file.truncate()
