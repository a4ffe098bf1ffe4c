"""Rows: what is a row, and messages that name what is not."""

from __future__ import annotations

from typing import Any

import pytest
from draftproof.reference.numbers import rational
from draftproof.reference.rows import normalise, row, row_from_floats


def test_entries_of_all_kinds_are_exact() -> None:
    assert row(["1/2", 0.25, rational("1/4"), 0]) == (
        rational("1/2"),
        rational("1/4"),
        rational("1/4"),
        0,
    )
    assert row([1]) == (1,)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "target_row is empty"),
        (["1/2", "1/3"], "target_row sums to 5/6, not 1"),
        (["3/2", "-1/2"], r"target_row\[1\] is negative: -1/2"),
        ([1, float("nan")], r"target_row\[1\] is nan"),
        ([1, float("inf")], r"target_row\[1\] is inf"),
        (["1/2", "a half"], r"target_row\[1\] is 'a half'"),
        ([0.1, 0.9], "target_row sums to"),  # as floats these do not sum to 1 exactly
    ],
)
def test_what_is_no_row(entries: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row(entries, "target_row")


def test_floats_are_the_rationals_they_are() -> None:
    exact = row_from_floats([0.1, 0.2, 0.7])
    assert sum(exact) == 1
    assert exact[0] * rational(0.2) == exact[1] * rational(0.1)
    assert exact[0] != rational("1/10")


@pytest.mark.parametrize(
    ("entries", "message"),
    [([0.0, 0.0], "row sums to 0"), ([0.5, -0.5], r"row\[1\] is negative"), ([], "empty")],
)
def test_what_floats_are_no_row(entries: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row_from_floats(entries)


def test_normalise() -> None:
    assert normalise([2, 0, 6]) == (rational("1/4"), 0, rational("3/4"))
    with pytest.raises(ZeroDivisionError):
        normalise([0, 0])
