"""HSD (hierarchical speculative decoding) as released: the whole block tested with its raw ratio.

As printed, HSD tests every prefix with the *capped* joint ratio: with r_i = q(x^i)/p(x^i),

    r*_i = r_i / max(1, r_1, .., r_i),    h_i = D+_i / D-_i for i < L,    h_L = r*_L,
    D+_i = Σ_v (r*_i q(v|x^i) - p(v|x^i))+,   D-_i = Σ_v (p(v|x^i) - r*_i q(v|x^i))+,

the correction being ∝ (r* q - p)+. That r* is the weight w of block verification, and the law is
exactly that of block verification. The released code tests the whole block with min(1, r_L).

Not lossless as released. Smallest counterexample: K = 1, L = 2, p = (2/3, 1/3), q = (1/3, 2/3):
P(token 0 at position 2) = 4/9 instead of 1/3.
Source: HSD (2601.05724).
"""

from __future__ import annotations

from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, Number, divide, total
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path

__all__ = ["COUNTEREXAMPLE", "SCHEME", "verify"]


def verify(
    chance: Chance, drafts: Drafts, draft: Model, target: Model, *, printed: bool = False
) -> Outcome:
    """Verify the one draft; `printed` gives the rule of the paper, which is lossless."""
    path = whole_path(drafts, 0) if drafts.count else ()
    ratios: list[Number] = [ONE]  # r_0 .. r_L
    for depth, token in enumerate(path):
        p, q = draft(path[:depth])[token], target(path[:depth])[token]
        ratios.append(ratios[-1] * divide(q, p, ZERO))
    capped = [r / max(ratios[: depth + 1]) for depth, r in enumerate(ratios)]
    accepted = 0
    for depth in range(len(path), 0, -1):
        if depth == len(path):
            h = capped[depth] if printed else min(ONE, ratios[depth])
        else:
            p, q, r = draft(path[:depth]), target(path[:depth]), capped[depth]
            over = total(excess(p, q, r))
            under = total(max(a - r * b, ZERO) for a, b in zip(p, q, strict=True))
            h = divide(over, under, ZERO)
        if chance.flip(h, Accept(0, depth)):
            accepted = depth
            break
    node = path[:accepted]
    if accepted == len(path):
        return Outcome(node, chance.draw(target(node), TOKEN))
    owed = row_or_plain(excess(draft(node), target(node), capped[accepted]), target(node))
    return Outcome(node, chance.draw(owed, TOKEN))


COUNTEREXAMPLE = Counterexample(
    drafts=1,
    length=2,
    draft_row=("2/3", "1/3"),
    target_row=("1/3", "2/3"),
    position=1,
    token=0,
    emitted="4/9",
)

SCHEME = Scheme(
    name="hsd_released",
    kind="control",
    summary="block verification with an uncapped ratio in the test of the whole block",
    paper="code of HSD 2026, arXiv 2601.05724",
    verify=verify,
    lossless=False,
    drafts=(0, 1),
    counterexample=str(COUNTEREXAMPLE),
    options={"printed": False},
)
