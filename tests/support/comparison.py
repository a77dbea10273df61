"""Compares two recordings of one scenario, field by field.

Of each object every field's sequence of values is compared, and that no two changes come in opposite orders. Which
changes one write makes together is free: how many writes lie between two states is the writer's luck.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tests.support.plain import Fields, fields_of, is_left_out, plain, plain_event, plain_object

__all__ = ["Line", "differences"]

Line = dict[str, Any]

_ABSENT: Final = "(absent)"
_GONE: Final = "(gone)"
_HEARTBEAT: Final = re.compile(r"^status\.conditions\[\w+\]\.lastHeartbeatTime$")
_RACES: Final = re.compile(
    r"Pod .*: metadata\.finalizers|Node .*: metadata\.annotations\.node\.alpha\.kubernetes\.io/ttl",
)
"""Fields that one writer changes while others change the rest, so that either order is right.

The Job controller takes its finalizer off a pod while kubelet and collector write; the TTL controller annotates a new
Node while the node controller takes its taint away.
"""


class _Change(NamedTuple):
    """The n-th value of a field."""

    field: str
    number: int


class _Story:
    """What one object went through: the values of each field in order, each with the write that brought it."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[Any, int]]] = {}
        self._writes = 0

    def add(self, fields: Fields) -> None:
        for field in {*fields, *self._values}:
            value = fields.get(field, _ABSENT)
            known = self._values.setdefault(field, [(_ABSENT, -1)] if self._writes else [])
            if not known or known[-1][0] != value:
                known.append((value, self._writes))
        self._writes += 1

    def gone(self) -> None:
        """What is gone has no finalizers left, whether the last one was seen to go or not."""
        finalizers = self._values.get("metadata.finalizers", [(_ABSENT, -1)])
        if finalizers[-1][0] != _ABSENT:
            finalizers.append((_ABSENT, self._writes))
        self._values.setdefault("", [(_ABSENT, -1)]).append((_GONE, self._writes))
        self._writes += 1

    @property
    def sequences(self) -> dict[str, list[Any]]:
        """The values of each field in order."""
        return {field: [value for value, _ in _turns(values)] for field, values in self._values.items()}

    @property
    def moments(self) -> dict[_Change, int]:
        """When each change came; the object's first state is no change."""
        return {
            _Change(field, number): write
            for field, values in self._values.items()
            for number, (_, write) in enumerate(_turns(values))
            if write > 0
        }


def _turns(values: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """A count that rises or falls in several writes may do so in one."""
    kept: list[tuple[Any, int]] = []
    for value, write in values:
        if len(kept) > 1 and _between(kept[-2][0], kept[-1][0], value):
            kept.pop()
        kept.append((value, write))
    return kept


def _between(first: Any, middle: Any, last: Any) -> bool:
    counts = [-1 if each == _ABSENT else each for each in (first, middle, last)]
    if not all(type(each) is int for each in counts):
        return False
    return counts[0] < counts[1] < counts[2] or counts[0] > counts[1] > counts[2]


class _Recorded:
    """One recording, in the form that is compared."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.stories: dict[str, _Story] = {}
        self.events: set[str] = set()
        self.answers: list[tuple[str, Fields]] = []
        self._names: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()
        self._nodes: dict[str, Fields] = {}
        for line in lines:
            if "act" in line:
                self._add_answer(line)
            elif "event" in line:
                self._add(line["event"], line["object"])

    def _add_answer(self, line: Line) -> None:
        code, body = line["response"]["code"], line["response"]["body"]
        refused = body.get("kind") == "Status" and body.get("status") != "Success"
        self.answers.append((line["act"], fields_of({"code": code, "body": plain(body) if refused else {}})))

    def _add(self, event: str, obj: Any) -> None:
        kind, uid = obj["kind"], obj["metadata"]["uid"]
        if kind == "Event":
            if event == "ADDED" and not is_left_out(obj):
                self.events.add(json.dumps(plain_event(obj), sort_keys=True))
            return
        fields = fields_of(plain_object(obj))
        if kind == "Node":
            fields = {field: value for field, value in fields.items() if not _HEARTBEAT.match(field)}
            first = self._nodes.setdefault(uid, fields)
            if uid not in self._names:
                if first == fields:
                    return
                self._story(obj).add(first)
        story = self._story(obj)
        story.add(fields)
        if event == "DELETED":
            story.gone()

    def _story(self, obj: Any) -> _Story:
        """By kind and name, and which one of those it is; Nodes go by the order in which they changed."""
        metadata = obj["metadata"]
        if metadata["uid"] not in self._names:
            key = f"{obj['kind']} {_name(obj)}"
            self._numbers[key] += 1
            self._names[metadata["uid"]] = f"{key}, number {self._numbers[key]}"
        return self.stories.setdefault(self._names[metadata["uid"]], _Story())


def _name(obj: Any) -> str:
    metadata = obj["metadata"]
    if obj["kind"] == "Node":
        return "that changed"
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if "batch.kubernetes.io/job-completion-index" not in labels or obj["kind"] != "Pod":
        return str(metadata["name"])
    rank = labels["batch.kubernetes.io/job-completion-index"]
    restart = labels["jobset.sigs.k8s.io/restart-attempt"]
    return f"of rank {rank}, J={restart}, A={annotations.get('dispatch.phpboyscout.uk/admission')}"


def differences(ours: Iterable[Line], theirs: Iterable[Line], left_out: Iterable[str] = ()) -> list[str]:
    """What differs, one line each.

    ``ours`` is the embedded cluster's recording, ``theirs`` the real one's; what one of the patterns ``left_out``
    matches as a whole does not count.
    """
    patterns = [re.compile(each) for each in left_out]
    return [each for each in _differences(ours, theirs) if not any(pattern.fullmatch(each) for pattern in patterns)]


def _differences(ours: Iterable[Line], theirs: Iterable[Line]) -> Iterator[str]:
    mine, other = _Recorded(ours), _Recorded(theirs)
    for name in sorted({*mine.stories, *other.stories}):
        if name in mine.stories and name in other.stories:
            yield from (f"{name}: {each}" for each in _compare(name, mine.stories[name], other.stories[name]))
        else:
            yield f"{name}: only on the {'embedded' if name in mine.stories else 'real'} cluster"
    yield from (f"Event on the embedded cluster alone: {each}" for each in sorted(mine.events - other.events))
    yield from (f"Event on the real cluster alone: {each}" for each in sorted(other.events - mine.events))
    for (act, answer), (_, wanted) in zip(mine.answers, other.answers, strict=True):
        yield from (f"answer to {act!r}: {each}" for each in _compare_fields(answer, wanted))


def _compare(name: str, mine: _Story, other: _Story) -> Iterator[str]:
    ours, theirs = mine.sequences, other.sequences
    yield from _compare_fields(ours, theirs)
    alike = {
        field
        for field, values in ours.items()
        if values == theirs.get(field) and not _RACES.fullmatch(f"{name}: {field}")
    }
    first, second = mine.moments, other.moments
    changes = sorted((change for change in first if change.field in alike), key=first.__getitem__)
    for index, early in enumerate(changes):
        for late in changes[index + 1 :]:
            if first[early] < first[late] and second[early] > second[late]:
                shown = [f"{each.field}={json.dumps(ours[each.field][each.number])}" for each in (early, late)]
                yield f"{shown[0]} comes before {shown[1]}, on the real one after it"


def _compare_fields(ours: Fields, theirs: Fields) -> Iterator[str]:
    for field in sorted({*ours, *theirs}):
        mine, other = ours.get(field, _ABSENT), theirs.get(field, _ABSENT)
        if mine != other:
            yield f"{field}: {json.dumps(mine)}, on the real one {json.dumps(other)}"
