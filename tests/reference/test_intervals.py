"""Certified intervals: they enclose the truth, narrow, and refuse what they cannot settle."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from draftproof.reference.clip import is_valid_scale, smallest_scale
from draftproof.reference.instance import random_instance
from draftproof.reference.intervals import (
    Interval,
    UndecidedError,
    algebraic_scale,
    law_bounds,
    model_from_logits,
    row_from_logits,
    scale_interval,
)
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, rational, total
from mpmath import mp, mpf


def interval(low: object, high: object) -> Interval:
    return Interval(rational(low), rational(high))


def test_arithmetic_encloses_every_value() -> None:
    generator = random.Random(0)

    def draw() -> tuple[Fraction, Interval]:
        ends = sorted(Fraction(generator.randint(-9, 9), generator.randint(1, 9)) for _ in range(2))
        inside = ends[0] + (ends[1] - ends[0]) * Fraction(generator.randint(0, 8), 8)
        return inside, interval(*ends)

    for _ in range(400):
        (x, X), (y, Y) = draw(), draw()
        assert x + y in X + Y
        assert x - y in X - Y
        assert x * y in X * Y
        assert 3 - x in 3 - X
        assert x**3 in X**3
        if not Y.low <= 0 <= Y.high:
            assert x / y in X / Y
            assert 1 / y in 1 / Y


def test_comparisons_are_settled_or_refused() -> None:
    a, b = interval(0, "1/2"), interval("3/4", 1)
    assert a < b
    assert b > a
    assert not a >= b
    assert a != b
    assert min(a, b) is a
    assert a <= rational("1/2")
    for question in (
        lambda: a < interval("1/4", 1),
        lambda: a < rational("1/2"),
        lambda: a == rational("1/4"),
        lambda: 1 / a,
        lambda: interval(-1, 1) > 0,
    ):
        with pytest.raises(UndecidedError, match=r"\?"):
            question()
    assert a == a
    assert interval(1, 1) == 1
    with pytest.raises(ZeroDivisionError):
        a / interval(0, 0)
    with pytest.raises(ValueError, match="from 1 down to 0"):
        interval(1, 0)


def test_rows_from_logits_enclose_a_finer_computation() -> None:
    generator = random.Random(1)
    for _ in range(30):
        logits = [generator.uniform(-8, 8) for _ in range(5)]
        temperature = generator.choice([Fraction(1, 3), Fraction(1), Fraction(7, 5)])
        row = row_from_logits(logits, temperature)
        with mp.workdps(80):
            weights = [
                mp.exp(mpf(x) * temperature.denominator / temperature.numerator) for x in logits
            ]
            finer = [w / sum(weights) for w in weights]
        for entry, w in zip(row, finer, strict=True):
            exact = rational(Fraction(*map(int, mp_ratio(w))))
            assert entry.low <= exact <= entry.high
            assert entry.width < rational(2) ** -85
        # Floats are not inside: the check above would notice ordinary rounding.
        float_weights = [math.exp(x / float(temperature)) for x in logits]
        floats = [w / math.fsum(float_weights) for w in float_weights]
        assert any(x not in entry for entry, x in zip(row, floats, strict=True))


def mp_ratio(value: Any) -> tuple[Any, Any]:
    from mpmath.libmp import to_rational

    return to_rational(value._mpf_)


def test_rows_from_logits_at_the_edges() -> None:
    assert row_from_logits([0, 0, "-inf"])[2] == ZERO
    assert row_from_logits([1, 3, 2], 0) == (ZERO, ONE, ZERO)
    assert row_from_logits([5, 5]) == (rational("1/2"), rational("1/2"))
    for logits, temperature, message in (
        ([], 1, "no finite entry"),
        ([float("-inf")], 1, "no finite entry"),
        ([float("nan"), 0], 1, r"logits\[0\] is nan"),
        ([0, float("inf")], 1, r"logits\[1\] is inf"),
        ([0, 1], -1, "temperature is -1"),
        ([1, 1], 0, "a tie between tokens \\[0, 1\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            row_from_logits(logits, temperature)


def logit_models(seed: int, vocab: int, length: int) -> Any:
    generator = random.Random(seed)
    nodes = [()]
    for node in nodes:
        if len(node) < length:
            nodes += [(*node, v) for v in range(vocab)]
    p, q = ({x: [generator.gauss(0, 1) for _ in range(vocab)] for x in nodes} for _ in range(2))

    def models(bits: int) -> tuple[Model, Model]:
        return model_from_logits(p, "4/5", bits), model_from_logits(q, 1, bits)

    return models


@pytest.mark.parametrize(
    ("scheme", "vocab", "drafts", "length"),
    [
        ("token_by_token", 2, 1, 2),
        ("block", 2, 1, 2),
        ("spectr", 2, 2, 1),
        ("kseq_block", 2, 2, 2),
        ("traversal", 3, 2, 2),
        ("multipath", 2, 2, 2),
    ],
)
def test_law_bounds_enclose_the_target(scheme: str, vocab: int, drafts: int, length: int) -> None:
    """The first emitted token has the target's law: the enclosures of the two must meet, and the
    enclosure of the law is narrow."""
    models = logit_models(3, vocab, length)
    found = law_bounds(scheme, models, drafts, length)
    target = models(found.bits)[1](())
    assert all(b.width < rational("1e-12") for b in found.bounds.values())
    for token in range(vocab):
        first = total(b for (x, v), b in found.bounds.items() if (*x, v)[0] == token)
        assert first.low <= target[token].high
        assert target[token].low <= first.high
    mass = total(found.bounds.values())
    assert mass.low <= 1 <= mass.high
    finer = law_bounds(scheme, models, drafts, length, bits=(200,))
    for key, b in finer.bounds.items():
        assert found.bounds[key].low <= b.high
        assert b.low <= found.bounds[key].high


def test_law_bounds_notice_a_control() -> None:
    models = logit_models(3, 2, 1)
    found = law_bounds("independent_trials", models, 2, 1)
    first = total(b for (x, v), b in found.bounds.items() if (*x, v)[0] == 0)
    target = models(found.bits)[1](())[0]
    assert first.high < target.low or target.high < first.low  # a certified bias


def test_expected_accepted_length_against_the_formula() -> None:
    """E[τ] of block verification is Σ_i E_p[w_i], computed in 60 digits."""
    models = logit_models(5, 2, 2)
    found = law_bounds("block", models, 1, 2).expected_accepted_length
    p, q = models(200)
    value: Any = ZERO
    for x in range(2):
        w = min(ONE, q(())[x] / p(())[x])
        value += p(())[x] * w
        for y in range(2):
            value += p(())[x] * p((x,))[y] * min(ONE, w * q((x,))[y] / p((x,))[y])
    assert value.width < rational("1e-50")
    assert found.low <= value.high
    assert value.low <= found.high


def test_a_tie_is_refused_not_guessed() -> None:
    same = {(): ["1/3", 0], (0,): [0, 0], (1,): [0, 0]}

    def models(bits: int) -> tuple[Model, Model]:
        return model_from_logits(same, 1, bits), model_from_logits(same, 1, bits)

    with pytest.raises(UndecidedError, match="not settled by 128 bits"):
        law_bounds("block", models, 1, 1, bits=(64, 128))


def test_a_structural_tie_is_refused() -> None:
    """With two tokens, traversal tests 1 against 1 after a rejection: no bits can show that."""
    with pytest.raises(UndecidedError, match="not settled by 256 bits"):
        law_bounds("traversal", logit_models(3, 2, 2), 2, 2)


def test_more_bits_settle_a_near_tie() -> None:
    near = {(): ["1/3", 0], (0,): [0, 0], (1,): [0, 0]}
    other = {**near, (): ["0.33333333333333333333333333333", 0]}

    def models(bits: int) -> tuple[Model, Model]:
        return model_from_logits(near, 1, bits), model_from_logits(other, 1, bits)

    with pytest.raises(UndecidedError):
        law_bounds("block", models, 1, 1, bits=(64,))
    assert law_bounds("block", models, 1, 1).bits == 128


def test_the_smallest_scale_three_ways() -> None:
    """The algebraic root lies in the bracket, and the rational scale is the bracket rounded up."""
    generator = random.Random(2)
    irrational = 0
    for _ in range(40):
        V, n = generator.randint(2, 4), generator.randint(1, 3)
        instance = random_instance(generator, V, 1, n, kind="generic")
        p, q = instance.draft_model(()), instance.target_model(())
        bracket = scale_interval(p, q, n)
        root = algebraic_scale(p, q, n)
        low, high = (
            Fraction(int(e.numerator), int(e.denominator)) for e in (bracket.low, bracket.high)
        )
        assert bool(root >= low)
        assert bool(root <= high)
        irrational += not root.is_rational
        grid = 2**20
        rounded = smallest_scale(p, q, n, grid)
        assert bracket.low <= rounded
        assert rounded - rational(1) / grid <= bracket.high
        assert is_valid_scale(p, q, bracket.high, n)
        assert bracket.low == 1 or not is_valid_scale(p, q, bracket.low, n)
    assert irrational > 5


def test_a_known_algebraic_scale() -> None:
    """p = (1/2, 1/2), q = (1, 0), n = 2: β = 1/2, c = 3/2 while ρ <= 2, so ρ* = 3/2."""
    half = (rational("1/2"), rational("1/2"))
    assert algebraic_scale(half, (ONE, ZERO), 2) == Fraction(3, 2)
    assert rational("3/2") in scale_interval(half, (ONE, ZERO), 2)
