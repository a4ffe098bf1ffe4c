"""Siblings without a residual update: each child of a tree node tested with min(1, q/p) once.

The drafts are merged into a tree and the distinct children of a node are tested in order of first
appearance, all against the same target row; only then the correction is drawn, from (q - p)+.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (1/2, 1/2, 0), q = (1/2, 0, 1/2): P(token 0
at position 1) = 3/4 instead of 1/2.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates, Choice
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers.spectr import spectr

__all__ = ["COUNTEREXAMPLE", "SCHEME", "siblings_without_update", "verify"]


def siblings_without_update(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> Choice:
    """Test every distinct candidate against the unmodified target row."""
    tested = set()
    for k in range(len(candidates)):
        token = candidates[k]
        if token in tested:
            continue
        if chance.flip(acceptance(draft_row, target_row, token), candidates.test(k)):
            return Choice(token, True)
        tested.add(token)
    return Choice(
        chance.draw(row_or_plain(excess(draft_row, target_row), target_row), TOKEN), False
    )


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The tests walked down the tree."""
    return spectr(siblings_without_update, chance, drafts, draft, target)


COUNTEREXAMPLE = Counterexample(
    drafts=2,
    length=1,
    draft_row=("1/2", "1/2", "0"),
    target_row=("1/2", "0", "1/2"),
    position=0,
    token=0,
    emitted="3/4",
)

SCHEME = Scheme(
    name="siblings_without_update",
    kind="control",
    summary="distinct children of a node tested against the same target row",
    paper="folklore",
    verify=verify,
    lossless=False,
    counterexample=str(COUNTEREXAMPLE),
)
