"""The coupling of ratio types with labels of ranked block verification, batched over nodes.

Any coupling with the right marginals is lossless; this one accepts a lot. Types of high q/p get
high labels, as far as that is useful: the selected law should cover the target, not overshoot it.
All sizes are small (17 types, 8 labels), the arithmetic is float64, there is no loop over nodes.

The marginals come out right to rounding: after the repair a row or column sum is off by at most
(NT + J) · 2^-52 (docs/numerics.md), which bounds the bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from draftproof.fast.paths import divide
from torch import Tensor

__all__ = ["Coupled", "couple", "coupling", "repaired"]

NEWTON_STEPS = 3
SWEEPS = 2
TINY = 1e-300


@dataclass(frozen=True)
class Coupled:
    """The coupling at a node of each of [..] drafts, and what follows from it."""

    edges: Tensor
    """float64 [NT]"""
    labels: Tensor
    """float64 [.., J]: π"""
    tilted: Tensor
    """float64 [.., J]: u/T"""
    matrix: Tensor
    """float64 [.., NT, J]: M"""
    posterior: Tensor
    """float64 [.., NT, J]: the law of the label of each type."""
    rise: Tensor
    """float64 [.., NT]: t, the factor r/p of each type."""

    def child(self, p: Tensor, q: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """π after a token of entries p, q [..], and r/p of the token; π stays if not `known`."""
        kind, part = _type_of(p, q, self.edges)
        at = kind[..., None, None].expand(*kind.shape, 1, self.labels.shape[-1])
        low, high = (self.posterior.gather(-2, at + b)[..., 0, :] for b in (0, 1))
        mixed = (1 - part)[..., None] * low + part[..., None] * high
        total = mixed.sum(-1, keepdim=True)
        # A type lighter than rounding may have no law of its own: its drafts keep theirs.
        known = known[..., None] & (total > 0)
        labels = torch.where(known, mixed / torch.where(total > 0, total, 1.0), self.labels)
        return labels, (labels * self.tilted).sum(-1)


def couple(
    masses: Tensor, edges: Tensor, labels: Tensor, tilted: Tensor, weight: Tensor
) -> Coupled:
    """Couple the type masses [.., NT] at a node of each of [..] drafts with the labels."""
    types, classes = masses.shape[-1], labels.shape[-1]
    M = coupling(
        masses.reshape(-1, types),
        edges,
        labels.reshape(-1, classes),
        tilted.reshape(-1, classes),
        weight.flatten(),
    ).view(*masses.shape, classes)
    posterior = divide(M, masses[..., None].expand_as(M))
    rise = (posterior * tilted[..., None, :]).sum(-1)
    return Coupled(edges, labels, tilted, M, posterior, rise)


def _type_of(p: Tensor, q: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Each token as type b with probability 1-f and type b+1 with probability f: (b, f)."""
    ratio = divide(q, p).clamp(max=edges[-1])
    kind = (torch.searchsorted(edges, ratio, right=True) - 1).clamp(0, len(edges) - 2)
    low = edges[kind]
    return kind, (ratio - low) / (edges[kind + 1] - low)


def coupling(types: Tensor, edges: Tensor, labels: Tensor, boost: Tensor, weight: Tensor) -> Tensor:
    """float64 [R, NT, J]: a coupling of the type masses with the label masses of each node.

    Args:
        types: P, float64 [R, NT], the draft mass of each ratio type.
        edges: e, float64 [NT], the ratios of the types.
        labels: π, float64 [R, J], the law of the label.
        boost: u/T, float64 [R, J].
        weight: w, float64 [R].
    """
    labels = labels * (types.sum(1) / labels.sum(1).clamp(min=TINY))[:, None]
    target = types * edges
    first, lacking = _pooled(types, target, labels, boost, weight)
    groups = torch.stack([lacking, ~lacking], 1)  # [R, 2, NT]
    mass = torch.where(groups, types[:, None], 0.0)
    aim_mass = torch.where(groups, target[:, None], 0.0)
    share = _shares(labels, mass.sum(2))
    f = (share * boost[:, None]).sum(2)
    second = _water_level(mass, aim_mass * weight[:, None, None], edges * weight[:, None], f)
    both = torch.sqrt(torch.where(groups, first[:, None], 0.0).clamp(min=0) * second.clamp(min=0))
    both_sum = both.sum(2, keepdim=True)
    fallback = torch.where(groups, first[:, None], 0.0)
    wanted = torch.where(both_sum > 0, both * _safe(f[:, :, None], both_sum), fallback)
    parts = _tilted(mass, share, boost, wanted, f)
    return repaired(parts.sum(1), types, labels)


def repaired(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The matrix [R, NT, J] made to have these row and column sums, which have one total.

    Columns that are too heavy are scaled down, then rows; the rest is filled in by a rank-one term.
    """
    matrix = matrix * _safe(columns, matrix.sum(1)).clamp(max=1.0)[:, None]
    matrix = matrix * _safe(rows, matrix.sum(2)).clamp(max=1.0)[:, :, None]
    row_gap = (rows - matrix.sum(2)).clamp(min=0)
    column_gap = (columns - matrix.sum(1)).clamp(min=0)
    missing = column_gap.sum(1)[:, None, None]
    return matrix + row_gap[:, :, None] * _safe(column_gap[:, None], missing)


def _safe(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, 0 where the denominator is 0."""
    good = denominator > 0
    return torch.where(good, numerator / torch.where(good, denominator, 1.0), 0.0)


def _pooled(
    types: Tensor, target: Tensor, labels: Tensor, boost: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """a) Lay the types, best ratio first, on the label mass from the top; pool adjacent violators.

    With F(s) the integral of u/T over the bottom s of the label mass, a type on (lo, hi] has
    f = F(hi) - F(lo). Pooling neighbours until f/Q increases from the best to the worst is the
    greatest convex minorant of F against Q; its slope at a type is max over starts a ≤ b of the min
    over ends of the chord. Returns t1 = slope · Q, and whether the slope is below w, [R, NT] each.
    """
    count = types.shape[1]
    better = types.flip(1)  # best first
    below = (labels.sum(1)[:, None] - better.cumsum(1)).clamp(min=0)
    edges = torch.cat([labels.sum(1)[:, None], below], 1)
    heights = _integral(labels, boost, edges)
    reached = torch.cat([torch.zeros_like(below[:, :1]), target.flip(1).cumsum(1)], 1)
    gained = heights[:, :1] - heights
    rise = gained[:, None] - gained[:, :, None]  # [R, from, to]
    run = reached[:, None] - reached[:, :, None]
    later = torch.ones(count + 1, count + 1, dtype=torch.bool, device=types.device).triu(1)
    chord = torch.where(later & (run > 0), rise / torch.where(run > 0, run, 1.0), torch.inf)
    lowest = chord.flip(2).cummin(2).values.flip(2)[:, :, 1:]  # least chord from a to beyond b
    started = torch.ones(count + 1, count, dtype=torch.bool, device=types.device).triu(0)
    slope = torch.where(started, lowest, -torch.inf).amax(1).flip(1)
    own = (gained[:, 1:] - gained[:, :-1]).flip(1)
    first = torch.where(slope.isfinite() & (target > 0), slope * target, own)
    return first, slope < weight[:, None]


def _integral(labels: Tensor, boost: Tensor, at: Tensor) -> Tensor:
    """F at the label masses `at` [R, n]: the integral of u/T over the bottom of the label mass."""
    top = labels.cumsum(1)
    bottom = top - labels
    part = (at[:, :, None] - bottom[:, None]).clamp(min=0)
    return (torch.minimum(part, labels[:, None]) * boost[:, None]).sum(2)


def _shares(labels: Tensor, masses: Tensor) -> Tensor:
    """b) [R, 2, J]: the first group takes its mass from the highest labels, the second the rest."""
    above = labels.flip(1).cumsum(1).flip(1) - labels
    first = torch.minimum((masses[:, :1] - above).clamp(min=0), labels)
    share = torch.stack([first, labels - first], 1)
    return share * _safe(masses, share.sum(2))[:, :, None]


def _water_level(mass: Tensor, target: Tensor, levels: Tensor, f: Tensor) -> Tensor:
    """c) min(w Q, m P) in the first group and max(w Q, m P) in the second, with m such that Σ = f.

    The sum is piecewise linear in m with its corners at the levels w e_b, which are in order.
    Args: P and w Q [R, 2, NT], the levels [R, NT] and f [R, 2].
    """
    zero = torch.zeros_like(mass[:, :, :1])
    filled = torch.cat([zero, target.cumsum(2)], 2)  # w Q of the types below each corner
    open_ = torch.cat([zero, mass.cumsum(2)], 2)
    above_mass, above_target = open_[:, :, -1:] - open_, filled[:, :, -1:] - filled
    # between the corners j-1 and j: min has w Q below and m P above, max the other way round
    fixed = torch.stack([filled[:, 0], above_target[:, 1]], 1)
    slope = torch.stack([above_mass[:, 0], open_[:, 1]], 1)
    m = torch.where(
        slope > 0, (f[:, :, None] - fixed) / torch.where(slope > 0, slope, 1.0), torch.inf
    )
    low = torch.cat([torch.zeros_like(levels[:, :1]), levels], 1)[:, None]
    high = torch.cat([levels, torch.full_like(levels[:, :1], torch.inf)], 1)[:, None]
    sound = m.isfinite() & (m <= high * (1 + 1e-12))
    first = sound.to(torch.int8).argmax(2, keepdim=True)
    level = torch.maximum(m.gather(2, first), low.expand_as(m).gather(2, first))
    # no level is high enough: everything is full, or (second group) nothing can be taken away
    level = torch.where(sound.any(2, keepdim=True), level.clamp(min=0), levels[:, None, -1:])
    poured = mass * level
    return torch.stack(
        [torch.minimum(target[:, 0], poured[:, 0]), torch.maximum(target[:, 1], poured[:, 1])], 1
    )


def _tilted(mass: Tensor, share: Tensor, boost: Tensor, wanted: Tensor, f: Tensor) -> Tensor:
    """d) [R, 2, NT, J]: M = A_b B_c exp(a_b X_c) with the marginals of each group.

    Three rounds of two Sinkhorn sweeps and one Newton step of a_b towards Σ_c M u/T = wanted. A
    group of one type, or one whose labels do not differ, is coupled independently.
    """
    total = mass.sum(2)
    mean = _safe(f, total)
    tilt = _safe(boost[:, None].expand_as(share), mean[:, :, None]) - 1
    tilt = torch.where(mean[:, :, None] > 0, tilt, 0.0)
    variance = _safe((share * tilt * tilt).sum(2), total)
    flat = (variance < 1e-13) | ((mass > 0).sum(2) < 2)
    spread = torch.where(flat, 1.0, variance)[:, :, None]
    aim = _safe(_safe(wanted, mass), mean[:, :, None]) - 1
    a = aim / spread
    limit = 3 / spread.sqrt()
    column = _safe(share, total[:, :, None])
    matrix = mass[..., None] * column[:, :, None]
    x = tilt[:, :, None]
    for step in range(NEWTON_STEPS + 1):
        exponent = a[..., None] * x
        kernel = torch.exp(exponent - exponent.amax(3, keepdim=True))
        for _ in range(SWEEPS):
            row = mass / (kernel * column[:, :, None]).sum(3).clamp(min=TINY)
            column = share / (kernel * row[..., None]).sum(2).clamp(min=TINY)
            column = column / column.amax(2, keepdim=True).clamp(min=TINY)
        row = mass / (kernel * column[:, :, None]).sum(3).clamp(min=TINY)
        tilted = row[..., None] * kernel * column[:, :, None]
        if step == NEWTON_STEPS:
            break
        one = _safe((tilted * x).sum(3), mass)
        two = _safe((tilted * x * x).sum(3), mass)
        change = (aim - one) / torch.maximum(two - one * one, 1e-3 * spread)
        a = (a + torch.clamp(change, -limit, limit)).clamp(-100, 100)
    return torch.where(flat[:, :, None, None], matrix, tilted)
