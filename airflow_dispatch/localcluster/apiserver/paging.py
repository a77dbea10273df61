"""Lists in pages that show one moment, whatever is written between two of them."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from airflow_dispatch.localcluster.apiserver.errors import bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object, clone, key_of
from airflow_dispatch.localcluster.apiserver.selectors import Selection
from airflow_dispatch.localcluster.apiserver.store import Store
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Listing", "page"]


class Listing(NamedTuple):
    """Objects as they stood at one resourceVersion.

    ``continue_token`` is not empty when more follow; ``remaining`` then says how many, unless a selector is in use.
    """

    items: list[Object]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


def page(store: Store, resource: Resource, selects: Selection, limit: int, continue_token: str) -> Listing:
    """One page of the selected objects.

    Raises:
        ApiError: 400 for a token that is not ours, 410 when its moment is no longer in the history.
    """
    if continue_token:
        version, start = _decode(continue_token)
        objects = [obj for obj in store.items_at(resource, version) if key_of(resource, obj) > start]
    else:
        version, objects = store.version, store.items(resource)
    selected = [obj for obj in objects if selects(obj)]
    if not limit or len(selected) <= limit:
        return Listing([clone(obj) for obj in selected], str(version))
    shown = selected[:limit]
    token = _encode(version, key_of(resource, shown[-1]))
    remaining = None if selects.filters else len(selected) - limit
    return Listing([clone(obj) for obj in shown], str(version), token, remaining)


def _encode(version: int, last: tuple[str, str]) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": list(last)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[int, tuple[str, str]]:
    try:
        body = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = body["start"]
        return int(body["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
