"""Exact rows: validated tuples of rationals that sum to 1."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.numbers import Number, rational, total

__all__ = ["Row", "normalise", "row", "row_from_floats"]

Row = tuple[Number, ...]


def row(entries: Sequence[object], where: str = "row") -> Row:
    """A row of exact probabilities from integers, rationals, text (``"3/4"``) or floats.

    Raises:
        ValueError: an empty row, a negative or non-finite entry, or a sum other than exactly 1;
            the message names `where`, the position and the value.
    """
    exact = _non_negative(entries, where)
    mass = total(exact)
    if mass != 1:
        raise ValueError(f"{where} sums to {mass}, not 1")
    return exact


def row_from_floats(entries: Sequence[float], where: str = "row") -> Row:
    """The exact row that an implementation sees when it normalises these float weights itself.

    Each float is taken as the rational it is, and the sum is divided out exactly.

    Raises:
        ValueError: as `row`, and for a sum of 0.
    """
    exact = _non_negative(entries, where)
    if total(exact) == 0:
        raise ValueError(f"{where} sums to 0")
    return normalise(exact)


def normalise(weights: Sequence[Number]) -> Row:
    """Weights divided by their sum, which must not be 0."""
    mass = total(weights)
    return tuple(weight / mass for weight in weights)


def _non_negative(entries: Sequence[object], where: str) -> Row:
    if len(entries) == 0:
        raise ValueError(f"{where} is empty; a vocabulary has at least one token")
    exact = tuple(rational(entry, f"{where}[{token}]") for token, entry in enumerate(entries))
    for token, entry in enumerate(exact):
        if entry < 0:
            raise ValueError(f"{where}[{token}] is negative: {entry}")
    return exact
