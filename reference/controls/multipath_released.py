"""Greedy multi-path as released: ties are broken one way to select and the other way in the sums.

Tokens are ordered by min(1, q/p), so ties are common. The draft selected is the largest with the
smaller index first among equals, while the law it is verified with puts the larger index first.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (1/2, 1/2), q = (1/2, 1/2): P(token 0 at
position 1) = 5/6 instead of 1/2.
Source: the code released with greedy multi-path block verification (2602.16961).
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path
from draftproof.reference.verifiers.block import verify_path
from draftproof.reference.verifiers.multipath import Order, largest_draft, law_of_largest

__all__ = ["COUNTEREXAMPLE", "SCHEME", "verify"]


def _by_clipped_ratio(draft: Model, target: Model, larger_index_first: bool) -> Order:
    sign = -1 if larger_index_first else 1

    def order(prefix: Prefix) -> list[int]:
        p, q = draft(prefix), target(prefix)
        ratios = [ONE if a == 0 else min(ONE, b / a) for a, b in zip(p, q, strict=True)]
        return sorted(range(draft.vocab), key=lambda v: (ratios[v], sign * v))

    return order


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Block-verify the largest draft in one order with the law of the largest in the other."""
    if drafts.count == 0 or drafts.length == 0:
        return verify_path(chance, (), 0, draft, target)
    number = largest_draft(chance, drafts, _by_clipped_ratio(draft, target, True))
    law = law_of_largest(draft, drafts.count, _by_clipped_ratio(draft, target, False))
    return verify_path(chance, whole_path(drafts, number), number, law, target)


COUNTEREXAMPLE = Counterexample(
    drafts=2,
    length=1,
    draft_row=("1/2", "1/2"),
    target_row=("1/2", "1/2"),
    position=0,
    token=0,
    emitted="5/6",
)

SCHEME = Scheme(
    name="multipath_released",
    kind="control",
    summary="greedy multi-path with ties broken two ways",
    paper="code of Thomas and Pal 2026, arXiv 2602.16961",
    verify=verify,
    lossless=False,
    counterexample=str(COUNTEREXAMPLE),
)
