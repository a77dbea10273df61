"""Recorded objects in the form that is compared: without what two runs never share, and without what is left out.

What is left out stands in ``docs/guides/local-cluster.md`` too, with the reason.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tests.support.history import without_luck

__all__ = ["Fields", "fields_of", "is_left_out", "plain", "plain_event", "plain_object"]

Fields = dict[str, Any]
"""Every leaf of an object by its path."""

_IDENTITIES: Final = (("type",), ("name",), ("key", "effect"), ("uid",), ("ip",), ("manager",), ("containerPort",))
_METADATA_OF_LUCK: Final = ("uid", "resourceVersion", "managedFields")
_OF_LUCK: Final = (
    (re.compile(r"(?<![-\w])node-\d+(?![-\w])"), "NODE"),
    (re.compile(r"\b127\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "MACHINE"),
    (re.compile(r"^(process|scripted|none)://.*"), "ID"),
)
_INSTANCE: Final = re.compile(r"^([a-z-]+?)-[^-]+$")
_TOKEN: Final = re.compile(r"^kube-api-access-")
_WITHOUT_ENDPOINTS: Final = ("Service", "Endpoints")
_SKIPPED: Final = "skip schedule deleting pod"
_COUNTS_AND_TIMES: Final = ("metadata", "count", "series", "firstTimestamp", "lastTimestamp", "eventTime")


def plain(value: Any) -> Any:
    """Without times, UIDs, generated suffixes, addresses and the Nodes that the scheduler chose."""
    if isinstance(value, dict):
        return {without_luck(key): plain(item) for key, item in value.items() if not _is_tokens(item)}
    if isinstance(value, list):
        return [plain(item) for item in value if not _is_token(item)]
    if not isinstance(value, str):
        return value
    text = without_luck(value)
    for pattern, replacement in _OF_LUCK:
        text = pattern.sub(replacement, text)
    return text


def _is_token(item: Any) -> bool:
    """The volume with a service account's token, and its mounts: the embedded cluster gives pods none."""
    return isinstance(item, dict) and bool(_TOKEN.match(str(item.get("name", ""))))


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_token(item) for item in value)


def plain_object(obj: Any) -> Any:
    """Without its identity; a Node without the port at which its kubelet serves logs to an API server outside."""
    if obj["kind"] == "Node":
        obj = {**obj, "status": {key: value for key, value in obj["status"].items() if key != "daemonEndpoints"}}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _METADATA_OF_LUCK}
    return plain({**obj, "metadata": metadata})


def plain_event(event: Any) -> Any:
    """An Event without its own name, its counts, and the version that it speaks of."""
    involved = {key: value for key, value in event["involvedObject"].items() if key != "resourceVersion"}
    instance = _INSTANCE.sub(r"\1", event.get("reportingInstance") or "")
    kept = {key: value for key, value in event.items() if key not in _COUNTS_AND_TIMES}
    form = {"eventTime": bool(event.get("eventTime")), "lastTimestamp": bool(event.get("lastTimestamp"))}
    return plain({**kept, **form, "involvedObject": involved, "reportingInstance": instance})


def is_left_out(event: Any) -> bool:
    """Whether an Event tells of what the embedded cluster does not have.

    Endpoints of Services; and a scheduler that now and then takes up a pod which has just been deleted, and says so.
    """
    return event["involvedObject"]["kind"] in _WITHOUT_ENDPOINTS or event["message"].startswith(_SKIPPED)


def fields_of(value: Any, path: str = "") -> Fields:
    """Every leaf by its path; entries of a list that has names go by these, and their order is a leaf of its own."""
    if isinstance(value, dict) and value:
        found: Fields = {}
        for key, item in value.items():
            found |= fields_of(item, f"{path}.{key}" if path else key)
        return found
    if isinstance(value, list) and value:
        names = _names_in(value)
        if names is not None:
            found = {f"{path}[]": names}
            for name, item in zip(names, value, strict=True):
                found |= fields_of(item, f"{path}[{name}]")
            return found
    return {path: value}


def _names_in(entries: list[Any]) -> list[str] | None:
    if not all(isinstance(entry, dict) for entry in entries):
        return None
    for identity in _IDENTITIES:
        if all(set(identity) <= set(entry) for entry in entries):
            names = [" ".join(str(entry[key]) for key in identity) for entry in entries]
            if len(set(names)) == len(names):
                return names
    return None
