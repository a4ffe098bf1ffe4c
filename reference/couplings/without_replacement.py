"""Recursive rejection without replacement: a rejected token also leaves the draft row.

The drafts are drawn without replacement. After a rejection the target is the residual (q - p)+ and
p(x) ← 0, both normalised, which is the row the next distinct draft is drawn from. A token that
comes again is rejected at once. Lossless for drafts drawn that way, and for i.i.d. drafts whose
repetitions are skipped. Source: Sequoia (2402.12374, algorithm 2), MCSD (2401.06706).
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import excess, row_or_plain, without
from draftproof.reference.couplings.candidates import Candidates, Choice, one_token_block
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "verify", "without_replacement"]


def without_replacement(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> Choice:
    """Test the candidates in order, then draw from the last residual."""
    candidates.require_one_row("without_replacement")
    p, q = draft_row, target_row
    rejected: set[int] = set()
    for k in range(len(candidates)):
        token = candidates[k]
        if chance.flip(acceptance(p, q, token), candidates.test(k)):
            return Choice(token, True)
        if token in rejected:
            continue
        rejected.add(token)
        q = row_or_plain(excess(p, q), q)
        rest = without(p, token)
        p = row_or_plain(rest, rest)
    return Choice(chance.draw(q, TOKEN), False)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(without_replacement, chance, drafts, draft, target)


SCHEME = Scheme(
    name="without_replacement",
    kind="coupling",
    summary="recursive rejection of drafts drawn without replacement",
    paper="Chen et al. 2024 (Sequoia), arXiv 2402.12374, algorithm 2",
    verify=verify,
    draft_law="without_replacement",
)
