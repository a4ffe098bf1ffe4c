"""K-SEQ block verification: the block rule on each draft in turn, the target clipped by K-SEQ.

Source: this project; lossless and stateless (proved in `proofs`). K = 1 is block verification,
L = 1 is K-SEQ.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Chance, meet
from draftproof.reference.clip import DEFAULT_GRID, residual, row_or_plain, smallest_scale
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, alive, whole_path
from draftproof.reference.verifiers.block import block_residual, block_scan

__all__ = ["SCHEME", "verify"]


def verify(
    chance: Chance, drafts: Drafts, draft: Model, target: Model, *, grid: int = DEFAULT_GRID
) -> Outcome:
    """Verify the drafts in order; after an accepted prefix go on with the later ones through it.

    `grid`: the scales are the smallest valid multiples of 1/grid.
    """
    node: Prefix = ()
    owed = target(node)  # the target row still owed at the node
    path = 0
    waiting = list(range(drafts.count)) if drafts.length else []
    while waiting:
        n = len(waiting)
        p = draft(node)
        scale = smallest_scale(p, owed, n, grid)
        for k in waiting:
            tokens = whole_path(drafts, k)
            depth, weight = block_scan(chance, tokens, k, node, draft, target, owed, ONE / scale)
            later = [j for j in waiting if j > k]
            if depth > len(node):
                break
            meet(chance, "rejected", node, owed, n, drafts.known(later))
        else:
            correction = row_or_plain(residual(p, owed, scale, n), owed)
            return Outcome(node, chance.draw(correction, TOKEN), path)
        node, path = tokens[:depth], k
        if depth == drafts.length:
            return Outcome(node, chance.draw(target(node), TOKEN), path)
        owed = block_residual(draft(node), target(node), weight)
        waiting = alive(drafts, later, node)
        meet(chance, "accepted", node, owed, drafts.known(waiting))
    return Outcome(node, chance.draw(owed, TOKEN), path)


SCHEME = Scheme(
    name="kseq_block",
    kind="verifier",
    summary="block verification of each draft in turn, with the scale and residual of K-SEQ",
    paper="this project",
    verify=verify,
    options={"grid": DEFAULT_GRID},
)
