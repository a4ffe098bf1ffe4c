"""The coupling of ratio types with labels that ranked block verification uses by default.

Only a proposal, in floats: `ranked_block.repaired` makes its marginals exact. Any coupling is
lossless; this one accepts a lot. Types of high q/p get high labels, as far as that is useful: the
selected law should cover the target, not overshoot it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from draftproof.reference.models import Prefix
from draftproof.reference.numbers import Number, rational
from draftproof.reference.rows import Row

__all__ = ["Couple", "coupling_proposal"]

Couple = Callable[[Prefix, Row, Row, Row, Row, Number], Sequence[Sequence[object]]]
"""couple(prefix, types, ratio_edges, labels, boost, weight) -> matrix [NT][J]: a coupling of the
type masses P with the label masses π_x, given the ratio edges e, u/T_x and w_x."""

GRID = 2**24
"""Entries are shrunk a little and rounded down to multiples of 1/GRID: then no marginal is
exceeded, the exact repair only fills up, and the exact numbers that follow stay small."""
SHRINK = 1 - 2**-20
NEWTON_STEPS = 3
SWEEPS = 2


@dataclass
class _Pool:
    """Neighbouring types that share one ratio f/Q of selected mass to target mass."""

    types: list[int]
    P: float
    Q: float
    f: float


def coupling_proposal(
    prefix: Prefix, types: Row, ratio_edges: Row, labels: Row, boost: Row, weight: Number
) -> list[list[Number]]:
    """A coupling that aims at a selected law near w q, see the steps a) to d) below."""
    P = [float(mass) for mass in types]
    Q = [float(edge) * mass for edge, mass in zip(ratio_edges, P, strict=True)]
    pi = [float(mass) for mass in labels]
    u = [float(value) for value in boost]
    w = float(weight)
    pools = _pooled(P, Q, pi, u)
    matrix = [[0.0] * len(pi) for _ in P]
    # b) two groups: the under-covered types get the top of the label mass, the rest the bottom.
    lacking = [pool for pool in pools if pool.f < w * pool.Q]
    covered = [pool for pool in pools if pool.f >= w * pool.Q]
    left = list(pi)
    for group in (lacking, covered):
        if not group:
            continue
        mass = sum(pool.P for pool in group)
        # The last group takes all that is left.
        share = list(left) if group is covered or not covered else _from_the_top(left, mass)
        left = [have - taken for have, taken in zip(left, share, strict=True)]
        _couple_group(group, share, P, Q, u, w, group is lacking, matrix)
    shrunk = SHRINK * GRID
    return [[rational(math.floor(entry * shrunk)) / GRID for entry in line] for line in matrix]


def _pooled(P: list[float], Q: list[float], pi: list[float], u: list[float]) -> list[_Pool]:
    """a) Lay the types, best ratio first, on the label mass from the top; pool adjacent violators.

    With F(s) the integral of u/T over the bottom s of the label mass, a block on (lo, hi] has
    f = F(hi) - F(lo). Blocks are merged until f/Q increases from the best to the worst.
    """
    edges = [0.0, *accumulate(pi)]
    heights = [0.0, *accumulate(m * value for m, value in zip(pi, u, strict=True))]

    def integral(s: float) -> float:
        """F(s)."""
        for c in range(len(pi)):
            if s <= edges[c + 1] and pi[c] > 0:
                return heights[c] + (s - edges[c]) * u[c]
        return heights[-1]

    pools: list[_Pool] = []
    top = edges[-1]
    for b in range(len(P) - 1, -1, -1):
        if P[b] <= 0:
            continue
        bottom = max(0.0, top - P[b])
        pools.append(_Pool([b], P[b], Q[b], integral(top) - integral(bottom)))
        top = bottom
        while len(pools) > 1 and pools[-2].f * pools[-1].Q >= (1 - 1e-13) * (
            pools[-1].f * pools[-2].Q
        ):
            worse, better = pools.pop(), pools[-1]
            better.types += worse.types
            better.P, better.Q, better.f = (
                better.P + worse.P,
                better.Q + worse.Q,
                better.f + worse.f,
            )
    return pools


def _from_the_top(left: list[float], mass: float) -> list[float]:
    """The part of the label masses that a group of this mass takes from the highest labels."""
    share = [0.0] * len(left)
    for c in range(len(left) - 1, -1, -1):
        share[c] = min(left[c], max(mass, 0.0))
        mass -= share[c]
    return share


def _couple_group(
    group: list[_Pool],
    share: list[float],
    P: list[float],
    Q: list[float],
    u: list[float],
    w: float,
    is_lacking: bool,
    matrix: list[list[float]],
) -> None:
    """Write the rows of a group's types: a coupling with the label masses `share`."""
    members = [b for pool in group for b in pool.types]
    mass = sum(P[b] for b in members)
    scale = mass / sum(share) if sum(share) > 0 else 0.0
    share = [m * scale for m in share]
    if len(members) == 1:
        matrix[members[0]] = share
        return
    f = sum(m * value for m, value in zip(share, u, strict=True))
    mean = f / mass
    X = [value / mean - 1 for value in u] if mean > 0 else [0.0] * len(u)
    variance = sum(m * x * x for m, x in zip(share, X, strict=True)) / mass
    if variance < 1e-13:
        for b in members:
            matrix[b] = [P[b] * m / mass for m in share]
        return
    wanted = _wanted(group, P, Q, f, w, is_lacking)
    aims = [wanted[b] / P[b] / mean - 1 for b in members]
    rows = _tilted_coupling([P[b] for b in members], share, X, aims, variance)
    for b, row in zip(members, _filled_up(rows, [P[b] for b in members], share), strict=True):
        matrix[b] = row


def _wanted(
    group: list[_Pool], P: list[float], Q: list[float], f: float, w: float, is_lacking: bool
) -> dict[int, float]:
    """c) The selected mass each type should get: the geometric mean of two answers, of sum f.

    t1 shares the mass of each block in proportion to Q; t2 fills up to w Q (under-covered) or
    spreads what is above w Q (the rest) at one water level m of t/P.
    """
    first = {
        b: pool.f * Q[b] / pool.Q if pool.Q > 0 else pool.f * P[b] / pool.P
        for pool in group
        for b in pool.types
    }
    clamp = min if is_lacking else max

    def filled(m: float) -> dict[int, float]:
        return {b: clamp(w * Q[b], m * P[b]) for b in first}

    low, high = 0.0, max(f / P[b] for b in first)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(filled(middle).values()) < f else (low, middle)
    second = filled(high)
    both = {b: math.sqrt(max(first[b], 0.0) * max(second[b], 0.0)) for b in first}
    sum_of_both = sum(both.values())
    return {b: f * t / sum_of_both for b, t in both.items()} if sum_of_both > 0 else first


def _tilted_coupling(
    rows: list[float], columns: list[float], X: list[float], aims: list[float], variance: float
) -> list[list[float]]:
    """d) M[b][c] = A_b B_c exp(a_b X_c) with these marginals and row means of X near `aims`.

    A few rounds of two Sinkhorn sweeps for the marginals and one Newton step for the exponents.
    """
    mass = sum(columns)
    a = [aim / variance for aim in aims]
    B = [column / mass for column in columns]
    step_limit = 3 / math.sqrt(variance)
    M: list[list[float]] = []
    for newton in range(NEWTON_STEPS + 1):
        kernel = []
        for slope in a:
            exponents = [slope * x for x in X]
            highest = max(exponents)
            kernel.append([math.exp(exponent - highest) for exponent in exponents])
        for _ in range(SWEEPS):
            A = _row_factors(rows, kernel, B)
            sums = [sum(A[b] * kernel[b][c] for b in range(len(rows))) for c in range(len(X))]
            B = [column / max(s, 1e-300) for column, s in zip(columns, sums, strict=True)]
            largest = max(B)
            B = [factor / largest for factor in B]
        A = _row_factors(rows, kernel, B)
        M = [
            [A[b] * k * factor for k, factor in zip(kernel[b], B, strict=True)]
            for b in range(len(rows))
        ]
        if newton == NEWTON_STEPS:
            break
        for b, row in enumerate(M):
            first = sum(m * x for m, x in zip(row, X, strict=True)) / rows[b]
            second = sum(m * x * x for m, x in zip(row, X, strict=True)) / rows[b]
            spread = max(second - first * first, 1e-3 * variance)
            step = min(max((aims[b] - first) / spread, -step_limit), step_limit)
            a[b] = min(max(a[b] + step, -100.0), 100.0)
    return M


def _filled_up(M: list[list[float]], rows: list[float], columns: list[float]) -> list[list[float]]:
    """e) The repair of the marginals within a group, in floats."""
    for c, wanted in enumerate(columns):
        have = sum(line[c] for line in M)
        if have > wanted:
            for line in M:
                line[c] *= wanted / have
    for line, wanted in zip(M, rows, strict=True):
        have = sum(line)
        if have > wanted:
            line[:] = [entry * wanted / have for entry in line]
    row_gaps = [max(wanted - sum(line), 0.0) for line, wanted in zip(M, rows, strict=True)]
    gaps = [max(wanted - sum(line[c] for line in M), 0.0) for c, wanted in enumerate(columns)]
    missing = sum(gaps)
    if missing <= 0:
        return M
    return [
        [entry + row_gap * gap / missing for entry, gap in zip(line, gaps, strict=True)]
        for line, row_gap in zip(M, row_gaps, strict=True)
    ]


def _row_factors(rows: list[float], kernel: list[list[float]], B: list[float]) -> list[float]:
    return [
        row / max(sum(k * factor for k, factor in zip(line, B, strict=True)), 1e-300)
        for row, line in zip(rows, kernel, strict=True)
    ]
