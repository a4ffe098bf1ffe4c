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
    depth = torch.arange(1, depths + 1, device=nodes.device)
    below, leaf = depth > top[:, None], depth == length[:, None]
    reachable = (below & (depth <= length[:, None]) & tested[:, None]).unbind(1)
    weights, w = [], start
    for i in range(depths):
        w = torch.where(below[:, i], (w * ratio[:, i]).clamp(max=1.0), start)
        weights.append(w)
    missing = (1 - torch.stack(weights, 1)).unbind(1) if depths else ()
    inner = torch.where(leaf, -1, nodes[:, 1:]).unbind(1)
    nothing = torch.zeros_like(start)
    found, weight, owed, open_ = top, start, nothing, None
    for i in range(depths, 0, -1):
        reached, w, h, mass = reachable[i - 1], weights[i - 1], weights[i - 1], nothing
        if open_ is not None:
            reached = reached & open_
        if i < depths:
            needed = torch.where(reached, inner[i - 1], -1)
            mass = owed_mass(law(torch.full_like(length, i), needed), w)
            h = torch.where(leaf[:, i - 1], w, divide(mass, mass + missing[i - 1]))
        accepted = reached & (uniforms[:, i - 1] < h)
        found = torch.where(accepted, i, found)
        weight = torch.where(accepted, w, weight)
        owed = torch.where(accepted & ~leaf[:, i - 1], mass, owed)
        open_ = found == top
    return found, weight, owed
