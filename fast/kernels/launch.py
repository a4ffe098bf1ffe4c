"""Launching the kernels: what `draftproof.fast.clip` calls in place of its torch passes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from draftproof.fast.sums import LANES, NARROW, SEGMENT, finish, fold
from torch import Tensor

# A multiplication fused with an addition rounds once instead of twice: other bits than torch has.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")

import triton
import triton.language as tl
from draftproof.fast.kernels import rows as kernels

if TYPE_CHECKING:
    from draftproof.fast.clip import Overrides, Owed, Rows

__all__ = ["INTERPRETED", "kept_mass", "owed_mass", "ratio_masses", "segment_masses"]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RATIO_COLUMNS = 16
WARPS = {"owed_mass": 4, "kept_mass": 4, "ratio_mass": 8, "segment_mass": 4}


def owed_mass(rows: Rows, a: Tensor, b: Tensor | None, overrides: Overrides | None) -> Tensor:
    """As `clip.owed_mass`."""
    if rows.count == 0:
        return rows.zeros()
    b = torch.ones_like(a) if b is None else b
    out = rows.zeros(_segments(rows))
    tile = _tile(rows, SEGMENT)
    kernels.owed_mass_kernel[(triton.cdiv(rows.count, tile), out.shape[1])](
        *_tables(rows),
        *_typed(rows, a, b),
        *_overrides(rows, overrides),
        *_law(rows),
        out,
        rows.count,
        rows.vocab,
        0 if overrides is None else overrides.tokens.shape[1],
        **_constants(rows, tile),
        LANES=LANES,
        num_warps=WARPS["owed_mass"],
        enable_fp_fusion=False,
    )
    return fold(out, 1)


def kept_mass(
    rows: Rows, scales: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ min(p, s T) and the part of it where s T < p, float64 [R, G] each; T as in `clip`."""
    count = scales.shape[1]
    padded = triton.next_power_of_2(count)
    if rows.count == 0:
        return torch.zeros_like(scales), torch.zeros_like(scales)
    if padded > count:
        scales = torch.cat([scales, scales[:, :1].expand(-1, padded - count)], 1)
    owed = a is not None and b is not None
    one = torch.ones_like(scales[:, 0])
    masses, partial = rows.zeros(padded, _segments(rows)), rows.zeros(padded, _segments(rows))
    tile = _tile(rows, SEGMENT * padded)
    kernels.kept_mass_kernel[(triton.cdiv(rows.count, tile), masses.shape[2])](
        *_tables(rows),
        *_typed(rows, one if a is None else a, one if b is None else b, scales),
        *_law(rows),
        masses,
        partial,
        rows.count,
        rows.vocab,
        OWED=owed,
        SCALES=padded,
        **_constants(rows, tile),
        LANES=LANES,
        num_warps=WARPS["kept_mass"],
        enable_fp_fusion=False,
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
    constants = _constants(rows, tile) | {"TYPES": types}
    kernels.ratio_mass_kernel[(triton.cdiv(rows.count, tile), segments, NARROW // RATIO_COLUMNS)](
        *_tables(rows),
        *_intervals(rows, edges),
        out,
        rows.count,
        rows.vocab,
        PADDED=padded,
        COLUMNS=RATIO_COLUMNS,
        **constants,
        LANES=LANES,
        num_warps=WARPS["ratio_mass"],
        enable_fp_fusion=False,
    )
    return finish(out.flatten(0, 1)).view(rows.count, types)


def segment_masses(rows: Rows, owed: Owed, overrides: Overrides | None) -> tuple[Tensor, Tensor]:
    """float64 [R, ⌈V/SEGMENT⌉]: the weights of `clip.draw` and the plain row, summed by segment."""
    segments = triton.cdiv(rows.vocab, SEGMENT)
    out, plain = rows.zeros(segments), rows.zeros(segments)
    if rows.count == 0:
        return out, plain
    clipped = owed.c is not None and owed.d is not None
    one = torch.ones_like(owed.a)
    c, d = (owed.c, owed.d) if owed.c is not None and owed.d is not None else (one, one)
    tile = _tile(rows, SEGMENT)
    kernels.segment_mass_kernel[(triton.cdiv(rows.count, tile), segments)](
        *_tables(rows),
        *_typed(rows, owed.a, owed.b, c, d),
        *_overrides(rows, overrides),
        *_law(rows),
        out,
        plain,
        rows.count,
        rows.vocab,
        0 if overrides is None else overrides.tokens.shape[1],
        CLIPPED=clipped,
        **_constants(rows, tile),
        num_warps=WARPS["segment_mass"],
        enable_fp_fusion=False,
    )
    return out, plain


def _tables(rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        rows.draft_rows.contiguous(),
        rows.target_rows.contiguous(),
        rows.draft_index.contiguous(),
        rows.target_index.contiguous(),
    )


def _typed(rows: Rows, *values: Tensor) -> list[Tensor]:
    """Coefficients in the compute dtype, as the torch path rounds them."""
    return [value.to(rows.compute_dtype).contiguous() for value in values]


def _overrides(rows: Rows, overrides: Overrides | None) -> tuple[Tensor, Tensor]:
    if overrides is None:
        return rows.target_index, rows.zeros()
    return overrides.tokens.contiguous(), _typed(rows, overrides.values)[0]


def _intervals(rows: Rows, edges: Tensor) -> list[Tensor]:
    return _typed(rows, edges[:-1], 1.0 / (edges[1:] - edges[:-1]))


def _law(rows: Rows) -> list[Tensor]:
    """Start and slopes of the selected row, and its intervals; anything when there is none."""
    if rows.rise is None or rows.edges is None:
        none = rows.zeros()
        return [none, none, none, none]
    slopes = rows.rise[:, 1:] - rows.rise[:, :-1]
    return [*_typed(rows, rows.rise[:, 0], slopes), *_intervals(rows, rows.edges)]


def _constants(rows: Rows, tile: int) -> dict[str, object]:
    wide = rows.compute_dtype == torch.float64
    return {
        "TYPES": 0 if rows.rise is None else rows.rise.shape[1],
        "COMPUTE": tl.float64 if wide else tl.float32,
        "ROWS": tile,
        "SEGMENT": SEGMENT,
        "NARROW": NARROW,
    }


def _segments(rows: Rows) -> int:
    """Segments of lanes."""
    return int(triton.cdiv(min(rows.vocab, LANES), SEGMENT))


def _tile(rows: Rows, entries: int) -> int:
    """Rows of a program: one on a GPU, many in the interpreter, where a program is what costs."""
    if not INTERPRETED:
        return 1
    return int(min(triton.next_power_of_2(rows.count), max(1, 2**19 // entries)))
