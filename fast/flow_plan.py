"""The optimal coupling of one token by a maximum flow, on the host, for few sets of drafts.

A set S of drafted tokens has supply P(S), a token v demand q(v), and S may only serve its own
tokens; what a set cannot place is spread evenly over its tokens. The shares are the weights with
which a draft is selected, and the law of the selected token reaches the optimum Σ min(r, q) = α*.
Source: Khisti et al. (2410.18234, theorem 1); the augmenting paths are chosen as in
`draftproof.reference.couplings.canonical`, so that both find the same flow.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from draftproof.fast.score_plan import Plan, Row

__all__ = ["MOST_SETS", "few_sets", "flow_plan"]

MOST_SETS = 5000
"""The largest number of multisets of drafts for which the flow is solved."""

Set = frozenset[int]
Flow = dict[tuple[Set, int], float]


def few_sets(vocab: int, drafts: int) -> bool:
    """Whether n drafts over a vocabulary make at most `MOST_SETS` multisets."""
    return comb(vocab + drafts - 1, drafts) <= MOST_SETS


def flow_plan(draft_row: Row, target_row: Row, tokens: tuple[int, ...]) -> Plan:
    """The plan for i.i.d. drafts of these tokens, each of which the draft row [V] can draw."""
    weights, selected = _weights(tuple(draft_row.tolist()), tuple(target_row.tolist()), len(tokens))
    return Plan(np.array(selected), weights[frozenset(tokens)])


@lru_cache(maxsize=1 << 10)  # the blocks of a batch mostly have rows of their own, tests do not
def _weights(
    p: tuple[float, ...], q: tuple[float, ...], n: int
) -> tuple[dict[Set, dict[int, float]], list[float]]:
    """P(v is selected | the set of drafts), and the law of the selected token."""
    sets: dict[Set, float] = {}
    support = [v for v, mass in enumerate(p) if mass > 0]
    for drawn in combinations_with_replacement(support, n):
        orders = factorial(n) // prod(factorial(times) for times in Counter(drawn).values())
        key = frozenset(drawn)
        sets[key] = sets.get(key, 0.0) + orders * prod(p[v] for v in drawn)
    flow = _maximum_flow(sets, q)
    weights, selected = {}, [0.0] * len(p)
    for S, mass in sets.items():
        unplaced = max(mass - sum(flow[S, v] for v in sorted(S)), 0.0)
        share = {v: flow[S, v] + unplaced / len(S) for v in sorted(S)}
        whole = sum(share.values())
        weights[S] = {v: x / whole if whole > 0 else 1 / len(S) for v, x in share.items()}
        for v in S:
            selected[v] += share[v]
    return weights, selected


def _maximum_flow(sets: dict[Set, float], q: tuple[float, ...]) -> Flow:
    """As much mass as possible moved from each set to its tokens, by shortest augmenting paths.

    Supplies, demands and flows that are used up become 0 exactly; what rounding leaves of them in
    place of 0 is used up by a path of its own.
    """
    supply, demand = dict(sets), dict(enumerate(q))
    flow: Flow = {(S, v): 0.0 for S in sets for v in S}
    owners: dict[int, list[Set]] = {v: [S for S in sets if v in S] for v in demand}
    for S in sets:  # the paths of one edge, which come first
        for v in sorted(S):
            amount = min(supply[S], demand[v])
            flow[S, v] = amount
            supply[S] -= amount
            demand[v] -= amount
    while True:
        path = _augmenting_path(supply, demand, flow, owners)
        if path is None:
            return flow
        forward, back = path
        start, end = forward[-1][0], forward[0][1]
        amount = min([supply[start], demand[end], *(flow[edge] for edge in back)])
        for edge in forward:
            flow[edge] += amount
        for edge in back:
            flow[edge] -= amount
        supply[start] -= amount
        demand[end] -= amount


def _augmenting_path(
    supply: dict[Set, float], demand: dict[int, float], flow: Flow, owners: dict[int, list[Set]]
) -> tuple[list[tuple[Set, int]], list[tuple[Set, int]]] | None:
    """The edges forward, last one first, and back of a shortest path to a token that wants more.

    Breadth-first from the sets with supply left: forward to their tokens, and back from a token to
    the sets that serve it.
    """
    reached_through: dict[Set, int | None] = {S: None for S, left in supply.items() if left > 0}
    served_by: dict[int, Set] = {}
    for S in (queue := list(reached_through)):  # grows while it is walked
        for v in sorted(S - served_by.keys()):
            served_by[v] = S
            if demand[v] > 0:
                forward, back = [(S, v)], []
                while (via := reached_through[forward[-1][0]]) is not None:
                    back.append((forward[-1][0], via))
                    forward.append((served_by[via], via))
                return forward, back
            for other in owners[v]:
                if flow[other, v] > 0 and other not in reached_through:
                    reached_through[other] = v
                    queue.append(other)
    return None
