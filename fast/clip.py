"""The clip over V-sized rows: masses, the smallest valid scale, and drawing from what is owed.

These are the only operations of the fast path that touch whole rows. In algorithm notation, on a
draft row p and a target T (a row q, or what earlier decisions left of it):

    T(v)        = (a q(v) - b p(v))+             a = 1, b = 0 is the plain row
    covered(v)  = min(p(v), T(v)/ρ),  β = Σ covered
    residual(v) = T(v) - c · covered(v) = max(T(v) - c p(v), (1 - c/ρ) T(v))

Sums are taken in one fixed order per vocabulary size: `LANES` running sums over the columns
l, l + LANES, .. in the dtype of the rows, then a binary tree in float64. The result of a row is
therefore the same bits whatever else is in the call, on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "DEFAULT_GRID",
    "LANES",
    "Overrides",
    "Owed",
    "Rows",
    "column",
    "cover_factor",
    "draw",
    "inverse_cdf",
    "kept_mass",
    "owed_mass",
    "ratio_masses",
    "row_sums",
    "selected_row",
    "smallest_scale",
    "solve_scale",
    "tiles",
]

DEFAULT_GRID = 2**20
"""Smallest valid scales are rounded up to a multiple of 1/DEFAULT_GRID."""

LANES = 16384
"""Running sums per row."""

SEGMENT = 1024
"""Columns per partial sum of the inverse CDF."""

TILE = 2**18
"""Entries of a tile of rows: it and its temporaries stay in the cache."""


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
    law: Callable[[slice, Tensor, Tensor], Tensor] | None = None
    """law(part, p, q) -> the rows that take the place of the draft rows p of a tile"""

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
    sums = torch.zeros(rows.count, dtype=torch.float64, device=rows.device)
    for part, p, q in tiles(rows):
        owed = _owed(p, q, a[part], None if b is None else b[part])
        _apply(owed, overrides, part)
        sums[part] = row_sums(owed)
    return sums


def kept_mass(
    rows: Rows, scales: Tensor, a: Tensor | None = None, b: Tensor | None = None
) -> Tensor:
    """float64 [R, G]: Σ_v min(p, s T) at the scales s = 1/ρ float64 [R, G], reading rows once."""
    sums = torch.zeros_like(scales)
    for part, p, q in tiles(rows):
        target = q if a is None else _owed(p, q, a[part], b[part] if b is not None else None)
        for g in range(scales.shape[1]):
            covered = torch.minimum(target * column(scales[part, g], p), p)
            sums[part, g] = row_sums(covered)
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
    scale = torch.ones(rows.count, dtype=torch.float64, device=rows.device)
    kept = torch.zeros_like(scale)
    for part, p, q in tiles(rows):
        target = q if a is None or b is None else _owed(p, q, a[part], b[part])
        scale[part], kept[part] = solve_scale(p, target, drafts[part].to(torch.float64), grid)
    return scale, kept


NEWTON_PASSES = 12
"""Most passes of the root search; rows stop changing once they have converged, mostly after 5."""


def solve_scale(p: Tensor, target: Tensor, n: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """Smallest valid scale and its kept mass for each row of a tile."""
    n = n.clamp(min=1.0)
    low, high = 1.0 / n, torch.ones_like(n)  # ρ = n is always valid
    s = high.clone()
    done = n <= 1
    for _ in range(NEWTON_PASSES):
        covered = torch.minimum(target * column(s, p), p)
        mass = row_sums(covered)
        slope = row_sums(covered.masked_fill_(covered >= p, 0)) / s
        value = mass / s - _some(mass, n)
        valid = value >= 0
        low = torch.where(valid, torch.maximum(low, s), low)
        high = torch.where(valid, high, torch.minimum(high, s))
        others = torch.exp((n - 1) * torch.log1p(-mass.clamp(max=1.0)))  # (1-M)^(n-1)
        derivative = slope / s - mass / (s * s) - n * others * slope
        step = s - value / torch.where(derivative < 0, derivative, -1.0)
        inside = (derivative < 0) & (step > low) & (step < high)
        step = torch.where(inside, step, torch.sqrt(low * high))
        # ρ = 1 is valid, or the root is known far below the grid
        done = done | (valid & (s == 1)) | ((step - s).abs() * grid < 1e-6) | (high <= low)
        s = torch.where(done, s, step)
        if p.device.type == "cpu" and bool(done.all()):
            break
    tick = torch.ceil(grid / s)
    candidates = [(tick + i).clamp(min=grid) for i in (-1, 0, 1)]
    candidates.append(torch.ceil(grid / low))
    scale, kept = torch.full_like(n, torch.inf), torch.zeros_like(n)
    for ticks in candidates:
        tried = ticks / grid
        mass = row_sums(torch.minimum(target * column(1.0 / tried, p), p))
        better = ((_some(mass, n) <= tried * mass) | (n <= 1)) & (tried < scale)
        scale = torch.where(better, tried, scale)
        kept = torch.where(better, mass, kept)
    # the last candidate can fail by one rounding of a sum; ρ is then that candidate all the same
    failed = torch.isinf(scale)
    return torch.where(failed, tried, scale), torch.where(failed, mass, kept)


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
    masses = torch.zeros(rows.count, len(edges), dtype=torch.float64, device=rows.device)
    for part, p, q in tiles(rows):
        above = p
        for b, step in enumerate(_hats(p, q, edges)):
            masses[part, b] = row_sums(above - step)
            above = step
        masses[part, len(edges) - 1] = row_sums(above)
    return masses


def selected_row(rows: Rows, rise: Tensor, edges: Tensor) -> Rows:
    """The rows with p replaced by r = p ((1-f) t_b + f t_{b+1}), for t = `rise` [R, NT]."""
    start, slopes = rise[:, 0], rise[:, 1:] - rise[:, :-1]

    def law(part: slice, p: Tensor, q: Tensor) -> Tensor:
        r = p * column(start[part], p)
        for b, step in enumerate(_hats(p, q, edges)):
            r += step * column(slopes[part, b], p)
        return r.clamp_(min=0)

    return replace(rows, law=law)


def _hats(p: Tensor, q: Tensor, edges: Tensor) -> Iterator[Tensor]:
    """h_b = min(p, (q - e_b p)+ / (e_{b+1} - e_b)) on a tile, for each interval of ratios."""
    edges = edges.to(p.dtype)
    for b in range(len(edges) - 1):
        above = (q - edges[b] * p).clamp_(min=0)
        yield torch.minimum(above / (edges[b + 1] - edges[b]), p)


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
    a, b, c, d = owed
    token = torch.zeros(rows.count, dtype=torch.int64, device=rows.device)
    for part, p, q in tiles(rows):
        weights = _owed(p, q, a[part], b[part])
        _apply(weights, overrides, part)
        if c is not None and d is not None:
            weights = torch.maximum(weights - column(c[part], p) * p, column(d[part], p) * weights)
        token[part] = inverse_cdf(weights, q, uniform[part])
    return token


def row_sums(tile: Tensor) -> Tensor:
    """float64 [r]: the sum of each row of a tile [r, V], in the fixed order of this module."""
    width = tile.shape[1]
    if width > LANES:
        lanes = tile[:, :LANES] + tile[:, LANES : 2 * LANES] if width >= 2 * LANES else None
        if lanes is None:
            lanes = tile[:, :LANES].clone()
            lanes[:, : width - LANES] += tile[:, LANES:]
        else:
            for low in range(2 * LANES, width, LANES):
                lanes[:, : min(LANES, width - low)] += tile[:, low : low + LANES]
        tile, width = lanes, LANES
    sums = tile.to(torch.float64)
    while width > 1:
        half = 1 << ((width - 1).bit_length() - 1)
        if width == 2 * half:
            sums = sums[:, :half] + sums[:, half:]
        else:
            head = sums[:, :half].clone()
            head[:, : width - half] += sums[:, half:]
            sums = head
        width = half
    return sums[:, 0]


def column(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype).unsqueeze(-1)


def _owed(p: Tensor, q: Tensor, a: Tensor, b: Tensor | None) -> Tensor:
    """(a q - b p)+ on a tile, in a new tensor."""
    owed = q * column(a, q)
    owed -= p if b is None else p * column(b, p)
    return owed.clamp_(min=0)


def _apply(tile: Tensor, overrides: Overrides | None, part: slice) -> None:
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


def inverse_cdf(weights: Tensor, plain: Tensor, uniform: Tensor) -> Tensor:
    """The inverse CDF of each row of a tile [r, V] at `uniform` [r]; `plain` where all are 0."""
    r, vocab = weights.shape
    empty = (weights.amax(1) <= 0).unsqueeze(1)
    weights = torch.where(empty, plain, weights)
    segment = min(SEGMENT, vocab)
    count = -(-vocab // segment)
    if count * segment > vocab:
        weights = torch.nn.functional.pad(weights, (0, count * segment - vocab))
    pieces = weights.view(r, count, segment)
    masses = row_sums(pieces.reshape(r * count, segment)).view(r, count)
    reached = masses.cumsum(1)
    threshold = uniform * reached[:, -1]
    index = _first(reached > threshold[:, None], masses > 0)
    before = torch.where(index > 0, reached.gather(1, (index - 1).clamp(min=0)[:, None])[:, 0], 0.0)
    piece = pieces.gather(1, index[:, None, None].expand(r, 1, segment))[:, 0].to(torch.float64)
    inside = _first(piece.cumsum(1) > (threshold - before)[:, None], piece > 0)
    return (index * segment + inside).clamp(max=vocab - 1)


def _first(reached: Tensor, positive: Tensor) -> Tensor:
    """The first column that is reached and positive, else the last positive one."""
    width = reached.shape[1]
    both = reached & positive
    first = both.to(torch.int8).argmax(1)
    last = width - 1 - positive.flip(1).to(torch.int8).argmax(1)
    return torch.where(both.any(1), first, last)


def tiles(rows: Rows) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """(slice of the R pairs, draft rows [r, V], target rows [r, V]) in the compute dtype.

    On the CPU a large row is a tile of its own, read in place, and pairs that nobody needs are
    skipped. Elsewhere nothing depends on the values of the indices, so there is no synchronisation.
    """
    step = max(1, TILE // rows.vocab)
    if step == 1 and rows.device.type == "cpu":
        raw = _rows_in_place(rows)
    else:
        raw = _rows_gathered(rows, step)
    for part, p, q in raw:
        p, q = p.to(rows.compute_dtype), q.to(rows.compute_dtype)
        yield part, p if rows.law is None else rows.law(part, p, q), q


def _rows_in_place(rows: Rows) -> Iterator[tuple[slice, Tensor, Tensor]]:
    none = rows.target_rows.new_zeros(1, rows.vocab)
    pairs = zip(rows.draft_index.tolist(), rows.target_index.tolist(), strict=True)
    for r, (n, m) in enumerate(pairs):
        if m >= 0:
            p = rows.draft_rows[n : n + 1] if n >= 0 else none
            yield slice(r, r + 1), p, rows.target_rows[m : m + 1]


def _rows_gathered(rows: Rows, step: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    for low in range(0, rows.count, step):
        part = slice(low, low + step)
        index = rows.draft_index[part]
        p = torch.where((index >= 0)[:, None], rows.draft_rows[index.clamp(min=0)], 0)
        yield part, p, rows.target_rows[rows.target_index[part].clamp(min=0)]
