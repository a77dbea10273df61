"""Completion indexes as a Job's status writes them: ``0,2-4``."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["format_indexes", "parse_indexes"]


def parse_indexes(text: str) -> set[int]:
    """The indexes of a compressed list."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """The compressed list: three or more in a row as a range, two as two."""
    parts: list[str] = []
    row: list[int] = []
    for index in [*sorted(indexes), None]:
        if row and (index is None or index != row[-1] + 1):
            parts += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else [str(each) for each in row]  # noqa: PLR2004
            row = []
        if index is not None:
            row.append(index)
    return ",".join(parts)
