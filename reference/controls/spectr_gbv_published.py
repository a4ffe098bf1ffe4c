"""SpecTr-GBV as published: every sub-block of every draft tested once, the longest accepted wins.

With joints p(x), q(x) of a block prefix x, E(z) = (1-z)^K and r = min(1, p/q), a sub-block of a
draft is accepted with probability

    i < L:   [Σ_v q(xv) E(r(xv)) - q(x) E(r(x))] / [1 - E(p(x)) - Σ_v q(xv) (1 - E(r(xv)))]
    i = L:   q(x) (1 - E(r(x))) / (1 - E(p(x)))

Each draft starts after the longest accepted length so far, rejected sub-blocks are skipped when
they come again, the correction and the rows carried to the next round are ∝ q(xv) E(r(xv)). K = 1
is greedy block verification. For K ≥ 2 it is not lossless: the acceptance is the optimum for
drafts that are independent given the target, and real drafts are independent unconditionally.
Its value E[τ] = Σ_i Σ_{x^i} q(x^i) (1 - E(r(x^i))) stays a yardstick, the conditional-independence
value.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (2/3, 1/3), q = (1/3, 2/3): P(token 0 at
position 1) = 31/120 instead of 1/3. Where its residual is 0/0 (it is reached for p = q) this
control draws from the plain row. Source: SpecTr-GBV (2604.25925).
"""

from __future__ import annotations

from typing import Literal

from draftproof.reference.carry import emit
from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.clip import row_or_plain
from draftproof.reference.models import Model, Prefix, joint
from draftproof.reference.numbers import ONE, Number, divide, total
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path

__all__ = ["COUNTEREXAMPLE", "SCHEME", "published", "verify"]


def published(
    chance: Chance,
    drafts: Drafts,
    draft: Model,
    target: Model,
    *,
    skip: Literal["all", "inner", "none"],
    residual: Literal["paper", "code"],
    carry: bool,
) -> Outcome:
    """The published walk. `skip`: which rejected sub-blocks are not tested again (all, all but
    whole blocks, none). `residual`: ∝ q (1-r)^K as in the paper or ∝ q (1 - r^K) as in the code.
    """
    K, L = drafts.count, drafts.length

    def never(z: Number) -> Number:
        """E(z)."""
        return (1 - z) ** K

    def r(prefix: Prefix) -> Number:
        return min(ONE, divide(joint(draft, prefix), joint(target, prefix), ONE))

    def acceptance(prefix: Prefix) -> Number:
        p, q = joint(draft, prefix), joint(target, prefix)
        if len(prefix) == L:
            return divide(q * (1 - never(r(prefix))), 1 - never(p), ONE)
        children = [(*prefix, v) for v in range(target.vocab)]
        left = total(joint(target, x) * never(r(x)) for x in children)
        taken = total(joint(target, x) * (1 - never(r(x))) for x in children)
        return divide(left - q * never(r(prefix)), 1 - never(p) - taken, ONE)

    def source(prefix: Prefix) -> Row:
        plain = target(prefix)
        if K == 0 or len(prefix) >= L:
            return plain
        ratios = [r((*prefix, v)) for v in range(target.vocab)]
        owed = [never(z) if residual == "paper" else 1 - z**K for z in ratios]
        return row_or_plain(tuple(q * part for q, part in zip(plain, owed, strict=True)), plain)

    chain = Model(target.vocab, source, max(L, target.carried))
    accepted: Prefix = ()
    path = 0
    rejected: set[Prefix] = set()
    for k in range(K):
        if len(accepted) == L:
            break
        tokens = whole_path(drafts, k)
        for depth in range(L, len(accepted), -1):
            prefix = tokens[:depth]
            if prefix in rejected:
                continue
            if chance.flip(acceptance(prefix), Accept(k, depth)):
                accepted, path = prefix, k
                break
            if skip == "all" or (skip == "inner" and depth < L):
                rejected.add(prefix)
    outcome = emit(accepted, chance.draw(chain(accepted), TOKEN), path, chain)
    return outcome if carry else outcome._replace(carry=None)


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The rule of the paper, its residual rows carried to the next round."""
    return published(chance, drafts, draft, target, skip="all", residual="paper", carry=True)


COUNTEREXAMPLE = Counterexample(
    drafts=2,
    length=1,
    draft_row=("2/3", "1/3"),
    target_row=("1/3", "2/3"),
    position=0,
    token=0,
    emitted="31/120",
)

SCHEME = Scheme(
    name="spectr_gbv_published",
    kind="control",
    summary="SpecTr-GBV with the acceptance rule of the paper",
    paper="SpecTr-GBV 2026, arXiv 2604.25925",
    verify=verify,
    lossless=False,
    stateful=True,
    counterexample=str(COUNTEREXAMPLE),
)
