"""Law: finite exact distributions."""

from __future__ import annotations

import pytest
from draftproof.reference.law import Law
from draftproof.reference.numbers import rational
from hypothesis import given, settings
from hypothesis import strategies as st

HALF, QUARTER = rational("1/2"), rational("1/4")


@st.composite
def laws(draw: st.DrawFn) -> Law[int]:
    weights = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any))
    return Law((v, rational(w) / sum(weights)) for v, w in enumerate(weights))


def test_repeated_outcomes_add_up_and_zeros_vanish() -> None:
    law = Law([("a", HALF), ("b", QUARTER), ("a", QUARTER), ("c", rational(0))])
    assert dict(law) == {"a": rational("3/4"), "b": QUARTER}
    assert len(law) == 2
    assert law.probability("c") == 0
    with pytest.raises(KeyError):
        law["c"]
    assert repr(Law.point("a")) == "Law({'a': 1})"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": HALF}, "sum to 1/2, not 1"),
        ({"a": rational("3/2"), "b": -HALF}, "probability of 'b' is negative: -1/2"),
        ({}, "sum to 0"),
    ],
)
def test_what_is_no_distribution(weights: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Law(weights)


def test_equality_is_of_laws() -> None:
    assert Law({0: HALF, 1: HALF}) == Law([(1, HALF), (0, HALF)])
    assert Law({0: HALF, 1: HALF}) != Law({0: QUARTER, 1: rational("3/4")})
    assert Law.point(0) != {0: 1}
    with pytest.raises(TypeError):
        hash(Law.point(0))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(laws(), laws(), laws())
def test_the_algebra(first: Law[int], second: Law[int], third: Law[int]) -> None:
    assert first.map(lambda v: v) == first
    assert first.bind(Law.point) == first
    assert Law.point(3).bind(lambda v: second) == second
    joint = first.bind(lambda a: second.map(lambda b: (a, b)))
    assert joint.map(lambda pair: pair[0]) == first
    assert joint.map(lambda pair: pair[1]) == second
    assert joint.condition(lambda pair: pair[0] == max(first)).map(lambda pair: pair[1]) == second
    mean = first.expectation(lambda v: v)
    assert joint.expectation(lambda pair: pair[0] + pair[1]) == mean + second.expectation(
        lambda v: v
    )
    distance = first.total_variation(second)
    assert 0 <= distance <= 1
    assert (distance == 0) == (first == second)
    assert distance == second.total_variation(first)
    assert distance <= first.total_variation(third) + third.total_variation(second)
    assert first.map(lambda v: v > 1).total_variation(second.map(lambda v: v > 1)) <= distance


def test_condition_on_the_impossible() -> None:
    with pytest.raises(ZeroDivisionError, match="probability 0"):
        Law.point(1).condition(lambda v: v == 2)


def test_total_variation_of_disjoint_supports() -> None:
    assert Law.point("a").total_variation(Law({"b": HALF, "c": HALF})) == 1
