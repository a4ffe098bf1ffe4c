"""Exact numbers: one name for whichever rational type is in use.

`fractions.Fraction` always works. `gmpy2.mpq` is about ten times faster, equal and hash-equal to
`Fraction`, and is used when it is installed. Set ``DRAFTPROOF_NUMBERS=fraction`` before the first
import to do without it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

__all__ = [
    "ONE",
    "ZERO",
    "Number",
    "backend",
    "divide",
    "integers",
    "rational",
    "text",
    "total",
    "whole",
]

# Rows hold rationals; the symbolic interpreter puts ordered expressions in their place, so the
# element type is deliberately open.
Number = Any

_TEXT = re.compile(r"[+-]?(\d+(/\d+)?|\d*\.\d+|\d+\.)([eE][+-]?\d+)?")


def _choose_backend() -> tuple[str, Any]:
    wanted = os.environ.get("DRAFTPROOF_NUMBERS", "auto")
    if wanted not in ("auto", "fraction", "gmpy2"):
        raise ValueError(f"DRAFTPROOF_NUMBERS must be auto, fraction or gmpy2, not {wanted!r}")
    if wanted != "fraction":
        try:
            import gmpy2

            return "gmpy2", gmpy2.mpq
        except ImportError:
            if wanted == "gmpy2":
                raise
    return "fraction", Fraction


_BACKEND, _make = _choose_backend()


def backend() -> str:
    """Name of the rational type in use: ``"gmpy2"`` or ``"fraction"``."""
    return _BACKEND


def rational(value: object, where: str = "value") -> Number:
    """The exact rational that `value` denotes.

    Accepts integers, rationals, text such as ``"3/4"``, ``"0.25"`` or ``"1"``, and floats (a float
    *is* a rational: ``0.1`` becomes 3602879701896397/36028797018963968).

    Raises:
        ValueError: NaN, infinity or text that is not a number; the message names `where`.
        TypeError: any other type.
    """
    if isinstance(value, bool):
        raise TypeError(f"{where} must be a number, not {value!r}")
    if isinstance(value, (int, Rational)):
        return _make(value.numerator, value.denominator)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value!r}, not a finite number")
        return _make(*value.as_integer_ratio())
    if isinstance(value, str):
        if not _TEXT.fullmatch(value.strip()):
            raise ValueError(f"{where} is {value!r}, not a rational such as '3/4', '0.25' or '1'")
        try:
            exact = Fraction(value.strip())
        except (ValueError, ZeroDivisionError) as error:
            raise ValueError(f"{where} is {value!r}: {error}") from None
        return _make(exact.numerator, exact.denominator)
    raise TypeError(f"{where} must be a number, not {type(value).__name__}")


def whole(value: object, where: str, least: int) -> int:
    """An integer of at least `least`, or ValueError naming `where` and the value."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{where} must be an integer of at least {least}, not {value!r}")
    return int(value)


ZERO: Number = _make(0)
ONE: Number = _make(1)


def divide(numerator: Number, denominator: Number, otherwise: Number) -> Number:
    """The quotient, or `otherwise` where the denominator is 0."""
    return otherwise if denominator == 0 else numerator / denominator


def text(value: Number) -> str:
    """The rational as ``"3/4"`` or ``"1"``, the form used in every file format."""
    return str(Fraction(int(value.numerator), int(value.denominator)))


def integers(values: Sequence[Number]) -> Sequence[Number]:
    """Integers in the same proportions: the numerators over one common denominator.

    Numbers that are not rational (symbols, intervals) are returned as they are.
    """
    if not all(isinstance(value, (int, type(ONE))) for value in values):
        return values
    common = math.lcm(*(int(value.denominator) for value in values))
    return [int(value.numerator) * (common // int(value.denominator)) for value in values]


def total(values: Iterable[Number]) -> Number:
    """The sum, exact, and a rational even when `values` is empty."""
    if _BACKEND == "gmpy2":
        return sum(values, ZERO)
    # Fractions are reduced after every addition; over one common denominator that is done once.
    parts = list(values)
    if not all(isinstance(value, (int, Fraction)) for value in parts):
        return sum(parts, ZERO)
    common = math.lcm(*[value.denominator for value in parts])
    return Fraction(sum([v.numerator * (common // v.denominator) for v in parts]), common)
