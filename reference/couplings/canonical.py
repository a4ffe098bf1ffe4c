"""Canonical two-step: choose one draft by importance weights, then couple it maximally.

An optimal coupling always has this form. The weights of a set of drafts come from an optimal
transport plan of the sets to the tokens, solved exactly as a maximum flow: set S has supply P(S),
token v demand q(v), and S may only serve its own tokens; what a set cannot place is spread evenly
over its tokens. Then the law R of the chosen draft has Σ min(R, q) = α*, for any law of the drafts.
Exponential in K: beyond `MOST_SETS` sets i.i.d. drafts get the weights of the score plan of
`transport`, which has the same acceptance.
Source: Khisti et al. (2410.18234, theorem 1), who give K = 2 in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import permutations
from math import comb
from typing import Literal

from draftproof.reference.chance import Chance
from draftproof.reference.couplings.candidates import Candidates, Choice, answer, one_token_block
from draftproof.reference.couplings.transport import transport, verified
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.optima import independent_draft_sets
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "canonical", "distinct_draft_sets", "optimal_plan", "verify"]

MOST_SETS = 5000
"""The largest number of multisets of drafts for which the flow is solved."""

Sets = Mapping[frozenset[int], Number]
DraftLaw = Literal["iid", "without_replacement"]


def distinct_draft_sets(draft_row: Row, drafts: int) -> Sets:
    """P(K drafts drawn without replacement form this set); all of the support if K exceeds it."""
    support = [v for v, p in enumerate(draft_row) if p != 0]
    sets: dict[frozenset[int], Number] = {}
    for order in permutations(support, min(drafts, len(support))):
        chance, left = ONE, ONE
        for v in order:
            chance, left = chance * draft_row[v] / left, left - draft_row[v]
        key = frozenset(order)
        sets[key] = sets.get(key, ZERO) + chance
    return sets


def optimal_plan(sets: Sets, target_row: Row) -> dict[tuple[frozenset[int], int], Number]:
    """Mass moved from each set to each of its tokens, as much as possible in all.

    A maximum flow by shortest augmenting paths, exact on rationals.
    """
    supply = dict(sets)
    demand = dict(enumerate(target_row))
    flow: dict[tuple[frozenset[int], int], Number] = {(S, v): ZERO for S in sets for v in S}
    while True:
        # Breadth-first from the sets with supply left: forward to their tokens, and back from a
        # token to the sets that serve it.
        reached_through: dict[frozenset[int], int | None] = {
            S: None for S, left in supply.items() if left > 0
        }
        served_by: dict[int, frozenset[int]] = {}
        for S in (queue := list(reached_through)):  # grows while it is walked
            for v in sorted(S - served_by.keys()):
                served_by[v] = S
                for other in sets:
                    if v in other and flow[other, v] > 0 and other not in reached_through:
                        reached_through[other] = v
                        queue.append(other)
        end = next((v for v in served_by if demand[v] > 0), None)
        if end is None:
            return flow
        forward = [(served_by[end], end)]
        back: list[tuple[frozenset[int], int]] = []
        while (via := reached_through[forward[-1][0]]) is not None:
            back.append((forward[-1][0], via))
            forward.append((served_by[via], via))
        start = forward[-1][0]
        amount = min([supply[start], demand[end], *(flow[edge] for edge in back)])
        for edge in forward:
            flow[edge] += amount
        for edge in back:
            flow[edge] -= amount
        supply[start] -= amount
        demand[end] -= amount


@lru_cache(maxsize=1 << 12)
def _weights(
    draft_row: Row, target_row: Row, drafts: int, law: DraftLaw
) -> tuple[dict[frozenset[int], dict[int, Number]], Row]:
    """P(choose v | the set of drafts is S), and the law R of the chosen draft."""
    if law not in ("iid", "without_replacement"):
        raise ValueError(f"draft_law must be 'iid' or 'without_replacement', not {law!r}")
    draw = independent_draft_sets if law == "iid" else distinct_draft_sets
    sets = draw(draft_row, drafts)
    flow = optimal_plan(sets, target_row)
    weights: dict[frozenset[int], dict[int, Number]] = {}
    chosen = [ZERO] * len(draft_row)
    for S, mass in sets.items():
        unplaced = mass - total(flow[S, v] for v in S)
        weights[S] = {v: divide(flow[S, v] + unplaced / len(S), mass, ZERO) for v in S}
        for v in S:
            chosen[v] += mass * weights[S][v]
    return weights, tuple(chosen)


def canonical(
    chance: Chance,
    candidates: Candidates,
    draft_row: Row,
    target_row: Row,
    *,
    draft_law: DraftLaw = "iid",
) -> Choice:
    """The chosen draft coupled maximally with the target, given all candidates."""
    candidates.require_one_row("canonical")
    n = len(candidates)
    if draft_law == "iid" and comb(len(draft_row) + n - 1, n) > MOST_SETS:
        return transport(chance, candidates, draft_row, target_row)
    tokens = frozenset(candidates.look(chance))
    weights, chosen = _weights(draft_row, target_row, n, draft_law)
    # A set that cannot be drawn is only ever given by hand: any weights will do.
    given = weights.get(tokens) or dict.fromkeys(tokens, ONE / len(tokens))
    return answer(chance, candidates, verified(given, chosen, target_row))


def verify(
    chance: Chance, drafts: Drafts, draft: Model, target: Model, *, draft_law: DraftLaw = "iid"
) -> Outcome:
    """The coupling as a block scheme of length 1; `draft_law` is the law the drafts have."""
    return one_token_block(partial(canonical, draft_law=draft_law), chance, drafts, draft, target)


SCHEME = Scheme(
    name="canonical",
    kind="coupling",
    summary="choose a draft by the weights of an optimal transport plan, then couple it maximally",
    paper="Khisti et al. 2024, arXiv 2410.18234, theorem 1",
    verify=verify,
    options={"draft_law": "iid"},
)
