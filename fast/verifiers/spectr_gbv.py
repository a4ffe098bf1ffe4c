"""SpecTr-GBV in a lossless form: greedy block verification of several drafts, with a carry.

The same walk as K-SEQ block verification with the greedy rule: below the current node the whole
chain of target rows is kept and updated, and what remains of it is carried to the next round.
Source: this project (lossless, proved in `proofs`), after SpecTr-GBV (2604.25925), which is not
lossless as published. K = 1 is greedy block verification.
"""

from __future__ import annotations

import torch
from draftproof.fast.carry import Carry, chain_scale
from draftproof.fast.clip import DEFAULT_GRID, cover_factor
from draftproof.fast.paths import rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.greedy_block import emit, greedy_scan
from torch import Tensor

__all__ = ["verify"]


def verify(
    batch: Batch,
    uniforms: Uniforms,
    *,
    carry: Carry | None = None,
    scale: str = "unit",
    grid: int = DEFAULT_GRID,
) -> Result:
    """Verify the drafts in order; `carry` is that of the previous round.

    `scale`: "unit" takes one draft at a time (ρ = c = 1) and updates the chain after each of them.
    "kseq" clips for all drafts through the node at once, with the smallest valid multiple of
    1/`grid`, and updates after the last one; the drafts of a block must then have one length.

    Raises:
        ValueError: an unknown scale.
    """
    if scale not in ("unit", "kseq"):
        raise ValueError(f"scale must be 'unit' or 'kseq', not {scale!r}")
    clipped = scale == "kseq"
    b, k, length = batch.tokens.shape
    layers = carry if carry is not None else Carry.empty(b, batch.device)
    node = batch.roots
    depth, path = torch.zeros_like(node), torch.zeros_like(node)
    one = torch.ones_like(uniforms.token)
    rho, cover = one, one
    waiting = batch.lengths > 0
    fresh = torch.ones_like(node, dtype=torch.bool)  # at a node whose scale is not yet known
    none = torch.zeros_like(node)
    for draft in range(k):
        if clipped:
            n = waiting.sum(1)
            new = fresh & (n > 0)
            found, mass = chain_scale(rows_at(batch, torch.where(new, node, -1)), layers, n, grid)
            rho = torch.where(new, found, rho)
            cover = torch.where(new, cover_factor(mass, n), cover)
            fresh = fresh & ~new
        tested = waiting[:, draft]
        scan = greedy_scan(batch, draft, tested, depth, layers, rho, uniforms.accept[:, draft])
        moved = scan.depth > depth
        depth, layers = scan.depth, scan.layers
        acts = torch.where(moved if clipped else tested, batch.lengths[:, draft] - depth, none)
        layers = layers.with_layer(scan.ratio, cover, rho, acts, length)
        path = torch.where(moved, draft, path)
        node = torch.where(moved, batch.nodes[:, draft].gather(1, depth[:, None])[:, 0], node)
        fresh = fresh | moved
        waiting = torch.where(moved[:, None], _later(batch, draft, node, depth), waiting)
        if not clipped:
            waiting = waiting & (torch.arange(k, device=node.device) > draft)
    if clipped and k:
        acts = torch.where(fresh, none, batch.lengths.amax(1) - depth)
        layers = layers.with_layer(one, cover, rho, acts, length)
    return emit(batch, uniforms, depth, path, layers)


def _later(batch: Batch, draft: int, node: Tensor, depth: Tensor) -> Tensor:
    """bool [B, K]: the drafts after `draft` that go on from `node` [B] at `depth` [B]."""
    b, k, _ = batch.tokens.shape
    through = batch.nodes.gather(2, depth[:, None, None].expand(b, k, 1))[:, :, 0]
    later = torch.arange(k, device=node.device) > draft
    return later & (through == node[:, None]) & (batch.lengths > depth[:, None])
