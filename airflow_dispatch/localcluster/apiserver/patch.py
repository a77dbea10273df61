"""The patch formats: JSON merge (RFC 7396), JSON (RFC 6902), and strategic merge as far as clients use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch

from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request, unsupported_media_type
from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["APPLY", "JSON", "MERGE", "MERGE_KEYS", "SET_FIELDS", "STRATEGIC", "apply_patch", "merge", "strategic"]

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "port"),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Lists whose elements are merged by a key (the first that an element has), by the name of their field."""

SET_FIELDS: Final = frozenset({"finalizers"})
"""Lists of scalars that are merged as sets."""


def apply_patch(resource: Resource, obj: Object, body: Any, content_type: str) -> Object:
    """The object with the patch applied; server-side apply is not among these formats.

    Raises:
        ApiError: 415 for a format the kind does not take, 400 or 422 for a patch that cannot be applied.
    """
    if content_type == JSON:
        return _json_patch(obj, body)
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: the patch is not a JSON object")
    if content_type == MERGE:
        return merge(obj, body)  # type: ignore[no-any-return]
    if content_type == STRATEGIC and not resource.custom:
        return strategic(obj, body)
    accepted = [JSON, MERGE, APPLY] if resource.custom else [JSON, MERGE, STRATEGIC, APPLY]
    raise unsupported_media_type(accepted)


def _json_patch(obj: Object, body: Any) -> Object:
    try:
        result = jsonpatch.apply_patch(clone(obj), body)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise ApiError(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request: " + " ".join(str(error).split()),
            {},
        ) from error
    if not isinstance(result, dict):
        raise bad_request("error decoding patch: the result is not an object")
    return result


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396: objects merge, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = clone(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Object, patch: Object) -> Object:
    """Strategic merge: as a JSON merge, but known lists merge by key, and ``$`` directives are obeyed."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: clone(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result: Object = clone(target)
    if (kept := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        name, _, field = key.partition("/")
        if name == "$deleteFromPrimitiveList":
            result[field] = [item for item in result.get(field) or [] if item not in value]
        elif name == "$setElementOrder" and field not in patch and field in result:
            result[field] = _ordered(result[field], value, MERGE_KEYS.get(field, ()), result[field])
        elif not key.startswith("$"):
            _strategic_field(result, key, value, patch.get(f"$setElementOrder/{key}"))
    return result


def _strategic_field(result: Object, key: str, value: Any, order: list[Any] | None) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        present = result.get(key)
        result[key] = strategic(present if isinstance(present, dict) else {}, value)
    elif isinstance(value, list):
        result[key] = _strategic_list(key, result.get(key) or [], value, order)
    else:
        result[key] = value


def _strategic_list(field: str, present: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if field in SET_FIELDS:
        return present + [item for item in patch if item not in present]
    if {"$patch": "replace"} in patch:
        return [clone(item) for item in patch if item != {"$patch": "replace"}]
    keys = MERGE_KEYS.get(field, ())
    if not keys or not all(isinstance(item, dict) and _identity(item, keys) for item in patch):
        return [clone(item) for item in patch]
    result = list(present)
    for item in patch:
        wanted = _identity(item, keys)
        index = next((n for n, known in enumerate(result) if _identity(known, keys) == wanted), None)
        if item.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(strategic({}, item))
        else:
            result[index] = strategic(result[index], item)
    return _ordered(result, order or patch, keys, present)


def _identity(item: Object, keys: tuple[str, ...]) -> tuple[str, Any] | None:
    """What tells an element from its siblings: the first of the keys that it has, with its value."""
    return next(((key, item[key]) for key in keys if key in item), None)


def _ordered(items: list[Any], order: list[Any], keys: tuple[str, ...], present: list[Any]) -> list[Any]:
    """The elements in the order asked for, and those that it does not name put between them.

    As Kubernetes does it: such an element goes before the first of the others that followed it in ``present``, the
    list before the patch; so what is new in the patch comes before what the patch does not name.
    """

    def rank(item: Any, among: list[Any]) -> int:
        return among.index(item) if item in among else -1

    def identities(entries: list[Any]) -> list[Any]:
        return [_identity(entry, keys) if isinstance(entry, dict) else entry for entry in entries]

    wanted, before, all_items = identities(order), identities(present), identities(items)
    by_identity = list(zip(all_items, items, strict=True))
    named = sorted((pair for pair in by_identity if pair[0] in wanted), key=lambda pair: wanted.index(pair[0]))
    others = sorted((pair for pair in by_identity if pair[0] not in wanted), key=lambda pair: rank(pair[0], before))
    result = []
    while others and named:
        first = 0 <= rank(others[0][0], before) < rank(named[0][0], before)
        result.append((others if first else named).pop(0)[1])
    return [*result, *(item for _, item in (*others, *named))]
