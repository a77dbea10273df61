"""The ledger of vanished pods: what is remembered of them, and its form in a ConfigMap (contract, section 12).

A pod that was seen running and whose object went without a kubelet's word that it ended may still run. One ConfigMap
a job, ``dj-<ulid>-pods``, keeps an entry for each: the key is the pod's UID, the value one JSON object. Whoever watches
adds entries; an operator confirms them; nobody else changes them, and a hand that did is told so. Reading never raises:
an entry that can't be understood blocks like one that can, until it is confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.identity import MAX_NUMBER, parse_decimal, parse_name
from airflow_dispatch.core.objects import Metadata, Pod, PodSpec, Time
from airflow_dispatch.core.snapshot import CapturedPod, Machine, NodeAbsence

__all__ = [
    "MAX_ENTRIES",
    "OVERFLOW",
    "Confirmation",
    "Entry",
    "Ledger",
    "confirm",
    "entry_of",
    "read",
    "remember",
]

MAX_ENTRIES: Final = 512
"""Entries of one job. An entry takes at most about 1.7 kB, so the ConfigMap stays below the API server's 1 MiB."""

OVERFLOW: Final = "overflow"
"""The key of the entry that stands for all pods that vanished when the ledger was full."""

_WHO_CHARACTERS: Final = 128
_WHY_CHARACTERS: Final = 256
_KEPT_CHARACTERS: Final = 256
"""Of an entry that can't be read, what is kept when it is confirmed."""

_QUOTED_CHARACTERS: Final = 64

_TOLD: Final = 8
"""Problems that are told one by one; of the rest, their number."""

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_TOO_MANY: Final = f"more pods have vanished than the {MAX_ENTRIES} that it can hold"


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's word that a process has ended: who, why they know, and when they said it."""

    who: str
    why: str
    at: Time


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One vanished pod: its TrainJob, its name, its A, and the machine on which it was first seen running.

    An empty ``node_uid`` or ``boot_id`` was not readable when the pod ran. ``vanished_at``: when that was noticed.
    """

    train_job: str
    pod: str
    node: str
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    admission: int | None = None
    vanished_at: Time | None = None
    confirmed: Confirmation | None = None

    def captured(self, uid: str) -> CapturedPod:
        """The pod as a rule reads it."""
        annotations = {names.ANNOTATION_ADMISSION: str(self.admission)} if self.admission is not None else None
        return CapturedPod(
            pod=Pod(
                metadata=Metadata(name=self.pod, uid=uid, annotations=annotations),
                spec=PodSpec(node_name=self.node),
            ),
            node=NodeAbsence.NOT_READABLE,
            machine=Machine(self.node_uid, self.boot_id),
        )


class _Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry that can't be read becomes when it is confirmed: ``unreadable`` is how its text began."""

    unreadable: str
    confirmed: Confirmation


class _Confirmed(msgspec.Struct, frozen=True):
    """The one part that both forms share."""

    confirmed: Confirmation | None = None


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """A job's ledger as it was read: ``entries`` by pod UID, and why each other key can't be read."""

    job_id: str
    namespace: str
    entries: Mapping[str, Entry] = {}
    unreadable: Mapping[str, str] = {}

    @property
    def open(self) -> dict[str, Entry]:
        """The entries that nobody has confirmed."""
        return {uid: entry for uid, entry in self.entries.items() if entry.confirmed is None}

    @property
    def problems(self) -> tuple[str, ...]:
        """What can't be read, in words that say what to do."""
        where = f"of ConfigMap {self.namespace}/{names.ledger_name(self.job_id)}"
        then = f"once its process is known to have ended: airflow-dispatch confirm-ceased {self.job_id}"
        told = [f"entry {key} {where} ({why}; {then})" for key, why in sorted(self.unreadable.items())[:_TOLD]]
        more = len(self.unreadable) - len(told)
        return (*told, *([f"{more} more entries {where}"] if more else ()))

    def of(self, trainjob: str) -> tuple[CapturedPod, ...]:
        """The pods of one TrainJob that nobody has confirmed."""
        return tuple(entry.captured(uid) for uid, entry in self.open.items() if entry.train_job == trainjob)

    def confirmed_of(self, trainjob: str) -> frozenset[str]:
        """The UIDs of the pods of one TrainJob whose end an operator has confirmed."""
        return frozenset(
            uid for uid, entry in self.entries.items() if entry.confirmed is not None and entry.train_job == trainjob
        )

    @property
    def node_names(self) -> set[str]:
        """The Nodes whose state decides whether the entries still block."""
        return {entry.node for entry in self.open.values()}


def entry_of(captured: CapturedPod, trainjob: str) -> Entry | None:
    """The entry of a vanished pod; None for one that was bound to no Node, which has run nowhere."""
    pod = captured.pod
    if not pod.spec.node_name:
        return None
    admission = parse_decimal(pod.metadata.annotation(names.ANNOTATION_ADMISSION))
    machine = captured.machine or Machine()
    return Entry(
        train_job=trainjob,
        pod=pod.metadata.name,
        node=pod.spec.node_name,
        node_uid=machine.node_uid,
        boot_id=machine.boot_id,
        admission=admission if admission is not None and admission <= MAX_NUMBER else None,
    )


def read(config_map: Mapping[str, Any] | None, *, job_id: str, namespace: str) -> Ledger:
    """A job's ledger from its ConfigMap as JSON; an empty one when there is none. Never raises."""
    entries: dict[str, Entry] = {}
    unreadable: dict[str, str] = {}
    for key, value in _data(config_map).items():
        entry = _entry(value, job_id)
        if isinstance(entry, Entry):
            entries[key] = entry
        elif _confirmation(value) is None:
            unreadable[key] = _TOO_MANY if key == OVERFLOW else entry
    return Ledger(job_id=job_id, namespace=namespace, entries=entries, unreadable=unreadable)


def remember(config_map: Mapping[str, Any] | None, found: Mapping[str, Entry], now: datetime) -> dict[str, str] | None:
    """The ConfigMap's ``data`` with these entries, by pod UID; None when it holds all of them.

    An entry that is there stays as it is, so two who watch may both write. A full ledger first drops what has been
    confirmed; what finds no room even so is stood for by :data:`OVERFLOW`.
    """
    held = _data(config_map)
    data = {key: value for key, value in held.items() if isinstance(value, str)}
    missing = {uid: entry for uid, entry in found.items() if uid not in held}
    room = MAX_ENTRIES - sum(1 for key in data if key != OVERFLOW)
    if len(missing) > room:
        settled = [key for key, text in data.items() if key != OVERFLOW and _confirmation(text)]
        for key in settled[: len(missing) - room]:
            del data[key]
            room += 1
    added = dict(list(missing.items())[: max(room, 0)])
    overflows = len(added) < len(missing) and (OVERFLOW not in data or _confirmation(data[OVERFLOW]))
    if not added and not overflows:
        return None
    data |= {uid: _text(msgspec.structs.replace(entry, vanished_at=now)) for uid, entry in added.items()}
    return data | {OVERFLOW: _TOO_MANY} if overflows else data


def confirm(config_map: Mapping[str, Any], by: Confirmation) -> tuple[dict[str, str], tuple[str, ...]]:
    """The ConfigMap's ``data`` with every open entry confirmed, and what carries this confirmation then.

    That is ``<pod> on <node>`` of each, or the key of an entry that can't be read. What was confirmed before keeps its
    first confirmation, so the same call again changes nothing and answers the same. Long words are cut. What stood
    under ``binaryData`` is among it, and has to go from there.
    """
    said = Confirmation(who=by.who[:_WHO_CHARACTERS], why=by.why[:_WHY_CHARACTERS], at=by.at)
    data: dict[str, str] = {}
    done = []
    for key, value in _data(config_map).items():
        text = data[key] = value if isinstance(value, str) else ""
        before = _confirmation(text)
        if before not in (None, said):
            continue
        entry = _entry(text, None)
        if isinstance(entry, Entry):
            data[key] = _text(msgspec.structs.replace(entry, confirmed=said))
            done.append(f"{entry.pod} on {entry.node}")
        else:
            done.append(f"entry {key}")
            if before is None:
                data[key] = _text(_Unreadable(unreadable=text[:_KEPT_CHARACTERS], confirmed=said))
    return data, tuple(done)


def _entry(value: object, job_id: str | None) -> Entry | str:
    """An entry, or why it is none. Without ``job_id`` an entry of another job is taken for one of this."""
    if not isinstance(value, str):
        return "it is no text"
    try:
        entry = msgspec.json.decode(value, type=Entry)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return f"it can't be read: {error}"
    submission = parse_name(entry.train_job)
    if submission is None or job_id not in (None, submission.job_id):
        return f"it is of {entry.train_job[:_QUOTED_CHARACTERS]!r}, which is no submission of this job"
    for kind, name in (("pod", entry.pod), ("Node", entry.node)):
        if not _OBJECT_NAME.fullmatch(name):
            return f"it names {name[:_QUOTED_CHARACTERS]!r}, which is no {kind}'s name"
    return entry


def _confirmation(text: object) -> Confirmation | None:
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text, type=_Confirmed).confirmed
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _text(item: msgspec.Struct) -> str:
    return msgspec.json.encode(item).decode()


def _data(config_map: Mapping[str, Any] | None) -> dict[str, Any]:
    """What it holds, under whichever of its two fields."""
    found: dict[str, Any] = {}
    for field in ("binaryData", "data"):
        part = config_map.get(field) if config_map is not None else None
        if isinstance(part, Mapping):
            found |= {str(key): value if field == "data" else None for key, value in part.items()}
        elif part is not None:
            found[field] = None
    return found
