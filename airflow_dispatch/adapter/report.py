"""What preflight finds."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """What is missing, why it matters, and how to mend it."""

    problem: str
    why: str
    fix: str
