"""Writes down what the watches bring, as the hub takes it: a store that keeps a tape of its own changes.

What is on the tape brings a store that replays it to the same observations. Of all Nodes those are on it that a
recorded pod is bound to, each when that is first known and then when its conditions, taints or boot ID have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from airflow_dispatch.core.ledger import Ledger
from airflow_dispatch.core.objects import Node, Object, Pod
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store
from airflow_dispatch.recording.format import EventType, Line
from airflow_dispatch.recording.redaction import redacted
from airflow_dispatch.recording.replaying import RESOURCES

__all__ = ["RecordingStore", "Tape"]

_NODE: Final = paths.NODES.kind
_RESOURCES: Final = {resource.kind: resource for resource in RESOURCES.values()}


class Tape:
    """Where lines go, and the bytes of the objects that they are about.

    ``write`` takes each line as it comes; ``clock`` says how many seconds have gone since the start.
    """

    def __init__(self, write: Callable[[Line], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._whole: dict[tuple[str, str], bytes] = {}

    def decode(self, resource: Resource, raw: bytes | msgspec.Raw) -> Object:
        """The record that a client is to give out; keeps the object's bytes until it is dropped."""
        record = decode_record(resource, raw)
        self._whole[resource.kind, record.metadata.uid] = bytes(raw)
        return record

    def event(self, event: EventType, resource: Resource, item: Object) -> None:
        """Writes down a change of an object that was decoded here, redacted."""
        whole: dict[str, Any] = msgspec.json.decode(self._whole[resource.kind, item.metadata.uid])
        # Lists hold objects of one kind, which do not say so themselves.
        whole = {"apiVersion": resource.api, "kind": resource.kind, **whole}
        self._event(event, redacted(whole))

    def drop(self, kind: str, item: Object) -> None:
        """The object is gone."""
        self._whole.pop((kind, item.metadata.uid), None)

    def no_such_node(self, name: str) -> None:
        """Writes down that a Node is gone which was never seen."""
        self._event("DELETED", {"apiVersion": paths.NODES.api, "kind": _NODE, "metadata": {"name": name}})

    def nodes_readable(self, *, readable: bool) -> None:
        """Writes down whether Nodes may be read from now on."""
        self._write(Line(t=self._clock(), nodes_readable=readable))

    def ledger(self, found: Ledger) -> None:
        """Writes down what a job's ledger of vanished pods says from now on."""
        self._write(Line(t=self._clock(), ledger=found))

    def mark(self, text: str) -> None:
        """Writes down a name for this moment."""
        self._write(Line(t=self._clock(), mark=text))

    def _event(self, event: EventType, whole: dict[str, Any]) -> None:
        self._write(Line(t=self._clock(), event=event, object=msgspec.Raw(msgspec.json.encode(whole))))


class RecordingStore(Store):
    """A store for a hub, which writes down what changes of one job, or of the whole namespace.

    The hub's client must decode through the tape's :meth:`Tape.decode`.
    """

    def __init__(self, namespace: str, tape: Tape, job_id: str | None = None) -> None:
        super().__init__(namespace)
        self._tape = tape
        self._job_id = job_id
        self._taped: dict[tuple[str, str], Object] = {}
        self._nodes: dict[str, Node] = {}
        self._taped_nodes: dict[str, tuple[object, ...]] = {}
        self._said_readable = True

    def apply(self, event_type: str, kind: str, item: Object) -> set[str]:
        """As the store's, and writes down what concerns the job."""
        touched = super().apply(event_type, kind, item)
        self._say_readable()
        concerned = self._concerns(touched)
        if event_type == "DELETED":
            self._deleted(kind, item, concerned=concerned)
            self._tape.drop(kind, item)
        elif isinstance(item, Node):
            self._nodes[item.metadata.name] = item
            if concerned or item.metadata.name in self._taped_nodes:
                self._tape_node(item)
        elif concerned:
            self._tape_object(kind, item)
        return touched

    def replace_all(self, kind: str, items: Iterable[Object]) -> set[str]:
        """As the store's; a list is written down as the changes that it comes to."""
        listed = list(items)
        uids = {item.metadata.uid for item in listed}
        before = (
            [*self._nodes.values()] if kind == _NODE else [old for (its, _), old in self._taped.items() if its == kind]
        )
        if kind == _NODE:
            self.nodes_readable = True
            self._say_readable()
        touched: set[str] = set()
        for old in before:
            if old.metadata.uid not in uids:
                touched |= self.apply("DELETED", kind, old)
        for item in listed:
            touched |= self.apply("ADDED", kind, item)
        return touched | super().replace_all(kind, listed)

    def nodes_denied(self) -> set[str]:
        """As the store's, and writes it down."""
        self._nodes.clear()
        self._taped_nodes.clear()
        touched = super().nodes_denied()
        self._say_readable()
        return touched

    def node_is_gone(self, name: str) -> set[str]:
        """As the store's, and writes it down."""
        touched = super().node_is_gone(name)
        self._say_readable()
        if self._concerns(touched):
            self._tape.no_such_node(name)
        return touched

    def take_ledger(self, found: Ledger) -> set[str]:
        """As the store's, and writes it down when it says something else than before."""
        touched = super().take_ledger(found)
        if self._concerns(touched):
            self._tape.ledger(found)
        return touched

    # ------------------------------------------------------------ the inside

    def _concerns(self, touched: set[str]) -> bool:
        """Names of TrainJobs, or of what an Event is about before that is seen: its Job, say."""
        if self._job_id is None:
            return bool(touched)
        prefix = f"dj-{self._job_id.lower()}-s"
        others = self.names_of_job(self._job_id)
        return any(name.startswith(prefix) or name in others for name in touched)

    def _deleted(self, kind: str, item: Object, *, concerned: bool) -> None:
        if kind == _NODE:
            self._nodes.pop(item.metadata.name, None)
            concerned = self._taped_nodes.pop(item.metadata.name, None) is not None or concerned
        else:
            concerned = self._taped.pop((kind, item.metadata.uid), None) is not None or concerned
        if concerned:
            self._tape.event("DELETED", _RESOURCES[kind], item)

    def _tape_object(self, kind: str, item: Object) -> None:
        """Writes down anything but a Node; what is listed again unchanged is on the tape already."""
        key = (kind, item.metadata.uid)
        old = self._taped.get(key)
        if old is not None and old.metadata.resource_version == item.metadata.resource_version:
            return
        self._taped[key] = item
        if isinstance(item, Pod) and item.spec.node_name in self._nodes:
            self._tape_node(self._nodes[item.spec.node_name])
        self._tape.event("ADDED" if old is None else "MODIFIED", _RESOURCES[kind], item)

    def _tape_node(self, node: Node) -> None:
        """Writes a Node down unless it is on the tape as it is, but for heartbeats."""
        name = node.metadata.name
        told = _telling(node)
        if self._taped_nodes.get(name) == told:
            return
        event: EventType = "MODIFIED" if name in self._taped_nodes else "ADDED"
        self._taped_nodes[name] = told
        self._tape.event(event, paths.NODES, node)

    def _say_readable(self) -> None:
        if self.nodes_readable != self._said_readable:
            self._said_readable = self.nodes_readable
            self._tape.nodes_readable(readable=self.nodes_readable)


def _telling(node: Node) -> tuple[object, ...]:
    """What of a Node is worth a line; heartbeats change nothing of it."""
    status = node.status
    conditions = (status.conditions if status is not None else None) or ()
    return (
        node.metadata.uid,
        node.metadata.deletion_timestamp,
        [(each.type, each.status, each.reason, each.last_transition_time) for each in conditions],
        [(each.key, each.value, each.effect, each.time_added) for each in node.spec.taints or ()],
        status.node_info.boot_id if status is not None and status.node_info is not None else None,
    )
