"""Volumes: each becomes a folder or file on this machine, which the runtime shows at the mount path.

Known kinds: ``emptyDir``, ``configMap``, ``secret``, ``downwardAPI``, ``projected`` of these and of service account
tokens, and ``hostPath``, which is how a local folder gets into a pod. What they show is written once, when the pod
starts: a later change of a ConfigMap reaches new pods only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.kubelet.env import Place, ReadData, expand
from airflow_dispatch.localcluster.kubelet.fields import FieldError, container_resource, pod_field
from airflow_dispatch.localcluster.kubelet.runtime import Mount, StartError
from airflow_dispatch.localcluster.resources import CONFIGMAPS, SECRETS

__all__ = ["ReadToken", "VolumeError", "container_mounts", "prepare_volumes"]

ReadToken = Callable[[dict[str, Any]], Awaitable[str]]
"""Asks for a token of the pod's service account, as a ``serviceAccountToken`` source describes it."""

_NOT_FOUND = 404


class VolumeError(Exception):
    """A volume can't be made; the pod waits in ``ContainerCreating`` and its kubelet tries again."""


def _select(data: dict[str, bytes], source: dict[str, Any], what: str) -> dict[str, bytes]:
    """Which keys go to which paths."""
    items = source.get("items")
    if not items:
        return data
    chosen = {}
    for item in items:
        if item["key"] in data:
            chosen[item["path"]] = data[item["key"]]
        elif not source.get("optional"):
            raise VolumeError(f"references non-existent {what} key: {item['key']}")
    return chosen


class _Sources:
    """Reads what the sources of volumes refer to."""

    def __init__(self, pod: dict[str, Any], place: Place, read: ReadData, read_token: ReadToken) -> None:
        self._pod = pod
        self._place = place
        self._read = read
        self._read_token = read_token

    async def files(self, kind: str, source: dict[str, Any]) -> dict[str, bytes]:
        """Paths and contents of one source.

        Raises:
            VolumeError: What it refers to is missing, or it is of no known kind.
        """
        if kind in ("configMap", "secret"):
            resource = CONFIGMAPS if kind == "configMap" else SECRETS
            name = source.get("name") or source.get("secretName")
            try:
                data = await self._read(resource, str(name))
            except ApiError as error:
                if error.code == _NOT_FOUND and source.get("optional"):
                    return {}
                raise VolumeError(error.message) from error
            return _select(data, source, kind)
        if kind == "downwardAPI":
            return {item["path"]: self._downward(item).encode() for item in source.get("items") or ()}
        if kind == "serviceAccountToken":
            try:
                return {source["path"]: (await self._read_token(source)).encode()}
            except ApiError as error:
                raise VolumeError(error.message) from error
        if kind == "projected":
            files: dict[str, bytes] = {}
            for entry in source.get("sources") or ():
                for inner, of in entry.items():
                    files.update(await self.files(inner, of))
            return files
        raise VolumeError(f"the local cluster has no volumes of kind {kind}")

    def _downward(self, item: dict[str, Any]) -> str:
        try:
            if "fieldRef" in item:
                path = item["fieldRef"]["fieldPath"]
                return pod_field(self._pod, path, pod_ip=self._place.pod_ip, host_ip=self._place.host_ip)
            return container_resource(
                self._pod, item["resourceFieldRef"], container="", allocatable=self._place.allocatable
            )
        except FieldError as error:
            raise VolumeError(str(error)) from error


def _host_path(source: dict[str, Any]) -> Path:
    path = Path(source["path"])
    kind = source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    if not path.exists():
        raise VolumeError(f"hostPath type check failed: {path} does not exist")
    return path


async def prepare_volumes(
    pod: dict[str, Any], folder: Path, place: Place, read: ReadData, read_token: ReadToken
) -> dict[str, Path]:
    """Makes every volume of a pod below ``folder``; their paths by name.

    Raises:
        VolumeError: One can't be made.
    """
    sources = _Sources(pod, place, read, read_token)
    volumes = {}
    for volume in pod["spec"].get("volumes") or ():
        kind, source = next((key, value) for key, value in volume.items() if key != "name")
        if kind == "hostPath":
            volumes[volume["name"]] = _host_path(source)
            continue
        path = folder / volume["name"]
        path.mkdir(parents=True, exist_ok=True)
        if kind != "emptyDir":
            mode = source.get("defaultMode", 0o644)
            for name, content in (await sources.files(kind, source or {})).items():
                file = path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(mode)
        volumes[volume["name"]] = path
    return volumes


def container_mounts(container: dict[str, Any], volumes: dict[str, Path], env: dict[str, str]) -> tuple[Mount, ...]:
    """What a container's ``volumeMounts`` come to.

    Raises:
        StartError: A sub-path leaves its volume.
    """
    mounts = []
    for entry in container.get("volumeMounts") or ():
        source = volumes[entry["name"]]
        below = entry.get("subPath") or expand(entry.get("subPathExpr", ""), env)
        if below:
            wanted = (source / below).resolve()
            if not wanted.is_relative_to(source.resolve()):
                raise StartError("CreateContainerConfigError", f"subPath {below!r} leaves the volume")
            if not wanted.exists():
                wanted.mkdir(parents=True)
            source = wanted
        mounts.append(Mount(str(source), entry["mountPath"], bool(entry.get("readOnly"))))
    return tuple(mounts)
