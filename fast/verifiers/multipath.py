"""Greedy multi-path: select the largest draft under one fixed order, then block-verify it.

Each node orders the tokens by q/p ascending, ties by index; the draft selected is the
lexicographically largest. Its law is known along its path: with A the draft mass of the paths
before the subtree of a node, J the joint probability of the node and B(x) the mass of the children
before x (algorithm notation),

    p_sel(x|·) ∝ (A + J B(x) + J p(x|·))^K - (A + J B(x))^K.

The difference of powers is divided by J p(x|·) in closed form, Σ_j hi^j lo^(K-1-j), and A and J are
kept divided by A + J: nothing cancels, and nothing underflows however deep the node is.

The masses B are added as whole multiples of 1/GRAIN, which has one result in any order, so that the
ratio of a drafted token and the row that it came from agree to the last bit. The row needs B for
every token, which is the order of all of them: comparisons cannot find it in less than V log V. It
is sorted by the bits of the ratios, digit by digit, in a time linear in V.
Source: Thomas and Pal (2602.16961).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from draftproof.fast import kernels
from draftproof.fast.clip import Rows, tiles
from draftproof.fast.paths import divide, first_true, row_entry, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.block import RowsAt, plain_rows, verify_path
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["verify"]

DIGIT_SORTED = 2**15
GRAIN = 2**62
"""A row sums to 1: its masses in multiples of 1/GRAIN stay within 64 bits."""


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Block-verify the largest draft of each block with the law it has.

    The drafts of a block must have one length; blocks may differ.
    """
    b, k, length = batch.tokens.shape
    present = batch.lengths > 0
    count = present.sum(1)
    path = _largest(batch, present)
    every = torch.arange(b, device=batch.device)
    if k == 0 or length == 0:
        none = torch.zeros(b, length, dtype=torch.float64, device=batch.device)
        return verify_path(batch, uniforms, path, 0 * path, none, plain_rows(batch))
    nodes, tokens = batch.nodes[every, path], batch.tokens[every, path]
    place = _Place.root(batch)
    places, ratios = [], []
    for i in range(length):
        node = torch.where(tokens[:, i] >= 0, nodes[:, i], -1)
        p = row_entry(batch.draft_rows, node, tokens[:, i])
        q = row_entry(batch.target_rows, node, tokens[:, i])
        before = _mass_before(rows_at(batch, node), tokens[:, i])
        places.append(place)
        ratios.append(divide(q, p * place.boost(before, p, count)))
        place = place.child(before, p)
    law = _selected(batch, places, count)
    own_length = batch.lengths[every, path]
    return verify_path(batch, uniforms, path, own_length, torch.stack(ratios, 1), law)


class _Place(NamedTuple):
    """Where a node of each block stands in the order of paths: A/(A+J) and J/(A+J)."""

    before: Tensor
    inside: Tensor
    drafts: int
    """The largest number of drafts of a block."""

    @staticmethod
    def root(batch: Batch) -> _Place:
        zero = torch.zeros(batch.blocks, dtype=torch.float64, device=batch.device)
        return _Place(zero, zero + 1, batch.drafts)

    def child(self, smaller: Tensor, p: Tensor) -> _Place:
        """The place of a child of probability p with siblings of mass `smaller` before it."""
        low, own = self.before + self.inside * smaller, self.inside * p
        return _Place(divide(low, low + own, 1.0), divide(own, low + own), self.drafts)

    def boost(self, smaller: Tensor, p: Tensor, count: Tensor) -> Tensor:
        """p_sel/p of a child [..]; `smaller` and p may have a trailing dimension of tokens."""
        shape = (-1,) + (1,) * (smaller.dim() - 1)
        low = self.before.view(shape) + self.inside.view(shape) * smaller
        high = low + self.inside.view(shape) * p
        whole = self.whole(count).view(shape)
        return _power_sum(high, low, count.view(shape), self.drafts) / whole

    def whole(self, count: Tensor) -> Tensor:
        """((A+J)^n - A^n)/J for n = count, with A + J taken as 1."""
        return _power_sum(torch.ones_like(self.before), self.before, count, self.drafts)


def _power_sum(high: Tensor, low: Tensor, count: Tensor, most: int) -> Tensor:
    """Σ_{j<n} high^j low^(n-1-j) = (high^n - low^n)/(high - low) for n = count, at most `most`."""
    total, power = torch.ones_like(low), torch.ones_like(low)
    for n in range(1, most):
        power = power * high
        total = torch.where(n < count, total * low + power, total)
    return total


def _selected(batch: Batch, places: list[_Place], count: Tensor) -> RowsAt:
    """The rows of the selected draft along its path."""
    before = torch.stack([place.before for place in places], 1)
    inside = torch.stack([place.inside for place in places], 1)

    def at(depth: Tensor, nodes: Tensor) -> Rows:
        own = depth[:, None]
        place = _Place(before.gather(1, own)[:, 0], inside.gather(1, own)[:, 0], batch.drafts)

        def law(part: slice | Tensor, p: Tensor, q: Tensor) -> Tensor:
            here = _Place(place.before[part], place.inside[part], place.drafts)
            exact, n = p.to(torch.float64), count[part]
            if compiled := kernels.order_passes(p.device):
                numbers = here.before, here.inside, here.whole(n)
                return compiled.selected_row(p, _order(_ratio(exact, q)), numbers, n, GRAIN)
            return (exact * here.boost(_masses_before(exact, q), exact, n)).to(p.dtype)

        return replace(rows_at(batch, nodes), law=law)

    return at


def _ratio(p: Tensor, q: Tensor) -> Tensor:
    """q/p >= 0 in float64, infinite where p = 0: the key of the order, the same everywhere.

    Ratios of different float32 numbers are 2^-48 apart, so float64 keeps them in order.
    """
    key = (q.to(torch.float64) / p).abs_()  # no -0: its bits would come first
    return key.masked_fill_(p == 0, torch.inf)


def _largest(batch: Batch, present: Tensor) -> Tensor:
    """int64 [B]: the first of the lexicographically largest drafts."""
    if present.shape[1] == 0:
        return torch.zeros(batch.blocks, dtype=torch.int64, device=batch.device)
    key = _ratio(
        batch.token_probabilities(batch.draft_rows), batch.token_probabilities(batch.target_rows)
    )
    among = present
    for i in range(batch.length):
        token = batch.tokens[:, :, i]
        at = torch.where(among & (token >= 0), key[:, :, i], -1.0)
        best = at == at.amax(1, keepdim=True)
        at_token = torch.where(among & best, token, -1)
        among = among & (at_token == at_token.amax(1, keepdim=True))
    return first_true(among)


def _mass_before(rows: Rows, token: Tensor) -> Tensor:
    """float64 [R]: the draft mass of the tokens before `token` [R] in the order."""
    mass = rows.zeros()
    index = torch.arange(rows.vocab, device=rows.device)
    for part, p, q in tiles(rows):
        own = token[part].clamp(min=0)
        if compiled := kernels.order_passes(p.device):
            mass[part] = compiled.mass_before(p, q, own, GRAIN).to(torch.float64) / GRAIN
            continue
        exact = p.to(torch.float64)
        key = _ratio(exact, q)
        limit = key.gather(1, own[:, None])
        before = (key < limit) | ((key == limit) & (index < own[:, None]))
        mass[part] = _grains(exact).masked_fill_(~before, 0).sum(1).to(torch.float64) / GRAIN
    return mass


def _masses_before(p: Tensor, q: Tensor) -> Tensor:
    """float64 [r, V]: the draft mass before each token in the order, for float64 rows p [r, V]."""
    grains = _grains(p)
    order = _order(_ratio(p, q))
    ranked = grains.gather(1, order)
    smaller = ranked.cumsum(1).sub_(ranked)
    return grains.scatter_(1, order, smaller).to(torch.float64).div_(GRAIN)


def _order(key: Tensor) -> Tensor:
    """int64 [r, V]: each row of keys >= 0 in order, equal ones by index.

    Such numbers are ordered as their bits are. torch sorts a long row of integers by its digits; on
    the CPU only when the row comes alone, and when it has DIGIT_SORTED entries or more.
    """
    width = key.shape[1]
    if key.device.type != "cpu":
        return key.view(torch.int64).sort(dim=1, stable=True).indices
    if DIGIT_SORTED // 4 <= width < DIGIT_SORTED:
        key = pad(key, (0, DIGIT_SORTED - width), value=torch.inf)
    order = torch.empty(len(key), width, dtype=torch.int64)
    for r, row in enumerate(key.view(torch.int64).unbind()):
        order[r] = row.sort(stable=True).indices[:width]
    return order


def _grains(p: Tensor) -> Tensor:
    """int64: p in whole multiples of 1/GRAIN."""
    return (p * GRAIN).to(torch.int64)
