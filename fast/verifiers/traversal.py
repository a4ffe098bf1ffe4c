"""Traversal verification: test the prefix tree leaf by leaf, from the first leaf up.

A node has a weight, 1 at the root and min(1, w q(x)/p(x)) at the child x of a node of weight w. The
first leaf in depth-first order is accepted with probability its weight. If it is not, it is cut
off, and its parent goes on with

    q ← (w q - p)+ normalised, S the mass before,   w ← S/(S + 1 - w),   p(x) ← 0 renormalised,

until all its children are gone and it is a leaf itself (`draftproof.fast.open_node`). Lossless for
trees drawn without replacement, and on the merged tree of i.i.d. paths with children in order of
first appearance.
Source: Weng et al. (2505.12398).
"""

from __future__ import annotations

import torch
from draftproof.fast.clip import draw
from draftproof.fast.open_node import OpenNode
from draftproof.fast.paths import divide, node_at, row_entry, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from torch import Tensor

__all__ = ["verify"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the drafts as a merged tree; a node is tested as its first draft at its depth."""
    b, k, length = batch.tokens.shape
    every = torch.arange(b, device=batch.device)
    owner = _owners(batch)
    order = _depth_first(owner)
    one = torch.ones_like(uniforms.token)
    nodes_open = [OpenNode.fresh(one, k) for _ in range(length + 1)]  # on the way, by depth
    weights = [one] * (length + 1)
    found = torch.zeros(b, dtype=torch.bool, device=batch.device)
    accepted = torch.zeros(b, dtype=torch.int64, device=batch.device)
    path = torch.zeros_like(accepted)
    shared = torch.zeros_like(accepted)  # depth down to which the open nodes are on the path
    for j in range(k):
        draft = order[:, j]
        nodes, tokens = batch.nodes[every, draft], batch.tokens[every, draft]
        own_length = batch.lengths[every, draft]
        p = row_entry(batch.draft_rows, nodes[:, :length], tokens)
        q = row_entry(batch.target_rows, nodes[:, :length], tokens)
        for depth in range(1, length + 1):
            here_p, here_q = nodes_open[depth - 1].entries(p[:, depth - 1], q[:, depth - 1])
            weight = (weights[depth - 1] * divide(here_q, here_p)).clamp(max=1.0)
            entered = ~found & (depth > shared)
            weights[depth] = torch.where(entered, weight, weights[depth])
            nodes_open[depth] = OpenNode.fresh(one, k).where(entered, nodes_open[depth])
        shared = torch.zeros_like(shared)
        if j + 1 < k:
            following = batch.nodes[every, order[:, j + 1]]
            same = (nodes == following) & (nodes >= 0)
            shared = (same.to(torch.int64).cumprod(1).sum(1) - 1).clamp(min=0)
        for depth in range(length, 0, -1):
            finished = ~found & (depth > shared) & (depth <= own_length)
            first = owner[every, draft, depth].clamp(min=0)
            uniform = uniforms.accept[every, first, depth - 1]
            kept = finished & (uniform < weights[depth])
            accepted = torch.where(kept, depth, accepted)
            path = torch.where(kept, first, path)
            found = found | kept
            cut = finished & ~kept
            parent = torch.where(cut, nodes[:, depth - 1], -1)
            child = (tokens[:, depth - 1], p[:, depth - 1], q[:, depth - 1])
            before, w = nodes_open[depth - 1], weights[depth - 1]
            after, mass = before.without(rows_at(batch, parent), child, j, w)
            nodes_open[depth - 1] = after.where(cut, before)
            weights[depth - 1] = torch.where(cut, divide(mass, mass + (1 - w)), w)
    end = nodes_open[0]
    for depth in range(1, length + 1):
        end = nodes_open[depth].where(accepted == depth, end)
    rows = rows_at(batch, node_at(batch, path, accepted), end.beta == 0)
    token = draw(rows, uniforms.token, *end.owed())
    return Result.of(batch, accepted, path, token)


def _owners(batch: Batch) -> Tensor:
    """int64 [B, K, L+1]: the first draft that shares each prefix of a draft, -1 on padding."""
    nodes = batch.nodes[:, : batch.drafts]
    same = nodes[:, :, None] == nodes[:, None]  # [B, K, K, L+1]
    first = same.to(torch.int8).argmax(2) if batch.drafts else nodes
    return torch.where(nodes >= 0, first, -1)


def _depth_first(owner: Tensor) -> Tensor:
    """int64 [B, K]: the drafts in depth-first order, children in order of first appearance."""
    order = torch.arange(owner.shape[1], device=owner.device).expand(owner.shape[:2])
    for depth in range(owner.shape[2] - 1, 0, -1):
        key = owner[:, :, depth].gather(1, order)
        order = order.gather(1, key.argsort(dim=1, stable=True))
    return order
