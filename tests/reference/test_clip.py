"""The clip: covered mass, residual, and the smallest valid scale, rounded up and never down."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from draftproof.reference.clip import (
    check_scale,
    cover_factor,
    covered,
    excess,
    is_valid_scale,
    kept_mass,
    residual,
    row_or_plain,
    smallest_scale,
    without,
)
from draftproof.reference.instance import KINDS
from draftproof.reference.numbers import ONE, Number, rational, total
from draftproof.reference.rows import Row, row
from hypothesis import given, settings
from hypothesis import strategies as st


def rows(count: int) -> Iterator[tuple[Row, Row]]:
    for seed in range(count):
        generator = random.Random(seed)
        kind = KINDS[generator.choice(list(KINDS))]
        yield kind(generator, generator.randint(1, 5), generator.choice([3, 6, 12]))


def test_by_hand() -> None:
    p, q = row(["1/2", "1/2"]), row(["3/4", "1/4"])
    assert covered(p, q) == (rational("1/2"), rational("1/4"))
    assert kept_mass(p, q) == rational("3/4")
    assert excess(p, q) == (rational("1/4"), 0)
    assert excess(p, q, rational("1/2")) == (0, 0)
    assert cover_factor(rational("3/4"), 2) == rational("5/4")
    assert residual(p, q, rational("3/2"), 2) == (rational("1/12"), rational("1/36"))
    assert without(p, 1) == (rational("1/2"), 0)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_cover_factor_is_a_geometric_sum(n: int) -> None:
    for k in range(7):
        beta = rational(k) / 6
        assert cover_factor(beta, n) == total((1 - beta) ** i for i in range(n))


def test_the_smallest_scale_is_the_first_valid_one_of_the_grid() -> None:
    for p, q in rows(400):
        for n in (1, 2, 3, 4):
            for grid in (1, 3, 64):
                scale = smallest_scale(p, q, n, grid)
                assert (scale * grid).denominator == 1
                assert 1 <= scale <= n
                assert is_valid_scale(p, q, scale, n)
                step = rational(1) / grid
                assert scale == 1 or not is_valid_scale(p, q, scale - step, n)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 400), st.integers(1, 4), st.integers(0, 30), st.integers(0, 30))
def test_validity_is_upward_closed_and_smaller_scales_keep_more(
    seed: int, n: int, first: int, second: int
) -> None:
    (p, q), *_ = (pair for i, pair in enumerate(rows(seed + 1)) if i == seed)
    low, high = sorted([1 + rational(first) / 10, 1 + rational(second) / 10])
    assert kept_mass(p, q, low) >= kept_mass(p, q, high)
    if is_valid_scale(p, q, low, n):
        assert is_valid_scale(p, q, high, n)


def test_a_valid_scale_is_one_whose_residuals_are_not_negative() -> None:
    """c ≤ ρ is sufficient; it is necessary where some entry is covered through T/ρ."""
    for p, q in rows(300):
        for n in (2, 3):
            for scale in (ONE, rational("4/3"), rational(2), rational(3)):
                cover = cover_factor(kept_mass(p, q, scale), n)
                entries = [t - cover * k for t, k in zip(q, covered(p, q, scale), strict=True)]
                if is_valid_scale(p, q, scale, n):
                    assert min(entries) >= 0
                    owed = residual(p, q, scale, n)
                    assert total(owed) == (1 - kept_mass(p, q, scale)) ** n
                elif any(0 < t / scale <= a for a, t in zip(p, q, strict=True)):
                    assert min(entries) < 0


def test_a_scale_that_is_rounded_down_is_refused() -> None:
    p, q = row(["1/2", "1/2"]), row(["3/4", "1/4"])
    good = smallest_scale(p, q, 2)
    check_scale(p, q, good, 2)
    with pytest.raises(ValueError, match=r"is not valid for 2 drafts: .* cover factor"):
        check_scale(p, q, good - rational(1) / 2**20, 2)
    with pytest.raises(ValueError, match=r"scale 1/2 is not valid .* at least 1"):
        check_scale(p, q, rational("1/2"), 2)
    with pytest.raises(ValueError, match=r"below the smallest valid scale.*residual of token 1"):
        residual(p, q, ONE, 2)


def test_known_scales() -> None:
    p, q = row(["1/2", "1/2"]), row(["3/4", "1/4"])
    assert smallest_scale(p, q, 1) == 1
    assert smallest_scale(p, p, 5) == 1  # p = q: everything is kept by the first test
    disjoint: tuple[Row, Row] = (row([1, 0]), row([0, 1]))
    assert smallest_scale(*disjoint, 5) == 1  # nothing is covered: every scale is valid
    assert smallest_scale(p, q, 0) == 1
    # β(ρ) = 1/2 + 1/(4ρ), 2 - β = ρ: ρ* = (3 + √5)/4.
    scale = smallest_scale(p, q, 2)
    root_below, root_above = scale - rational(1) / 2**20, scale
    assert (4 * root_below - 3) ** 2 < 5 <= (4 * root_above - 3) ** 2


@pytest.mark.parametrize("grid", [0, -3])
def test_a_grid_is_positive(grid: int) -> None:
    with pytest.raises(ValueError, match=f"grid must be an integer of at least 1, not {grid}"):
        smallest_scale(row([1]), row([1]), 2, grid)


def test_row_or_plain() -> None:
    plain = row(["1/3", "2/3"])
    assert row_or_plain((rational(0), rational(0)), plain) is plain
    weights: tuple[Number, ...] = (rational(1), rational(3))
    assert row_or_plain(weights, plain) == (rational("1/4"), rational("3/4"))
