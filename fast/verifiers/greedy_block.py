"""Greedy block verification: the block rule with unclipped joint ratios, and a carry.

Source: Sun et al. (2403.10444, appendix). P(τ ≥ i, X^i = x) = min(p(x), q(x)), so
E[τ] = Σ_i Σ_{x^i} min(p(x^i), q(x^i)), the most that any coupling of the two blocks reaches. The
price is a modified target for the L - τ - 1 positions that follow; dropping it is a bias.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from draftproof.fast.carry import Carry, chain_draw, chain_entries, chain_gap, chained
from draftproof.fast.clip import Rows
from draftproof.fast.paths import divide, only_draft, row_entry, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from torch import Tensor

__all__ = ["Scan", "emit", "greedy_scan", "verify"]


def verify(batch: Batch, uniforms: Uniforms, *, carry: Carry | None = None) -> Result:
    """Verify the one draft of each block; `carry` is that of the previous round."""
    _, _, length = only_draft(batch, "greedy_block")
    layers = carry if carry is not None else Carry.empty(batch.blocks, batch.device)
    depth, one = torch.zeros_like(length), torch.ones_like(uniforms.token)
    if batch.drafts:
        scan = greedy_scan(batch, 0, length > 0, depth, layers, one, uniforms.accept[:, 0])
        layers = scan.layers.with_layer(scan.ratio, one, one, length - scan.depth, batch.length)
        depth = scan.depth
    return emit(batch, uniforms, depth, torch.zeros_like(depth), layers)


class Scan(NamedTuple):
    """Where a scan ended in each block."""

    depth: Tensor
    """int64 [B]: the deepest accepted depth, that of the top if there is none."""
    layers: Carry
    """The layers as seen from there."""
    ratio: Tensor
    """float64 [B]: the joint ratio of the whole chain from the top to there, not divided by ρ."""


def greedy_scan(
    batch: Batch,
    draft: int,
    tested: Tensor,
    top: Tensor,
    layers: Carry,
    scale: Tensor,
    uniforms: Tensor,
) -> Scan:
    """Test a draft of each block below depth `top` against the chain, from its deepest depth up.

    With the joint ratio s_i = Π T/p from the top to depth i, divided by the scale ρ:

        h_L = min(1, s_L),   h_i = min(1, Σ (s_i T - p)+ / Σ (p - s_i T)+),   1 when s_i ≥ 1 or 0/0

    Args:
        tested: bool [B], the blocks whose draft is tested.
        top: int64 [B], the depth of the node where the scan ends.
        layers: the chain as seen from the top.
        scale: float64 [B], ρ.
        uniforms: float64 [B, L].
    """
    length = batch.lengths[:, draft]
    nodes, tokens = batch.nodes[:, draft], batch.tokens[:, draft]
    chains: list[Rows] = []
    states = [(layers, torch.ones_like(scale))]  # at depths 0 .. L; as at the top above it
    for i in range(batch.length):
        here, joint = states[-1]
        going = tested & (i >= top) & (i < length)
        node = torch.where(going, nodes[:, i], -1)
        p = row_entry(batch.draft_rows, node, tokens[:, i])
        rows = chained(rows_at(batch, node), here)
        chains.append(rows)
        entries = chain_entries(rows, here, tokens[:, i])
        ratio = torch.where(going[:, None], here.after(entries, p), here.ratio)
        joint = torch.where(going, joint * divide(entries[:, -1], p), joint)
        states.append((here.at(ratio, going.to(torch.int64)), joint))
    depth, (layers, ratio) = top, states[0]
    open_ = tested
    for i in range(batch.length, 0, -1):
        here, joint = states[i]
        s = joint / scale
        reached = open_ & (i > top) & (i <= length)
        leaf = length == i
        h = s.clamp(max=1.0)
        if i < batch.length:
            gained, lost = chain_gap(chains[i].only(reached & ~leaf), here, s)
            inner = torch.where(s >= 1, 1.0, divide(gained, lost, 1.0).clamp(max=1.0))
            h = torch.where(leaf, h, inner)
        accepted = reached & (uniforms[:, i - 1] < h)
        depth = torch.where(accepted, i, depth)
        ratio = torch.where(accepted, joint, ratio)
        layers = layers._replace(
            ratio=torch.where(accepted[:, None], here.ratio, layers.ratio),
            remaining=torch.where(accepted[:, None], here.remaining, layers.remaining),
        )
        open_ = open_ & ~accepted
    return Scan(depth, layers, ratio)


def emit(batch: Batch, uniforms: Uniforms, depth: Tensor, path: Tensor, layers: Carry) -> Result:
    """Draw the next token from the chain at the accepted node; the carry is what follows it."""
    every = torch.arange(batch.blocks, device=batch.device)
    node = batch.nodes[every, path, depth]
    active = layers.active().any(1)
    token, entries = chain_draw(rows_at(batch, node, ~active), layers, uniforms.token)
    p = torch.where(active, row_entry(batch.draft_rows, node, token), 0.0)
    one = torch.ones_like(depth)
    carry = layers.at(layers.after(entries, p), one).shortened()
    return Result.of(batch, depth, path, token, carry if carry.bounds else None)
