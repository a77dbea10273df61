"""What a request's path, query and body mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from airflow_dispatch.localcluster.apiserver.access import Attributes
from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request, path_not_found
from airflow_dispatch.localcluster.apiserver.protobuf import decode
from airflow_dispatch.localcluster.resources import NAMESPACES, Resource

__all__ = ["DeleteOptions", "Routes", "Target", "body_of", "dry_run", "flag"]


@dataclass(frozen=True)
class Target:
    """What a path points at: a kind, or one object, or a subresource of it."""

    resource: Resource
    namespace: str
    name: str = ""
    subresource: str = ""

    def attributes(self, method: str, *, watching: bool) -> Attributes:
        """What the authorizer is asked."""
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, "get")
        if not self.name:
            verb = {"get": "watch" if watching else "list", "delete": "deletecollection"}.get(verb, verb)
        return Attributes(verb, self.resource.group, self.resource.plural, self.subresource, self.namespace, self.name)


class Routes:
    """Finds the kind that a path names."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._known = {(entry.group, entry.version, entry.plural): entry for entry in resources}

    def find(self, path: str) -> Target:
        """The target of a path below ``/api`` or ``/apis``.

        Raises:
            ApiError: 404 for a path that nothing serves.
        """
        match path.strip("/").split("/"):
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                raise path_not_found()
        namespace = ""
        match rest:
            case [NAMESPACES.plural, _] | [NAMESPACES.plural, _, "status" | "finalize"]:
                pass
            case [NAMESPACES.plural, namespace, *below]:
                rest = below
        match rest:
            case [plural]:
                name = subresource = ""
            case [plural, name]:
                subresource = ""
            case [plural, name, subresource]:
                pass
            case _:
                raise path_not_found()
        resource = self._known.get((group, version, plural))
        if resource is None or (subresource and subresource not in resource.subresources):
            raise path_not_found()
        if resource.namespaced is not bool(namespace) and (namespace or name):
            raise path_not_found()
        return Target(resource, namespace, name, subresource)


def body_of(raw: bytes, content_type: str) -> Any:
    """The decoded body; YAML where the media type says so.

    Raises:
        ApiError: 400 for a body that cannot be read, 415 for an encoding that is not served.
    """
    if "protobuf" in content_type:
        return decode(raw)
    try:
        if "yaml" in content_type:
            return yaml.safe_load(raw)
        return json.loads(raw)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON or YAML): {error}") from error


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean of the query."""
    return query.get(name, "").lower() in ("true", "1")


def dry_run(values: Iterable[str]) -> bool:
    """Whether nothing is to be stored.

    Raises:
        ApiError: 422 for anything but ``All``.
    """
    wanted = list(values)
    if any(value != "All" for value in wanted):
        raise ApiError(
            422,
            "Invalid",
            f'meta.k8s.io "" is invalid: dryRun: Unsupported value: {json.dumps(wanted)}: supported values: "All"',
        )
    return bool(wanted)


@dataclass(frozen=True)
class DeleteOptions:
    """How a deletion is asked for."""

    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    grace_period: int | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str], dry_runs: Iterable[str], body: Any) -> DeleteOptions:
        """From the query and the optional body; the body wins."""
        options = body if isinstance(body, dict) else {}
        preconditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        propagation = options.get("propagationPolicy") or query.get("propagationPolicy")
        orphan = options.get("orphanDependents", query.get("orphanDependents"))
        if propagation is None and orphan is not None:
            propagation = "Orphan" if str(orphan).lower() == "true" else "Background"
        try:
            seconds = None if grace is None else int(grace)
        except ValueError:
            raise bad_request(f"gracePeriodSeconds: cannot parse {grace!r} as a number") from None
        return cls(
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=propagation,
            grace_period=seconds,
            dry_run=dry_run([*dry_runs, *(options.get("dryRun") or ())]),
        )
