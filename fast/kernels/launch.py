"""Launching the kernels: what `draftproof.fast.clip` calls in place of its torch passes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from draftproof.fast.chain import settle
from draftproof.fast.clip import draw_by_segments
from draftproof.fast.sums import LANES, NARROW, SEGMENT, finish, fold
from torch import Tensor

# A multiplication fused with an addition rounds once instead of twice: other bits than torch has.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")

import triton
import triton.language as tl
from draftproof.fast.kernels import rows as kernels

if TYPE_CHECKING:
    from draftproof.fast.clip import Overrides, Owed, Rows

__all__ = [
    "INTERPRETED",
    "draw",
    "gap_masses",
    "kept_mass",
    "owed_mass",
    "ratio_masses",
    "segment_masses",
    "settle_chain",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RATIO_COLUMNS = 16
WARPS = {
    "owed_mass": 4,
    "gap_mass": 4,
    "layer_mass": 4,
    "kept_mass": 4,
    "ratio_mass": 8,
    "segment_mass": 4,
}


def owed_mass(rows: Rows, a: Tensor, b: Tensor | None, overrides: Overrides | None) -> Tensor:
    """As `clip.owed_mass`."""
    b = torch.ones_like(a) if b is None else b
    out = rows.zeros(_segments(rows))
    marks = _marks(rows, overrides)
    _over_lanes(kernels.owed_mass_kernel, rows, *_typed(rows, a, b), marks, out)
    return fold(out, 1)


def gap_masses(rows: Rows, s: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (s T - p)+ and Σ (p - s T)+, float64 [R] each."""
    gained, lost = rows.zeros(_segments(rows)), rows.zeros(_segments(rows))
    _over_lanes(kernels.gap_mass_kernel, rows, *_typed(rows, s), gained, lost)
    return fold(gained, 1), fold(lost, 1)


def settle_chain(rows: Rows, chain: Tensor) -> Tensor:
    """As `chain.settle_rows`, for the pairs of `rows`: a pass for each layer."""
    settled = chain.clone()
    for j in range(chain.shape[1]):
        out = rows.zeros(_segments(rows))
        _over_lanes(kernels.layer_mass_kernel, replace(rows, chain=settled), out, layers=j)
        settled[:, j] = settle(settled[:, j], fold(out, 1))
    return settled


def kept_mass(
    rows: Rows, scales: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ min(p, s T) and the part of it where s T < p, float64 [R, G] each; T as in `clip`."""
    count = scales.shape[1]
    padded = triton.next_power_of_2(count)
    if padded > count:
        scales = torch.cat([scales, scales[:, :1].expand(-1, padded - count)], 1)
    owed = a is not None and b is not None
    one = torch.ones_like(scales[:, 0])
    masses, partial = rows.zeros(padded, _segments(rows)), rows.zeros(padded, _segments(rows))
    _over_lanes(
        kernels.kept_mass_kernel,
        rows,
        *_typed(rows, one if a is None else a, one if b is None else b, scales),
        masses,
        partial,
        OWED=owed,
        SCALES=padded,
    )
    return fold(masses, 1)[:, :count], fold(partial, 1)[:, :count]


def ratio_masses(rows: Rows, edges: Tensor) -> Tensor:
    """As `clip.ratio_masses`."""
    types = len(edges)
    if rows.count == 0:
        return rows.zeros(types)
    padded = triton.next_power_of_2(types)
    segments = _segments(rows)
    out = torch.zeros(
        rows.count, types, segments, NARROW, dtype=rows.compute_dtype, device=rows.device
    )
    tile = _tile(rows, SEGMENT // NARROW * RATIO_COLUMNS * padded)
    kernels.ratio_mass_kernel[(triton.cdiv(rows.count, tile), segments, NARROW // RATIO_COLUMNS)](
        _table(rows)._replace(**dict(zip(("edges", "inverses"), _intervals(rows, edges)))),
        out,
        TYPES=types,
        PADDED=padded,
        COMPUTE=_compute(rows),
        ROWS=tile,
        COLUMNS=RATIO_COLUMNS,
        SEGMENT=SEGMENT,
        LANES=LANES,
        NARROW=NARROW,
        num_warps=WARPS["ratio_mass"],
        enable_fp_fusion=False,
    )
    return finish(out.flatten(0, 1)).view(rows.count, types)


def draw(rows: Rows, uniform: Tensor, owed: Owed, overrides: Overrides | None) -> Tensor:
    """As `clip.draw`."""
    masses, plain = segment_masses(rows, owed, overrides)
    return draw_by_segments(rows, uniform, owed, overrides, masses, plain)


def segment_masses(rows: Rows, owed: Owed, overrides: Overrides | None) -> tuple[Tensor, Tensor]:
    """float64 [R, ⌈V/SEGMENT⌉]: the weights of `clip.draw` and the plain row, summed by segment."""
    segments = triton.cdiv(rows.vocab, SEGMENT)
    out, plain = rows.zeros(segments), rows.zeros(segments)
    if rows.count == 0:
        return out, plain
    clipped = owed.c is not None and owed.d is not None
    c, d = (owed.c, owed.d) if owed.c is not None and owed.d is not None else (owed.a, owed.a)
    tile = _tile(rows, SEGMENT)
    kernels.segment_mass_kernel[(triton.cdiv(rows.count, tile), segments)](
        _table(rows),
        *_typed(rows, owed.a, owed.b, c, d),
        _marks(rows, overrides),
        out,
        plain,
        CLIPPED=clipped,
        **_constants(rows, tile),
        num_warps=WARPS["segment_mass"],
        enable_fp_fusion=False,
    )
    return out, plain


def _over_lanes(
    kernel: Any, rows: Rows, *arguments: object, layers: int | None = None, **constants: object
) -> None:
    """Launch a kernel that has a program for each segment of lanes of a tile of rows."""
    if rows.count == 0:
        return
    name = kernel.__name__.removesuffix("_kernel")
    tile = _tile(rows, SEGMENT * int(constants.get("SCALES", 1)))  # type: ignore[call-overload]
    kernel[(triton.cdiv(rows.count, tile), _segments(rows))](
        _table(rows, layers),
        *arguments,
        **constants,
        **_constants(rows, tile),
        LANES=LANES,
        num_warps=WARPS[name],
        enable_fp_fusion=False,
    )


def _table(rows: Rows, layers: int | None = None) -> kernels.Table:
    """The rows as the kernels take them; `layers`: of the chain only so many."""
    none = rows.target_rows
    start, slopes, edges, inverses = none, none, none, none
    if rows.rise is not None and rows.edges is not None:
        start, slopes = _typed(rows, rows.rise[:, 0], rows.rise[:, 1:] - rows.rise[:, :-1])
        edges, inverses = _intervals(rows, rows.edges)
    depth = 0 if rows.chain is None else rows.chain.shape[1]
    return kernels.Table(
        rows.draft_rows.contiguous(),
        rows.target_rows.contiguous(),
        rows.draft_index.contiguous(),
        rows.target_index.contiguous(),
        start,
        slopes,
        edges,
        inverses,
        none if rows.chain is None else rows.chain.contiguous(),
        depth if layers is None else layers,
        depth,
        rows.count,
        rows.vocab,
    )


def _typed(rows: Rows, *values: Tensor) -> list[Tensor]:
    """Coefficients in the compute dtype, as the torch path rounds them."""
    return [value.to(rows.compute_dtype).contiguous() for value in values]


def _marks(rows: Rows, overrides: Overrides | None) -> kernels.Marks:
    if overrides is None:
        return kernels.Marks(rows.target_index, rows.target_rows, 0)
    values = _typed(rows, overrides.values)[0]
    return kernels.Marks(overrides.tokens.contiguous(), values, overrides.tokens.shape[1])


def _intervals(rows: Rows, edges: Tensor) -> list[Tensor]:
    return _typed(rows, edges[:-1], 1.0 / (edges[1:] - edges[:-1]))


def _constants(rows: Rows, tile: int) -> dict[str, object]:
    return {
        "TYPES": 0 if rows.rise is None else rows.rise.shape[1],
        "CHAINED": rows.chain is not None,
        "COMPUTE": _compute(rows),
        "ROWS": tile,
        "SEGMENT": SEGMENT,
        "NARROW": NARROW,
    }


def _compute(rows: Rows) -> tl.dtype:
    return tl.float64 if rows.compute_dtype == torch.float64 else tl.float32


def _segments(rows: Rows) -> int:
    """Segments of lanes."""
    return int(triton.cdiv(min(rows.vocab, LANES), SEGMENT))


def _tile(rows: Rows, entries: int) -> int:
    """Rows of a program: one on a GPU, many in the interpreter, where a program is what costs."""
    if not INTERPRETED:
        return 1
    return int(min(triton.next_power_of_2(rows.count), max(1, 2**19 // entries)))
