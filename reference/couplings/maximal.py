"""The maximal coupling of one draft with the target: keep it with probability min(1, q/p).

Source: Leviathan et al. (2211.17192, section 2.3), Chen et al. (2302.01318, theorem 1).
Acceptance Σ min(p, q) = 1 - TV(p, q), the most that any coupling reaches.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates, Choice, one_token_block
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, Number, divide
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "acceptance", "maximal", "verify"]


def acceptance(draft_row: Row, target_row: Row, token: int, scale: Number = ONE) -> Number:
    """min(1, q/(ρ p)) for a drafted token; 0 for one that the draft row cannot draw."""
    return min(ONE, divide(target_row[token], scale * draft_row[token], 0 * ONE))


def maximal(chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row) -> Choice:
    """Test the one candidate, else draw from the residual (q - p)+."""
    if len(candidates) != 1:
        raise ValueError(f"the maximal coupling takes one draft, not {len(candidates)}")
    token = candidates[0]
    if chance.flip(acceptance(draft_row, target_row, token), candidates.test(0)):
        return Choice(token, True)
    return Choice(
        chance.draw(row_or_plain(excess(draft_row, target_row), target_row), TOKEN), False
    )


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(maximal, chance, drafts, draft, target)


SCHEME = Scheme(
    name="maximal",
    kind="coupling",
    summary="keep the draft with probability min(1, q/p), else draw from (q - p)+",
    paper="Leviathan et al. 2023, arXiv 2211.17192, section 2.3",
    verify=verify,
    drafts=(0, 1),
)
