"""Sums along rows in one fixed order per vocabulary size, by elementwise additions alone.

The order is: `LANES` running sums over the columns l, l + LANES, ..; then each `SEGMENT` of
neighbouring lanes is folded in halves, down to `NARROW` in the dtype of the rows and from there in
float64; then the segments are folded in halves. A library reduction may choose its order by shape,
thread count or device; elementwise additions cannot, so a row's sum is the same bits everywhere.

For non-negative entries the relative error is at most (⌈V/LANES⌉ - 1 + 4) u + 12 · 2^-53, u the
unit roundoff of the rows' dtype (docs/numerics.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "LANES",
    "NARROW",
    "SEGMENT",
    "finish",
    "fold",
    "row_parts",
    "row_sums",
    "segment_parts",
    "segment_sums",
]

LANES = 32768
SEGMENT = 1024
NARROW = 64


def row_sums(tile: Tensor) -> Tensor:
    """float64 [r]: the sum of each row of a tile [r, V]."""
    return finish(row_parts(tile))


def row_parts(tile: Tensor) -> Tensor:
    """[r, n, m]: the first part of the sum, down to m ≤ NARROW numbers for each segment."""
    width = tile.shape[1]
    if width > LANES:
        lanes = tile[:, :LANES].clone()
        for low in range(LANES, width, LANES):
            more = tile[:, low : low + LANES]
            (lanes if more.shape[1] == LANES else lanes[:, : more.shape[1]]).add_(more)
        tile, width = lanes, LANES
    return segment_parts(tile)


def finish(parts: Tensor) -> Tensor:
    """float64 [r]: the sums whose first parts are [r, n, m]."""
    return fold(fold(parts.to(torch.float64), 1), 1)


def segment_sums(tile: Tensor) -> Tensor:
    """float64 [r, n]: the sum of each run of SEGMENT neighbouring columns of a tile [r, V]."""
    return fold(segment_parts(tile).to(torch.float64), 1)


def segment_parts(tile: Tensor) -> Tensor:
    """[r, n, m]: each run of SEGMENT columns folded to m = NARROW (V, if that is less) columns."""
    rows, width = tile.shape
    if width < SEGMENT:
        parts = fold(tile, NARROW)[:, None]
        return parts.clone() if width <= NARROW else parts  # callers reuse the tile
    whole = width - width % SEGMENT
    parts = fold(tile[:, :whole].view(rows, whole // SEGMENT, SEGMENT), NARROW)
    if whole < width:
        last = fold(tile[:, whole:], NARROW)
        rest = parts.new_zeros(rows, 1, NARROW)
        rest[:, 0, : last.shape[1]] = last
        parts = torch.cat([parts, rest], 1)
    return parts


def fold(x: Tensor, narrow: int) -> Tensor:
    """Fold the last dimension in halves, as if padded by zeros to a power of two, down to `narrow`.

    With narrow = 1 the dimension is dropped.
    """
    width = x.shape[-1]
    while width > narrow:
        half = 1 << ((width - 1).bit_length() - 1)
        if width == 2 * half:
            x = x[..., :half] + x[..., half:]
        else:
            head = x[..., :half].clone()
            head[..., : width - half] += x[..., half:]
            x = head
        width = half
    return x[..., 0] if narrow == 1 else x
