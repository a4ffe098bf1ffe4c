"""The optimal coupling of one token by scores, on the host: pooled blocks, and pieces of scores.

Each of n i.i.d. drafts has a score, uniform on [0, 1] over its law, that depends on its token; the
highest wins, so that a token which owns the scores (a, b] is selected with probability b^n - a^n.

    r       Sort by q/p descending and give each token, from the top, a piece of length p. Pool
            neighbours until r/q increases from the best to the worst; in a pooled block r = λ q.
    pieces  A block owns an interval of scores of the length of its draft mass. In it, in the same
            order, each token takes a contiguous piece of what is left, of length p and mass r.

Pooling and cutting go from token to token, each step from the one before. What is needed is little:
λ for all blocks, but pieces only in the best block that a draft is in, up to its last drafted token
(worse ones never win, whatever their score).
Source: this project (see `draftproof.reference.couplings.transport`, which for n > 2 rounds the
ends of pieces to multiples of 2^-30).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

__all__ = ["Plan", "Row", "score_plan"]

Row = NDArray[np.float64]
Pieces = list[tuple[float, float]]
"""(start, length) of intervals of scores."""
TIE = 2.0**-49
"""Ratios that differ by rounding are ordered by their tokens, as equal ones are."""
NEWTON_STEPS = 50
"""A convex function is followed down from one side, and mostly met after 5 steps."""


class Plan(NamedTuple):
    """How a token is selected from the drafted ones."""

    selected: Row
    """r [V]: the law of the selected token over all drafts."""
    weights: dict[int, float]
    """P(a drafted token is selected | the drafts)."""


def score_plan(draft_row: Row, target_row: Row, tokens: Sequence[int]) -> Plan:
    """The plan for drafts of these tokens, each of which the draft row [V] can draw."""
    n = len(tokens)
    drafted = set(tokens)
    if n == 1:
        return Plan(draft_row, {tokens[0]: 1.0})
    order, starts, block_mass = _pooled(draft_row, target_row, n)
    p, q = draft_row[order], target_row[order]
    rest = np.maximum(1 - np.cumsum(p), 0.0)  # draft mass of the worse tokens
    rest[-1] = 0.0
    ends = [*starts[1:].tolist(), len(order)]
    share = np.where(np.add.reduceat(q, starts) > 0, 1.0, 0.0)
    sizes = np.diff([*starts, len(order)])
    wanted = np.where(np.repeat(share, sizes) > 0, q, p)  # no target mass to share: any layout
    whole = np.add.reduceat(wanted, starts)
    wanted *= np.repeat(block_mass / whole, sizes)
    selected = np.zeros_like(draft_row)
    selected[order] = wanted
    if len(drafted) == 1:
        return Plan(selected, dict.fromkeys(drafted, 1.0))
    places = {int(order[i]): int(i) for i in np.flatnonzero(np.isin(order, list(drafted)))}
    best = int(np.searchsorted(starts, min(places.values()), side="right")) - 1
    first, last = int(starts[best]), ends[best]
    inside = {v: i - first for v, i in places.items() if i < last}
    if len(inside) == 1:
        return Plan(selected, dict.fromkeys(drafted, 0.0) | dict.fromkeys(inside, 1.0))
    high = 1.0 if first == 0 else float(rest[first - 1])
    cut = _cut(
        float(rest[last - 1]),
        high,
        p[first:last].tolist(),
        wanted[first:last].tolist(),
        n,
        max(inside.values()),
    )
    pieces = {v: cut[i] for v, i in inside.items()}
    count = {v: tokens.count(v) for v in inside}
    return Plan(selected, dict.fromkeys(drafted, 0.0) | _selection(pieces, count))


def _pooled(p: Row, q: Row, n: int) -> tuple[NDArray[Any], NDArray[Any], Row]:
    """The drafted tokens, best q/p first; where each pooled block starts; its selected mass."""
    able = np.flatnonzero(p > 0)
    ratio = q[able] / p[able]
    order = np.argsort(-ratio, kind="stable")
    better = ratio[order[:-1]] * (1 - TIE) > ratio[order[1:]]
    level = np.concatenate([[0], np.cumsum(better)])
    order = able[order[np.lexsort((order, level))]]
    p, q = p[order], q[order]
    high = 1 - np.concatenate([[0.0], np.cumsum(p)[:-1]])
    r = p * _power_sum(np.maximum(high - p, 0.0), np.maximum(high, 0.0), n)
    with np.errstate(divide="ignore", over="ignore"):
        slope = r / q
    some = int(np.count_nonzero(np.isfinite(slope)))  # the others are one block, the worst
    starts = np.zeros(0, dtype=np.int64)
    if some:
        starts = isotonic_regression(slope[:some], weights=q[:some]).blocks[:-1]
    if some < len(order):
        starts = np.append(starts, some)
    return order, starts, np.add.reduceat(r, starts)


def _power_sum(low: Any, high: Any, n: int) -> Any:
    """Σ_{j<n} high^j low^(n-1-j) = (high^n - low^n)/(high - low)."""
    total, power = high * 0 + 1.0, high * 0 + 1.0
    for _ in range(1, n):
        power = power * high
        total = total * low + power
    return total


def _area(start: float, length: float, n: int) -> float:
    """The selected mass of the scores in (start, start + length]."""
    return float(length * _power_sum(start, start + length, n))


def _cut(
    low: float, high: float, lengths: list[float], wanted: list[float], n: int, stop: int
) -> list[Pieces]:
    """Cut (low, high] into pieces of these lengths and masses, up to the token at `stop`.

    What is left is (low, top] and, above it, a stack of intervals, the lowest last.
    """
    top, stack = high, Pieces()
    made: list[Pieces] = []
    for v in range(stop + 1):
        m, need = lengths[v], wanted[v]
        if v == len(lengths) - 1:
            made.append([(low, max(top - low, 0.0)), *stack])
        elif m <= top - low and _area(top - m, m, n) >= need:
            start = max(_start(top - m, m, need, n), low)
            made.append([(start, m)])
            if start + m < top:
                stack.append((start + m, top - start - m))
            top = start
        else:
            below, taken = _straddle(top, min(m, top - low), stack, m, need, n)
            made.append([(top - below, below), *taken])
            top -= below
    return made


def _straddle(
    top: float, most: float, stack: Pieces, length: float, need: float, n: int
) -> tuple[float, Pieces]:
    """A piece with a part below the top, at most `most`, and the rest from the bottom of the stack.

    Returns the length below and what was taken from the stack; more of it is more mass.
    """
    below, rest, taken = most, length - most, Pieces()
    mass = _area(top - below, below, n)
    while rest > 0 and stack:
        start, size = stack.pop()
        part = min(rest, size)
        taken.append((start, part))
        mass, rest = mass + _area(start, part, n), rest - part
        if part < size:
            stack.append((start + part, size - part))
    while mass < need and below > 0 and stack:
        start, size = stack.pop()
        part = _exchange(top - below, start, min(size, below), need - mass, n)
        taken.append((start, part))
        mass += _area(start, part, n) - _area(top - below, part, n)
        below -= part
        if part < size:
            stack.append((start + part, size - part))
            break
    return below, taken


def _start(most: float, length: float, need: float, n: int) -> float:
    """b ≤ most at which (b, b + length] has the mass `need`."""
    height, b = need / length, most
    for _ in range(NEWTON_STEPS):
        slope = n * _power_sum(b, b + length, n - 1)
        step = (_power_sum(b, b + length, n) - height) / slope if slope > 0 else 0.0
        if not step > 0 or b - step == b:
            break
        b = max(b - step, 0.0)
    return float(b)


def _exchange(low: float, high: float, most: float, gain: float, n: int) -> float:
    """t ≤ most such that (high, high + t] has `gain` more mass than (low, low + t]; else most."""
    t = most
    for _ in range(NEWTON_STEPS):
        excess = _area(high, t, n) - _area(low, t, n) - gain
        slope = n * ((high + t) ** (n - 1) - (low + t) ** (n - 1))
        step = excess / slope if slope > 0 else 0.0
        if not step > 0 or t - step == t:
            break
        t = max(t - step, 0.0)
    return t


def _selection(pieces: dict[int, Pieces], count: dict[int, int]) -> dict[int, float]:
    """P(the highest score is of this token), for `count` drafts of each token."""
    length = {v: sum(size for _, size in own) for v, own in pieces.items()}
    below, chosen, reached = dict.fromkeys(pieces, 0.0), dict.fromkeys(pieces, 0.0), 0.0
    for _, size, v in sorted((start, size, v) for v, own in pieces.items() for start, size in own):
        if length[v] > 0:
            below[v] = min(below[v] + size / length[v], 1.0)
        together = 1.0
        for token, times in count.items():
            together *= below[token] ** times
        chosen[v] += together - reached
        reached = together
    whole = sum(chosen.values())
    if whole <= 0:  # pieces lighter than rounding
        return dict.fromkeys(pieces, 1 / len(pieces))
    return {v: weight / whole for v, weight in chosen.items()}
