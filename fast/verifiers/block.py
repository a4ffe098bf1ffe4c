"""Block verification: accept the longest prefix that passes a test scanned from the deepest depth.

Source: Sun et al. (2403.10444, algorithm 2). P(τ ≥ i | x^i) = w_i, so E[τ] = Σ_i E_p[w_i], the most
that a stateless scheme with one draft reaches.
"""

from __future__ import annotations

import torch
from draftproof.fast.clip import Owed, draw, owed_mass
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.paths import divide, node_at, only_draft, rows_at
from torch import Tensor

__all__ = ["block_scan", "verify"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the one draft of each block as a block."""
    p, q, length = only_draft(batch, "block")
    first = torch.zeros_like(length)
    accepted, w = first, torch.ones_like(uniforms.token)
    if batch.drafts:
        accepted, w, _ = block_scan(
            batch, 0, length > 0, first, divide(q, p), w, uniforms.accept[:, 0]
        )
    whole = accepted == length
    rows = rows_at(batch, node_at(batch, first, accepted), whole)
    # (w q - p)+, or the plain row after a whole draft
    owed = Owed(torch.where(whole, 1.0, w), torch.ones_like(w))
    return Result.of(batch, accepted, first, draw(rows, uniforms.token, owed))


def block_scan(
    batch: Batch,
    draft: int,
    tested: Tensor,
    top: Tensor,
    ratio: Tensor,
    start: Tensor,
    uniforms: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Test a draft of each block below depth `top`, from its deepest depth up to `top` + 1.

        w_top = start, w_i = min(1, w_{i-1} q/p);   S_i = Σ (w_i q - p)+ at the node of depth i
        h_i = S_i / (S_i + 1 - w_i) above the leaf,   w at the leaf

    Args:
        tested: bool [B], the blocks whose draft is tested.
        top: int64 [B], the depth of the node where the scan ends.
        ratio: float64 [B, L], q/p of the draft's tokens (of the row owed at `top`, for the first).
        start: float64 [B], 1, or 1/ρ after a clip.
        uniforms: float64 [B, L].

    Returns:
        The deepest accepted depth [B], `top` if none is; w and S there (S = 0 at a leaf).
    """
    length = batch.lengths[:, draft]
    found, weight, owed = top, start, torch.zeros_like(start)
    weights, w = [], start
    for i in range(1, batch.length + 1):
        below = i > top
        w = torch.where(below, (w * ratio[:, i - 1]).clamp(max=1.0), start)
        weights.append(w)
    open_ = tested
    for i in range(batch.length, 0, -1):
        w = weights[i - 1]
        reached = open_ & (i > top) & (i <= length)
        leaf = length == i
        h, mass = w, torch.zeros_like(w)
        if i < batch.length:
            inner = torch.where(reached & ~leaf, batch.nodes[:, draft, i], -1)
            mass = owed_mass(rows_at(batch, inner), w)
            h = torch.where(leaf, w, divide(mass, mass + (1 - w)))
        accepted = reached & (uniforms[:, i - 1] < h)
        found = torch.where(accepted, i, found)
        weight = torch.where(accepted, w, weight)
        owed = torch.where(accepted & ~leaf, mass, owed)
        open_ = open_ & ~accepted
    return found, weight, owed
