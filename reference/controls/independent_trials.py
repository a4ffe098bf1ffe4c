"""K independent tests: each draft against the unmodified target, the correction from (q - p)+.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): token 1 is emitted
with probability 3/4 instead of 1/2, and 1 - 2^-K in general.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers.spectr import spectr

__all__ = ["SCHEME", "independent_trials", "verify"]


def independent_trials(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> int:
    """Test every candidate with min(1, q/p), as if the others had not been tested."""
    for k in range(len(candidates)):
        token = candidates[k]
        if chance.flip(acceptance(draft_row, target_row, token), candidates.test(k)):
            return int(token)
    return chance.draw(row_or_plain(excess(draft_row, target_row), target_row), TOKEN)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The tests walked down the alive drafts."""
    return spectr(independent_trials, chance, drafts, draft, target)


SCHEME = Scheme(
    name="independent_trials",
    kind="control",
    summary="each draft tested against the unmodified target",
    paper="folklore",
    verify=verify,
    lossless=False,
    counterexample="K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): P(1) = 3/4 instead of 1/2",
)
