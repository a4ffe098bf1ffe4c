"""The kernels: sums over rows, a tile of ROWS row pairs and one segment of lanes per program.

Every kernel reads its rows once. A program accumulates SEGMENT lanes over the columns l, l + LANES,
.., then folds them in halves: down to NARROW in the dtype of the rows, from there in float64, as in
`draftproof.fast.sums`. A sum over an axis of two is one addition, so the order is fixed.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["kept_mass_kernel", "owed_mass_kernel", "ratio_mass_kernel", "segment_mass_kernel"]


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
def _hat(p, q, edge, inverse):
    """min(p, (q - e p)+ / (e' - e)), in the order of operations of the torch path."""
    return tl.minimum(tl.maximum(q - p * edge, 0.0) * inverse, p)


@triton.jit
def _load(
    draft,
    target,
    n,
    m,
    column,
    vocab,
    start,
    slopes,
    edges,
    inverses,
    row,
    real,
    TYPES: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """p (or the selected row, when TYPES > 0) and q at a column of each row, [ROWS, columns]."""
    inside = (column < vocab)[None, :]
    at = column[None, :].to(tl.int64)
    q_mask = (m >= 0)[:, None] & inside
    q = tl.load(target + m[:, None] * vocab + at, mask=q_mask, other=0.0).to(COMPUTE)
    p_mask = q_mask & (n >= 0)[:, None]
    p = tl.load(draft + n[:, None] * vocab + at, mask=p_mask, other=0.0).to(COMPUTE)
    if TYPES > 0:
        r = p * tl.load(start + row, mask=real, other=0.0)[:, None]
        for b in tl.static_range(0, TYPES - 1):
            slope = tl.load(slopes + row * (TYPES - 1) + b, mask=real, other=0.0)[:, None]
            r += _hat(p, q, tl.load(edges + b), tl.load(inverses + b)) * slope
        p = tl.maximum(r, 0.0)
    return p, q


@triton.jit
def owed_mass_kernel(
    draft,
    target,
    draft_index,
    target_index,
    a,
    b,
    tokens,
    values,
    start,
    slopes,
    edges,
    inverses,
    out,
    count,
    vocab,
    overrides,
    TYPES: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """out [count, segments of lanes] = partial sums of (a q - b p)+, entries overridden."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < count
    n = tl.load(draft_index + row, mask=real, other=-1)
    m = tl.load(target_index + row, mask=real, other=-1)
    scale_q = tl.load(a + row, mask=real, other=0.0)[:, None]
    scale_p = tl.load(b + row, mask=real, other=0.0)[:, None]
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    total = tl.zeros((ROWS, SEGMENT), COMPUTE)
    for low in range(0, vocab, LANES):
        column = low + lane
        p, q = _load(
            draft,
            target,
            n,
            m,
            column,
            vocab,
            start,
            slopes,
            edges,
            inverses,
            row,
            real,
            TYPES,
            COMPUTE,
        )
        owed = tl.maximum(q * scale_q - p * scale_p, 0.0)
        for e in range(0, overrides):
            token = tl.load(tokens + row * overrides + e, mask=real, other=-1)[:, None]
            value = tl.load(values + row * overrides + e, mask=real, other=0.0)[:, None]
            owed = tl.where(column[None, :] == token, value, owed)
        total += owed
    segments = tl.num_programs(1)
    folded = _fold(total, ROWS, SEGMENT, NARROW)
    tl.store(out + row * segments + tl.program_id(1), folded, mask=real)


@triton.jit
def kept_mass_kernel(
    draft,
    target,
    draft_index,
    target_index,
    a,
    b,
    scales,
    start,
    slopes,
    edges,
    inverses,
    masses,
    partial,
    count,
    vocab,
    OWED: tl.constexpr,
    SCALES: tl.constexpr,
    TYPES: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    LANES: tl.constexpr,
    NARROW: tl.constexpr,
):
    """Partial sums of min(p, s T), and of those of its entries that are below p, for each scale s.

    T = q, or (a q - b p)+ when OWED; masses and partial are [count, SCALES, segments of lanes].
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < count
    n = tl.load(draft_index + row, mask=real, other=-1)
    m = tl.load(target_index + row, mask=real, other=-1)
    scale_q = tl.load(a + row, mask=real, other=0.0)[:, None]
    scale_p = tl.load(b + row, mask=real, other=0.0)[:, None]
    g = tl.arange(0, SCALES)
    place = row[:, None] * SCALES + g[None, :]
    s = tl.load(scales + place, mask=real[:, None], other=0.0)[:, :, None]
    lane = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    total = tl.zeros((ROWS, SCALES, SEGMENT), COMPUTE)
    below = tl.zeros((ROWS, SCALES, SEGMENT), COMPUTE)
    for low in range(0, vocab, LANES):
        p, q = _load(
            draft,
            target,
            n,
            m,
            low + lane,
            vocab,
            start,
            slopes,
            edges,
            inverses,
            row,
            real,
            TYPES,
            COMPUTE,
        )
        if OWED:
            q = tl.maximum(q * scale_q - p * scale_p, 0.0)
        covered = tl.minimum(q[:, None, :] * s, p[:, None, :])
        total += covered
        below += tl.where(covered >= p[:, None, :], 0.0, covered)
    flat: tl.constexpr = ROWS * SCALES
    segments = tl.num_programs(1)
    target_place = tl.reshape(place, (flat,)) * segments + tl.program_id(1)
    mask = tl.reshape(tl.broadcast_to(real[:, None], (ROWS, SCALES)), (flat,))
    folded = _fold(tl.reshape(total, (flat, SEGMENT)), flat, SEGMENT, NARROW)
    tl.store(masses + target_place, folded, mask=mask)
    folded = _fold(tl.reshape(below, (flat, SEGMENT)), flat, SEGMENT, NARROW)
    tl.store(partial + target_place, folded, mask=mask)


@triton.jit
def ratio_mass_kernel(
    draft,
    target,
    draft_index,
    target_index,
    edges,
    inverses,
    out,
    count,
    vocab,
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
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < count
    n = tl.load(draft_index + row, mask=real, other=-1)
    m = tl.load(target_index + row, mask=real, other=-1)
    depth: tl.constexpr = SEGMENT // NARROW
    part = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, depth)[:, None] * NARROW + part[None, :]
    lane = tl.program_id(1) * SEGMENT + tl.reshape(inner, (depth * COLUMNS,))
    kind = tl.arange(0, PADDED)
    last = kind >= TYPES - 1
    known = kind < TYPES - 1
    edge = tl.load(edges + kind, mask=known, other=0.0)[None, :, None]
    inverse = tl.load(inverses + kind, mask=known, other=0.0)[None, :, None]
    before = (kind > 0) & (kind < TYPES)
    edge_before = tl.load(edges + kind - 1, mask=before, other=0.0)[None, :, None]
    inverse_before = tl.load(inverses + kind - 1, mask=before, other=0.0)[None, :, None]
    total = tl.zeros((ROWS, PADDED, depth * COLUMNS), COMPUTE)
    for low in range(0, vocab, LANES):
        p, q = _load(
            draft,
            target,
            n,
            m,
            low + lane,
            vocab,
            edges,
            edges,
            edges,
            edges,
            row,
            real,
            0,
            COMPUTE,
        )
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
    segments = tl.num_programs(1)
    place = (row[:, None] * TYPES + kind[None, :]) * segments + tl.program_id(1)
    place = place[:, :, None] * NARROW + part[None, None, :]
    wanted = real[:, None, None] & (kind < TYPES)[None, :, None]
    tl.store(out + place, x, mask=wanted & (part >= 0)[None, None, :])


@triton.jit
def segment_mass_kernel(
    draft,
    target,
    draft_index,
    target_index,
    a,
    b,
    c,
    d,
    tokens,
    values,
    start,
    slopes,
    edges,
    inverses,
    out,
    plain,
    count,
    vocab,
    overrides,
    CLIPPED: tl.constexpr,
    TYPES: tl.constexpr,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    SEGMENT: tl.constexpr,
    NARROW: tl.constexpr,
):
    """out [count, segments] = sums of W = max(T - c p, d T) over runs of SEGMENT columns.

    `plain` gets those of q.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < count
    n = tl.load(draft_index + row, mask=real, other=-1)
    m = tl.load(target_index + row, mask=real, other=-1)
    scale_q = tl.load(a + row, mask=real, other=0.0)[:, None]
    scale_p = tl.load(b + row, mask=real, other=0.0)[:, None]
    column = tl.program_id(1) * SEGMENT + tl.arange(0, SEGMENT)
    p, q = _load(
        draft,
        target,
        n,
        m,
        column,
        vocab,
        start,
        slopes,
        edges,
        inverses,
        row,
        real,
        TYPES,
        COMPUTE,
    )
    weight = tl.maximum(q * scale_q - p * scale_p, 0.0)
    if CLIPPED:
        cover = tl.load(c + row, mask=real, other=0.0)[:, None]
        rest = tl.load(d + row, mask=real, other=0.0)[:, None]
        weight = tl.maximum(weight - cover * p, rest * weight)
    for e in range(0, overrides):
        token = tl.load(tokens + row * overrides + e, mask=real, other=-1)[:, None]
        value = tl.load(values + row * overrides + e, mask=real, other=0.0)[:, None]
        weight = tl.where(column[None, :] == token, value, weight)
    place = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(out + place, _fold(weight, ROWS, SEGMENT, NARROW), mask=real)
    tl.store(plain + place, _fold(q, ROWS, SEGMENT, NARROW), mask=real)
