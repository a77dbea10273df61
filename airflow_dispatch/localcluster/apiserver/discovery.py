"""What the server says about itself: groups, resources, version, and as much OpenAPI as kubectl asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.openapi import document
from airflow_dispatch.localcluster.resources import JOBS, PODS, SERVICES, Resource

__all__ = ["AGGREGATED", "Discovery"]

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The media type of aggregated discovery."""

_VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+airflow-dispatch-local",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_ALL_CATEGORY: Final = (PODS, SERVICES, JOBS)
"""What ``kubectl get all`` shows."""

_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCES: Final[Mapping[str, tuple[str, str, str, list[str]]]] = {
    "status": ("", "", "", ["get", "patch", "update"]),
    "finalize": ("", "", "", ["update"]),
    "log": ("", "", "", ["get"]),
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
}
"""Group, version and kind where they are not the parent's, and verbs."""

_REVIEWS: Final = (
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"),
)
"""Kinds that can only be created, to ask a question."""


class Discovery:
    """The documents of one set of kinds."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._versions: dict[tuple[str, str], list[Resource]] = defaultdict(list)
        for resource in resources:
            self._versions[resource.group, resource.version].append(resource)

    @property
    def version(self) -> Object:
        """``/version``."""
        return dict(_VERSION)

    @property
    def _groups(self) -> list[tuple[str, str]]:
        """Group and version of all groups but the core."""
        reviews = [(group, version) for group, version, _, _ in _REVIEWS]
        return [key for key in self._versions if key[0]] + reviews

    def core_versions(self, address: str) -> Object:
        """``/api``."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def groups(self) -> Object:
        """``/apis``."""
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [self._group(group, version) for group, version in self._groups],
        }

    def group(self, group: str) -> Object | None:
        """``/apis/<group>``, or None for one that is not served."""
        for name, version in self._groups:
            if name == group:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name, version)}
        return None

    @staticmethod
    def _group(group: str, version: str) -> Object:
        served = {"groupVersion": f"{group}/{version}", "version": version}
        return {"name": group, "versions": [served], "preferredVersion": served}

    def resources(self, group: str, version: str) -> Object | None:
        """``/api/v1`` or ``/apis/<group>/<version>``, or None."""
        if (group, version) not in {("", "v1"), *self._groups}:
            return None
        entries: list[Object] = []
        for resource in self._versions.get((group, version), ()):
            entry: Object = {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": _VERBS,
            }
            if resource.short_names:
                entry["shortNames"] = list(resource.short_names)
            if resource in _ALL_CATEGORY:
                entry["categories"] = ["all"]
            entries.append(entry)
            entries.extend(self._subresource(resource, name) for name in resource.subresources)
        for review_group, review_version, plural, kind in _REVIEWS:
            if (review_group, review_version) == (group, version):
                entries.append(
                    {
                        "name": plural,
                        "singularName": kind.lower(),
                        "namespaced": False,
                        "kind": kind,
                        "verbs": ["create"],
                    }
                )
        api_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}

    @staticmethod
    def _subresource(resource: Resource, name: str) -> Object:
        group, version, kind, verbs = _SUBRESOURCES[name]
        entry: Object = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind or resource.kind,
            "verbs": verbs,
        }
        if group:
            entry |= {"group": group, "version": version}
        return entry

    def aggregated(self, *, core: bool) -> Object:
        """``/api`` or ``/apis`` as an ``APIGroupDiscoveryList``: all resources in one answer."""
        keys = [("", "v1")] if core else self._groups
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [self._discovered(group, version) for group, version in keys],
        }

    def _discovered(self, group: str, version: str) -> Object:
        resources: list[Object] = []
        for entry in (self.resources(group, version) or {})["resources"]:
            kind = {
                "group": entry.get("group", group),
                "version": entry.get("version", version),
                "kind": entry["kind"],
            }
            name, _, subresource = entry["name"].partition("/")
            if subresource:
                resources[-1].setdefault("subresources", []).append(
                    {"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]}
                )
                continue
            found: Object = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if entry["namespaced"] else "Cluster",
                "singularResource": entry["singularName"],
                "verbs": entry["verbs"],
            }
            found |= {key: entry[key] for key in ("shortNames", "categories") if key in entry}
            resources.append(found)
        metadata: Object = {"name": group} if group else {}
        return {
            "metadata": metadata,
            "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
        }

    def openapi_paths(self) -> Object:
        """``/openapi/v3``."""
        names = ["api/v1"] + [f"apis/{group}/{version}" for group, version in self._groups]
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}

    def openapi(self, group: str, version: str) -> Object | None:
        """The OpenAPI document of one group, or None."""
        if self.resources(group, version) is None:
            return None
        return document(group, version, self._versions.get((group, version), []), _VERSION["gitVersion"])
