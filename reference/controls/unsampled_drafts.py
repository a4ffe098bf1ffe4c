"""Unsampled drafts: top-k or beam drafts, verified by recursive rejection as if they were sampled.

Recursive rejection is lossless for drafts drawn from the draft rows. The K likeliest continuations
are not drawn, so min(1, q/p) is the wrong probability to keep them with.

Not lossless. Smallest counterexample: K = 1, L = 1, p = (1/2, 1/2), q = (1/2, 1/2), drafts ((0,),):
P(token 0 at position 1) = 1 instead of 1/2.
"""

from __future__ import annotations

from itertools import product

from draftproof.reference.chance import Chance
from draftproof.reference.couplings.recursive_rejection import recursive_rejection
from draftproof.reference.models import Model, Prefix, joint
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers.spectr import spectr

__all__ = ["COUNTEREXAMPLE", "SCHEME", "beam", "verify"]


def beam(draft: Model, count: int, length: int) -> list[Prefix]:
    """The `count` likeliest paths of the draft model, ties by token."""
    paths = product(range(draft.vocab), repeat=length)
    return sorted(paths, key=lambda path: (-joint(draft, path), path))[:count]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the drafts as if each of them had been sampled from the draft model."""
    return spectr(recursive_rejection, chance, drafts, draft, target)


COUNTEREXAMPLE = Counterexample(
    drafts=1,
    length=1,
    draft_row=("1/2", "1/2"),
    target_row=("1/2", "1/2"),
    position=0,
    token=0,
    emitted="1",
    paths=((0,),),
)

SCHEME = Scheme(
    name="unsampled_drafts",
    kind="control",
    summary="top-k or beam drafts verified by recursive rejection",
    paper="folklore",
    verify=verify,
    lossless=False,
    draft_law="deterministic",
    counterexample=str(COUNTEREXAMPLE),
)
