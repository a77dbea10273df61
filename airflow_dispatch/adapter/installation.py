"""What is installed on a cluster, as far as anybody may ask: versions, kinds, their fields, and the server's clock."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from airflow_dispatch.adapter.report import Finding
from airflow_dispatch.core.errors import NotFound
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import Resource

__all__ = ["clock_finding", "look_at_installation"]

_OLDEST_KUBERNETES: Final = (1, 29)
"""From here on the Job controller honours ``podReplacementPolicy: Failed`` without a feature gate."""

_CLOCK_SKEW: Final = timedelta(seconds=5)


class _Feature(NamedTuple):
    """A field without which something does not work; ``field`` is a path from the object's root."""

    resource: Resource
    field: str
    why: str


_FEATURES: Final = (
    _Feature(paths.TRAINJOBS, "spec.runtimePatches", "it carries the job's identity to its pods"),
    _Feature(paths.TRAINJOBS, "spec.suspend", "a job is created suspended, and a hold suspends it"),
    _Feature(paths.TRAINJOBS, "spec.activeDeadlineSeconds", "it is a job's time limit"),
    _Feature(paths.JOBSETS, "spec.suspend", "what may still run is asked of it"),
    _Feature(paths.JOBSETS, "status.restarts", "it tells the executions of one admission apart"),
)
_PRODUCTS: Final = {
    paths.TRAINJOBS.group: ("Kubeflow Trainer", "2.3"),
    paths.JOBSETS.group: ("JobSet", "0.12"),
    paths.WORKLOADS.group: ("Kueue", "0.19"),
}


async def look_at_installation(client: KubeClient, *, kueue: bool) -> list[Finding]:
    """Kubernetes' version, the clock, and whether Trainer, JobSet and Kueue serve what is needed of them.

    Raises :class:`Unreachable` when the cluster does not answer.
    """
    before = datetime.now(UTC)
    version = await client.document("/version")
    after = datetime.now(UTC)
    found = [
        _kubernetes(version.body),
        clock_finding(version.date, before, after) if version.date is not None else None,
    ]
    resources = [paths.TRAINJOBS, paths.JOBSETS, *([paths.WORKLOADS] if kueue else [])]
    products = await asyncio.gather(*(_product(client, resource) for resource in resources))
    return [*(each for each in found if each is not None), *(each for of_one in products for each in of_one)]


def clock_finding(server: datetime, before: datetime, after: datetime) -> Finding | None:
    """What the clocks differ by, when that matters.

    ``server`` is cut to the second; it was read between ``before`` and ``after``.
    """
    ahead = before - (server + timedelta(seconds=1))
    behind = server - after
    if max(ahead, behind) <= _CLOCK_SKEW:
        return None
    seconds = max(ahead, behind).total_seconds()
    host = socket.gethostname()
    return Finding(
        f"the clock of host {host} is {seconds:.0f} s {'ahead of' if ahead > behind else 'behind'} the API server's",
        "how long something has lasted is judged by comparing this clock with times that the cluster wrote",
        f"synchronize the clock of {host}, or of the control plane, with NTP",
    )


def _kubernetes(version: Mapping[str, Any]) -> Finding | None:
    numbers = re.match(r"v?(\d+)\.(\d+)", str(version.get("gitVersion", "")))
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= _OLDEST_KUBERNETES:
        return None
    oldest = ".".join(map(str, _OLDEST_KUBERNETES))
    return Finding(
        f"Kubernetes {version['gitVersion']} is older than {oldest}",
        "its Job controller may start a pod beside one that still runs, whatever the runtime says",
        f"upgrade the cluster to Kubernetes {oldest} or newer",
    )


async def _product(client: KubeClient, resource: Resource) -> list[Finding]:
    """Whether a kind is served, with the fields that are needed of it."""
    product, supported = _PRODUCTS[resource.group]
    install = f"have an administrator install {product} {supported}"
    try:
        served = await client.document(f"/apis/{resource.api}")
    except NotFound:
        served = None
    names = {each.get("name") for each in served.body.get("resources") or ()} if served is not None else set()
    if resource.plural not in names:
        return [Finding(f"{product} is not there: {resource.api} has no {resource.plural}", "jobs need it", install)]
    try:
        document = await client.document(f"/openapi/v3/apis/{resource.api}")
    except NotFound:
        return []  # a server without OpenAPI v3 tells nobody; the dry run still shows what it takes
    schemas = (document.body.get("components") or {}).get("schemas") or {}
    return [
        Finding(f"{resource.kind} has no field {each.field}: it is not {product} {supported}", each.why, install)
        for each in _FEATURES
        if each.resource is resource and not _has(schemas, _schema_of(schemas, resource), each.field.split("."))
    ]


def _schema_of(schemas: Mapping[str, Any], resource: Resource) -> Mapping[str, Any] | None:
    """The schema that says of itself that it is this kind; others may have its name."""
    for schema in schemas.values():
        for each in schema.get("x-kubernetes-group-version-kind") or ():
            if (each.get("group"), each.get("kind")) == (resource.group, resource.kind):
                return dict(schema)
    return None


def _has(schemas: Mapping[str, Any], schema: Mapping[str, Any] | None, path: list[str]) -> bool:
    """Whether a field is there; of a schema that can't be followed nothing bad is said."""
    if schema is None or not path:
        return True
    references = [schema.get("$ref"), *(each.get("$ref") for each in schema.get("allOf") or ())]
    for reference in references:
        if isinstance(reference, str):
            return _has(schemas, schemas.get(reference.rpartition("/")[2]), path)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return True
    return path[0] in properties and _has(schemas, properties[path[0]], path[1:])
