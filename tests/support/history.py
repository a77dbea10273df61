"""What objects went through, from a recording or from the local cluster, in a form that can be compared.

Left out is what two runs never share: times, UIDs, resource versions, generated suffixes and addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.support.recordings import Recording

__all__ = ["History", "history_of", "without_luck"]

_SUFFIX = re.compile(r"(-node-0-\d+)-[a-z0-9]{5}\b")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NODE = re.compile(r" to node-\d+$")
_ADMISSION = "dispatch.phpboyscout.uk/admission"
_OF_TIME = {"conditions", "startTime", "completionTime"}
_REPORTED_BY_CONTROLLERS = {"Job", "JobSet", "TrainJob"}
_KUBELET_REASONS = {"Pulling", "Pulled", "Created", "Started", "Killing", "BackOff", "Failed"}


def without_luck(text: str) -> str:
    """A message without UIDs, times and generated suffixes, and without the Node that the scheduler chose."""
    for pattern, replacement in ((_UUID, "UID"), (_TIME, "TIME"), (_SUFFIX, r"\1"), (_NODE, " to a node")):
        text = pattern.sub(replacement, text)
    return text


class History:
    """Collects the states of objects, from watch events in order.

    Attributes:
        conditions: By TrainJob, JobSet and Job, each condition's change in order, and ``gone``.
        pods: By pod, its phases, PodScheduled and DisruptionTarget in order, and ``gone``.
        metadata: By object, its labels and annotations in order.
        status: By TrainJob, JobSet and Job, the rest of its last status.
        events: How often each Event was first written: kind of object, type, reason, message, form.
    """

    def __init__(self) -> None:
        self.conditions: dict[str, list[Any]] = {}
        self.pods: dict[str, list[Any]] = {}
        self.metadata: dict[str, list[Any]] = {}
        self.status: dict[str, Any] = {}
        self.events: Counter[tuple[Any, ...]] = Counter()
        self._before: dict[str, set[Any]] = {}
        self._names: dict[str, str] = {}
        self._counts: Counter[tuple[Any, ...]] = Counter()

    def add(self, event: str, obj: dict[str, Any]) -> None:
        """One watch event; ``event``: ADDED, MODIFIED or DELETED."""
        kind = obj["kind"]
        if kind == "Event" and event == "ADDED":
            self._add_event(obj)
        elif kind == "Pod":
            self._add_pod(event, obj)
        elif kind in _REPORTED_BY_CONTROLLERS:
            self._add_reported(event, obj)

    def _add_reported(self, event: str, obj: dict[str, Any]) -> None:
        name = f"{obj['kind']} {obj['metadata']['name']}"
        status = obj.get("status") or {}
        self._changes(self.conditions, name, event, _conditions(status))
        self._note_metadata(name, obj)
        self.status[name] = {key: value for key, value in status.items() if key not in _OF_TIME}

    def _add_pod(self, event: str, pod: dict[str, Any]) -> None:
        name = self._pod_name(pod)
        status = pod.get("status") or {}
        conditions = [each for each in _conditions(status) if each[0] in ("PodScheduled", "DisruptionTarget")]
        self._changes(self.pods, name, event, [status.get("phase"), *conditions])
        self._note_metadata(name, pod)

    def _pod_name(self, pod: dict[str, Any]) -> str:
        """Its rank, attempt and admission, and which one of those it is: its name ends at random."""
        metadata = pod["metadata"]
        if metadata["uid"] not in self._names:
            labels, annotations = metadata["labels"], metadata["annotations"]
            rank = labels["batch.kubernetes.io/job-completion-index"]
            key = rank, labels["jobset.sigs.k8s.io/restart-attempt"], annotations.get(_ADMISSION)
            self._counts[key] += 1
            self._names[metadata["uid"]] = f"Pod rank {key[0]}, J={key[1]}, A={key[2]}, number {self._counts[key]}"
        return self._names[metadata["uid"]]

    def _changes(self, into: dict[str, list[Any]], name: str, event: str, entries: list[Any]) -> None:
        """Several changes in one write are as good as one each."""
        changes = into.setdefault(name, [])
        if event == "DELETED":
            changes.append("gone")
            self._before.pop(name, None)
            return
        before = self._before.get(name, set())
        changes += [entry for entry in entries if entry not in before]
        self._before[name] = set(entries)

    def _note_metadata(self, name: str, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        state = [
            {key: without_luck(value) for key, value in (metadata.get(part) or {}).items() if "topology" not in key}
            for part in ("labels", "annotations")
        ]
        states = self.metadata.setdefault(name, [])
        if not states or states[-1] != state:
            states.append(state)

    def _add_event(self, event: dict[str, Any]) -> None:
        if event["reason"] in _KUBELET_REASONS:
            return
        form = event["source"].get("component"), event.get("action"), bool(event.get("eventTime"))
        message = without_luck(event["message"])
        self.events[event["involvedObject"]["kind"], event["type"], event["reason"], message, *form] += 1


def _conditions(status: dict[str, Any]) -> list[tuple[Any, ...]]:
    conditions = status.get("conditions") or ()
    return [(each["type"], each["status"], each.get("reason"), each.get("message")) for each in conditions]


def history_of(recording: Recording) -> History:
    """What the real objects went through."""
    history = History()
    for event, obj in recording.events(float("inf")):
        history.add(event, obj)
    return history
