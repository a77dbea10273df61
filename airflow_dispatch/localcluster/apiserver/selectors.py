"""Label and field selectors, parsed once and then asked for each object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_dispatch.localcluster.apiserver.errors import bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, SECRETS, Resource

__all__ = ["Selection", "field_value", "label_selector", "match_labels"]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^)]*)\)$")
_EQUALS = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")

_Requirement = Callable[[Mapping[str, str]], bool]

_FIELDS: Mapping[Resource, tuple[str, ...]] = {
    PODS: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    NODES: ("spec.unschedulable",),
    EVENTS: (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    NAMESPACES: ("status.phase",),
    SECRETS: ("type",),
    JOBS: ("status.successful",),
}
"""Which fields of a kind may be selected by, besides ``metadata.name`` and ``metadata.namespace``."""


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """A predicate over labels: ``a=b``, ``a!=b``, ``a in (b,c)``, ``a notin (b)``, ``a``, ``!a``, joined by commas."""
    requirements = [_requirement(part.strip(), text) for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _requirement(part: str, whole: str) -> _Requirement:
    if found := _SET.match(part):
        key, operator, values = found[1], found[2], frozenset(value.strip() for value in found[3].split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALS.match(part):
        key, operator, value = found[1], found[2], found[3]
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        absent, key = bool(found[1]), found[2]
        return lambda labels: (key in labels) is not absent
    raise bad_request(f'unable to parse requirement: found "{part}" in label selector "{whole}"')


def match_labels(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a ``LabelSelector`` object's ``matchLabels`` all hold."""
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())


def field_value(obj: Object, path: str) -> str:
    """The field as text; a missing one is the empty text, as fields are compared by the real server."""
    if path == "source":
        return str(obj.get("source", {}).get("component") or obj.get("reportingComponent") or "")
    if path == "status.successful":
        return str(obj.get("status", {}).get("succeeded", 0))
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "false" if path == "spec.unschedulable" else ""
    return str(value)


class Selection:
    """What one list or watch asks for: a namespace, labels and fields."""

    def __init__(
        self, resource: Resource, namespace: str | None = None, label_text: str = "", field_text: str = ""
    ) -> None:
        self.namespace = namespace if resource.namespaced else None
        self._labels = label_selector(label_text) if label_text else None
        self._fields = self._parse_fields(resource, field_text)
        self.filters = bool(label_text or field_text)

    @staticmethod
    def _parse_fields(resource: Resource, text: str) -> list[tuple[str, bool, str]]:
        allowed = ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ()))
        terms = []
        for part in filter(None, text.split(",")):
            found = re.match(r"^([^=!]+)(==|=|!=)(.*)$", part)
            if not found:
                raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
            if found[1] not in allowed:
                raise bad_request(f"field label not supported: {found[1]}")
            terms.append((found[1], found[2] != "!=", found[3]))
        return terms

    def __call__(self, obj: Object) -> bool:
        """Whether the object is part of the selection."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self._labels and not self._labels(metadata.get("labels") or {}):
            return False
        return all((field_value(obj, path) == value) is wanted for path, wanted, value in self._fields)
