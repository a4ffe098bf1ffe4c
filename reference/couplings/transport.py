"""Transport: the optimal one-token coupling of i.i.d. drafts, realised by scores.

Optimal transport with membership cost, OTM: among all couplings of the drafts with the target, the
most probability that the token is one of the drafts. Its value is α* = 1 + min_H [q(H) - p(H)^n].
This plan reaches it without solving a linear program. Give each draft a score, uniform on [0, 1]
over its law, coupled to its token; select the draft of the highest score; then couple the selected
token, of law r, maximally with the target. The highest of n scores has distribution function s^n,
so a token that owns score pieces (a, b] is selected with probability r = Σ (b^n - a^n).

    r       Sort by q/p descending and give each token, from the top, a piece of length p. Pool
            neighbours until r/q increases from the best to the worst (pool adjacent violators);
            in a pooled block r = λ q. This r maximises Σ min(w q, r) for every w at once.
    pieces  A block owns the score interval of length p(block). Inside it, in order of descending
            r/p, each token takes a contiguous piece of what is left, of length p(v) and integral
            r(v). What is left is an interval and, above it, a stack of pieces; the one unknown is
            a monotone root, linear and so rational for n = 2.

For n > 2 the root is rounded to a grid, and r is computed again from the pieces: exactly lossless,
optimal up to the rounding. Source: this project; the value is from SpecTr (2310.15141) and Hu et
al. (2502.18779).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from draftproof.reference.chance import Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates, Choice, answer, one_token_block
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, Number, rational, whole
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "Block", "Piece", "Plan", "pooled", "score_plan", "transport", "verify"]

ROOT_GRID = 2**30
"""For n > 2 the ends of pieces are rounded to multiples of 1/ROOT_GRID."""


class Piece(NamedTuple):
    """Scores in (low, high] belong to `token`."""

    low: Number
    high: Number
    token: int


class Block(NamedTuple):
    """A pooled block of tokens."""

    tokens: tuple[int, ...]
    p: Number
    q: Number
    r: Number


class Plan(NamedTuple):
    """Pieces in increasing order of score, and the law of the token of the highest score."""

    pieces: tuple[Piece, ...]
    selected: Row


def pooled(draft_row: Row, target_row: Row, drafts: int) -> list[Block]:
    """The blocks of tokens, best q/p first, with r/q strictly increasing from block to block."""
    ratio = {v: target_row[v] / p for v, p in enumerate(draft_row) if p != 0}
    blocks: list[Block] = []
    high = ONE
    for v in sorted(ratio, key=lambda v: (-ratio[v], v)):
        low = high - draft_row[v]
        block = Block((v,), draft_row[v], target_row[v], high**drafts - low**drafts)
        high = low
        while blocks and blocks[-1].r * block.q >= block.r * blocks[-1].q:
            better = blocks.pop()
            block = Block(*(a + b for a, b in zip(better, block, strict=True)))
        blocks.append(block)
    return blocks


@lru_cache(maxsize=1 << 12)
def score_plan(draft_row: Row, target_row: Row, drafts: int, grid: int = ROOT_GRID) -> Plan:
    """The score pieces of all tokens, and the selected law that they give.

    Raises:
        ValueError: a grid that is not a positive integer.
    """
    whole(grid, "grid", 1)
    pieces: list[Piece] = []
    high = ONE
    for block in pooled(draft_row, target_row, drafts):
        low = high - block.p
        if block.q == 0:
            # No target mass to share: any layout of the block will do.
            wanted = {v: draft_row[v] * block.r / block.p for v in block.tokens}
        else:
            wanted = {v: target_row[v] * block.r / block.q for v in block.tokens}
        lengths = {v: draft_row[v] for v in block.tokens}
        pieces += _cut(low, high, lengths, wanted, drafts, grid)
        high = low
    pieces.sort()
    selected = [ZERO] * len(draft_row)
    for piece in pieces:
        selected[piece.token] += piece.high**drafts - piece.low**drafts
    return Plan(tuple(pieces), tuple(selected))


def _cut(
    low: Number,
    high: Number,
    lengths: dict[int, Number],
    wanted: dict[int, Number],
    drafts: int,
    grid: int,
) -> list[Piece]:
    """Cut the interval (low, high] into pieces of these lengths and integrals of n s^(n-1)."""

    def area(a: Number, b: Number) -> Number:
        return b**drafts - a**drafts

    def shifted(length: Number, start: Number) -> Number:
        return area(start, start + length)

    # What is left: (low, top], and above it a stack of intervals, the lowest last.
    pieces: list[Piece] = []
    top = high
    stack: list[tuple[Number, Number]] = []
    *others, last = sorted(lengths, key=lambda v: (-wanted[v] / lengths[v], v))
    for v in others:
        m, need = lengths[v], wanted[v]
        if m <= top - low and area(top - m, top) >= need:
            # One piece (b, b + m] below the top.
            b = _root(partial(shifted, m), low, top - m, need, drafts, grid)
            pieces.append(Piece(b, b + m, v))
            if b + m < top:
                stack.append((b + m, top))
            top = b
            continue
        # The piece passes the top: length y below it, the rest from the bottom of the stack.
        y = _length_below(area, low, top, stack, m, need, drafts, grid)
        if y > 0:
            pieces.append(Piece(top - y, top, v))
        top -= y
        rest = m - y
        while rest > 0:
            a, b = stack.pop()
            taken = min(rest, b - a)
            pieces.append(Piece(a, a + taken, v))
            if a + taken < b:
                stack.append((a + taken, b))
            rest -= taken
    if top > low:
        pieces.append(Piece(low, top, last))
    pieces += [Piece(a, b, last) for a, b in stack]
    return pieces


def _length_below(
    area: Callable[[Number, Number], Number],
    low: Number,
    top: Number,
    stack: Sequence[tuple[Number, Number]],
    length: Number,
    need: Number,
    drafts: int,
    grid: int,
) -> Number:
    """The part y of a piece of this length that lies below the top, its integral being `need`."""

    def integral(y: Number) -> Number:
        gained, rest = area(top - y, top), length - y
        for a, b in reversed(stack):
            taken = min(rest, b - a)
            gained, rest = gained + area(a, a + taken), rest - taken
        return gained

    # The integral falls as y grows, and for n = 2 is linear between the ends of stacked intervals.
    ends, above = [], ZERO
    for a, b in reversed(stack):
        above += b - a
        ends.append(length - above)
    most, least = min(length, top - low), max(ZERO, length - above)
    edges = [most, *(y for y in ends if least < y < most), least]
    for start, stop in pairwise(edges):
        if integral(stop) >= need:
            return _root(integral, start, stop, need, drafts, grid)
    return least


def _root(
    function: Callable[[Number], Number],
    start: Number,
    stop: Number,
    value: Number,
    drafts: int,
    grid: int,
) -> Number:
    """x between the ends with function(x) = value, function(start) ≤ function(stop).

    Exact where the function is linear (n ≤ 2), else rounded to the grid; an end where the value is
    not reached.
    """
    low, high = function(start), function(stop)
    if value <= low:
        return start
    if value >= high:
        return stop
    if drafts <= 2:
        return start + (stop - start) * (value - low) / (high - low)
    steps = 1
    while steps < grid * abs(stop - start):
        steps *= 2
    below, above = 0, steps
    while above - below > 1:
        middle = (below + above) // 2
        if function(start + (stop - start) * middle / steps) < value:
            below = middle
        else:
            above = middle
    rounded = rational(round(float((start + (stop - start) * above / steps) * grid))) / grid
    return min(max(rounded, min(start, stop)), max(start, stop))


def selection(plan: Plan, draft_row: Row, tokens: Sequence[int]) -> dict[int, Number]:
    """P(the draft of the highest score has token x), given the tokens of all drafts."""
    below = dict.fromkeys(tokens, ZERO)  # P(score ≤ the end of the pieces so far | token)
    chosen = dict.fromkeys(tokens, ZERO)
    reached = ZERO
    for piece in plan.pieces:
        if piece.token not in below:
            continue
        below[piece.token] += (piece.high - piece.low) / draft_row[piece.token]
        all_below = ONE
        for token in tokens:
            all_below *= below[token]
        chosen[piece.token] += all_below - reached
        reached = all_below
    return chosen


def verified(chosen: dict[int, Number], selected: Row, target_row: Row) -> Row:
    """The law of the token when one of law `chosen` (`selected` on average) is coupled maximally
    with the target.
    """
    owed = row_or_plain(excess(selected, target_row), target_row)
    law = [ZERO] * len(target_row)
    for x, weight in chosen.items():
        if weight == 0:
            continue
        kept = weight * acceptance(selected, target_row, x)
        law[x] += kept
        for v, share in enumerate(owed):
            law[v] += (weight - kept) * share
    return tuple(law)


@lru_cache(maxsize=1 << 16)
def _law(draft_row: Row, target_row: Row, tokens: tuple[int, ...], grid: int) -> Row:
    if any(draft_row[v] == 0 for v in tokens):
        return target_row  # drafts that cannot be drawn are only ever given by hand
    plan = score_plan(draft_row, target_row, len(tokens), grid)
    return verified(selection(plan, draft_row, tokens), plan.selected, target_row)


def transport(
    chance: Chance,
    candidates: Candidates,
    draft_row: Row,
    target_row: Row,
    *,
    grid: int = ROOT_GRID,
) -> Choice:
    """The token of the highest score, coupled maximally with the target.

    The scores are not drawn: given the candidates the law of the token is known.
    """
    candidates.require_one_row("transport")
    tokens = tuple(sorted(candidates.look(chance)))
    return answer(chance, candidates, _law(draft_row, target_row, tokens, grid))


def verify(
    chance: Chance, drafts: Drafts, draft: Model, target: Model, *, grid: int = ROOT_GRID
) -> Outcome:
    """The coupling as a block scheme of length 1."""

    def coupling(chance: Chance, candidates: Candidates, p: Row, q: Row) -> Choice:
        return transport(chance, candidates, p, q, grid=grid)

    return one_token_block(coupling, chance, drafts, draft, target)


SCHEME = Scheme(
    name="transport",
    kind="coupling",
    summary="the optimal coupling of i.i.d. drafts: the draft of the highest score, then maximal",
    paper="this project",
    verify=verify,
    options={"grid": ROOT_GRID},
)
