"""Recursive rejection with replacement: each draft is tested against what earlier ones left over.

Test draft k against the current target with the maximal coupling; after a rejection the target is
the residual (q - p)+, normalised. Lossless for independent drafts, each of its own model.
Source: SpecInfer (2305.09781, section 4.3).
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates, Choice, one_token_block
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import DraftModels, Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "recursive_rejection", "verify"]


def recursive_rejection(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> Choice:
    """Test the candidates in order, then draw from the last residual."""
    owed = target_row
    for k, p in enumerate(candidates.rows):
        token = candidates[k]
        if chance.flip(acceptance(p, owed, token), candidates.test(k)):
            return Choice(token, True)
        owed = row_or_plain(excess(p, owed), owed)
        candidates.rejected(chance, k + 1)
    return Choice(chance.draw(owed, TOKEN), False)


def verify(chance: Chance, drafts: Drafts, draft: DraftModels, target: Model) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(recursive_rejection, chance, drafts, draft, target)


SCHEME = Scheme(
    name="recursive_rejection",
    kind="coupling",
    summary="test each draft against the residual that the rejected ones left",
    paper="Miao et al. 2023 (SpecInfer), arXiv 2305.09781, section 4.3",
    verify=verify,
    draft_law="independent",
)
