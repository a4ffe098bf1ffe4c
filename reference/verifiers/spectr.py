"""SpecTr: walk down the drafts, deciding each depth by a one-token coupling of the alive drafts.

Source: Sun et al. (2310.15141, section 3). Lossless with any lossless coupling. `spectr:NAME` uses
the coupling NAME; `spectr` alone is `spectr:kseq`.
"""

from __future__ import annotations

from functools import partial

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.couplings.candidates import Candidates, Coupling
from draftproof.reference.couplings.kseq import kseq
from draftproof.reference.models import Model, Prefix
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, alive

__all__ = ["SCHEMES", "spectr", "verify"]


def spectr(
    coupling: Coupling, chance: Chance, drafts: Drafts, draft: Model, target: Model
) -> Outcome:
    """Run `coupling` on the next tokens of the alive drafts until none follows its token."""
    accepted: Prefix = ()
    following = list(range(drafts.count))
    for depth in range(1, drafts.length + 1):
        if not following:
            break
        candidates = Candidates(drafts, following, depth)
        token = coupling(chance, candidates, draft(accepted), target(accepted))
        still = alive(drafts, following, (*accepted, token))
        if not still:
            return Outcome(accepted, token, following[0] if accepted else 0)
        accepted, following = (*accepted, token), still
    path = following[0] if accepted else 0
    return Outcome(accepted, chance.draw(target(accepted), TOKEN), path)


verify = partial(spectr, kseq)

SCHEMES = (
    Scheme(
        name="spectr",
        kind="verifier",
        summary="a one-token coupling (K-SEQ) at each depth on the alive drafts",
        paper="Sun et al. 2023 (SpecTr), arXiv 2310.15141, section 3",
        verify=verify,
    ),
)
