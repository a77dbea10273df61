"""The Job's ``completedIndexes``: ``0,2-4`` as intervals, so that no list is ever longer than the text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    taken = sorted(indexes)
    left = []
    for first, last in intervals:
        start = first
        for index in taken[bisect_left(taken, first) : bisect_right(taken, last)]:
            left.append((start, index - 1))
            start = index + 1
        left.append((start, last))
    return [(start, end) for start, end in left if start <= end]


def count(intervals: Iterable[Interval]) -> int:
    """How many indexes they hold."""
    return sum(end - start + 1 for start, end in intervals)
