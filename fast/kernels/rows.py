"""The kernels: sums over rows, a tile of ROWS row pairs and one segment of lanes per program.

Every kernel reads its rows once. A program accumulates SEGMENT lanes over the columns l, l + LANES,
.., then folds them in halves: down to NARROW in the dtype of the rows, from there in float64, as in
`draftproof.fast.sums`. A sum over an axis of two is one addition, so the order is fixed.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

__all__ = [
    "Marks",
    "Table",
    "gap_mass_kernel",
    "kept_mass_kernel",
    "layer_mass_kernel",
    "owed_mass_kernel",
    "ratio_mass_kernel",
    "segment_mass_kernel",
]


class Table(NamedTuple):
    """`draftproof.fast.clip.Rows` as an argument of a kernel: tensors, or types to compile for."""

    draft: Any
    """[N, V]"""
    target: Any
    """[M, V]"""
    draft_index: Any
    """int64 [count]"""
    target_index: Any
    """int64 [count]"""
    start: Any
    """[count], as the next for the selected row; read when TYPES > 0"""
    slopes: Any
    """[count, TYPES - 1]"""
    edges: Any
    """[TYPES - 1]"""
    inverses: Any
    """[TYPES - 1]"""
    chain: Any
    """[count, depth, 4]: `draftproof.fast.chain`; read when CHAINED"""
    layers: Any
    """int: how many layers of the chain act, at most `depth`"""
    depth: Any
    """int"""
    count: Any
    """int: pairs of rows"""
    vocab: Any
    """int"""


class Marks(NamedTuple):
    """`draftproof.fast.clip.Overrides` as an argument of a kernel."""

    tokens: Any
    """int64 [rows, count]"""
    weights: Any
    """[rows, count]"""
    count: Any
    """int"""


@triton.jit
def _pairs(t, ROWS: tl.constexpr):
    """The pairs of this program: numbers, which exist, and the indices of their two rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < t.count
    n = tl.load(t.draft_index + row, mask=real, other=-1).to(tl.int64)
    m = tl.load(t.target_index + row, mask=real, other=-1).to(tl.int64)
    return row, real, n, m


@triton.jit
def _column(values, pairs):
    """[ROWS, 1]: one number for each pair."""
    row, real, _, _ = pairs
    return tl.load(values + row, mask=real, other=0.0)[:, None]


@triton.jit
def _hat(p, q, edge, inverse):
    """min(p, (q - e p)+ / (e' - e)), in the order of operations of the torch path."""
    return tl.minimum(tl.maximum(q - p * edge, 0.0) * inverse, p)


@triton.jit
def _layer(t, pairs, j, p, target):
    """max(a T - c p, d a T) of layer j, and the inverse of its mass."""
    row, real, _, _ = pairs
    place = t.chain + (row * t.depth + j) * 4
    a = tl.load(place, mask=real, other=0.0)[:, None]
    c = tl.load(place + 1, mask=real, other=0.0)[:, None]
    d = tl.load(place + 2, mask=real, other=0.0)[:, None]
    inverse = tl.load(place + 3, mask=real, other=0.0)[:, None]
    scaled = target * a
    return tl.maximum(scaled - p * c, scaled * d), inverse


@triton.jit
def _load(t, pairs, column, TYPES: tl.constexpr, CHAINED: tl.constexpr, COMPUTE: tl.constexpr):
    """p (the selected row, when TYPES > 0) and T (q, or the row of the chain), [ROWS, columns]."""
    row, real, n, m = pairs
    inside = (column < t.vocab)[None, :]
    at = column[None, :].to(tl.int64)
    q_mask = (m >= 0)[:, None] & inside
    q = tl.load(t.target + m[:, None] * t.vocab + at, mask=q_mask, other=0.0).to(COMPUTE)
    p_mask = q_mask & (n >= 0)[:, None]
    p = tl.load(t.draft + n[:, None] * t.vocab + at, mask=p_mask, other=0.0).to(COMPUTE)
    if TYPES > 0:
        r = p * _column(t.start, pairs)
        for b in tl.static_range(0, TYPES - 1):
            slope = tl.load(t.slopes + row * (TYPES - 1) + b, mask=real, other=0.0)[:, None]
            r += _hat(p, q, tl.load(t.edges + b), tl.load(t.inverses + b)) * slope
        p = tl.maximum(r, 0.0)
    if CHAINED:
        for j in range(0, t.layers):
            owed, inverse = _layer(t, pairs, j, p, q)
            q = owed * inverse
    return p, q


@triton.jit
def _marked(marks, pairs, column, weight):
    """The weights with the entries of `marks` in their places."""
    row, real, _, _ = pairs
    for e in range(0, marks.count):
        place = row * marks.count + e
        token = tl.load(marks.tokens + place, mask=real, other=-1)[:, None]
        value = tl.load(marks.weights + place, mask=real, other=0.0)[:, None]
        weight = tl.where(column[None, :] == token, value, weight)
    return weight


@triton.jit
def _fold(x, ROWS: tl.constexpr, WIDTH: tl.constexpr, NARROW: tl.constexpr):
    """float64 [ROWS]: the rows of x [ROWS, WIDTH] folded in halves."""
    for i in tl.static_range(0, 20):
        if (WIDTH >> i) > NARROW:
            x = tl.sum(tl.reshape(x, (ROWS, 2, WIDTH >> (i + 1))), axis=1)
    x = x.to(tl.float64)
    for i in tl.static_range(0, 20):
        if (NARROW >> i) > 1:
            x = tl.sum(tl.reshape(x, (ROWS, 2, NARROW >> (i + 1))), axis=1)
    return tl.reshape(x, (ROWS,))


@triton.jit
def _store(out, pairs, x, ROWS: tl.constexpr, SEGMENT: tl.constexpr, NARROW: tl.constexpr):
    """out [count, segments]: the sums of x [ROWS, SEGMENT], the segment of this program."""
    row, real, _, _ = pairs
    place = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(out + place, _fold(x, ROWS, SEGMENT, NARROW), mask=real)


@triton.jit
def owed_mass_kernel(
    t,
    a,
    b,
    marks,
    out,
    TYPES: tl.constexpr,
    CHAINED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """out [count, segments of lanes] = partial sums of (a T - b p)+, entries overridden."""
    pairs = _pairs(t, ROWS)
    scale_q, scale_p = _column(a, pairs), _column(b, pairs)
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    total = tl.zeros((ROWS, SEGMENT), COMPUTE)
    for low in range(0, t.vocab, LANES):
        p, q = _load(t, pairs, low + lane, TYPES, CHAINED, COMPUTE)
        owed = tl.maximum(q * scale_q - p * scale_p, 0.0)
        total += _marked(marks, pairs, low + lane, owed)
    _store(out, pairs, total, ROWS, SEGMENT, NARROW)


@triton.jit
def gap_mass_kernel(
    t,
    s,
    gained,
    lost,
    TYPES: tl.constexpr,
    CHAINED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """Partial sums of (s T - p)+ and of (p - s T)+, [count, segments of lanes] each."""
    pairs = _pairs(t, ROWS)
    scale = _column(s, pairs)
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    above = tl.zeros((ROWS, SEGMENT), COMPUTE)
    below = tl.zeros((ROWS, SEGMENT), COMPUTE)
    for low in range(0, t.vocab, LANES):
        p, q = _load(t, pairs, low + lane, TYPES, CHAINED, COMPUTE)
        gap = q * scale - p
        above += tl.maximum(gap, 0.0)
        below += tl.maximum(-gap, 0.0)
    _store(gained, pairs, above, ROWS, SEGMENT, NARROW)
    _store(lost, pairs, below, ROWS, SEGMENT, NARROW)


@triton.jit
def layer_mass_kernel(
    t,
    out,
    TYPES: tl.constexpr,
    CHAINED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """out [count, segments of lanes] = partial sums of the layer after the first `layers`."""
    pairs = _pairs(t, ROWS)
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    total = tl.zeros((ROWS, SEGMENT), COMPUTE)
    for low in range(0, t.vocab, LANES):
        p, q = _load(t, pairs, low + lane, TYPES, CHAINED, COMPUTE)
        owed, _ = _layer(t, pairs, t.layers, p, q)
        total += owed
    _store(out, pairs, total, ROWS, SEGMENT, NARROW)


@triton.jit
def kept_mass_kernel(
    t,
    a,
    b,
    scales,
    masses,
    partial,
    OWED: tl.constexpr,
    SCALES: tl.constexpr,
    TYPES: tl.constexpr,
    CHAINED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """Partial sums of min(p, s T), and of those of its entries that are below p, for each scale s.

    T is as loaded, or (a T - b p)+ when OWED; masses and partial are [count, SCALES, segments].
    """
    pairs = _pairs(t, ROWS)
    row, real, _, _ = pairs
    scale_q, scale_p = _column(a, pairs), _column(b, pairs)
    g = tl.arange(0, SCALES)
    place = row[:, None] * SCALES + g[None, :]
    s = tl.load(scales + place, mask=real[:, None], other=0.0)[:, :, None]
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    total = tl.zeros((ROWS, SCALES, SEGMENT), COMPUTE)
    below = tl.zeros((ROWS, SCALES, SEGMENT), COMPUTE)
    for low in range(0, t.vocab, LANES):
        p, q = _load(t, pairs, low + lane, TYPES, CHAINED, COMPUTE)
        if OWED:
            q = tl.maximum(q * scale_q - p * scale_p, 0.0)
        covered = tl.minimum(q[:, None, :] * s, p[:, None, :])
        total += covered
        below += tl.where(covered >= p[:, None, :], 0.0, covered)
    flat: tl.constexpr = ROWS * SCALES
    target_place = tl.reshape(place, (flat,)) * tl.num_programs(1) + tl.program_id(1)
    mask = tl.reshape(tl.broadcast_to(real[:, None], (ROWS, SCALES)), (flat,))
    folded = _fold(tl.reshape(total, (flat, SEGMENT)), flat, SEGMENT, NARROW)
    tl.store(masses + target_place, folded, mask=mask)
    folded = _fold(tl.reshape(below, (flat, SEGMENT)), flat, SEGMENT, NARROW)
    tl.store(partial + target_place, folded, mask=mask)


@triton.jit
def ratio_mass_kernel(
    t,
    out,
    TYPES: tl.constexpr,
    PADDED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """Partial sums of the mass of each ratio type, out [count, TYPES, segments, NARROW].

    A program has the lanes that fold onto COLUMNS of the NARROW places of one segment, so that the
    types fit into registers; the rest of the fold, in float64, is left to the caller.
    """
    pairs = _pairs(t, ROWS)
    row, real, _, _ = pairs
    depth: tl.constexpr = SEGMENT // NARROW
    part = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, depth)[:, None] * NARROW + part[None, :]
    lane = tl.program_id(1) * SEGMENT + tl.reshape(inner, (depth * COLUMNS,))
    kind = tl.arange(0, PADDED)
    last = kind >= TYPES - 1
    known = kind < TYPES - 1
    edge = tl.load(t.edges + kind, mask=known, other=0.0)[None, :, None]
    inverse = tl.load(t.inverses + kind, mask=known, other=0.0)[None, :, None]
    before = (kind > 0) & (kind < TYPES)
    edge_before = tl.load(t.edges + kind - 1, mask=before, other=0.0)[None, :, None]
    inverse_before = tl.load(t.inverses + kind - 1, mask=before, other=0.0)[None, :, None]
    total = tl.zeros((ROWS, PADDED, depth * COLUMNS), COMPUTE)
    for low in range(0, t.vocab, LANES):
        p, q = _load(t, pairs, low + lane, 0, False, COMPUTE)
        p, q = p[:, None, :], q[:, None, :]
        here = tl.where(last[None, :, None], 0.0, _hat(p, q, edge, inverse))
        above = tl.where((kind == 0)[None, :, None], p, _hat(p, q, edge_before, inverse_before))
        total += above - here
    flat: tl.constexpr = ROWS * PADDED
    x = tl.reshape(total, (flat, depth * COLUMNS))
    for i in tl.static_range(0, 20):
        if (depth >> i) > 1:
            x = tl.sum(tl.reshape(x, (flat, 2, (depth >> (i + 1)) * COLUMNS)), axis=1)
    x = tl.reshape(x, (ROWS, PADDED, COLUMNS))
    place = (row[:, None] * TYPES + kind[None, :]) * tl.num_programs(1) + tl.program_id(1)
    place = place[:, :, None] * NARROW + part[None, None, :]
    wanted = real[:, None, None] & (kind < TYPES)[None, :, None]
    tl.store(out + place, x, mask=wanted & (part >= 0)[None, None, :])


@triton.jit
def segment_mass_kernel(
    t,
    a,
    b,
    c,
    d,
    marks,
    out,
    plain,
    CLIPPED: tl.constexpr,
    TYPES: tl.constexpr,
    CHAINED: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    NARROW: tl.constexpr,
):
    """out [count, segments] = sums of W = max(T' - c p, d T'), T' = (a T - b p)+, over runs of
    SEGMENT columns. `plain` gets those of T.
    """
    pairs = _pairs(t, ROWS)
    column = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    p, q = _load(t, pairs, column, TYPES, CHAINED, COMPUTE)
    weight = tl.maximum(q * _column(a, pairs) - p * _column(b, pairs), 0.0)
    if CLIPPED:
        weight = tl.maximum(weight - _column(c, pairs) * p, _column(d, pairs) * weight)
    weight = _marked(marks, pairs, column, weight)
    _store(out, pairs, weight, ROWS, SEGMENT, NARROW)
    _store(plain, pairs, q, ROWS, SEGMENT, NARROW)
