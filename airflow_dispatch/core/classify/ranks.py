"""The Job's ``completedIndexes``: ``0,2-4`` as intervals, so that no list is ever longer than the text."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_dispatch.core.identity import parse_decimal

Interval = tuple[int, int]


def completed(text: str) -> list[Interval]:
    """The intervals, both ends included; a part that is no interval is left out."""
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = parse_decimal(first)
        end = parse_decimal(last) if dash else start
        if start is not None and end is not None and start <= end:
            found.append((start, end))
    return found


def without(intervals: Iterable[Interval], indexes: Iterable[int]) -> list[Interval]:
    """The intervals with these indexes taken out."""
    left = list(intervals)
    for index in indexes:
        left = [piece for interval in left for piece in _split(interval, index)]
    return left


def count(intervals: Iterable[Interval]) -> int:
    """How many indexes they hold."""
    return sum(end - start + 1 for start, end in intervals)


def _split(interval: Interval, index: int) -> list[Interval]:
    start, end = interval
    if not start <= index <= end:
        return [interval]
    return [piece for piece in ((start, index - 1), (index + 1, end)) if piece[0] <= piece[1]]
