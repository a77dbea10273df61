"""A dump, as ``kubectl get ... -o json`` prints it, classified with no cluster at hand (contract, section 14).

Whatever stands in the List, there is an answer: an object with a field that is not of its documented shape is read
without that field, and what is said of its job is ``unknown`` with a note that names the field.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from airflow_dispatch.core import objects
from airflow_dispatch.core.classify.conditions import join
from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.core.observation import CauseKind, Observation, Provenance
from airflow_dispatch.kube import paths
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
    record: objects.Object
    problems: list[str]

    @property
    def namespace(self) -> str:
        return self.record.metadata.namespace or _DEFAULT_NAMESPACE


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
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"is left out: {error}"
    if not isinstance(fields, dict):
        return "is left out: it is no object"
    kind = fields.get("kind") or kind_of_list
    group = str(fields.get("apiVersion", "")).rpartition("/")[0]
    resource = next(
        (each for (its_group, its_kind), each in RESOURCES.items() if its_kind == kind and group in (its_group, "")),
        None,
    )
    if resource is None:
        return None
    problems: list[str] = []
    record = _read(resource.record, fields, problems)
    if not isinstance(record, objects.Object) or not record.metadata.name:
        return f"is left out: a {kind} without a name"
    return _Item(resource, record, [f"{kind} {record.metadata.name} can't be read whole: {each}" for each in problems])


def _read(record: type[Any], fields: Mapping[str, Any], problems: list[str], where: str = "") -> Any:
    """A record of the fields that are of their shapes; adds what is wrong with the others to ``problems``."""
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(record):
        if field.encode_name not in fields:
            continue
        value = fields[field.encode_name]
        try:
            msgspec.convert(value, field.type)
        except (msgspec.ValidationError, RecursionError) as error:
            kept |= _rest(field, value, error, problems, where)
        else:
            kept[field.encode_name] = value
    try:
        return msgspec.convert(kept, record)
    except msgspec.ValidationError as error:
        problems.append(str(error))
        return None


def _rest(
    field: msgspec.structs.FieldInfo, value: Any, error: Exception, problems: list[str], where: str
) -> dict[str, Any]:
    """What can be kept of a field that is not of its shape: metadata and labels entry by entry, of others nothing."""
    name = field.encode_name
    if field.type is objects.Metadata and isinstance(value, dict):
        return {name: msgspec.to_builtins(_read(objects.Metadata, value, problems, "metadata."))}
    problems.append(f"{where}{name}: {error}")
    if name in ("labels", "annotations") and isinstance(value, dict):
        return {name: {key: each for key, each in value.items() if isinstance(each, str)}}
    return {}


def _observe(namespace: str, items: list[_Item], now: datetime) -> list[Observation]:
    """The objects of one namespace; a dump without a Node is one of somebody who may not read them."""
    store = Store(namespace)
    store.nodes_readable = any(item.resource is paths.NODES for item in items)
    problems: dict[str, list[str]] = defaultdict(list)
    for item in items:
        kind, name = item.resource.kind, item.record.metadata.name
        trainjobs = store.apply("ADDED", kind, item.record)
        for ref in (f"{namespace}/{kind.lower()}/{name}", *(f"{namespace}/{each}" for each in trainjobs)):
            problems[ref] += item.problems
    for name in store.unseen_nodes if store.nodes_readable else ():
        store.node_is_gone(name)
    return [_noted(each, problems[each.ref]) for each in observations(store, now)]


def _noted(seen: Observation, problems: list[str]) -> Observation:
    """The observation with what could not be read of its object; its cause is then unknown, unless one is known."""
    if not problems:
        return seen
    cause = msgspec.structs.replace(seen.cause, detail=join([seen.cause.detail, *dict.fromkeys(problems)]))
    doubtful = cause.kind is CauseKind.NONE or any(each.startswith("TrainJob ") for each in problems)
    if doubtful:
        cause = msgspec.structs.replace(cause, kind=CauseKind.UNKNOWN, provenance=Provenance.NONE)
    return msgspec.structs.replace(seen, cause=cause)
