"""Traversal verification: test the prefix tree leaf by leaf, from the first leaf up.

A node has a weight, 1 at the root and min(1, w q(x)/p(x)) at the child x of a node of weight w. The
first leaf in depth-first order is accepted with probability its weight. If it is not, it is cut
off, and its parent goes on with

    q ← (w q - p)+ normalised, S the mass before,   w ← S/(S + 1 - w),   p(x) ← 0 renormalised,

until all its children are gone and it is a leaf itself. Lossless for trees drawn without
replacement, and on the merged tree of i.i.d. paths with children in order of first appearance.
Source: Weng et al. (2505.12398).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from draftproof.reference.chance import TOKEN, Accept, Chance, meet
from draftproof.reference.clip import excess, row_or_plain, without
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, alive

__all__ = ["SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the drafts as a merged tree; a node is tested as its first draft at its depth."""
    everyone = range(drafts.count if drafts.length else 0)
    outcome = _visit(chance, drafts, draft, target, (), everyone, ONE, None)
    if outcome is None:
        raise AssertionError("the root has weight 1 and is always accepted")
    return outcome


def _visit(
    chance: Chance,
    drafts: Drafts,
    draft: Model,
    target: Model,
    node: Prefix,
    through: Sequence[int],
    weight: Number,
    above: Hashable,
) -> Outcome | None:
    """Verify the subtree of `node`, the drafts `through` it; None when all of it is rejected.

    `above` is all that what follows then depends on.
    """
    depth = len(node)
    q = target(node)
    if depth < drafts.length and through:
        p = draft(node)
        waiting = list(through)
        while waiting:
            x = drafts.token(waiting[0], depth + 1)
            child = alive(drafts, waiting, (*node, x))
            waiting = [k for k in waiting if k not in child]
            below = min(ONE, weight * divide(q[x], p[x], ZERO))
            here = above, p, q, weight, drafts.known(waiting)
            outcome = _visit(chance, drafts, draft, target, (*node, x), child, below, here)
            if outcome is not None:
                return outcome
            owed = excess(p, q, weight)
            mass = total(owed)
            q, weight = row_or_plain(owed, q), divide(mass, mass + 1 - weight, ZERO)
            rest = without(p, x)
            p = row_or_plain(rest, rest)
            meet(chance, "cut", node, above, p, q, weight, drafts.known(waiting))
    if depth == 0 or chance.flip(weight, Accept(through[0], depth)):
        return Outcome(node, chance.draw(q, TOKEN), through[0] if depth else 0)
    return None


SCHEME = Scheme(
    name="traversal",
    kind="verifier",
    summary="accept or cut off the first leaf of the merged tree, from the leaves up",
    paper="Weng et al. 2025, arXiv 2505.12398",
    verify=verify,
)
