"""Target match: draw the token from the target, keep it if a draft has it.

Lossless for any drafts, a deterministic set too, since it never reads their law. Acceptance is the
target mass of the drafted tokens: Σ_v q(v) (1 - (1-p(v))^K) for i.i.d. drafts. The draw is made by
one test of each candidate (is it the token?) and one draw from the others.
Source: naive sampling of SpecInfer (2305.09781, section 4.3).
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.couplings.candidates import Candidates, Choice, answer, one_token_block
from draftproof.reference.models import DraftModels, Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "target_match", "verify"]


def target_match(chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row) -> Choice:
    """A token of law `target_row`, whatever the candidates are."""
    return answer(chance, candidates, target_row)


def verify(chance: Chance, drafts: Drafts, draft: DraftModels, target: Model) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(target_match, chance, drafts, draft, target)


SCHEME = Scheme(
    name="target_match",
    kind="coupling",
    summary="draw from the target, keep the token if a draft has it",
    paper="Miao et al. 2023 (SpecInfer), arXiv 2305.09781, section 4.3",
    verify=verify,
    draft_law="any",
)
