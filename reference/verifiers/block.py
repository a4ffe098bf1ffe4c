"""Block verification: accept the longest prefix that passes a test scanned from the deepest depth.

Source: Sun et al. (2403.10444, algorithm 2). P(τ ≥ i | x^i) = w_i, so E[τ] = Σ_i E_p[w_i], the most
that a stateless scheme with one draft reaches.
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path

__all__ = ["SCHEME", "block_residual", "block_scan", "verify", "verify_path"]


def block_scan(
    chance: Chance,
    path: Prefix,
    number: int,
    node: Prefix,
    draft: Model,
    target: Model,
    node_row: Row,
    start: Number = ONE,
) -> tuple[int, Number]:
    """Test draft `number` below `node`, from its deepest depth up to the child of `node`.

    `node_row` is the target row at `node`, `start` the weight there (1, or 1/ρ after a clip).
    Returns the deepest accepted depth and its weight w; the depth of `node` if none is accepted.
    """
    length, top = len(path), len(node)
    weights: list[Number] = [start]  # w at depths top .. length
    for depth in range(top, length):
        row = node_row if depth == top else target(path[:depth])
        token = path[depth]
        p, q = draft(path[:depth])[token], row[token]
        weights.append(min(ONE, weights[-1] * divide(q, p, ZERO)))
    for depth in range(length, top, -1):
        w = weights[depth - top]
        if depth == length:
            h = w
        else:
            owed = total(excess(draft(path[:depth]), target(path[:depth]), w))
            h = divide(owed, owed + 1 - w, ZERO)
        if chance.flip(h, Accept(number, depth)):
            return depth, w
    return top, start


def block_residual(draft_row: Row, target_row: Row, weight: Number) -> Row:
    """The correction at a node accepted with weight w: (w q - p)+ normalised."""
    return row_or_plain(excess(draft_row, target_row, weight), target_row)


def verify_path(chance: Chance, path: Prefix, number: int, draft: Model, target: Model) -> Outcome:
    """Verify one path, that of draft `number`, whose tokens have the law `draft`."""
    depth, weight = block_scan(chance, path, number, (), draft, target, target(()))
    accepted = path[:depth]
    if depth == len(path):
        return Outcome(accepted, chance.draw(target(accepted), TOKEN), number)
    owed = block_residual(draft(accepted), target(accepted), weight)
    return Outcome(accepted, chance.draw(owed, TOKEN), number if accepted else 0)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the one draft as a block."""
    path = whole_path(drafts, 0) if drafts.count else ()
    return verify_path(chance, path, 0, draft, target)


SCHEME = Scheme(
    name="block",
    kind="verifier",
    summary="scan the draft from its deepest token, accept the longest prefix that passes",
    paper="Sun et al. 2024, arXiv 2403.10444, algorithm 2",
    verify=verify,
    drafts=(0, 1),
)
