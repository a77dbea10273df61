"""A dump, as ``kubectl get ... -o json`` prints it, classified with no cluster at hand (contract, section 14).

Whatever stands in the List, there is an answer: an object that is not of its documented shape is read in part, and what
is said of its job names the part that was left out.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.core.objects import Object
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import Unreadable, decode_record
from airflow_dispatch.kube.observing import observations
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store
from airflow_dispatch.recording.replaying import RESOURCES

__all__ = ["Dump", "classify_dump"]

_DEFAULT_NAMESPACE: Final = "default"
_ORDER: Final = {resource.kind: place for place, resource in enumerate(RESOURCES.values())}
"""TrainJobs first, since others are found through them, and Nodes last, since they belong to pods."""


class Dump(NamedTuple):
    """What a dump says of each object of ours, and what could not be read and belongs to none of them."""

    observations: list[Observation]
    notes: list[str]


class _List(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _Item(NamedTuple):
    resource: Resource
    record: Object

    @property
    def namespace(self) -> str:
        return self.record.metadata.namespace or _DEFAULT_NAMESPACE


class _Type(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def classify_dump(text: bytes, now: datetime) -> Dump:
    """One observation for each object of ours, namespace by namespace.

    ``now`` is the clock that says for how long something has lasted. Raises :class:`InvalidFile` when the text is not
    JSON or no List.
    """
    found = _decode(text)
    notes: list[str] = []
    items: list[_Item] = []
    for number, raw in enumerate(found.items or (), 1):
        item = _item(raw, found.kind.removesuffix("List"))
        if isinstance(item, str):
            notes.append(f"item {number} {item}")
        elif item is not None:
            items.append(item)
    items.sort(key=lambda item: _ORDER[item.resource.kind])
    nodes = [item for item in items if not item.resource.namespaced]
    by_namespace: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        if item.resource.namespaced:
            by_namespace[item.namespace].append(item)
    seen = [each for name, own in by_namespace.items() for each in _observe(name, [*own, *nodes], now)]
    return Dump(seen, notes)


def _decode(text: bytes) -> _List:
    if not text.strip():
        raise InvalidFile("the file is empty: kubectl may have failed")
    try:
        found = msgspec.json.decode(text, type=_List)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"no List of objects: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidFile(f"not JSON, or cut off: {error}; kubectl writes it with -o json") from error
    if found.items is None:
        what = f"a {found.kind}" if found.kind else "an object without a kind"
        raise InvalidFile(f"{what}, not a List: get trainjobs and all that belongs to them in one kubectl get -o json")
    return found


def _item(raw: msgspec.Raw, kind_of_list: str) -> _Item | str | None:
    """One item; None for a kind that no rule reads, and in words what keeps it from being any kind at all."""
    try:
        said = msgspec.json.decode(raw, type=_Type)
        kind, group = said.kind or kind_of_list, said.api_version.rpartition("/")[0]
        resource = next(
            (each for (its, name), each in RESOURCES.items() if name == kind and group in (its, "")),
            None,
        )
        if resource is None:
            return None
        record = decode_record(resource, raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"is left out: {error}"
    if isinstance(record, Unreadable):
        return f"is left out: a {kind} without a name"
    return _Item(resource, record)


def _observe(namespace: str, items: list[_Item], now: datetime) -> list[Observation]:
    """The objects of one namespace; a dump without a Node is one of somebody who may not read them."""
    store = Store(namespace)
    store.nodes_readable = any(item.resource is paths.NODES for item in items)
    for item in items:
        store.apply("ADDED", item.resource.kind, item.record)
    for name in store.unseen_nodes if store.nodes_readable else ():
        store.node_is_gone(name)
    return observations(store, now)
