"""Chance: the exact law of a program, and the randomness contract of its replay."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from draftproof.reference.chance import (
    TOKEN,
    Accept,
    Chance,
    Draft,
    Replay,
    Sampler,
    Select,
    enumerate_law,
    pick,
)
from draftproof.reference.law import Law
from draftproof.reference.numbers import rational
from draftproof.reference.rows import row
from hypothesis import given, settings
from hypothesis import strategies as st


def test_enumeration_follows_every_branch() -> None:
    def program(chance: Chance) -> tuple[int, bool]:
        die = chance.draw([1, 2, 3], Draft(0, 1))
        return die, die > 0 and chance.flip(rational("1/4"), Accept(0, die))

    assert enumerate_law(program) == Law(
        {
            (0, False): rational("1/6"),
            (1, True): rational("1/12"),
            (1, False): rational("1/4"),
            (2, True): rational("1/8"),
            (2, False): rational("3/8"),
        }
    )


def test_certain_answers_do_not_branch() -> None:
    runs = []

    def program(chance: Chance) -> int:
        runs.append(1)
        return (
            chance.flip(1, Accept(0, 1)) + chance.flip(0, Accept(0, 2)) + chance.draw([0, 5], TOKEN)
        )

    assert enumerate_law(program) == Law({2: 1})
    assert len(runs) == 1


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any), st.integers(0, 6))
def test_enumeration_of_a_draw_is_its_weights(weights: list[int], h: int) -> None:
    mass = sum(weights)
    drawn = enumerate_law(lambda chance: chance.draw(weights, TOKEN))
    assert all(drawn.probability(v) == rational(w) / mass for v, w in enumerate(weights))
    flipped = enumerate_law(lambda chance: chance.flip(rational(h) / 6, Accept(0, 1)))
    assert flipped.probability(True) == rational(h) / 6


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda c: c.flip(rational("5/4"), Accept(1, 2)), r"Accept\(draft=1, depth=2\).*5/4"),
        (lambda c: c.flip(-1, Accept(0, 1)), "outside"),
        (lambda c: c.draw([1, -1], TOKEN), "weight 1 is negative: -1"),
        (lambda c: c.draw([0, 0], Select(3)), r"Select\(draft=3\): all weights are 0"),
    ],
)
@pytest.mark.parametrize("kind", ["enumerate", "replay", "sample"])
def test_impossible_questions_are_refused(question: Any, message: str, kind: str) -> None:
    ask = {
        "enumerate": enumerate_law,
        "replay": lambda question: question(Replay([[0] * 2] * 4, 0, [0] * 4)),
        "sample": lambda question: question(Sampler(random.Random(0))),
    }[kind]
    with pytest.raises(ValueError, match=message):
        ask(question)


# Replay: accept iff u < h; a token is the smallest v with cumsum(W)(v) > u ΣW.


def test_replay_accepts_strictly_below() -> None:
    third = rational("1/3")
    replay = Replay([["1/3", "0"], ["0.25", "0.5"]])
    assert not replay.flip(third, Accept(0, 1))  # u = h
    assert replay.flip(rational("334/1000"), Accept(0, 1))
    assert not replay.flip(0, Accept(0, 2))  # h = 0 never accepts, also at u = 0
    assert replay.flip(1, Accept(0, 2))
    assert replay.flip(third, Accept(1, 1))
    assert not replay.flip(third, Accept(1, 2))


def test_replay_reads_the_uniform_of_the_place() -> None:
    replay = Replay([["0.1", "0.2"], ["0.3", "0.4"]], "0.5", ["0.6", "0.7"])
    for place, u in [
        (Accept(0, 1), "0.1"),
        (Accept(0, 2), "0.2"),
        (Accept(1, 1), "0.3"),
        (Accept(1, 2), "0.4"),
        (TOKEN, "0.5"),
        (Select(0), "0.6"),
        (Select(1), "0.7"),
    ]:
        edge = rational(u)
        assert replay.draw([edge, 1 - edge], place) == 1  # cumsum = u is not above u
        assert replay.draw([edge + rational("1/100"), 1 - edge], place) == 0


@pytest.mark.parametrize("place", [Accept(2, 1), Accept(0, 3), Select(1)])
def test_a_missing_uniform_is_named(place: Any) -> None:
    with pytest.raises(ValueError, match="no uniform was given for"):
        Replay([[0, 0], [0, 0]], 0, [0]).flip(rational("1/2"), place)


def test_drafting_is_never_replayed() -> None:
    with pytest.raises(ValueError, match="not part of the randomness contract"):
        Replay([[0]]).draw([1, 1], Draft(0, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 1.0]],), r"accept_uniforms\[0\]\[1\] is 1.0, not in \[0, 1\)"),
        (([], -0.5), "token_uniform is -0.5"),
        (([[0.5], 0.5],), r"accept_uniforms\[1\] is 0.5, not the uniforms of a draft"),
        (([], 0, [0.2, "3/2"]), r"select_uniforms\[1\] is 3/2"),
        (([[float("nan")]],), r"accept_uniforms\[0\]\[0\] is nan, not a finite number"),
    ],
)
def test_bad_uniforms_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay(*arguments)


def test_margin_is_the_smallest_distance_from_a_threshold() -> None:
    replay = Replay([["1/2"], ["9/10"]], "1/2")
    assert replay.margin == 1
    replay.flip(1, Accept(0, 1))  # no threshold: certain
    assert replay.margin == 1
    replay.flip(rational("1/3"), Accept(0, 1))
    assert replay.margin == rational("1/6")
    replay.draw([2, 0, 3, 0], TOKEN)  # one threshold inside, at 2/5
    assert replay.margin == rational("1/10")
    replay.flip(rational("91/100"), Accept(1, 1))
    assert replay.margin == rational("1/100")


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any),
    st.fractions(0, Fraction(999, 1000), max_denominator=1000),
)
def test_pick_never_returns_weight_zero(weights: list[int], u: Fraction) -> None:
    v = pick(weights, rational(u))
    assert weights[v] > 0
    assert sum(weights[:v]) <= u * sum(weights) < sum(weights[: v + 1])


def test_pick_needs_a_uniform_below_one() -> None:
    with pytest.raises(ValueError, match="not below 1"):
        pick([1, 2], 1)


def test_sampler_is_repeatable_and_has_the_law() -> None:
    """20000 draws: the chi-square of a fixed seed, far below its 1e-9 quantile (about 50 with 2
    degrees of freedom)."""
    weights = row(["1/2", "1/3", "1/6"])

    def counts(seed: int) -> list[int]:
        sampler = Sampler(random.Random(seed))
        drawn = [sampler.draw(weights, TOKEN) for _ in range(20000)]
        return [drawn.count(v) for v in range(3)]

    assert counts(7) == counts(7)
    found = counts(7)
    chi_square = sum(
        (n - 20000 * float(p)) ** 2 / (20000 * float(p))
        for n, p in zip(found, weights, strict=True)
    )
    assert chi_square < 41.4  # P(chi-square of 2 > 41.4) = 1e-9
    heads = sum(Sampler(random.Random(s)).flip(rational("1/4"), Accept(0, 1)) for s in range(4000))
    assert 800 < heads < 1200
