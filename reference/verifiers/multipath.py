"""Greedy multi-path: select the largest draft under one fixed order, then block-verify it.

Each node orders the tokens by q/p ascending, ties by index; the draft selected is the
lexicographically largest. Its law is known along its path: with A the draft mass of the paths
before the subtree of a node, J the joint probability of the node and B(x) the mass of the children
before x (algorithm notation),

    p_sel(x|·) ∝ (A + J B(x) + J p(x|·))^K - (A + J B(x))^K.

Exact because the same strict order is used to select and in the sums: with ties broken two ways it
is biased, see `controls.multipath_released`. More drafts can accept *less*, since the largest draft
comes to be one token almost surely: for p = q = (1/2, 1/2), L = 1 the acceptance is 1/2 + 2^-K.
Source: Thomas and Pal (2602.16961).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from draftproof.reference.chance import Chance, meet
from draftproof.reference.clip import row_or_plain
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, total
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, look, whole_path
from draftproof.reference.verifiers.block import verify_path

__all__ = [
    "SCHEME",
    "Order",
    "by_ratio",
    "largest_draft",
    "law_of_largest",
    "verify",
]

Order = Callable[[Prefix], Sequence[int]]
"""The tokens after a prefix, from the smallest to the largest."""


def by_ratio(draft: Model, target: Model) -> Order:
    """Tokens by q/p ascending, ties by index; tokens that cannot be drafted come last."""

    def order(prefix: Prefix) -> Sequence[int]:
        p, q = draft(prefix), target(prefix)
        drafted = sorted((q[v] / p[v], v) for v in range(draft.vocab) if p[v] != 0)
        return [v for _, v in drafted] + [v for v in range(draft.vocab) if p[v] == 0]

    return order


def largest_draft(chance: Chance, drafts: Drafts, order: Order) -> int:
    """The first of the lexicographically largest drafts."""
    among = list(range(drafts.count))
    prefix: Prefix = ()
    for depth in range(1, drafts.length + 1):
        ranks = order(prefix)
        largest = max(look(chance, drafts, among, depth), key=ranks.index)
        among = [k for k in among if drafts.token(k, depth) == largest]
        prefix = (*prefix, largest)
    return among[0]


def law_of_largest(draft: Model, count: int, order: Order) -> Model:
    """The rows of the lexicographically largest of `count` i.i.d. drafts."""
    # prefix → (A, J): the draft mass of the paths before its subtree, and of the subtree
    places: dict[Prefix, tuple[Number, Number]] = {(): (ZERO, ONE)}

    def place(prefix: Prefix) -> tuple[Number, Number]:
        if prefix not in places:
            parent, token = prefix[:-1], prefix[-1]
            before, inside = place(parent)
            p, ranks = draft(parent), order(parent)
            smaller = total(p[v] for v in ranks[: ranks.index(token)])
            places[prefix] = before + inside * smaller, inside * p[token]
        return places[prefix]

    def source(prefix: Prefix) -> Row:
        p = draft(prefix)
        reached, inside = place(prefix)
        weights = [ZERO] * draft.vocab
        for v in order(prefix):
            low, reached = reached, reached + inside * p[v]
            weights[v] = reached**count - low**count
        return row_or_plain(tuple(weights), p)

    return Model(draft.vocab, source)


@lru_cache(maxsize=32)  # an enumeration verifies the same models over and over
def _design(draft: Model, target: Model, count: int) -> tuple[Order, Model]:
    order = lru_cache(maxsize=None)(by_ratio(draft, target))
    return order, law_of_largest(draft, count, order)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Block-verify the largest draft with the law it has."""
    if drafts.count == 0 or drafts.length == 0:
        return verify_path(chance, (), 0, draft, target)
    order, selected = _design(draft, target, drafts.count)
    number = largest_draft(chance, drafts, order)
    path = whole_path(drafts, number)
    meet(chance, "selected", path)
    return verify_path(chance, path, number, selected, target)


SCHEME = Scheme(
    name="multipath",
    kind="verifier",
    summary="block-verify the largest draft in one fixed order of the tokens, with its law",
    paper="Thomas and Pal 2026, arXiv 2602.16961",
    verify=verify,
)
