"""The environment and command line of a container: ``env``, ``envFrom``, references and ``$(NAME)``."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.kubelet.fields import FieldError, container_resource, pod_field
from airflow_dispatch.localcluster.kubelet.runtime import StartError
from airflow_dispatch.localcluster.resources import CONFIGMAPS, SECRETS, Resource

__all__ = ["Place", "ReadData", "container_env", "expand", "object_data"]

ReadData = Callable[[Resource, str], Awaitable[dict[str, bytes]]]
"""Reads the keys of a ConfigMap or Secret of the pod's namespace; raises ApiError."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")
_NOT_FOUND: Final = 404
_CONFIG_ERROR: Final = "CreateContainerConfigError"


class Place:
    """Where a pod runs: what the downward API says of it beyond the object itself."""

    def __init__(self, pod_ip: str, host_ip: str, allocatable: Mapping[str, str]) -> None:
        self.pod_ip = pod_ip
        self.host_ip = host_ip
        self.allocatable = allocatable


def object_data(resource: Resource, obj: dict[str, Any]) -> dict[str, bytes]:
    """The keys of a ConfigMap or Secret with their contents."""
    data = obj.get("data") or {}
    if resource == SECRETS:
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary = obj.get("binaryData") or {}
    return {
        **{key: value.encode() for key, value in data.items()},
        **{key: base64.b64decode(value) for key, value in binary.items()},
    }


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replaces ``$(NAME)`` by the variable's value; an unknown name stays as it is, ``$$`` is a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


async def _referred(read: ReadData, resource: Resource, source: dict[str, Any]) -> dict[str, bytes] | None:
    """The keys of a referred object; None when it is missing and that is permitted."""
    name = str(source["name"])
    try:
        return await read(resource, name)
    except ApiError as error:
        if error.code != _NOT_FOUND:
            raise
        if source.get("optional"):
            return None
        raise StartError(_CONFIG_ERROR, f'{resource.singular} "{name}" not found') from error


async def _from_sources(container: dict[str, Any], read: ReadData) -> dict[str, str]:
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix", "")
        for key, resource in (("configMapRef", CONFIGMAPS), ("secretRef", SECRETS)):
            if key in source:
                data = await _referred(read, resource, source[key]) or {}
                env.update({prefix + name: value.decode(errors="replace") for name, value in data.items()})
    return env


async def _value_from(
    pod: dict[str, Any], container: str, source: dict[str, Any], place: Place, read: ReadData
) -> str | None:
    if "fieldRef" in source:
        return pod_field(pod, source["fieldRef"]["fieldPath"], pod_ip=place.pod_ip, host_ip=place.host_ip)
    if "resourceFieldRef" in source:
        return container_resource(pod, source["resourceFieldRef"], container=container, allocatable=place.allocatable)
    for key, resource in (("configMapKeyRef", CONFIGMAPS), ("secretKeyRef", SECRETS)):
        if key in source:
            reference = source[key]
            data = await _referred(read, resource, reference)
            if data is not None and reference["key"] in data:
                return data[reference["key"]].decode(errors="replace")
            if data is None or reference.get("optional"):
                return None
            namespace = pod["metadata"]["namespace"]
            message = f"couldn't find key {reference['key']} in {resource.kind} {namespace}/{reference['name']}"
            raise StartError(_CONFIG_ERROR, message)
    raise FieldError(f"unsupported valueFrom: {', '.join(source)}")


async def container_env(pod: dict[str, Any], container: dict[str, Any], place: Place, read: ReadData) -> dict[str, str]:
    """The variables that the pod's specification gives a container, in order, each able to use those before it.

    Raises:
        StartError: ``CreateContainerConfigError``: something it refers to is missing.
    """
    env = await _from_sources(container, read)
    for variable in container.get("env") or ():
        name = variable["name"]
        if "valueFrom" not in variable:
            env[name] = expand(variable.get("value") or "", env)
            continue
        try:
            value = await _value_from(pod, container["name"], variable["valueFrom"], place, read)
        except FieldError as error:
            raise StartError(_CONFIG_ERROR, str(error)) from error
        if value is not None:
            env[name] = value
    return env
