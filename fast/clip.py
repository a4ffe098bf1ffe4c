"""The clip over V-sized rows: masses, the smallest valid scale, and drawing from what is owed.

These are the only operations of the fast path that touch whole rows. In algorithm notation, on a
draft row p and a target T (a row q, or what earlier decisions left of it):

    T(v)        = (a q(v) - b p(v))+             a = 1, b = 0 is the plain row
    covered(v)  = min(p(v), T(v)/ρ),  β = Σ covered
    residual(v) = T(v) - c · covered(v) = max(T(v) - c p(v), (1 - c/ρ) T(v))

The passes over rows are the compiled ones of `draftproof.fast.kernels` where there are any for the
device; elsewhere, and for what has none, they are torch on tiles of rows that stay in the cache.

Sums are taken in one fixed order per vocabulary size (`draftproof.fast.sums`), so that the result
of a row is the same bits whatever else is in the call, on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from draftproof.fast import kernels
from draftproof.fast.chain import chain_row
from draftproof.fast.sums import (
    SEGMENT,
    finish,
    row_parts,
    row_sums,
    segment_parts,
    segment_sums,
)
from torch import Tensor

__all__ = [
    "DEFAULT_GRID",
    "Overrides",
    "Owed",
    "Rows",
    "Sums",
    "column",
    "cover_factor",
    "draw",
    "draw_by_segments",
    "inverse_cdf",
    "kept_mass",
    "owed_mass",
    "ratio_masses",
    "risen",
    "selected_row",
    "smallest_scale",
    "solve_scale",
    "tiles",
    "type_parts",
]

DEFAULT_GRID = 2**20
"""Smallest valid scales are rounded up to a multiple of 1/DEFAULT_GRID."""

TILE = 2**18
"""Entries of a tile of rows: it and its temporaries stay in the cache."""
LARGE = 2**16
"""On the CPU, a row of so many entries is a tile of its own, read where it lies."""


observer: Callable[[Rows], None] | None = None
"""Set by the benchmark to see which rows each pass reads."""


@dataclass(frozen=True)
class Rows:
    """R pairs of a draft row and a target row, by index into two tables of rows."""

    draft_rows: Tensor
    """[N, V]"""
    target_rows: Tensor
    """[M, V]"""
    draft_index: Tensor
    """int64 [R]; -1 stands for a draft row of zeros (a leaf has none)"""
    target_index: Tensor
    """int64 [R]; -1 for a pair that nobody needs: it is not read, its results are arbitrary"""
    law: Callable[[slice | Tensor, Tensor, Tensor], Tensor] | None = None
    """law(part, p, q) -> the rows that take the place of the draft rows p of a tile"""
    rise: Tensor | None = None
    """float64 [R, NT]: the factors of `selected_row`, for which there are kernels"""
    edges: Tensor | None = None
    """float64 [NT]: its ratio types"""
    chain: Tensor | None = None
    """[R, J, 4] in the compute dtype: the layers (`draftproof.fast.chain`) of the rows that take
    the place of the target rows"""

    @property
    def count(self) -> int:
        return int(self.draft_index.shape[0])

    @property
    def vocab(self) -> int:
        return int(self.target_rows.shape[1])

    @property
    def device(self) -> torch.device:
        return self.target_rows.device

    @property
    def compute_dtype(self) -> torch.dtype:
        """float64 rows are computed in float64, all others in float32."""
        wide = self.target_rows.dtype == torch.float64
        return torch.float64 if wide else torch.float32

    def only(self, needed: Tensor) -> Rows:
        """The same pairs, those that are not `needed` [R] marked so."""
        return replace(self, target_index=torch.where(needed, self.target_index, -1))

    def kernels(self) -> kernels.Kernels | None:
        """The compiled passes over these rows, if there are any; the observer is told of them."""
        if self.law is not None and self.rise is None:
            return None
        compiled = kernels.choose(self)
        if compiled is not None and observer is not None:
            observer(self)
        return compiled

    def zeros(self, *shape: int) -> Tensor:
        """float64 [R, *shape] of zeros."""
        return torch.zeros(self.count, *shape, dtype=torch.float64, device=self.device)


class Owed(NamedTuple):
    """The coefficients of R rows of weights W = max(T - c p, d T), T = (a q - b p)+."""

    a: Tensor
    """float64 [R], as the others"""
    b: Tensor
    c: Tensor | None = None
    """None: c = d = 0, which is W = T."""
    d: Tensor | None = None

    @staticmethod
    def plain(like: Tensor) -> Owed:
        """The plain target row, for as many rows as `like` [R] has entries."""
        zero = torch.zeros_like(like, dtype=torch.float64)
        return Owed(torch.ones_like(zero), zero)


@dataclass(frozen=True)
class Overrides:
    """Entries of T that are not (a q - b p)+: T(token) = value, for E tokens of each row."""

    tokens: Tensor
    """int64 [R, E]; -1 for none"""
    values: Tensor
    """float64 [R, E]"""


def owed_mass(
    rows: Rows, a: Tensor, b: Tensor | None = None, overrides: Overrides | None = None
) -> Tensor:
    """float64 [R]: Σ_v (a q - b p)+ for coefficients a, b float64 [R] (b None: 1)."""
    if compiled := rows.kernels():
        return compiled.owed_mass(rows, a, b, overrides)
    a, b = column(a, rows), None if b is None else column(b, rows)
    sums = Sums(rows)
    for part, p, q in tiles(rows):
        owed = _owed(p, q, a[part], None if b is None else b[part])
        _apply(owed, overrides, part)
        sums.put(part, row_parts(owed))
    return sums.finish()


class Sums:
    """The sums of R rows, collected part by part and finished in one go."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._parts: list[Tensor] = []
        self._at: list[slice | Tensor] = []

    def put(self, part: slice | Tensor, parts: Tensor) -> None:
        """`sums.row_parts` of the rows `part`, with any dimensions between."""
        self._at.append(part)
        self._parts.append(parts)

    def finish(self, *between: int) -> Tensor:
        """float64 [R, *between]; 0 for rows that nobody needs."""
        sums = self._rows.zeros(*between)
        if not self._parts:
            return sums
        parts = torch.cat(self._parts)
        done = finish(parts.flatten(0, -3)).view(parts.shape[:-2])
        if len(done) == self._rows.count:
            return done
        index = torch.cat(
            [torch.arange(x.start, x.stop) if isinstance(x, slice) else x for x in self._at]
        )
        return sums.index_copy_(0, index, done)


def kept_mass(rows: Rows, scales: Tensor) -> Tensor:
    """float64 [R, G]: Σ_v min(p, s q) at the scales s = 1/ρ float64 [R, G], reading rows once."""
    if compiled := rows.kernels():
        return compiled.kept_mass(rows, scales, None, None)[0]
    sums = torch.zeros_like(scales)
    s = scales.to(rows.compute_dtype)
    for part, p, q in tiles(rows):
        for g in range(scales.shape[1]):
            covered = q * s[part, g, None]
            sums[part, g] = row_sums(torch.minimum(covered, p, out=covered))
    return sums


def cover_factor(kept: Tensor, drafts: Tensor) -> Tensor:
    """c(β, n) = (1 - (1-β)^n)/β, and its limit n at β = 0; float64, stable for small β."""
    n = drafts.to(kept.dtype)
    kept = kept.clamp(0.0, 1.0)
    return torch.where(kept > 0, _some(kept, n) / torch.where(kept > 0, kept, 1.0), n)


def smallest_scale(
    rows: Rows,
    drafts: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    grid: int = DEFAULT_GRID,
) -> tuple[Tensor, Tensor]:
    """The smallest valid scale ρ* of K-SEQ for n i.i.d. drafts, rounded up to a multiple of 1/grid.

    ρ is valid when c(β(ρ), n) ≤ ρ. With s = 1/ρ and M(s) = Σ min(p, s T), which is concave, it is
    the root of f(s) = M(s)/s - (1 - (1-M(s))^n): Newton's method with the exact slope of M, kept in
    a bracket, needs a few passes over a row that is already in the cache. Whatever it returns is
    valid for the M that was computed, because the last pass tests the candidates themselves.

    Args:
        drafts: int64 [R], the number n of drafts of each row.
        a, b: float64 [R], coefficients of T; None for the plain target row.

    Returns:
        scale ρ and kept mass β = M(1/ρ), both float64 [R].
    """
    n = drafts.to(torch.float64)
    if compiled := rows.kernels():
        masses = compiled.kept_mass

        def evaluate(scales: Tensor, needed: Tensor | None) -> tuple[Tensor, Tensor]:
            return masses(rows if needed is None else rows.only(needed), scales, a, b)

        here = rows.device.type == "cpu"
        return _root(evaluate, n, grid, _noise(rows.compute_dtype), may_stop=here)
    scale, kept = rows.zeros() + 1, rows.zeros()
    if a is not None and b is not None:
        a, b = column(a, rows), column(b, rows)
    for part, p, q in tiles(rows):
        target = q if a is None or b is None else _owed(p, q, a[part], b[part])
        scale[part], kept[part] = solve_scale(p, target, n[part], grid)
    return scale, kept


def solve_scale(p: Tensor, target: Tensor, n: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """Smallest valid scale and its kept mass for each row of a tile, n float64 [r] drafts."""
    covered = torch.empty_like(p)

    def evaluate(scales: Tensor, needed: Tensor | None) -> tuple[Tensor, Tensor]:
        parts = []
        for g in range(scales.shape[1]):
            torch.mul(target, scales[:, g, None].to(p.dtype), out=covered)
            torch.minimum(covered, p, out=covered)
            parts.append(row_parts(covered))
        if needed is not None:  # the slope is wanted
            parts.append(row_parts(covered.masked_fill_(covered >= p, 0)))
        sums = finish(torch.cat(parts)).view(len(parts), len(p))
        count = scales.shape[1]
        return sums[:count].T, sums[count:].T

    return _root(evaluate, n, grid, _noise(p.dtype), may_stop=p.device.type == "cpu")


NEWTON_PASSES = 12
"""Most passes of the root search; rows stop changing once they have converged, mostly after 5."""

Evaluate = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""evaluate(scales [r, G], needed bool [r] or None) -> M(s) and, for one scale and rows that are
`needed`, the part of it where s T < p"""


def _noise(dtype: torch.dtype) -> float:
    """How well a root is known at best: a few roundings of the sums."""
    return 16 * torch.finfo(dtype).eps


def _root(
    evaluate: Evaluate, n: Tensor, grid: int, noise: float, may_stop: bool
) -> tuple[Tensor, Tensor]:
    """The root search of `smallest_scale` on scalars; every row is decided by its own values."""
    n = n.clamp(min=1.0)
    low, high = 1.0 / n, torch.ones_like(n)  # ρ = n is always valid
    s = high.clone()
    done = n <= 1
    for _ in range(NEWTON_PASSES):
        masses, partial = evaluate(s[:, None], ~done)
        mass, slope = masses[:, 0], partial[:, 0] / s
        value = mass / s - _some(mass, n)
        valid = value >= 0
        low = torch.where(valid & ~done, torch.maximum(low, s), low)
        high = torch.where(valid | done, high, torch.minimum(high, s))
        others = torch.exp((n - 1) * torch.log1p(-mass.clamp(max=1.0)))  # (1-M)^(n-1)
        derivative = slope / s - mass / (s * s) - n * others * slope
        step = s - value / torch.where(derivative < 0, derivative, -1.0)
        near = (derivative < 0) & ((step - s).abs() < max(1e-6 / grid, noise))
        inside = (derivative < 0) & (step > low) & (step < high)
        step = torch.where(inside, step, torch.sqrt(low * high))
        # ρ = 1 is valid, or the root is known far below the grid or to rounding
        over = (valid & (s == 1)) | near | (high <= low)
        s = torch.where(done | over, s, step)
        done = done | over
        if may_stop and bool(done.all()):
            break
    tick = torch.ceil(grid / s)
    ticks = torch.stack([(tick - 1).clamp(min=grid), tick, tick + 1, torch.ceil(grid / low)], 1)
    tried = ticks / grid
    masses, _ = evaluate(1.0 / tried, None)
    sound = (_some(masses, n[:, None]) <= tried * masses) | (n[:, None] <= 1)
    # the last candidate can fail by one rounding of a sum; it is taken all the same
    sound[:, -1] = True
    best = torch.where(sound, tried, torch.inf).argmin(1, keepdim=True)
    return tried.gather(1, best)[:, 0], masses.gather(1, best)[:, 0]


def _some(kept: Tensor, n: Tensor) -> Tensor:
    """1 - (1-β)^n without cancellation."""
    some = -torch.expm1(n * torch.log1p(-kept.clamp(0.0, 1.0)))
    return torch.where(kept >= 1.0, 1.0, some)


def ratio_masses(rows: Rows, edges: Tensor) -> Tensor:
    """float64 [R, NT]: the draft mass of each ratio type, reading rows once.

    A token of ratio min(q/p, e_last) = (1-f) e_b + f e_{b+1} counts (1-f) p for type b and f p for
    type b+1. With h_b = min(p, (q - e_b p)+ / (e_{b+1} - e_b)), which is p above the interval, f p
    in it and 0 below, type b has Σ (h_{b-1} - h_b): nothing is divided by p, and a sum of
    non-negative terms keeps its relative precision however small the mass is.
    """
    if compiled := rows.kernels():
        return compiled.ratio_masses(rows, edges)
    masses = Sums(rows)
    for part, p, q in tiles(rows):
        masses.put(part, type_parts(p, q, edges))
    return masses.finish(len(edges))


def type_parts(p: Tensor, q: Tensor, edges: Tensor) -> Tensor:
    """`sums.row_parts` of the draft mass of each ratio type, for a tile [r, V]: [r, NT, ..]."""
    above, here, parts = p.clone(), torch.empty_like(p), []
    for edge, inverse in intervals(edges):
        _hat(p, q, edge, inverse, here)
        parts.append(row_parts(above.sub_(here)))
        above, here = here, above
    parts.append(row_parts(above))
    return torch.stack(parts, 1)


def selected_row(rows: Rows, rise: Tensor, edges: Tensor) -> Rows:
    """The rows with p replaced by r = p ((1-f) t_b + f t_{b+1}), for t = `rise` [R, NT]."""

    def law(part: slice | Tensor, p: Tensor, q: Tensor) -> Tensor:
        return risen(p, q, rise[part], edges)

    return replace(rows, law=law, rise=rise, edges=edges)


def risen(p: Tensor, q: Tensor, rise: Tensor, edges: Tensor) -> Tensor:
    """`selected_row` of a tile: r [r, V] for t = `rise` [r, NT], in a new tensor."""
    slopes = (rise[:, 1:] - rise[:, :-1]).to(p.dtype)
    r, step = p * rise[:, 0, None].to(p.dtype), torch.empty_like(p)
    for b, (edge, inverse) in enumerate(intervals(edges)):
        r += _hat(p, q, edge, inverse, step).mul_(slopes[:, b, None])
    return r.clamp_(min=0)


def intervals(edges: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(e_b, 1/(e_{b+1} - e_b)) for each interval of ratios, float64 scalars."""
    inverse = 1.0 / (edges[1:] - edges[:-1])
    return list(zip(edges[:-1].unbind(), inverse.unbind(), strict=True))


def _hat(p: Tensor, q: Tensor, edge: Tensor, inverse: Tensor, out: Tensor) -> Tensor:
    """h = min(p, (q - e p)+ · inverse) on a tile, into `out`."""
    torch.mul(p, edge.to(p.dtype), out=out)
    torch.sub(q, out, out=out)
    out.relu_().mul_(inverse.to(p.dtype))
    return torch.minimum(out, p, out=out)


def draw(
    rows: Rows,
    uniform: Tensor,
    owed: Owed,
    overrides: Overrides | None = None,
) -> Tensor:
    """int64 [R]: a token from the weights W = max(T - c p, d T), T = (a q - b p)+, by inverse CDF.

    The smallest v with cumsum(W)(v) > u · ΣW, never a token of weight 0; where ΣW = 0 the plain row
    q takes the place of W.
    """
    if rows.law is not None and rows.rise is None:  # a law of whole rows
        token = torch.zeros(rows.count, dtype=torch.int64, device=rows.device)
        columns = _columns(owed, rows)
        for part, p, q in tiles(rows):
            weights = _weights(p, q, columns, part)
            _apply(weights, overrides, part)
            token[part] = inverse_cdf(weights, q, uniform[part])
        return token
    if compiled := rows.kernels():
        return compiled.draw(rows, uniform, owed, overrides)
    return draw_by_segments(rows, uniform, owed, overrides, *_segment_masses(rows, owed, overrides))


def draw_by_segments(
    rows: Rows,
    uniform: Tensor,
    owed: Owed,
    overrides: Overrides | None,
    masses: Tensor,
    plain: Tensor,
) -> Tensor:
    """The draw, from the sums of the weights and of the plain row by segment, float64 [R, n]."""
    empty = masses.sum(1) <= 0
    segment, threshold = _find_segment(torch.where(empty[:, None], plain, masses), uniform)
    at, inside = _columns_of(segment, rows.vocab)
    q = rows.target_rows[rows.target_index.clamp(min=0)[:, None], at].to(rows.compute_dtype)
    p = rows.draft_rows[rows.draft_index.clamp(min=0)[:, None], at].to(rows.compute_dtype)
    p = torch.where((rows.draft_index >= 0)[:, None], p, 0)
    every = slice(None)
    p = p if rows.law is None else rows.law(every, p, q)
    q = q if rows.chain is None else chain_row(p, q, rows.chain)
    weights = _weights(p, q, _columns(owed, rows), every)
    if overrides is not None:
        for e in range(overrides.tokens.shape[1]):
            value = column(overrides.values[:, e], rows)
            weights = torch.where(at == overrides.tokens[:, e : e + 1], value, weights)
    weights = torch.where(inside, torch.where(empty[:, None], q, weights), 0)
    return _find_column(weights, segment, threshold, rows.vocab)


def _segment_masses(rows: Rows, owed: Owed, overrides: Overrides | None) -> tuple[Tensor, Tensor]:
    """float64 [R, segments]: the weights and the plain row, summed by segment.

    On the CPU the plain row is summed only where it is needed: where all weights are 0.
    """
    columns = _columns(owed, rows)
    masses, plain = Sums(rows), Sums(rows)
    here = rows.device.type == "cpu"
    for part, p, q in tiles(rows):
        weights = _weights(p, q, columns, part)
        _apply(weights, overrides, part)
        masses.put(part, segment_parts(weights)[:, :, None])
        if not here:
            plain.put(part, segment_parts(q)[:, :, None])
    segments = -(-rows.vocab // SEGMENT)
    sums = masses.finish(segments)
    if here:
        for part, _, q in tiles(rows.only(sums.sum(1) <= 0)):
            plain.put(part, segment_parts(q)[:, :, None])
    return sums, plain.finish(segments)


def inverse_cdf(weights: Tensor, plain: Tensor, uniform: Tensor) -> Tensor:
    """The inverse CDF of each row of a tile [r, V] at `uniform` [r]; `plain` where all are 0."""
    masses = segment_sums(weights)
    empty = masses.sum(1) <= 0  # a sum of non-negative numbers is 0 in any order or in none
    if weights.device.type != "cpu" or bool(empty.any()):
        weights = torch.where(empty[:, None], plain, weights)
        masses = torch.where(empty[:, None], segment_sums(plain), masses)
    segment, threshold = _find_segment(masses, uniform)
    at, inside = _columns_of(segment, weights.shape[1])
    piece = torch.where(inside, weights.gather(1, at), 0)
    return _find_column(piece, segment, threshold, weights.shape[1])


def _find_segment(masses: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The segment in which u · ΣW falls, int64 [r], and how far into it, float64 [r]."""
    reached = masses.cumsum(1)
    threshold = uniform * reached[:, -1]
    segment = _first(reached > threshold[:, None], masses > 0)
    before = reached.gather(1, (segment - 1).clamp(min=0)[:, None])[:, 0]
    return segment, threshold - torch.where(segment > 0, before, 0.0)


def _columns_of(segment: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
    """The columns of a segment of each row, [r, SEGMENT], and which of them exist."""
    width = min(SEGMENT, vocab)
    at = segment[:, None] * SEGMENT + torch.arange(width, device=segment.device)
    return at.clamp(max=vocab - 1), at < vocab


def _find_column(piece: Tensor, segment: Tensor, threshold: Tensor, vocab: int) -> Tensor:
    reached = piece.to(torch.float64).cumsum(1)
    column_ = _first(reached > threshold[:, None], piece > 0)
    return (segment * SEGMENT + column_).clamp(max=vocab - 1)


def _columns(owed: Owed, rows: Rows) -> list[Tensor | None]:
    return [None if x is None else column(x, rows) for x in owed]


def _weights(p: Tensor, q: Tensor, columns: list[Tensor | None], part: slice | Tensor) -> Tensor:
    """max(T - c p, d T) on a tile, T = (a q - b p)+, in a new tensor."""
    a, b, c, d = (None if x is None else x[part] for x in columns)
    assert a is not None
    weights = _owed(p, q, a, b)
    if c is not None and d is not None:
        weights = torch.maximum(weights - c * p, d * weights)
    return weights


def column(values: Tensor, rows: Rows) -> Tensor:
    """[R, 1] in the compute dtype of the rows."""
    return values.to(rows.compute_dtype)[:, None]


def _owed(p: Tensor, q: Tensor, a: Tensor, b: Tensor | None) -> Tensor:
    """(a q - b p)+ on a tile, in a new tensor; a and b [r, 1]."""
    owed = q * a
    owed -= p if b is None else p * b
    return owed.relu_()


def _apply(tile: Tensor, overrides: Overrides | None, part: slice | Tensor) -> None:
    """Put the overridden entries into a tile of T, in place."""
    if overrides is None or overrides.tokens.shape[1] == 0:
        return
    tokens, values = overrides.tokens[part], overrides.values[part]
    present = tokens >= 0
    # An absent override rewrites entry 0 with itself; a present one for token 0 must win, so the
    # absent ones repeat the row's first present override where there is one.
    first = present.to(torch.int8).argmax(1, keepdim=True)
    fill_token = tokens.gather(1, first).clamp(min=0)
    own = tile.gather(1, fill_token).to(torch.float64)
    fill_value = torch.where(
        present.any(1, keepdim=True), overrides.values[part].gather(1, first), own
    )
    tokens = torch.where(present, tokens, fill_token)
    values = torch.where(present, values, fill_value)
    tile.scatter_(1, tokens, values.to(tile.dtype))


def _first(reached: Tensor, positive: Tensor) -> Tensor:
    """The first column that is reached and positive, else the last positive one."""
    width = reached.shape[1]
    both = reached & positive
    first = both.to(torch.int8).argmax(1)
    last = width - 1 - positive.flip(1).to(torch.int8).argmax(1)
    return torch.where(both.any(1), first, last)


Part = slice | Tensor
"""Which of the R pairs a tile holds."""
Tile = tuple[Part, Tensor, Tensor]


def tiles(rows: Rows) -> Iterator[Tile]:
    """(which of the R pairs, draft rows [r, V], target rows [r, V]) in the compute dtype.

    On the CPU a large row is a tile of its own, read in place, and pairs that nobody needs are
    skipped. Elsewhere nothing depends on the values of the indices, so there is no synchronisation.
    """
    if observer is not None:
        observer(rows)
    if rows.device.type != "cpu":
        raw = _rows_gathered(rows)
    elif rows.vocab >= LARGE:
        raw = _rows_in_place(rows)
    else:
        raw = _rows_needed(rows)
    for part, p, q in raw:
        p, q = p.to(rows.compute_dtype), q.to(rows.compute_dtype)
        p = p if rows.law is None else rows.law(part, p, q)
        yield part, p, q if rows.chain is None else chain_row(p, q, rows.chain[part])


def _rows_needed(rows: Rows) -> Iterator[Tile]:
    for part in torch.split((rows.target_index >= 0).nonzero()[:, 0], _tile_rows(rows)):
        index = rows.draft_index[part]
        p = torch.where((index >= 0)[:, None], rows.draft_rows[index.clamp(min=0)], 0)
        yield part, p, rows.target_rows[rows.target_index[part]]


def _rows_in_place(rows: Rows) -> Iterator[Tile]:
    none = rows.target_rows.new_zeros(1, rows.vocab)
    pairs = zip(rows.draft_index.tolist(), rows.target_index.tolist(), strict=True)
    for r, (n, m) in enumerate(pairs):
        if m >= 0:
            p = rows.draft_rows[n : n + 1] if n >= 0 else none
            yield slice(r, r + 1), p, rows.target_rows[m : m + 1]


def _rows_gathered(rows: Rows) -> Iterator[Tile]:
    step = _tile_rows(rows)
    for low in range(0, rows.count, step):
        part = slice(low, low + step)
        index = rows.draft_index[part]
        p = torch.where((index >= 0)[:, None], rows.draft_rows[index.clamp(min=0)], 0)
        yield part, p, rows.target_rows[rows.target_index[part].clamp(min=0)]


def _tile_rows(rows: Rows) -> int:
    return max(1, TILE // rows.vocab)
