"""Block verification: accept the longest prefix that passes a test scanned from the deepest depth.

Source: Sun et al. (2403.10444, algorithm 2). P(τ ≥ i | x^i) = w_i, so E[τ] = Σ_i E_p[w_i], the most
that a stateless scheme with one draft reaches.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the one draft as a block."""
    length = drafts.length if drafts.count else 0
    path = tuple(drafts.token(0, depth) for depth in range(1, length + 1))
    weights: list[Number] = [ONE]  # w_0 .. w_L
    for depth, token in enumerate(path):
        p, q = draft(path[:depth]), target(path[:depth])
        weights.append(min(ONE, weights[-1] * divide(q[token], p[token], ZERO)))
    for depth in range(length, 0, -1):
        w, node = weights[depth], path[:depth]
        if depth == length:
            h = w
        else:
            owed = total(excess(draft(node), target(node), w))
            h = divide(owed, owed + 1 - w, ZERO)
        if chance.flip(h, Accept(0, depth)):
            break
    else:
        depth = 0
    accepted = path[:depth]
    if depth == length:
        return Outcome(accepted, chance.draw(target(accepted), TOKEN))
    owed_row = excess(draft(accepted), target(accepted), weights[depth])
    return Outcome(accepted, chance.draw(row_or_plain(owed_row, target(accepted)), TOKEN))


SCHEME = Scheme(
    name="block",
    kind="verifier",
    summary="scan the draft from its deepest token, accept the longest prefix that passes",
    paper="Sun et al. 2024, arXiv 2403.10444, algorithm 2",
    verify=verify,
    drafts=(0, 1),
)
