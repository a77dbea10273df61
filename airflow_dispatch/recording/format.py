"""The format of a recording: JSON lines, the first of which says what it is of.

======================  ==========================================================================================
line                    fields
======================  ==========================================================================================
the first               ``job_id`` (empty for a whole namespace), ``namespace``, ``mode``, ``about``, ``versions``,
                        and ``started``: the recorder's clock at second 0
a watch event           ``t`` (seconds since the start), ``event`` (ADDED, MODIFIED, DELETED), ``object``
something done          ``t``, ``act`` in words, ``request``, ``response``
a mark                  ``t``, ``mark``: a name for that moment
a permission            ``t``, ``nodes_readable``: whether Nodes may be read from then on
vanished pods           ``t``, ``ledger``: what a job's ledger of them says from then on (contract, section 12)
======================  ==========================================================================================

Lines of one kind of object are in order; those of different kinds come from different watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, NamedTuple

import msgspec

from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.core.ledger import Ledger

__all__ = ["EventType", "Head", "Line", "Recording", "encode", "named", "parse"]


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    namespace: str
    job_id: str = ""
    scenario: str = ""
    mode: str = ""
    about: str = ""
    versions: dict[str, str] = {}
    started: datetime | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any other line; ``object`` is the whole object as it came, in JSON."""

    t: Seconds
    event: EventType | None = None
    object: msgspec.Raw = msgspec.Raw(b"")
    mark: str | None = None
    act: str | None = None
    nodes_readable: bool | None = None
    ledger: Ledger | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class Named(msgspec.Struct, rename="camel"):
    """What tells kinds apart."""

    api_version: str = ""
    kind: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"")

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]


class Recording(NamedTuple):
    """A file's lines, the first one apart."""

    head: Head
    lines: tuple[Line, ...]

    def events(self, until: float) -> Iterator[Line]:
        """The lines that change what is known, up to a moment."""
        for line in self.lines:
            if line.t <= until and (line.event, line.nodes_readable, line.ledger) != (None, None, None):
                yield line

    def moment(self, until: str | None) -> float:
        """The seconds that a mark or a number stands for; None is the end.

        Raises :class:`InvalidFile` for a mark that is not there, or stands there more than once.
        """
        if until is None:
            return max((line.t for line in self.lines), default=0.0)
        times = [line.t for line in self.lines if line.mark == until]
        if len(times) > 1:
            at = ", ".join(f"{each:g}" for each in times)
            raise InvalidFile(f"mark {until!r} stands there {len(times)} times: give one of the seconds {at}")
        if times:
            return times[0]
        try:
            return msgspec.convert(until, Seconds, strict=False)
        except msgspec.ValidationError:
            marks = [f"{line.mark!r} ({line.t:g} s)" for line in self.lines if line.mark is not None]
            known = ", ".join(marks) or "none"
            raise InvalidFile(f"{until!r} is neither a number of seconds nor a mark; marks: {known}") from None

    def clock(self, seconds: float) -> datetime:
        """The time of a moment: from the start that is written down, else from what was created meanwhile."""
        return self._start + timedelta(seconds=seconds)

    @property
    def _start(self) -> datetime:
        if self.head.started is not None:
            return self.head.started
        created = [(_kind(line), _created(line), line.t) for line in self.lines if line.event == "ADDED"]
        starts = [(kind, at - timedelta(seconds=t)) for kind, at, t in created if at is not None]
        of_trainjobs = [at for kind, at in starts if kind == "TrainJob"]
        return max(of_trainjobs or [at for _, at in starts], default=datetime.fromtimestamp(0, UTC))


def named(raw: bytes | msgspec.Raw) -> Named:
    """What an object says that it is; raises ``msgspec.DecodeError`` when it is no object."""
    return msgspec.json.decode(raw, type=Named)


def parse(text: bytes) -> Recording:
    """Reads a recording; raises :class:`InvalidFile`, which names the line."""
    numbered = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
    if not numbered:
        raise InvalidFile("the file is empty: a recording has a first line that says what it is of")
    number, first = numbered[0]
    try:
        head = msgspec.json.decode(first, type=Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidFile(f"line {number}: no first line of a recording: {error}") from error
    cut_off = not text.endswith(b"\n")
    last = numbered[-1][0]
    return Recording(
        head, tuple(_line(number, line, cut_off=cut_off and number == last) for number, line in numbered[1:])
    )


def encode(line: Head | Line) -> bytes:
    """A line as it is written, with its end."""
    return msgspec.json.encode(line) + b"\n"


def _line(number: int, text: bytes, *, cut_off: bool) -> Line:
    try:
        line = msgspec.json.decode(text, type=Line)
        if line.event is not None:
            named(line.object)
    except (msgspec.DecodeError, RecursionError) as error:
        advice = f"; the file is cut off there: head -n {number - 1} keeps what is before" if cut_off else ""
        raise InvalidFile(f"line {number}: {error}{advice}") from error
    return line


def _kind(line: Line) -> str:
    return named(line.object).kind


def _created(line: Line) -> datetime | None:
    try:
        found = msgspec.json.decode(named(line.object).metadata, type=_Metadata).creation_timestamp
    except msgspec.DecodeError:
        return None
    return found if found is not None and found.tzinfo is not None else None
