"""Block verification: accept the longest prefix that passes a test scanned from the deepest depth.

Source: Sun et al. (2403.10444, algorithm 2). P(τ ≥ i | x^i) = w_i, so E[τ] = Σ_i E_p[w_i], the most
that a stateless scheme with one draft reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from draftproof.fast.clip import Owed, Rows, draw, owed_mass
from draftproof.fast.paths import divide, only_draft, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from torch import Tensor

__all__ = ["RowsAt", "block_scan", "plain_rows", "verify", "verify_path"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the one draft of each block as a block."""
    p, q, length = only_draft(batch, "block")
    first = torch.zeros_like(length)
    return verify_path(batch, uniforms, first, length, divide(q, p), plain_rows(batch))


RowsAt = Callable[[Tensor, Tensor], Rows]
"""rows_at(depth [B], nodes [B]): the rows of each block after `depth` tokens of its path."""


def plain_rows(batch: Batch) -> RowsAt:
    """The rows of the batch themselves."""
    return lambda depth, nodes: rows_at(batch, nodes)


def verify_path(
    batch: Batch, uniforms: Uniforms, path: Tensor, length: Tensor, ratio: Tensor, law: RowsAt
) -> Result:
    """Verify the draft `path` [B] of each block, whose tokens have the law of the rows `law`.

    `length` is int64 [B]; `ratio` float64 [B, L], q/p of its tokens with p in that law.
    """
    top, w = torch.zeros_like(length), torch.ones_like(uniforms.token)
    every = torch.arange(batch.blocks, device=batch.device)
    nodes = batch.nodes[every, path]
    accepted = top
    if batch.drafts:
        tests = uniforms.accept[every, path]
        accepted, w, _ = block_scan(nodes, length, length > 0, top, ratio, w, tests, law)
    whole = accepted == length
    # (w q - p)+ in the law of the path; the plain row after a whole draft, whose leaf has no p
    rows = law(
        accepted.clamp(max=max(batch.length - 1, 0)), nodes.gather(1, accepted[:, None])[:, 0]
    )
    rows = replace(rows, draft_index=torch.where(whole, -1, rows.draft_index))
    owed = Owed(torch.where(whole, 1.0, w), torch.ones_like(w))
    token = draw(rows, uniforms.token, owed)
    return Result.of(batch, accepted, torch.where(accepted > 0, path, 0), token)


def block_scan(
    nodes: Tensor,
    length: Tensor,
    tested: Tensor,
    top: Tensor,
    ratio: Tensor,
    start: Tensor,
    uniforms: Tensor,
    law: RowsAt,
) -> tuple[Tensor, Tensor, Tensor]:
    """Test one draft of each block below depth `top`, from its deepest depth up to `top` + 1.

        w_top = start, w_i = min(1, w_{i-1} q/p);   S_i = Σ (w_i q - p)+ at the node of depth i
        h_i = S_i / (S_i + 1 - w_i) above the leaf,   w at the leaf

    Args:
        nodes: int64 [B, L+1], the nodes of the draft, and `length` [B] its length.
        tested: bool [B], the blocks whose draft is tested.
        top: int64 [B], the depth of the node where the scan ends.
        ratio: float64 [B, L], q/p of the draft's tokens (of the row owed at `top`, for the first).
        start: float64 [B], 1, or 1/ρ after a clip.
        uniforms: float64 [B, L].
        law: the rows at a depth.

    Returns:
        The deepest accepted depth [B], `top` if none is; w and S there (S = 0 at a leaf).
    """
    depths = ratio.shape[1]
    if depths == 0:
        return top, start, torch.zeros_like(start)
    depth = torch.arange(1, depths + 1, device=nodes.device)
    below, leaf = depth > top[:, None], depth == length[:, None]
    open_ = (below & (depth <= length[:, None]) & tested[:, None]).unbind(1)
    inner = torch.where(leaf, -1, nodes[:, 1:]).unbind(1)
    weights, w = [], start
    for under, step in zip(below.unbind(1), ratio.unbind(1), strict=True):
        w = torch.where(under, (w * step).clamp(max=1.0), start)
        weights.append(w)
    weight = torch.stack(weights, 1)
    missing, leaves, u = (1 - weight).unbind(1), leaf.unbind(1), uniforms.unbind(1)
    rejected, masses, accepted = tested, [], []
    for i in reversed(range(depths)):
        reached = open_[i] & rejected
        mass, h = torch.zeros_like(start), weights[i]
        if i + 1 < depths:
            needed = torch.where(reached, inner[i], -1)
            mass = owed_mass(law(torch.full_like(length, i + 1), needed), weights[i])
            # 0/0 fails the test, as 0 does
            h = torch.where(leaves[i], weights[i], mass / (mass + missing[i]))
        accepted.append(reached & (u[i] < h))
        masses.append(mass)
        rejected = rejected & ~accepted[-1]
    passed = torch.stack(accepted[::-1], 1)
    found = torch.where(passed, depth, top[:, None]).amax(1)
    at = (found - 1).clamp(min=0)[:, None]
    some = passed.any(1)
    weight = torch.where(some, weight.gather(1, at)[:, 0], start)
    owed = torch.stack(masses[::-1], 1).gather(1, at)[:, 0]
    return found, weight, torch.where(some & (found < length), owed, 0.0)
