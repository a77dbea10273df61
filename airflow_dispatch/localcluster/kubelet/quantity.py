"""Resource quantities as numbers: ``500m``, ``1Gi``, ``2e3``."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

__all__ = ["parse_quantity", "scaled"]

_SUFFIXES: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_FORM: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")


def parse_quantity(text: str | float) -> Decimal:
    """The number that a quantity stands for.

    Raises:
        ValueError: It is no quantity.
    """
    match = _FORM.fullmatch(str(text))
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError(f"{text!r} is no resource quantity")
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def scaled(quantity: str, divisor: str = "1") -> int:
    """A quantity in units of ``divisor``, rounded up: how ``resourceFieldRef`` shows it."""
    unit = parse_quantity(divisor)
    if unit == 0:
        unit = Decimal(1)
    return int((parse_quantity(quantity) / unit).to_integral_value(ROUND_CEILING))
