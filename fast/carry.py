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
from typing import NamedTuple

import torch
from draftproof.fast.clip import Rows, Sums, column, inverse_cdf, solve_scale, tiles
from draftproof.fast.paths import divide
from draftproof.fast.sums import row_parts, row_sums
from torch import Tensor

__all__ = ["Carry", "chain_draw", "chain_entries", "chain_gap", "chain_scale"]


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


def chain_entries(rows: Rows, carry: Carry, token: Tensor) -> Tensor:
    """float64 [R, J+1]: the entry of `token` [R] in the chain before each layer, and after all."""
    entries = rows.zeros(len(carry.bounds) + 1)
    for part, p, q in tiles(rows):
        entries[part] = _entries(_chain(p, q, carry, part), token[part].clamp(min=0))
    return entries


def chain_gap(rows: Rows, carry: Carry, s: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (s T - p)+ and Σ (p - s T)+, float64 [R] each, for the row T of the chain and s [R]."""
    sums = Sums(rows)
    scale = column(s.clamp(max=1.0), rows)
    for part, p, q in tiles(rows):
        gap = _chain(p, q, carry, part)[-1] * scale[part]
        gap -= p
        gained = row_parts(gap.relu())
        sums.put(part, torch.stack([gained, row_parts(gap.neg_().relu_())], 1))
    gained, lost = sums.finish(2).unbind(1)
    return gained, lost


def chain_scale(rows: Rows, carry: Carry, drafts: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """The smallest valid scale of the row of the chain for `drafts` [R] and its kept mass."""
    scale = torch.ones(rows.count, dtype=torch.float64, device=rows.device)
    kept = torch.zeros_like(scale)
    for part, p, q in tiles(rows):
        target = _chain(p, q, carry, part)[-1]
        scale[part], kept[part] = solve_scale(p, target, drafts[part].to(torch.float64), grid)
    return scale, kept


def chain_draw(rows: Rows, carry: Carry, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A token of the row of the chain, int64 [R], and its entries as `chain_entries`."""
    token = torch.zeros(rows.count, dtype=torch.int64, device=rows.device)
    entries = rows.zeros(len(carry.bounds) + 1)
    for part, p, q in tiles(rows):
        chain = _chain(p, q, carry, part)
        token[part] = inverse_cdf(chain[-1], q, uniform[part])
        entries[part] = _entries(chain, token[part])
    return token, entries


def _entries(chain: list[Tensor], token: Tensor) -> Tensor:
    return torch.cat([row.gather(1, token[:, None]) for row in chain], 1).to(torch.float64)


def _chain(p: Tensor, q: Tensor, carry: Carry, part: slice | Tensor) -> list[Tensor]:
    """The rows of a tile before each layer, and after all of them.

    The ratio is divided out where it is above 1, so that nothing overflows.
    """
    chain = [q]
    active = carry.active()[part] if carry.bounds else None
    for j in range(len(carry.bounds)):
        assert active is not None
        target, here = chain[-1], active[:, j]
        r = torch.where(here, carry.ratio[part, j], 1.0)
        c, top = carry.cover[part, j], r.clamp(min=1.0)
        rest = 1 - c / carry.scale[part, j]
        scaled = target * _column(r / top, p)
        owed = torch.maximum(scaled - p * _column(c / top, p), scaled * _column(rest, p))
        mass = row_sums(owed)
        used = here & (mass > 0)
        inverse = _column(1.0 / torch.where(used, mass, 1.0), p)
        chain.append(torch.where(used[:, None], owed * inverse, target))
    return chain


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype)[:, None]
