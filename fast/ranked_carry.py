"""The carry of stateful ranked block verification: layers over the plain rows, as `carry`.

A round leaves, below its start, the chain of target rows

    T'(v|x) ∝ (r_x T(v|x) - R(v|x))+,    R the law of the path that it selected, r_x = Π T/R,

until the end of its block. At each node R is p times factors that a coupling of ratio types (of p
and T) with labels gives; they depend on the law of the label, the tilt and r_x there. So a layer
is those few numbers, carried along whatever is emitted, and its rows are made from the plain ones.
Source: this project; greedy block verification (Sun et al., 2403.10444, appendix) of the selected
path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from draftproof.fast.clip import (
    Rows,
    Sums,
    column,
    inverse_cdf,
    ratio_masses,
    risen,
    tiles,
    type_parts,
)
from draftproof.fast.paths import divide
from draftproof.fast.ranked_coupling import Coupled, couple
from draftproof.fast.sums import row_parts, row_sums
from torch import Tensor

__all__ = ["RankedCarry", "Visit", "draw_owed", "visit"]


class RankedCarry(NamedTuple):
    """n layers for each of R nodes, in order of creation."""

    ratio: Tensor
    """float64 [R, n]: r at the node; infinite after a token that R could not select."""
    labels: Tensor
    """float64 [R, n, J]: the law of the label of the drafts through the node."""
    tilt: Tensor
    """float64 [R, n]: Σ_c labels(c) u(c)"""
    boost: Tensor
    """float64 [R, n, J]: u"""
    remaining: Tensor
    """int64 [R, n]: at how many depths, from the node on, the layer still acts; 0: none."""
    bounds: tuple[int, ...]
    """An upper bound of each column of `remaining`, known without reading it."""

    @classmethod
    def empty(cls, count: int, classes: int, device: torch.device) -> RankedCarry:
        none = torch.zeros(count, 0, dtype=torch.float64, device=device)
        wide = torch.zeros(count, 0, classes, dtype=torch.float64, device=device)
        return cls(none, wide, none, wide, none.to(torch.int64), ())

    def select(self, index: Tensor) -> RankedCarry:
        """The layers of the blocks at `index`, for a batch whose requests come and go."""
        return _of((field[index] for field in self[:-1]), self.bounds)

    def with_layer(self, labels: Tensor, boost: Tensor, depths: Tensor, bound: int) -> RankedCarry:
        """One layer more, at its start: labels and boost [R, J], depths [R]."""
        one = torch.ones_like(labels[:, 0])
        new = (one, labels, one, boost, depths)
        joined = (torch.cat([old, x[:, None]], 1) for old, x in zip(self[:-1], new, strict=True))
        return _of(joined, (*self.bounds, bound))

    def active(self) -> Tensor:
        """bool [R, n]: the layers that modify the row at the node."""
        return (self.remaining > 0) & self.ratio.isfinite()

    def joint(self) -> Tensor:
        """float64 [R]: r of the last layer along a draft; 0 after a token that has no chance."""
        last = self.ratio[:, -1]
        return torch.where(last.isfinite(), last, 0.0)

    def where(self, chosen: Tensor, other: RankedCarry) -> RankedCarry:
        """These layers where `chosen` [R], the other ones elsewhere."""
        fields = zip(self[:-1], other[:-1], strict=True)
        picked = (
            torch.where(chosen.view(-1, *(1,) * (mine.dim() - 1)), mine, theirs)
            for mine, theirs in fields
        )
        return _of(picked, self.bounds)

    def after(self, made: list[Coupled], p: Tensor, target: Tensor) -> RankedCarry:
        """The layers one token on, from its draft probability p [R] and its entries [R, n] in the
        row that each layer takes from."""
        states = []
        for j, coupled in enumerate(made):
            labels, rise = coupled.child(p, target[:, j], p > 0)
            tilt = torch.where(p > 0, self.tilt[:, j] * rise, self.tilt[:, j])
            step = divide(target[:, j], p * rise, torch.inf)
            finite = step.isfinite() & self.ratio[:, j].isfinite()
            ratio = torch.where(finite, self.ratio[:, j] * step, torch.inf)
            states.append((ratio, labels, tilt))
        if not states:
            return self
        ratio, labels, tilt = (torch.stack(x, 1) for x in zip(*states, strict=True))
        remaining = (self.remaining - 1).clamp(min=0)
        return self._replace(ratio=ratio, labels=labels, tilt=tilt, remaining=remaining)

    def shortened(self) -> RankedCarry:
        """The carry after the emission of at least one token, without the columns that are over."""
        bounds = tuple(bound - 1 for bound in self.bounds)
        keep = [j for j, bound in enumerate(bounds) if bound > 0]
        # by slices: a list of indices would be copied to the device, which a CUDA graph forbids
        fields = (
            torch.cat([field[:, :0], *(field[:, j : j + 1] for j in keep)], 1)
            for field in self[:-1]
        )
        return _of(fields, tuple(bounds[j] for j in keep))


def _of(fields: Iterable[Tensor], bounds: tuple[int, ...]) -> RankedCarry:
    ratio, labels, tilt, boost, remaining = fields
    return RankedCarry(ratio, labels, tilt, boost, remaining, bounds)


class Visit(NamedTuple):
    """What is read at a node: T_j is the row that layer j takes from."""

    made: list[Coupled]
    """The coupling of each layer."""
    entries: Tensor
    """float64 [R, n, m]: T_0 .. T_{n-1} of m tokens."""
    gained: Tensor
    """float64 [R]: Σ (s T - R)+ of the last layer, s its `joint` ratio, at most 1."""
    lost: Tensor
    """float64 [R]: Σ (R - s T)+"""


def visit(rows: Rows, layers: RankedCarry, edges: Tensor, tokens: Tensor, source: Tensor) -> Visit:
    """Read the rows of R nodes; the last layer is that of the current block.

    Where several of the R are one node, rows are given for one of them, `source` int64 [R]: all
    others get its results. `tokens` int64 [R, m], -1 for none.
    """
    made = _couplings(rows, layers, edges, source)
    last = len(made) - 1
    entries = rows.zeros(len(made), tokens.shape[1])
    sums = Sums(rows)
    s = column(layers.joint().clamp(max=1.0), rows)
    for part, p, q in tiles(rows):
        targets = _targets(p, q, layers, made[:last], part)
        entries[part] = _entries(targets, tokens[part])
        gap = targets[-1] * s[part] - risen(p, targets[-1], made[last].rise[part], edges)
        gained = row_parts(gap.relu())
        sums.put(part, torch.stack([gained, row_parts(gap.neg_().relu_())], 1))
    gained, lost = sums.finish(2)[source].unbind(1)
    return Visit(made, entries[source], gained, lost)


def draw_owed(
    rows: Rows, layers: RankedCarry, edges: Tensor, uniform: Tensor
) -> tuple[Tensor, RankedCarry]:
    """A token of what all layers leave, int64 [R], and the layers after it."""
    every = torch.arange(rows.count, device=rows.device)
    made = _couplings(rows, layers, edges, every)
    token = torch.zeros(rows.count, dtype=torch.int64, device=rows.device)
    entries = rows.zeros(len(made) + 2)
    for part, p, q in tiles(rows):
        targets = _targets(p, q, layers, made, part)
        token[part] = inverse_cdf(targets[-1], q, uniform[part])
        entries[part] = _entries([*targets, p], token[part][:, None])[:, :, 0]
    return token, layers.after(made, entries[:, -1], entries[:, : len(made)])


def _couplings(rows: Rows, layers: RankedCarry, edges: Tensor, source: Tensor) -> list[Coupled]:
    """The coupling of each layer at its node, made one after the other."""
    made: list[Coupled] = []
    for j in range(len(layers.bounds)):
        if made:
            sums = Sums(rows)
            for part, p, q in tiles(rows):
                sums.put(part, type_parts(p, _targets(p, q, layers, made, part)[-1], edges))
            masses = sums.finish(len(edges))
        else:
            masses = ratio_masses(rows, edges)
        tilted = layers.boost[:, j] / layers.tilt[:, j, None]
        weight = layers.ratio[:, j].clamp(max=1.0)
        made.append(couple(masses[source], edges, layers.labels[:, j], tilted, weight))
    return made


def _targets(
    p: Tensor, q: Tensor, layers: RankedCarry, made: list[Coupled], part: slice | Tensor
) -> list[Tensor]:
    """The rows of a tile before each layer that is `made`, and after all of them.

    The ratio is divided out where it is above 1, so that nothing overflows.
    """
    targets, active = [q], layers.active()[part]
    for j, coupled in enumerate(made):
        target, here = targets[-1], active[:, j]
        r = torch.where(here, layers.ratio[part, j], 1.0)
        top = r.clamp(min=1.0)
        owed = risen(p, target, coupled.rise[part], coupled.edges)
        owed = (target * _column(r / top, p) - owed * _column(1 / top, p)).relu_()
        mass = row_sums(owed)
        used = here & (mass > 0)
        inverse = _column(1.0 / torch.where(used, mass, 1.0), p)
        targets.append(torch.where(used[:, None], owed * inverse, target))
    return targets


def _entries(rows: list[Tensor], tokens: Tensor) -> Tensor:
    """float64 [r, n, m]: entries of n rows [r, V] at tokens [r, m]."""
    at = tokens.clamp(min=0)
    return torch.stack([row.gather(1, at).to(torch.float64) for row in rows], 1)


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype)[:, None]
