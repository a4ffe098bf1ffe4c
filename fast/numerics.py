"""Bounds on the rounding of the fast path, derived in docs/numerics.md."""

from __future__ import annotations

import math

import torch
from draftproof.fast.sums import LANES

__all__ = ["law_bound", "sum_bound", "unit_roundoff"]


def unit_roundoff(dtype: torch.dtype) -> float:
    """u of the dtype that rows of `dtype` are computed in: 2^-53 for float64, else 2^-24."""
    return 2.0**-53 if dtype == torch.float64 else 2.0**-24


def sum_bound(dtype: torch.dtype, vocab: int) -> float:
    """δ(V): how far Σ (a q - b p)+ may be from its exact value for 0 ≤ a, b ≤ 1."""
    return (math.ceil(vocab / LANES) + 9) * unit_roundoff(dtype) + 12 * 2.0**-53


def law_bound(
    dtype: torch.dtype, vocab: int, length: int, drafts: int = 1, defect: float = 0.0
) -> float:
    """The total variation between the law of a call and the exact one on the same floats.

    Args:
        length, drafts: L and K.
        defect: the largest |Σ row - 1| of the rows.
    """
    tests = drafts * length + 1
    clip = 1 + drafts * (drafts - 1) / 2
    return tests * clip * (sum_bound(dtype, vocab) + 2 * defect)
