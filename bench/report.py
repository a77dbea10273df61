"""How figures are printed."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(what: str, figure: float, unit: str) -> None:
    """Prints one figure on a line."""
    sys.stdout.write(f"{what:<24} {figure:10,.0f} {unit}\n")
    sys.stdout.flush()
