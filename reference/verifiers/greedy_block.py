"""Greedy block verification: the block rule with unclipped joint ratios, and a carry.

Source: Sun et al. (2403.10444, appendix). P(τ ≥ i, X^i = x) = min(p(x), q(x)), so
E[τ] = Σ_i Σ_{x^i} min(p(x^i), q(x^i)), the most that any coupling of the two blocks reaches. The
price is a modified target for the L - τ - 1 positions that follow; dropping it is a bias.
"""

from __future__ import annotations

from draftproof.reference.carry import emit, owed_chain
from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path

__all__ = ["SCHEME", "greedy_scan", "verify", "verify_path"]


def greedy_scan(
    chance: Chance,
    path: Prefix,
    number: int,
    node: Prefix,
    draft: Model,
    chain: Model,
    scale: Number = ONE,
) -> int:
    """Test draft `number` below `node` against the target chain, from its deepest depth up.

    With the joint ratio s_i = Π T/p from `node` to depth i, divided by the scale ρ, and
    M_i = Σ_v min(p(v|x^i), s_i T(v|x^i)):

        h_L = min(1, s_L),    h_i = (min(1, s_i) - M_i) / (1 - M_i),   1 when 1 - M_i = 0.

    With D+ = s - M and D- = 1 - M this h_i is the min(1, D+/D-) of the paper. Returns the deepest
    accepted depth, or the depth of `node` if none is accepted.
    """
    length, top = len(path), len(node)
    ratios: list[Number] = [ONE / scale]  # s at depths top .. length
    for depth in range(top, length):
        token = path[depth]
        p, t = draft(path[:depth])[token], chain(path[:depth])[token]
        ratios.append(ratios[-1] * divide(t, p, ZERO))
    for depth in range(length, top, -1):
        s = ratios[depth - top]
        if depth == length:
            h = min(ONE, s)
        else:
            rows = zip(draft(path[:depth]), chain(path[:depth]), strict=True)
            kept = total(min(p, s * t) for p, t in rows)
            h = divide(min(ONE, s) - kept, 1 - kept, ONE)
        if chance.flip(h, Accept(number, depth)):
            return depth
    return top


def verify_path(chance: Chance, path: Prefix, number: int, draft: Model, target: Model) -> Outcome:
    """Verify one path, that of draft `number`, whose tokens have the law `draft`."""
    depth = greedy_scan(chance, path, number, (), draft, target)
    chain = owed_chain(draft, target, (), len(path))
    accepted = path[:depth]
    return emit(accepted, chance.draw(chain(accepted), TOKEN), number if accepted else 0, chain)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Verify the one draft as a block; `target` may carry layers of earlier rounds."""
    path = whole_path(drafts, 0) if drafts.count else ()
    return verify_path(chance, path, 0, draft, target)


SCHEME = Scheme(
    name="greedy_block",
    kind="verifier",
    summary="block verification with unclipped joint ratios; modifies the target that follows",
    paper="Sun et al. 2024, arXiv 2403.10444, appendix",
    verify=verify,
    stateful=True,
    drafts=(0, 1),
)
