"""Greedy block verification without its carry: the next round verifies against the plain target.

Not lossless. Smallest counterexample: K = 1, L = 2, p = (2/3, 1/3), q = (1/3, 2/3): P(token 0 at
position 2) = 4/9 instead of 1/3.
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.models import Model
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers import greedy_block

__all__ = ["COUNTEREXAMPLE", "SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Greedy block verification that forgets what it owes."""
    return greedy_block.verify(chance, drafts, draft, target)._replace(carry=None)


COUNTEREXAMPLE = Counterexample(
    drafts=1,
    length=2,
    draft_row=("2/3", "1/3"),
    target_row=("1/3", "2/3"),
    position=1,
    token=0,
    emitted="4/9",
)

SCHEME = Scheme(
    name="greedy_block_without_carry",
    kind="control",
    summary="greedy block verification whose modified target is dropped",
    paper="folklore",
    verify=verify,
    lossless=False,
    drafts=(0, 1),
    counterexample=str(COUNTEREXAMPLE),
)
