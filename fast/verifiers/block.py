"""Block verification: accept the longest prefix that passes a test scanned from the deepest depth.

Source: Sun et al. (2403.10444, algorithm 2). P(τ ≥ i | x^i) = w_i, so E[τ] = Σ_i E_p[w_i], the most
that a stateless scheme with one draft reaches.
"""

from __future__ import annotations

import torch
from draftproof.fast.clip import Owed, Rows, draw, owed_mass
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.paths import divide, node_at, only_draft, rows_at
from torch import Tensor

__all__ = ["block_weights", "deepest", "inner_tests", "verify"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the one draft of each block as a block."""
    p, q, length = only_draft(batch, "block")
    first = torch.zeros_like(length)
    weight = block_weights(divide(q, p), length)
    inner = rows_at(batch, batch.nodes[:, 0, 1 : batch.length].clamp(min=0).flatten())
    h = inner_tests(inner, weight, length)
    accepted = deepest(uniforms.accept[:, 0] < h) if batch.drafts else first
    rows = rows_at(batch, node_at(batch, first, accepted), accepted == length)
    w = torch.cat([torch.ones_like(uniforms.token)[:, None], weight], 1).gather(
        1, accepted[:, None]
    )[:, 0]
    w = torch.where(accepted == length, 1.0, w)
    token = draw(rows, uniforms.token, Owed(w, torch.ones_like(w)))
    return Result.of(batch, accepted, first, token)


def block_weights(ratio: Tensor, length: Tensor) -> Tensor:
    """float64 [B, L]: w_i = min(1, w_{i-1} q/p) for i = 1..L, from the ratios q/p [B, L]."""
    weights = []
    w = torch.ones(ratio.shape[0], dtype=ratio.dtype, device=ratio.device)
    for i in range(ratio.shape[1]):
        w = (w * ratio[:, i]).clamp(max=1.0)
        weights.append(w)
    return torch.stack(weights, 1) if weights else ratio


def inner_tests(inner: Rows, weight: Tensor, length: Tensor) -> Tensor:
    """float64 [B, L]: h_i = S_i / (S_i + 1 - w_i) below the leaf, w_L at it, 0 beyond it.

    `inner` holds the rows after depths 1..L-1 of each draft, block by block.
    """
    b, depth = weight.shape
    if depth == 0:
        return weight
    w = weight[:, :-1]
    owed = owed_mass(inner, w.flatten()).view(b, depth - 1)
    h = torch.cat([divide(owed, owed + (1 - w)), weight[:, -1:]], 1)
    at = torch.arange(1, depth + 1, device=weight.device)
    h = torch.where(at == length[:, None], weight, h)
    return torch.where(at > length[:, None], 0.0, h)


def deepest(passed: Tensor) -> Tensor:
    """int64 [B]: the greatest depth i in 1..L with passed[:, i-1], 0 if there is none."""
    depth = torch.arange(1, passed.shape[1] + 1, device=passed.device)
    return (
        torch.where(passed, depth, 0).amax(1) if passed.shape[1] else depth.new_zeros(len(passed))
    )
