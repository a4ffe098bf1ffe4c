"""One-token couplings of the next tokens of several drafts with a target row, batched over blocks.

    coupling(rows, tokens, p, q, alive, uniforms) -> Decision

`rows` are the R = B rows at each block's node; tokens, p, q (their entries of the two rows), alive
and uniforms are [B, K]; only `alive` candidates count. The first candidate that is kept decides; if
none is, the token is drawn from what is owed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
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
from draftproof.fast.flow_plan import few_sets, flow_plan
from draftproof.fast.open_node import OpenNode
from draftproof.fast.paths import divide, first_true
from draftproof.fast.score_plan import Plan, Row, score_plan
from torch import Tensor

__all__ = [
    "Coupling",
    "Decision",
    "canonical",
    "kseq",
    "recursive_rejection",
    "target_match",
    "transport",
    "without_replacement",
]


class Decision(NamedTuple):
    """What a coupling decides at one node of each block."""

    kept: Tensor
    """int64 [B]: the candidate whose token is the output, -1 if none is kept."""
    owed: Owed
    """The weights from which the token is drawn if none is kept."""
    overrides: Overrides | None = None
    rows: Rows | None = None
    """The rows that the weights are made of, if they are not those of the node."""


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


def transport(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """The optimal coupling of i.i.d. drafts: the draft of the highest score, coupled maximally.

    The plan is made on the host, node by node: its steps follow one from another. Source: this
    project.
    """
    return _planned(score_plan, rows, tokens, alive, uniforms)


def canonical(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """A draft chosen by the weights of an optimal transport plan, coupled maximally.

    The plan is a maximum flow, made on the host; for many sets of drafts it is that of `transport`.
    Source: Khisti et al. (2410.18234, theorem 1).
    """

    def plan(draft_row: Row, target_row: Row, drafted: tuple[int, ...]) -> Plan:
        few = few_sets(len(draft_row), len(drafted))
        return (flow_plan if few else score_plan)(draft_row, target_row, drafted)

    return _planned(plan, rows, tokens, alive, uniforms)


def _planned(
    plan: Callable[[Row, Row, tuple[int, ...]], Plan],
    rows: Rows,
    tokens: Tensor,
    alive: Tensor,
    uniforms: Tensor,
) -> Decision:
    """A token of the law that a plan gives to the candidates of each block, decided by one test of
    each candidate in order (is it the token?) and one draw from the others."""
    count = rows.count
    kept = torch.full((count,), -1, dtype=torch.int64)
    selected: list[Tensor] = []
    index = torch.full((count,), -1, dtype=torch.int64)
    nodes = (rows.draft_index.tolist(), rows.target_index.tolist())
    every = zip(*nodes, tokens.tolist(), alive.tolist(), uniforms.tolist(), strict=True)
    for b, (draft, target, own, going, uniform) in enumerate(every):
        among = [k for k, one in enumerate(going) if one]
        if target < 0 or not among:
            continue
        draft_row, _ = _host_row(rows.draft_rows[draft])
        target_row, mass = _host_row(rows.target_rows[target])
        drafted = tuple(own[k] for k in among)
        if min(draft_row[v] for v in drafted) > 0:
            selected_row, weights = plan(draft_row, target_row, drafted)
        else:  # drafts that cannot be drawn are only ever given by hand
            selected_row = np.zeros_like(draft_row)
            weights = dict.fromkeys(drafted, 1 / len(set(drafted)))
        law, others = _verified(selected_row, target_row, weights)
        for k in among:
            together = others + sum(law.values())
            own_share = law.pop(own[k], 0.0)
            if together > 0 and uniform[k] < own_share / together:
                kept[b] = k
                break
        else:
            index[b] = len(selected)
            selected.append(torch.from_numpy(selected_row * mass).to(rows.compute_dtype))
    device = rows.device
    table = torch.stack(selected) if selected else rows.draft_rows[:1].to(rows.compute_dtype).cpu()
    one = torch.ones(count, dtype=torch.float64, device=device)
    gone = Overrides(torch.where(alive, tokens, -1), torch.zeros_like(uniforms))
    owed = replace(rows, draft_rows=table.to(device), draft_index=index.to(device))
    return Decision(kept.to(device), Owed(one, one), gone, owed)


def _host_row(row: Tensor) -> tuple[Row, float]:
    """A row normalised, and its sum."""
    values = row.to(torch.float64).cpu().numpy()
    mass = float(values.sum())
    return values / mass, mass


def _verified(
    selected: Row, target: Row, weights: dict[int, float]
) -> tuple[dict[int, float], float]:
    """The law of the token when one of these `weights` (`selected` on average) is coupled maximally
    with the target: the mass of each drafted token, and that of all others."""
    owed = np.maximum(target - selected, 0.0)
    mass = float(owed.sum())
    if mass > 0:
        owed /= mass
    else:
        owed = target
    kept = {
        v: weight * min(1.0, float(target[v] / selected[v])) if selected[v] > 0 else 0.0
        for v, weight in weights.items()
    }
    rejected = sum(max(weight - kept[v], 0.0) for v, weight in weights.items())
    inside = {v: float(owed[v]) for v in weights}
    others = rejected * max(1 - sum(inside.values()), 0.0)
    return {v: kept[v] + rejected * inside[v] for v in weights}, others


def _first_kept(kept: Tensor) -> Tensor:
    return torch.where(kept.any(1), first_true(kept), -1)
