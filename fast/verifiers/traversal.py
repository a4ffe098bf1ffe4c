"""Traversal verification: test the prefix tree leaf by leaf, from the first leaf up.

A node has a weight, 1 at the root and min(1, w q(x)/p(x)) at the child x of a node of weight w. The
first leaf in depth-first order is accepted with probability its weight. If it is not, it is cut
off, and its parent goes on with

    q ← (w q - p)+ normalised, S the mass before,   w ← S/(S + 1 - w),   p(x) ← 0 renormalised,

until all its children are gone and it is a leaf itself. Lossless for trees drawn without
replacement, and on the merged tree of i.i.d. paths with children in order of first appearance.
Source: Weng et al. (2505.12398).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from draftproof.fast.clip import Overrides, Owed, draw, owed_mass
from draftproof.fast.paths import divide, node_at, row_entry, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from torch import Tensor

__all__ = ["verify"]


class _Open(NamedTuple):
    """One open node of each block: its target row is (a q - β p)+, its draft row p/rest, except
    that at its removed children the draft row is 0 and the target row `left`."""

    a: Tensor
    """float64 [B], as β, rest and weight"""
    beta: Tensor
    rest: Tensor
    weight: Tensor
    removed: Tensor
    """int64 [B, K], -1 where none"""
    left: Tensor
    """float64 [B, K]"""

    @staticmethod
    def fresh(weight: Tensor, drafts: int) -> _Open:
        """A node none of whose children is cut off."""
        one = torch.ones_like(weight)
        left = torch.zeros(len(weight), drafts, dtype=weight.dtype, device=weight.device)
        return _Open(one, 0 * one, one, weight, torch.full_like(left, -1, dtype=torch.int64), left)

    def where(self, chosen: Tensor, other: _Open) -> _Open:
        """This state where `chosen` [B], the other elsewhere."""
        return _Open(
            *(
                torch.where(chosen if mine.dim() == 1 else chosen[:, None], mine, theirs)
                for mine, theirs in zip(self, other, strict=True)
            )
        )


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the drafts as a merged tree; a node is tested as its first draft at its depth."""
    b, k, length = batch.tokens.shape
    every = torch.arange(b, device=batch.device)
    owner = _owners(batch)
    order = _depth_first(owner)
    one = torch.ones_like(uniforms.token)
    state = [_Open.fresh(one, k) for _ in range(length + 1)]
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
            up = state[depth - 1]
            here_q = (up.a * q[:, depth - 1] - up.beta * p[:, depth - 1]).clamp(min=0)
            here_p = divide(p[:, depth - 1], up.rest)
            weight = (up.weight * divide(here_q, here_p)).clamp(max=1.0)
            entered = ~found & (depth > shared)
            state[depth] = _Open.fresh(weight, k).where(entered, state[depth])
        shared = torch.zeros_like(shared)
        if j + 1 < k:
            following = batch.nodes[every, order[:, j + 1]]
            same = (nodes == following) & (nodes >= 0)
            shared = (same.to(torch.int64).cumprod(1).sum(1) - 1).clamp(min=0)
        for depth in range(length, 0, -1):
            finished = ~found & (depth > shared) & (depth <= own_length)
            first = owner[every, draft, depth].clamp(min=0)
            uniform = uniforms.accept[every, first, depth - 1]
            kept = finished & (uniform < state[depth].weight)
            accepted = torch.where(kept, depth, accepted)
            path = torch.where(kept, first, path)
            found = found | kept
            cut = finished & ~kept
            parent = torch.where(cut, nodes[:, depth - 1], -1)
            child = (tokens[:, depth - 1], p[:, depth - 1], q[:, depth - 1])
            after = _cut_off(batch, state[depth - 1], parent, child, j)
            state[depth - 1] = after.where(cut, state[depth - 1])
    end = state[0]
    for depth in range(1, length + 1):
        end = state[depth].where(accepted == depth, end)
    rows = rows_at(batch, node_at(batch, path, accepted), end.beta == 0)
    token = draw(rows, uniforms.token, Owed(end.a, end.beta), Overrides(end.removed, end.left))
    return Result.of(batch, accepted, path, token)


def _cut_off(
    batch: Batch, node: _Open, index: Tensor, child: tuple[Tensor, Tensor, Tensor], column: int
) -> _Open:
    """The node with row index `index` [B] after its `child` (token, p, q) has been cut off."""
    token, p, q = child
    a, beta = node.weight * node.a, node.weight * node.beta + divide(torch.ones_like(p), node.rest)
    left = node.weight[:, None] * node.left
    mass = owed_mass(rows_at(batch, index), a, beta, Overrides(node.removed, left))
    some = mass > 0
    owed = torch.where(some, (a * q - beta * p), node.a * q - node.beta * p).clamp(min=0)
    scale = torch.where(some, mass, 1.0)
    removed, left = node.removed.clone(), torch.where(some[:, None], left, node.left)
    removed[:, column], left[:, column] = token, owed
    return _Open(
        torch.where(some, a / scale, node.a),
        torch.where(some, beta / scale, node.beta),
        (node.rest - p).clamp(min=0),
        divide(mass, mass + (1 - node.weight)),
        removed,
        left / scale[:, None],
    )


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
