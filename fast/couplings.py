"""One-token couplings of the next tokens of several drafts with a target row, batched over blocks.

    coupling(rows, tokens, p, q, alive, uniforms) -> Decision

`rows` are the R = B rows at each block's node; tokens, p, q (their entries of the two rows), alive
and uniforms are [B, K]; only `alive` candidates count. The first candidate that is kept decides; if
none is, the token is drawn from what is owed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from draftproof.fast.clip import (
    DEFAULT_GRID,
    Overrides,
    Owed,
    Rows,
    cover_factor,
    owed_mass,
    smallest_scale,
)
from draftproof.fast.open_node import OpenNode
from draftproof.fast.paths import divide, first_true
from torch import Tensor

__all__ = [
    "Coupling",
    "Decision",
    "kseq",
    "recursive_rejection",
    "target_match",
    "without_replacement",
]


class Decision(NamedTuple):
    """What a coupling decides at one node of each block."""

    kept: Tensor
    """int64 [B]: the candidate whose token is the output, -1 if none is kept."""
    owed: Owed
    """The weights from which the token is drawn if none is kept."""
    overrides: Overrides | None = None


Coupling = Callable[..., Decision]


def kseq(
    rows: Rows,
    tokens: Tensor,
    p: Tensor,
    q: Tensor,
    alive: Tensor,
    uniforms: Tensor,
    *,
    grid: int = DEFAULT_GRID,
) -> Decision:
    """Keep candidate k with probability min(1, q/(ρ p)), the smallest valid multiple ρ of 1/grid.

    Source: SpecTr (2310.15141, algorithm 3).
    """
    n = alive.sum(1)
    scale, mass = smallest_scale(rows, n, grid=grid)
    kept = alive & (uniforms < divide(q, scale[:, None] * p))
    cover = cover_factor(mass, n)
    one = torch.ones_like(scale)
    return Decision(_first_kept(kept), Owed(one, torch.zeros_like(one), cover, 1 - cover / scale))


def recursive_rejection(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """Test the candidates in order against what the rejected ones left of the target.

    What is left is always (a q - b p)+. Source: SpecInfer (2305.09781, section 4.3).
    """
    a, b = torch.ones_like(p[:, 0]), torch.zeros_like(p[:, 0])
    kept = torch.zeros_like(alive)
    open_ = alive.any(1)
    for k in range(tokens.shape[1]):
        tested = open_ & alive[:, k]
        left = (a * q[:, k] - b * p[:, k]).clamp(min=0)
        kept[:, k] = tested & (uniforms[:, k] < divide(left, p[:, k]))
        rejected = tested & ~kept[:, k]
        mass = owed_mass(rows.only(rejected), a, b + 1)
        changed = rejected & (mass > 0)
        a, b = torch.where(changed, a / mass, a), torch.where(changed, (b + 1) / mass, b)
        open_ = open_ & ~kept[:, k]
    return Decision(_first_kept(kept), Owed(a, b))


def target_match(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """Draw from the target row, whatever the candidates are; the draft law is not read.

    The draw is made by one test of each candidate (is it the token?) and one draw from the others.
    Source: naive sampling of SpecInfer (2305.09781, section 4.3).
    """
    rest = torch.ones_like(q[:, 0])
    kept = torch.zeros_like(alive)
    for k in range(tokens.shape[1]):
        seen = (alive[:, :k] & (tokens[:, :k] == tokens[:, k : k + 1])).any(1)
        fresh = torch.where(alive[:, k] & ~seen, q[:, k], 0.0)
        kept[:, k] = uniforms[:, k] < divide(fresh, rest)
        rest = (rest - fresh).clamp(min=0)
    plain = Owed.plain(rest)
    gone = Overrides(torch.where(alive, tokens, -1), torch.zeros_like(q))
    return Decision(_first_kept(kept), Owed(plain.a, plain.b), gone)


def without_replacement(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """Test the candidates in order; a rejected token also leaves the draft row.

    For drafts drawn without replacement. A token that comes again is rejected at once. Source:
    Sequoia (2402.12374, algorithm 2).
    """
    count = tokens.shape[1]
    one = torch.ones_like(p[:, 0])
    node = OpenNode.fresh(one, count)
    kept = torch.zeros_like(alive)
    open_ = alive.any(1)
    for k in range(count):
        again = (node.removed == tokens[:, k : k + 1]).any(1)
        tested = open_ & alive[:, k] & ~again
        draft, target = node.entries(p[:, k], q[:, k])
        kept[:, k] = tested & (uniforms[:, k] < divide(target, draft))
        rejected = tested & ~kept[:, k]
        child = (tokens[:, k], p[:, k], q[:, k])
        after, _ = node.without(rows.only(rejected), child, k, one)
        node = after.where(rejected, node)
        open_ = open_ & ~kept[:, k]
    return Decision(_first_kept(kept), *node.owed())


def _first_kept(kept: Tensor) -> Tensor:
    return torch.where(kept.any(1), first_true(kept), -1)
