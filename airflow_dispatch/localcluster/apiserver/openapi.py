"""As much OpenAPI v3 as kubectl asks for: operations to create and apply, fields to explain and to merge by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.patch import APPLY, JSON, MERGE, MERGE_KEYS, STRATEGIC
from airflow_dispatch.localcluster.apiserver.schema import types
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["document"]

_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_SCALARS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def document(group: str, version: str, resources: Sequence[Resource], server_version: str) -> Object:
    """The OpenAPI document of one group and version; descriptions are left out."""
    paths: Object = {}
    schemas: Object = {}
    for resource in resources:
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        collection = f"{root}{scope}/{resource.plural}"
        formats = [JSON, MERGE, APPLY] if resource.custom else [JSON, MERGE, STRATEGIC, APPLY]
        paths[collection] = {"post": _operation(resource, "post", ["application/json"])}
        paths[f"{collection}/{{name}}"] = {
            "patch": _operation(resource, "patch", formats),
            "put": _operation(resource, "put", ["application/json"]),
        }
        _describe(resource.kind, schemas)
        schemas[resource.kind]["x-kubernetes-group-version-kind"] = [_kind(resource)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _operation(resource: Resource, action: str, formats: list[str]) -> Object:
    reference = {"$ref": f"#/components/schemas/{resource.kind}"}
    return {
        "parameters": _PARAMETERS,
        "requestBody": {"content": {media: {"schema": reference} for media in formats}},
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
    }


def _describe(name: str, schemas: Object) -> None:
    """Adds the schema of a type and of all that it refers to."""
    if name in schemas:
        return
    schemas[name] = {"type": "object", "properties": {}}
    for field, kind in types()[name].items():
        schemas[name]["properties"][field] = _property(field, kind, schemas)


def _property(field: str, kind: str, schemas: Object) -> dict[str, Any]:
    if kind == "object":
        return {"type": "object"}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _property("", kind[2:], schemas)}
    if kind.startswith("[]"):
        found: Object = {"type": "array", "items": _property("", kind[2:], schemas)}
        if keys := MERGE_KEYS.get(field):
            known = types().get(kind[2:], {})
            found["x-kubernetes-patch-merge-key"] = next((key for key in keys if key in known), keys[0])
            found["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field == "volumes" else "merge"
        return found
    _describe(kind, schemas)
    return {"allOf": [{"$ref": f"#/components/schemas/{kind}"}]}
