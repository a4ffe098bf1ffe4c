"""K-SEQ block verification: the block rule on each draft in turn, the target clipped by K-SEQ.

Source: this project; lossless and stateless (proved in `proofs`). K = 1 is block verification,
L = 1 is K-SEQ.
"""

from __future__ import annotations

import torch
from draftproof.fast.clip import DEFAULT_GRID, Owed, cover_factor, draw, smallest_scale
from draftproof.fast.paths import divide, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.block import block_scan, plain_rows

__all__ = ["verify"]


def verify(batch: Batch, uniforms: Uniforms, *, grid: int = DEFAULT_GRID) -> Result:
    """Verify the drafts in order; after an accepted prefix go on with the later ones through it.

    `grid`: the scales are the smallest valid multiples of 1/grid.
    """
    b, k, length = batch.tokens.shape
    p = batch.token_probabilities(batch.draft_rows)
    q = batch.token_probabilities(batch.target_rows)
    node = batch.roots
    depth, path = torch.zeros_like(node), torch.zeros_like(node)
    # the target row owed at the node is (a q - beta p)+
    a, beta = torch.ones_like(uniforms.token), torch.zeros_like(uniforms.token)
    scale, cover = torch.ones_like(a), torch.zeros_like(a)
    waiting = batch.lengths > 0
    fresh = torch.ones_like(node, dtype=torch.bool)  # at a node whose scale is not yet known
    for draft in range(k):
        n = waiting.sum(1)
        new = fresh & (n > 0)
        rows = rows_at(batch, torch.where(new, node, -1))
        found_scale, mass = smallest_scale(rows, n, a, beta, grid)
        scale = torch.where(new, found_scale, scale)
        cover = torch.where(new, cover_factor(mass, n), cover)
        fresh = fresh & ~new

        tested = waiting[:, draft]
        token_q, token_p = q[:, draft], p[:, draft]
        if length:
            # the target row at the node is the owed one
            here = torch.arange(length, device=node.device) == depth[:, None]
            owed_q = (a[:, None] * token_q - beta[:, None] * token_p).clamp(min=0)
            token_q = torch.where(here, owed_q, token_q)
        found, weight, owed = block_scan(
            batch.nodes[:, draft],
            batch.lengths[:, draft],
            tested,
            depth,
            divide(token_q, token_p),
            1 / scale,
            uniforms.accept[:, draft],
            plain_rows(batch),
        )
        moved = found > depth
        depth = torch.where(moved, found, depth)
        path = torch.where(moved, draft, path)
        node = torch.where(moved, batch.nodes[:, draft].gather(1, depth[:, None])[:, 0], node)
        whole = moved & (depth == batch.lengths[:, draft])
        # what is owed at the new node: (w q - p)+ normalised, the plain row where that is nothing
        left = moved & ~whole & (owed > 0)
        a = torch.where(left, divide(weight, owed), torch.where(moved, 1.0, a))
        beta = torch.where(left, divide(torch.ones_like(owed), owed), torch.where(moved, 0.0, beta))
        cover = torch.where(moved, 0.0, cover)
        fresh = fresh | moved
        later = torch.arange(k, device=node.device) > draft
        through = batch.nodes.gather(2, depth[:, None, None].expand(b, k, 1))[:, :, 0]
        onward = later & (through == node[:, None]) & (batch.lengths > depth[:, None])
        waiting = torch.where(moved[:, None], onward & ~whole[:, None], waiting)
    # where no draft waited at the node its row is drawn as it is, else what its clip has left
    kept = torch.where(fresh, 0.0, 1 - cover / scale)
    plain = (beta == 0) & (cover == 0)
    owed_row = Owed(a, beta, cover, torch.where(cover == 0, 1.0, kept))
    token = draw(rows_at(batch, node, plain), uniforms.token, owed_row)
    return Result.of(batch, depth, path, token)
