"""SpecTr: walk down the drafts, deciding each depth by a one-token coupling of the alive drafts.

Source: Sun et al. (2310.15141, section 3). Lossless with any lossless coupling. `spectr:NAME` uses
the coupling NAME; `spectr` alone is `spectr:kseq`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from draftproof.reference import couplings
from draftproof.reference.chance import TOKEN, Chance, meet
from draftproof.reference.clip import DEFAULT_GRID
from draftproof.reference.couplings.candidates import Coupling, candidates_at
from draftproof.reference.couplings.canonical import canonical
from draftproof.reference.couplings.kseq import kseq
from draftproof.reference.couplings.recursive_rejection import recursive_rejection
from draftproof.reference.couplings.target_match import target_match
from draftproof.reference.couplings.transport import transport
from draftproof.reference.couplings.without_replacement import without_replacement
from draftproof.reference.models import DraftModels, Model, Prefix
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, alive

__all__ = ["SCHEMES", "spectr", "verify"]


def spectr(
    coupling: Coupling,
    chance: Chance,
    drafts: Drafts,
    draft: DraftModels,
    target: Model,
    **options: object,
) -> Outcome:
    """Run `coupling` (with its `options`) on the next tokens of the alive drafts, until it keeps
    none of them.
    """
    choose = partial(coupling, **options)
    accepted: Prefix = ()
    following = list(range(drafts.count))
    for _ in range(drafts.length if drafts.count else 0):
        candidates = candidates_at(drafts, following, draft, accepted)
        token, kept = choose(chance, candidates, candidates.rows[0], target(accepted))
        if not kept:
            return Outcome(accepted, token, following[0] if accepted else 0)
        accepted = (*accepted, token)
        following = alive(drafts, following, accepted)
        meet(chance, "spectr", accepted, drafts.known(following))
    path = following[0] if accepted else 0
    return Outcome(accepted, chance.draw(target(accepted), TOKEN), path)


verify = partial(spectr, kseq)


def _walked(coupling: Coupling, entry: Scheme) -> Scheme:
    """A coupling walked down the alive drafts, described as the coupling is."""
    return replace(
        entry,
        name=f"spectr:{entry.name}",
        kind="verifier",
        summary=f"{entry.name.replace('_', ' ')} at each depth on the alive drafts",
        verify=partial(spectr, coupling),
    )


SCHEMES = (
    replace(
        _walked(kseq, couplings.kseq.SCHEME),
        name="spectr",
        summary="a one-token coupling (K-SEQ) at each depth on the alive drafts",
        paper="Sun et al. 2023 (SpecTr), arXiv 2310.15141, section 3",
        options={"grid": DEFAULT_GRID},
    ),
    replace(_walked(canonical, couplings.canonical.SCHEME), options={}),
    _walked(recursive_rejection, couplings.recursive_rejection.SCHEME),
    _walked(target_match, couplings.target_match.SCHEME),
    _walked(transport, couplings.transport.SCHEME),
    _walked(without_replacement, couplings.without_replacement.SCHEME),
)
