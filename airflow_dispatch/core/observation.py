"""What is said of one object at one moment (contract, sections 1 and 14)."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec


class State(enum.StrEnum):
    """Where an object is in its life."""

    GATED = "gated"
    HELD = "held"
    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class CauseKind(enum.StrEnum):
    """Why an object is in its state."""

    NONE = "none"
    COMPLETED = "completed"
    NON_ZERO_EXIT = "non-zero-exit"
    OUT_OF_MEMORY = "out-of-memory"
    PREEMPTED = "preempted"
    NODE_LOST = "node-lost"
    TIMEOUT = "timeout"
    NO_CAPACITY = "no-capacity"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Provenance(enum.StrEnum):
    """How a cause is known."""

    NONE = ""
    REPORTED = "reported"
    """A controller's condition says so."""
    DERIVED = "derived"
    """Worked out from pods or Nodes."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A typed cause; ``at`` is the time of the evidence, never the clock."""

    kind: CauseKind = CauseKind.NONE
    provenance: Provenance = Provenance.NONE
    detail: str = ""
    at: datetime | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the whole gang: admission A, restart J, number R = A + J, epoch N * 1,000,000 + R, and its token."""

    admission: int
    restart: int
    number: int
    epoch: int
    token: str


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One object as it stood when it was read.

    ``seen_at`` is no part of equality: compare with :meth:`same_as`.
    """

    ref: str
    job_id: str
    submission: int
    attempt: int
    uid: str
    state: State
    admin_held: bool = False
    hold_instance: int = 0
    cause: Cause = Cause()
    execution: Execution | None = None
    foreign: bool = False
    seen_at: datetime | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Observation):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "seen_at")

    def to_json(self) -> bytes:
        """The stored and printed form of section 14."""
        return msgspec.json.encode(self)


def from_json(data: bytes | str) -> Observation:
    """Reads what :meth:`Observation.to_json` wrote; raises ``msgspec.ValidationError`` on a name it does not know."""
    return msgspec.json.decode(data, type=Observation)
