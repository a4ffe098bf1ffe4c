"""The passes over rows on a CPU, compiled: each row is read once, with the bits of the torch path.

Torch has no fused operation for a clip whose bits are the same on every processor, so its path
writes each intermediate to the cache and reads it back. These loops do not. They keep strict
floating point (no reassociation, no fused multiply-add) and the order of `draftproof.fast.sums`:
LANES running sums, folded segment by segment.

Compiled by numba on first use and cached beside this file, for contiguous float32 and float64 rows.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import torch
from draftproof.fast.sums import LANES, NARROW, SEGMENT
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

if TYPE_CHECKING:
    from draftproof.fast.clip import Overrides, Owed, Rows

__all__ = [
    "draw",
    "gap_masses",
    "kept_mass",
    "owed_mass",
    "ratio_masses",
    "settle_chain",
    "takes",
]

SMALL = 2**16
"""Entries of all rows of a call, below which a second thread costs more than it saves."""

AHEAD = 2 * SEGMENT
"""How far ahead the columns are fetched that a pass along a row will read."""
RUN = 16
"""Segments that a draw weighs at a time."""

Array = np.ndarray[Any, Any]
_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def takes(rows: Rows) -> bool:
    """Whether the loops can read these rows where they lie."""
    return (
        rows.compute_dtype == rows.target_rows.dtype == rows.draft_rows.dtype
        and rows.target_rows.is_contiguous()
        and rows.draft_rows.is_contiguous()
    )


def owed_mass(rows: Rows, a: Tensor, b: Tensor | None, overrides: Overrides | None) -> Tensor:
    """As `clip.owed_mass`."""
    out = rows.zeros(_lane_segments(rows))
    coefficients = _typed(rows, a, torch.ones_like(a) if b is None else b)
    _run(_owed_mass, rows, out.shape[1], *coefficients, *_overrides(rows, overrides), out.numpy())
    return _fold(out)


def kept_mass(
    rows: Rows, scales: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ min(p, s T) and the part of it where s T < p, float64 [R, G] each; T as in `clip`."""
    segments = _lane_segments(rows)
    masses, partial = (rows.zeros(scales.shape[1], segments) for _ in range(2))
    owed = a is not None and b is not None
    one = torch.ones_like(scales[:, 0])
    coefficients = _typed(rows, one if a is None else a, one if b is None else b, scales)
    _run(_kept_mass, rows, segments, *coefficients, owed, masses.numpy(), partial.numpy())
    return _fold(masses), _fold(partial)


def ratio_masses(rows: Rows, edges: Tensor) -> Tensor:
    """As `clip.ratio_masses`."""
    out = rows.zeros(len(edges), _lane_segments(rows))
    _run(_ratio_mass, rows, out.shape[2], *_intervals(rows, edges), out.numpy())
    return _fold(out)


def gap_masses(rows: Rows, s: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (s T - p)+ and Σ (p - s T)+, float64 [R] each."""
    gained, lost = (rows.zeros(_lane_segments(rows)) for _ in range(2))
    _run(_gap_mass, rows, gained.shape[1], *_typed(rows, s), gained.numpy(), lost.numpy())
    return _fold(gained), _fold(lost)


def settle_chain(rows: Rows, chain: Tensor) -> Tensor:
    """As `chain.settle_rows`, for the pairs of `rows`: a row and its layers at a time."""
    settled = chain.clone()
    tiny = torch.finfo(chain.dtype).tiny
    _run(_settle, rows, 1, chain.contiguous().numpy(), tiny, settled.numpy())
    return settled


def draw(rows: Rows, uniform: Tensor, owed: Owed, overrides: Overrides | None) -> Tensor:
    """As `clip.draw`."""
    out = torch.zeros(rows.count, dtype=torch.int64)
    clipped = owed.c is not None and owed.d is not None
    c, d = (owed.c, owed.d) if owed.c is not None and owed.d is not None else (owed.a, owed.a)
    weights = (*_typed(rows, owed.a, owed.b, c, d), clipped, *_overrides(rows, overrides))
    _run(_draw, rows, 1, *weights, uniform.contiguous().numpy(), out.numpy())
    return out


def _fold(parts: Tensor) -> Tensor:
    """As `sums.fold` to one, of float64 [.., n], which is overwritten."""
    flat = parts.view(-1, parts.shape[-1])
    _fold_in_place(flat.numpy())
    return flat[:, 0].view(parts.shape[:-1])


def _run(kernel: Callable[..., None], rows: Rows, segments: int, *arguments: object) -> None:
    """kernel(pairs, .., needed, first, last) over the threads that torch would use.

    A thread has some of the needed pairs or some of the segments; these are summed apart, so
    neither way to split the work changes a bit.
    """
    pairs = _pairs(rows)
    needed = np.flatnonzero(rows.target_index.numpy() >= 0)
    threads = torch.get_num_threads() if len(needed) * rows.vocab >= SMALL else 1
    if len(needed) >= threads:
        pieces = [(needed[t::threads], 0, segments) for t in range(threads)]
    else:
        cuts = [segments * t // threads for t in range(threads + 1)]
        pieces = [(needed, low, high) for low, high in pairwise(cuts)]
    others = [_threads().submit(kernel, pairs, *arguments, *piece) for piece in pieces[1:]]
    kernel(pairs, *arguments, *pieces[0])
    for other in others:
        other.result()


_pool: ThreadPoolExecutor | None = None


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=torch.get_num_threads(), thread_name_prefix="rows")
    return _pool


def _forget_threads() -> None:
    """A forked process has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class Pairs(NamedTuple):
    """`Rows` as arrays."""

    draft: Array
    target: Array
    draft_index: Array
    target_index: Array
    start: Array
    """[R], and slopes [R, NT-1]: the selected row; [0] and [1, 0] if there is none."""
    slopes: Array
    edges: Array
    inverses: Array
    chain: Array
    """[R, J, 4]; [1, 0, 4] if there is none"""


def _pairs(rows: Rows) -> Pairs:
    none = np.empty(0, _dtype(rows))
    start, slopes, edges, inverses = none, none[None], none, none
    if rows.rise is not None and rows.edges is not None:
        start, slopes = _typed(rows, rows.rise[:, 0], rows.rise[:, 1:] - rows.rise[:, :-1])
        edges, inverses = _intervals(rows, rows.edges)
    return Pairs(
        rows.draft_rows.detach().numpy(),
        rows.target_rows.detach().numpy(),
        rows.draft_index.contiguous().numpy(),
        rows.target_index.contiguous().numpy(),
        start,
        slopes,
        edges,
        inverses,
        np.empty((1, 0, 4), none.dtype) if rows.chain is None else rows.chain.contiguous().numpy(),
    )


def _lane_segments(rows: Rows) -> int:
    return -(-min(rows.vocab, LANES) // SEGMENT)


def _typed(rows: Rows, *values: Tensor) -> list[Array]:
    """Coefficients in the compute dtype, as the torch path rounds them."""
    return [value.to(rows.compute_dtype).contiguous().numpy() for value in values]


def _dtype(rows: Rows) -> type[np.floating[Any]]:
    return np.float64 if rows.compute_dtype == torch.float64 else np.float32


def _overrides(rows: Rows, overrides: Overrides | None) -> tuple[Array, Array]:
    if overrides is None:
        return np.empty((0, 0), np.int64), np.empty((0, 0), _dtype(rows))
    return overrides.tokens.contiguous().numpy(), _typed(rows, overrides.values)[0]


def _intervals(rows: Rows, edges: Tensor) -> list[Array]:
    return _typed(rows, edges[:-1], 1.0 / (edges[1:] - edges[:-1]))


@intrinsic
def _fetch(context, array, index):
    """Have array[index] brought to the cache; it may lie beyond the end.

    The processor fetches ahead within a page of memory by itself, and waits at each new one.
    """

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        place = builder.bitcast(place, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [place, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@_compiled
def _hat(p, q, edge, inverse, zero):
    """min(p, (q - e p)+ / (e' - e)), in the order of operations of the torch path."""
    x = q - p * edge
    x = (x if x > zero else zero) * inverse
    return x if x < p else p


@_compiled
def _add_type(p, q, edge, inverse, above, lane):
    """The mass of one type: what the hat `above` has more than the next, which takes its place."""
    zero = p.dtype.type(0)
    for j in range(len(p)):
        here = _hat(p[j], q[j], edge, inverse, zero)
        lane[j] += above[j] - here
        above[j] = here


@_compiled
def _add_hat(p, q, edge, inverse, slope, out):
    zero = p.dtype.type(0)
    for j in range(len(p)):
        out[j] += _hat(p[j], q[j], edge, inverse, zero) * slope


@_compiled
def _selected(p, q, start, slopes, edges, inverses, out):
    """The row that a label law selects, as `clip.selected_row`."""
    zero = out.dtype.type(0)
    for j in range(len(p)):
        out[j] = p[j] * start
    for b in range(len(slopes)):
        _add_hat(p, q, edges[b], inverses[b], slopes[b], out)
    for j in range(len(p)):
        out[j] = out[j] if out[j] > zero else zero


@_compiled
def _layer(p, q, layer, out):
    """What a layer of a chain leaves, before it is divided by its mass."""
    a, c, d = layer[0], layer[1], layer[2]
    for j in range(len(p)):
        scaled = q[j] * a
        x, y = scaled - p[j] * c, scaled * d
        out[j] = x if x > y else y


@_compiled
def _times(x, factor):
    for j in range(len(x)):
        x[j] *= factor


@_compiled
def _load(pairs, r, low, high, scratch):
    """Columns low .. high of the draft row (or the selected one) and of the row of the chain."""
    q = pairs.target[pairs.target_index[r], low:high]
    if pairs.draft_index[r] < 0:  # a leaf
        p = scratch[0, : high - low]
        p[:] = 0
    else:
        p = pairs.draft[pairs.draft_index[r], low:high]
        if pairs.slopes.shape[1] > 0:
            out = scratch[0, : high - low]
            _selected(p, q, pairs.start[r], pairs.slopes[r], pairs.edges, pairs.inverses, out)
            p = out
    if pairs.chain.shape[1] > 0:
        last = scratch[1, : high - low]
        for layer in pairs.chain[r]:
            _layer(p, q, layer, last)
            _times(last, layer[3])
            q = last
    return p, q


@_compiled
def _owed(p, q, a, b, out):
    zero = out.dtype.type(0)
    for low in range(0, len(p), SEGMENT):
        _fetch(p, low + AHEAD)
        _fetch(q, low + AHEAD)
        x, y, to = p[low : low + SEGMENT], q[low : low + SEGMENT], out[low : low + SEGMENT]
        for j in range(len(x)):
            value = y[j] * a - x[j] * b
            to[j] = value if value > zero else zero


@_compiled
def _add_owed(p, q, a, b, out):
    zero = out.dtype.type(0)
    for low in range(0, len(p), SEGMENT):
        _fetch(p, low + AHEAD)
        _fetch(q, low + AHEAD)
        x, y, to = p[low : low + SEGMENT], q[low : low + SEGMENT], out[low : low + SEGMENT]
        for j in range(len(x)):
            value = y[j] * a - x[j] * b
            to[j] += value if value > zero else zero


@_compiled
def _clip(p, c, d, out):
    for j in range(len(p)):
        x, y = out[j] - p[j] * c, out[j] * d
        out[j] = x if x > y else y


@_compiled
def _replace(tokens, values, low, out):
    for e in range(len(tokens)):
        if low <= tokens[e] < low + len(out):
            out[tokens[e] - low] = values[e]


@_compiled
def _inside(tokens, low, high):
    count = 0
    for e in range(len(tokens)):
        count += low <= tokens[e] < high
    return count


@_compiled
def _add(to, more):
    for j in range(len(to)):
        to[j] += more[j]


@_compiled
def _fold_segments(lanes, first, last, out):
    """out[first .. last] = the segments of lanes, folded in halves: to NARROW, then in float64."""
    wide = np.empty(NARROW, np.float64)
    for s in range(first, last):
        x = lanes[(s - first) * SEGMENT : (s - first + 1) * SEGMENT]
        half = SEGMENT // 2
        while half >= NARROW:
            _add(x[:half], x[half : 2 * half])
            half //= 2
        wide[:] = x[:NARROW]
        while half >= 1:
            _add(wide[:half], wide[half : 2 * half])
            half //= 2
        out[s] = wide[0]


@_compiled
def _fold_in_place(parts):
    half = 1
    while 2 * half < parts.shape[1]:
        half *= 2
    while half >= 1:
        for r in range(parts.shape[0]):
            for j in range(half, min(2 * half, parts.shape[1])):
                parts[r, j - half] += parts[r, j]
        half //= 2


@_compiled
def _owed_mass(pairs, a, b, tokens, values, out, needed, first, last):
    """out [R, segments] = partial sums of (a q - b p)+, entries overridden."""
    vocab, width = pairs.target.shape[1], (last - first) * SEGMENT
    lanes, scratch = np.empty(width, a.dtype), np.empty((3, width), a.dtype)
    for r in needed:
        lanes[:] = 0
        for low in range(first * SEGMENT, vocab, LANES):
            high = min(low + width, vocab)
            p, q = _load(pairs, r, low, high, scratch)
            if tokens.shape[1] > 0 and _inside(tokens[r], low, high) > 0:
                owed = scratch[2, : high - low]
                _owed(p, q, a[r], b[r], owed)
                _replace(tokens[r], values[r], low, owed)
                _add(lanes[: high - low], owed)
            else:
                _add_owed(p, q, a[r], b[r], lanes[: high - low])
        _fold_segments(lanes, first, last, out[r])


@_compiled
def _add_kept(p, target, s, masses, partial):
    zero = p.dtype.type(0)
    for j in range(len(p)):
        x = target[j] * s
        masses[j] += x if x < p[j] else p[j]
        partial[j] += x if x < p[j] else zero


@_compiled
def _kept_mass(pairs, a, b, scales, owed, masses, partial, needed, first, last):
    """Partial sums of min(p, s T), and of its entries below p: [R, scales, segments] each."""
    vocab, count = pairs.target.shape[1], scales.shape[1]
    # a few segments at a time, so that all scales find their columns and lanes in the cache
    width = 4 * SEGMENT
    lanes, below = np.empty((count, width), a.dtype), np.empty((count, width), a.dtype)
    scratch = np.empty((3, width), a.dtype)
    for r in needed:
        for s in range(first, last, 4):
            end = min(s + 4, last)
            lanes[:] = 0
            below[:] = 0
            for low in range(s * SEGMENT, vocab, LANES):
                high = min(low + (end - s) * SEGMENT, vocab)
                p, q = _load(pairs, r, low, high, scratch)
                if owed:
                    target = scratch[2, : high - low]
                    _owed(p, q, a[r], b[r], target)
                    q = target
                for g in range(count):
                    _add_kept(p, q, scales[r, g], lanes[g], below[g])
            for g in range(count):
                _fold_segments(lanes[g], s, end, masses[r, g])
                _fold_segments(below[g], s, end, partial[r, g])


@_compiled
def _ratio_mass(pairs, edges, inverses, out, needed, first, last):
    """out [R, types, segments] = partial sums of h_{b-1} - h_b, with h before the first = p."""
    vocab, types = pairs.target.shape[1], out.shape[1]
    lanes, scratch = np.empty((types, SEGMENT), edges.dtype), np.empty((3, SEGMENT), edges.dtype)
    for r in needed:
        for s in range(first, last):
            lanes[:] = 0
            for low in range(s * SEGMENT, vocab, LANES):
                high = min(low + SEGMENT, vocab)
                p, q = _load(pairs, r, low, high, scratch)
                above = scratch[2, : high - low]
                above[:] = p
                for b in range(types - 1):
                    _add_type(p, q, edges[b], inverses[b], above, lanes[b])
                _add(lanes[types - 1, : high - low], above)
            for b in range(types):
                _fold_segments(lanes[b], s, s + 1, out[r, b])


@_compiled
def _add_gap(p, q, s, gained, lost):
    zero = p.dtype.type(0)
    for low in range(0, len(p), SEGMENT):
        _fetch(p, low + AHEAD)
        _fetch(q, low + AHEAD)
        x, y = p[low : low + SEGMENT], q[low : low + SEGMENT]
        more, less = gained[low : low + SEGMENT], lost[low : low + SEGMENT]
        for j in range(len(x)):
            value = y[j] * s - x[j]
            more[j] += value if value > zero else zero
            less[j] += -value if -value > zero else zero


@_compiled
def _gap_mass(pairs, s, gained, lost, needed, first, last):
    """Partial sums [R, segments] of (s T - p)+ and of (p - s T)+."""
    vocab, width = pairs.target.shape[1], (last - first) * SEGMENT
    lanes, scratch = np.empty((2, width), s.dtype), np.empty((2, width), s.dtype)
    for r in needed:
        lanes[:] = 0
        for low in range(first * SEGMENT, vocab, LANES):
            p, q = _load(pairs, r, low, min(low + width, vocab), scratch)
            _add_gap(p, q, s[r], lanes[0], lanes[1])
        _fold_segments(lanes[0], first, last, gained[r])
        _fold_segments(lanes[1], first, last, lost[r])


@_compiled
def _settle(pairs, chain, tiny, settled, needed, first, last):
    """settled [R, J, 4] = the layers with the inverses of their masses; (1, 0, 0, 1) where none."""
    vocab = pairs.target.shape[1]
    segments = (min(vocab, LANES) + SEGMENT - 1) // SEGMENT
    lanes, sums = np.empty(segments * SEGMENT, chain.dtype), np.empty((1, segments), np.float64)
    scratch, row, rest = (
        np.empty((2, vocab), chain.dtype),
        np.empty(vocab, chain.dtype),
        np.empty(vocab, chain.dtype),
    )
    for r in needed:
        p, q = _load(pairs, r, 0, vocab, scratch)
        for j in range(chain.shape[1]):
            layer = settled[r, j]
            if layer[3] > 0:
                _layer(p, q, layer, rest)
                lanes[:] = 0
                for low in range(0, vocab, LANES):
                    for i in range(min(LANES, vocab - low)):
                        lanes[i] += rest[low + i]
                _fold_segments(lanes, 0, segments, sums[0])
                _fold_in_place(sums)
                if sums[0, 0] > 0:
                    layer[3] = 1.0 / max(sums[0, 0], tiny)
                    _times(rest, layer[3])
                    q = rest
                    row, rest = rest, row
                    continue
            layer[0], layer[1], layer[2], layer[3] = 1, 0, 0, 1


@_compiled
def _first(weights, threshold):
    """The first entry that is positive and up to which the sum exceeds the threshold, and the sum
    before it; the last positive entry if there is none."""
    reached, found, before = 0.0, 0, 0.0
    for j in range(len(weights)):
        if weights[j] > 0:
            found, before = j, reached
        reached += weights[j]
        if weights[j] > 0 and reached > threshold:
            break
    return found, before


@_compiled
def _draw(pairs, a, b, c, d, clipped, tokens, values, uniform, out, needed, first, last):
    """out [R] = a token of each row of weights, or of the plain row where all of them are 0."""
    vocab, width = pairs.target.shape[1], RUN * SEGMENT
    masses = np.empty((vocab + SEGMENT - 1) // SEGMENT, np.float64)
    tile, scratch = np.empty(width, a.dtype), np.empty((2, width), a.dtype)

    def weigh(r, first, last, plain):
        """The weights max(T - c p, d T), T = (a q - b p)+, overridden, of segments of columns."""
        low, high = first * SEGMENT, min(last * SEGMENT, vocab)
        p, q = _load(pairs, r, low, high, scratch)
        weights = tile[: high - low]
        tile[high - low : (last - first) * SEGMENT] = 0
        if plain:
            weights[:] = q
            return
        _owed(p, q, a[r], b[r], weights)
        if clipped:
            _clip(p, c[r], d[r], weights)
        if tokens.shape[1] > 0:
            _replace(tokens[r], values[r], low, weights)

    for r in needed:
        total, plain = 0.0, False
        for attempt in range(2):
            plain, total = attempt == 1, 0.0
            for s in range(0, len(masses), RUN):
                end = min(s + RUN, len(masses))
                weigh(r, s, end, plain)
                _fold_segments(tile, s, end, masses)
            for mass in masses:
                total += mass
            if total > 0:
                break
        s, before = _first(masses, uniform[r] * total)
        weigh(r, s, s + 1, plain)
        column, _ = _first(tile[:SEGMENT], uniform[r] * total - before)
        out[r] = min(s * SEGMENT + column, vocab - 1)
