"""The contract's rows, each declared where it is implemented.

The reference pages are made from these declarations, and tests hold what the rules return to them, so a rule, its line
in the documentation and its row in the contract can't drift apart. A declaration costs nothing when a rule is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from airflow_dispatch.core.observation import CauseKind, Provenance, State

__all__ = ["IMPLEMENTED", "Row", "implements"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Row(NamedTuple):
    """One row of a table of the contract: when it applies, and what it then says.

    ``when`` is Markdown, in which ``{reasons}`` stands for the reasons. ``kinds`` are the causes it may name, all when
    empty; ``cause`` says in words how the cause is worked out where the kinds alone do not. ``details`` are the forms
    of the detail or note: ``<node>`` and the like stand for any text, ``<words>`` for a condition's words with one of
    the reasons. A function's rows are tried in their order.
    """

    section: str
    key: str
    when: str
    kinds: tuple[CauseKind, ...] = ()
    provenance: Provenance | None = None
    details: tuple[str, ...] = ("",)
    reasons: tuple[str, ...] = ()
    state: State | None = None
    cause: str = ""

    @property
    def id(self) -> str:
        """How tests and pages call it: ``6.1/3``."""
        return f"{self.section}/{self.key}"


IMPLEMENTED: Final[dict[Callable[..., Any], tuple[Row, ...]]] = {}
"""Every function that implements rows, in the order of import."""


def implements(*rows: Row) -> Callable[[_Function], _Function]:
    """Declares the rows that a function implements; the function stays as it is."""

    def declare(function: _Function) -> _Function:
        IMPLEMENTED[function] = rows
        return function

    return declare
