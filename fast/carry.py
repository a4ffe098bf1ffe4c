"""The carry: what stateful schemes have taken out of the target, as layers over the plain rows.

A clip of scale ρ and cover factor c at a node a leaves, below it, the chain of target rows

    D'(v|x) ∝ r_x D(v|x) - c · min(p(v|x), r_x D(v|x)/ρ),    r_x = Π D/p from a to x

until the end of its block. Layers nest: the D of one is the D' of the one before it, over rounds
too. A layer is therefore three numbers and a depth, and the rows that it modifies are the plain
rows of the batch, read when they are needed: nothing V-sized is kept.
Sources: Sun et al. (2403.10444, appendix on greedy block verification); the scaled form is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from draftproof.fast.chain import chain_rows, settle_nothing, settle_rows
from draftproof.fast.clip import Owed, Rows, Sums, column, draw, smallest_scale, tiles
from draftproof.fast.paths import divide
from draftproof.fast.sums import row_parts
from torch import Tensor

__all__ = ["Carry", "chain_draw", "chain_entries", "chain_gap", "chain_scale", "chained"]


class Carry(NamedTuple):
    """J layers for each of B blocks, as seen from one node of each block, in order of creation."""

    ratio: Tensor
    """float64 [B, J]: r at the node; infinite after a token that the draft row could not draw."""
    cover: Tensor
    """float64 [B, J]: c"""
    scale: Tensor
    """float64 [B, J]: ρ"""
    remaining: Tensor
    """int64 [B, J]: at how many depths, from the node on, the layer still acts; 0: none."""
    bounds: tuple[int, ...]
    """An upper bound of each column of `remaining`, known without reading it."""

    @classmethod
    def empty(cls, blocks: int, device: torch.device) -> Carry:
        none = torch.zeros(blocks, 0, dtype=torch.float64, device=device)
        return cls(none, none, none, none.to(torch.int64), ())

    def select(self, index: Tensor) -> Carry:
        """The layers of the blocks at `index`, for a batch whose requests come and go."""
        return self._each(lambda field: field[index], self.bounds)

    def with_layer(
        self, ratio: Tensor, cover: Tensor, scale: Tensor, depths: Tensor, bound: int
    ) -> Carry:
        """One layer more, each argument [B]."""
        return Carry(
            torch.cat([self.ratio, ratio[:, None]], 1),
            torch.cat([self.cover, cover[:, None]], 1),
            torch.cat([self.scale, scale[:, None]], 1),
            torch.cat([self.remaining, depths[:, None]], 1),
            (*self.bounds, bound),
        )

    def at(self, ratio: Tensor, deeper: Tensor) -> Carry:
        """The layers from a node `deeper` [B] depths further down, where r is `ratio` [B, J]."""
        return self._replace(ratio=ratio, remaining=(self.remaining - deeper[:, None]).clamp(min=0))

    def active(self) -> Tensor:
        """bool [B, J]: the layers that modify the row at the node."""
        return (self.remaining > 0) & self.ratio.isfinite()

    def after(self, entries: Tensor, p: Tensor) -> Tensor:
        """float64 [B, J]: r one token on, from the token's `entries` [B, J+1] of the chain before
        each layer and its draft probability p [B]."""
        count = self.ratio.shape[1]
        step = divide(entries[:, :count], p[:, None].expand(-1, count), torch.inf)
        return torch.where(step.isfinite() & self.ratio.isfinite(), self.ratio * step, torch.inf)

    def shortened(self) -> Carry:
        """The carry after the emission of at least one token, without the columns that are over."""
        bounds = tuple(bound - 1 for bound in self.bounds)
        keep = [j for j, bound in enumerate(bounds) if bound > 0]
        # by slices: a list of indices would be copied to the device, which a CUDA graph forbids
        return self._each(
            lambda field: torch.cat([field[:, :0], *(field[:, j : j + 1] for j in keep)], 1),
            tuple(bounds[j] for j in keep),
        )

    def _each(self, change: Callable[[Tensor], Tensor], bounds: tuple[int, ...]) -> Carry:
        fields = (self.ratio, self.cover, self.scale, self.remaining)
        ratio, cover, scale, remaining = (change(field) for field in fields)
        return Carry(ratio, cover, scale, remaining, bounds)


def chained(rows: Rows, carry: Carry) -> Rows:
    """The rows with those of the chain in place of the target rows; as they are, if they have one.

    A pass for each layer, whose mass the next one needs; on a CPU they are one pass.
    """
    if rows.chain is not None or not carry.bounds:
        return rows
    active = carry.active()
    # The ratio is divided out where it is above 1, so that nothing overflows.
    r = torch.where(active, carry.ratio, 1.0)
    top = r.clamp(min=1.0)
    rest = (1.0 - carry.cover / carry.scale).clamp(min=0.0)
    layers = torch.stack([r / top, carry.cover / top, rest, active.to(r.dtype)], 2)
    layers = layers.to(rows.compute_dtype)
    if compiled := rows.kernels():
        return replace(rows, chain=compiled.settle_chain(rows, layers))
    settled = settle_nothing(layers)
    for part, p, q in tiles(rows.only(active.any(1))):
        settled[part] = settle_rows(p, q, layers[part])
    return replace(rows, chain=settled)


def chain_entries(rows: Rows, carry: Carry, token: Tensor) -> Tensor:
    """float64 [R, J+1]: the entry of `token` [R] in the chain before each layer, and after all."""
    rows = chained(rows, carry)
    token = token.clamp(min=0)[:, None]
    p = rows.draft_rows[rows.draft_index.clamp(min=0)[:, None], token].to(rows.compute_dtype)
    p = torch.where((rows.draft_index >= 0)[:, None], p, 0)
    q = rows.target_rows[rows.target_index.clamp(min=0)[:, None], token].to(rows.compute_dtype)
    p = p if rows.law is None else rows.law(slice(None), p, q)
    chain = [q] if rows.chain is None else list(chain_rows(p, q, rows.chain))
    return torch.cat(chain, 1).to(torch.float64)


def chain_gap(rows: Rows, carry: Carry, s: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (s T - p)+ and Σ (p - s T)+, float64 [R] each, for the row T of the chain and s [R]."""
    rows, s = chained(rows, carry), s.clamp(max=1.0)
    if compiled := rows.kernels():
        return compiled.gap_masses(rows, s)
    sums, scale = Sums(rows), column(s, rows)
    for part, p, q in tiles(rows):
        gap = q * scale[part]
        gap -= p
        gained = row_parts(gap.relu())
        sums.put(part, torch.stack([gained, row_parts(gap.neg_().relu_())], 1))
    gained, lost = sums.finish(2).unbind(1)
    return gained, lost


def chain_scale(rows: Rows, carry: Carry, drafts: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """The smallest valid scale of the row of the chain for `drafts` [R] and its kept mass."""
    return smallest_scale(chained(rows, carry), drafts, grid=grid)


def chain_draw(rows: Rows, carry: Carry, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A token of the row of the chain, int64 [R], and its entries as `chain_entries`."""
    rows = chained(rows, carry)
    token = draw(rows, uniform, Owed.plain(uniform))
    return token, chain_entries(rows, carry, token)
