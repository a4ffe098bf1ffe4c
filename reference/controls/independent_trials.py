"""K independent tests: each draft against the unmodified target, the correction from (q - p)+.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): P(token 1 at
position 1) = 3/4 instead of 1/2; with K drafts it is at least 1 - 2^-K.
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

__all__ = ["COUNTEREXAMPLE", "SCHEME", "independent_trials", "verify"]


def independent_trials(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> Choice:
    """Test every candidate with min(1, q/p), as if the others had not been tested."""
    for k in range(len(candidates)):
        token = candidates[k]
        if chance.flip(acceptance(draft_row, target_row, token), candidates.test(k)):
            return Choice(token, True)
    return Choice(
        chance.draw(row_or_plain(excess(draft_row, target_row), target_row), TOKEN), False
    )


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The tests walked down the alive drafts."""
    return spectr(independent_trials, chance, drafts, draft, target)


COUNTEREXAMPLE = Counterexample(
    drafts=2,
    length=1,
    draft_row=("0", "1"),
    target_row=("1/2", "1/2"),
    position=0,
    token=1,
    emitted="3/4",
)

SCHEME = Scheme(
    name="independent_trials",
    kind="control",
    summary="each draft tested against the unmodified target",
    paper="folklore",
    verify=verify,
    lossless=False,
    counterexample=str(COUNTEREXAMPLE),
)
