"""Token by token: standard speculative decoding, the accepted length is the first rejection.

Source: Leviathan et al. (2211.17192, algorithm 1); Chen et al. (2302.01318, algorithm 2).
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the one draft by a maximal coupling at each depth in turn."""
    length = drafts.length if drafts.count else 0
    accepted: tuple[int, ...] = ()
    for depth in range(1, length + 1):
        p, q = draft(accepted), target(accepted)
        token = drafts.token(0, depth)
        if not chance.flip(acceptance(p, q, token), Accept(0, depth)):
            return Outcome(accepted, chance.draw(row_or_plain(excess(p, q), q), TOKEN))
        accepted = (*accepted, token)
    return Outcome(accepted, chance.draw(target(accepted), TOKEN))


SCHEME = Scheme(
    name="token_by_token",
    kind="verifier",
    summary="a maximal coupling at each depth, stop at the first rejection",
    paper="Leviathan et al. 2023, arXiv 2211.17192, algorithm 1",
    verify=verify,
    drafts=(0, 1),
)
