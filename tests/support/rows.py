"""Which rows of the contract decide: what the functions that declare rows return, held against the declarations."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import pytest
from _pytest.mark import ParameterSet

import airflow_dispatch.core
from airflow_dispatch.core.cessation import Answer
from airflow_dispatch.core.classify.foreign import ROWS as FOREIGN
from airflow_dispatch.core.classify.pending import ROWS as PENDING
from airflow_dispatch.core.classify.running import ROWS as RUNNING
from airflow_dispatch.core.classify.situation import ROWS as SITUATION
from airflow_dispatch.core.classify.state import RULES as STATES
from airflow_dispatch.core.observation import CauseKind, Provenance, State
from airflow_dispatch.core.rows import IMPLEMENTED, Row
from airflow_dispatch.core.task import Decision

_PLACEHOLDER = re.compile(r"<[^<>]+>")


_TABLES: Final[tuple[tuple[Callable[..., Any], ...], ...]] = (
    STATES,
    RUNNING,
    PENDING,
    FOREIGN,
    SITUATION,
)


class Implemented(NamedTuple):
    """A row and the function that implements it."""

    row: Row
    function: Callable[..., Any]

    @property
    def path(self) -> str:
        """``<module>.<function>`` below ``airflow_dispatch``."""
        return f"{self.function.__module__}.{self.function.__qualname__}".removeprefix("airflow_dispatch.")


class Outcome(NamedTuple):
    """What a function that implements rows has returned; a part that its kind of value has not is None."""

    detail: str
    kind: CauseKind | None = None
    provenance: Provenance | None = None
    state: State | None = None


class Fired(NamedTuple):
    """A row that has decided something, and what it said."""

    row: Row
    outcome: Outcome


class Undeclared(NamedTuple):
    """A function has returned what none of its rows says."""

    function: Callable[..., Any]
    outcome: Outcome


def implemented() -> dict[Callable[..., Any], tuple[Row, ...]]:
    """All declarations of the core, in the order of the modules."""
    for module in pkgutil.walk_packages(airflow_dispatch.core.__path__, "airflow_dispatch.core."):
        importlib.import_module(module.name)
    return IMPLEMENTED


def all_rows() -> list[Implemented]:
    """Every row, by section; within one in the order in which the code asks, else in that of the declarations."""
    found = [Implemented(row, function) for function, rows in implemented().items() for row in rows]
    asked = {function: place for place, function in enumerate(function for table in _TABLES for function in table)}
    return sorted(found, key=lambda each: (_numbers(each.row.section), asked.get(each.function, len(asked))))


def _numbers(section: str) -> list[int]:
    return [int(part) for part in section.split(".")]


def showing(row: str, *values: object) -> ParameterSet:
    """One case of a parametrized test, and the row that it shows."""
    return pytest.param(*values, marks=pytest.mark.row(row))


class Trace:
    """The rows that fired while a trace was on."""

    def __init__(self) -> None:
        self.fired: list[Fired] = []
        self.undeclared: list[Undeclared] = []

    @property
    def ids(self) -> set[str]:
        return {each.row.id for each in self.fired}


@contextmanager
def traced() -> Iterator[Trace]:
    """Notes what every function that implements rows returns or yields."""
    trace = Trace()
    functions = _by_code()

    def note(frame: FrameType, event: str, value: Any) -> None:
        function = functions.get(frame.f_code) if event == "return" else None
        if function is not None:
            _note(trace, function, value)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield trace
    finally:
        sys.setprofile(before)


def _note(trace: Trace, function: Callable[..., Any], value: Any) -> None:
    outcome = _outcome(value)
    rows = [row for row in IMPLEMENTED[function] if value or CauseKind.NONE in row.kinds]
    row = next((row for row in rows if _fits(row, outcome)), None)
    if row is not None:
        trace.fired.append(Fired(row, outcome))
    elif value:
        trace.undeclared.append(Undeclared(function, outcome))


def _outcome(value: Any) -> Outcome:
    """A note, a cause or anything that has one, an answer or a decision; what is empty has named no cause."""
    match value:
        case str():
            return Outcome(value)
        case Answer():
            return Outcome(value.unsettled or ", ".join(value.remaining))
        case Decision():
            return Outcome(value.action.value)
    if not value:
        return Outcome("", CauseKind.NONE)
    cause = getattr(value, "cause", value)
    return Outcome(
        getattr(cause, "detail", ""),
        getattr(cause, "kind", None),
        getattr(cause, "provenance", None),
        getattr(value, "state", None),
    )


def _fits(row: Row, outcome: Outcome) -> bool:
    return (
        (not row.kinds or outcome.kind in row.kinds)
        and (row.provenance is None or outcome.provenance is row.provenance)
        and (row.state is None or outcome.state is row.state)
        and any(pattern.fullmatch(outcome.detail) for pattern in _patterns(row))
    )


@functools.cache
def _patterns(row: Row) -> tuple[re.Pattern[str], ...]:
    return tuple(_pattern(detail, row.reasons) for detail in row.details)


def _pattern(detail: str, reasons: tuple[str, ...]) -> re.Pattern[str]:
    """The form of a detail as an expression; a reason that ends in ``…`` is the beginning of several."""
    names = "|".join(re.escape(each.removesuffix("…")) + (".*" if each.endswith("…") else "") for each in reasons)
    special = {"<reason>": f"(?:{names})", "<words>": f"(?:{names})(?:: .*)?"} if reasons else {}
    literals, marks = _PLACEHOLDER.split(detail), _PLACEHOLDER.findall(detail)
    parts = [re.escape(literals[0])]
    for mark, literal in zip(marks, literals[1:], strict=True):
        parts += [special.get(mark, ".*"), re.escape(literal)]
    return re.compile("".join(parts), re.DOTALL)


@functools.cache
def _by_code() -> dict[CodeType, Callable[..., Any]]:
    return {inspect.unwrap(function).__code__: function for function in implemented()}
