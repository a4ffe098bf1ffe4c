"""SpecTr-GBV as released: the published rule with other residual weights, and nothing carried.

The residual is ∝ q(xv) (1 - r(xv)^K), repeated whole blocks are tested again, and the next round
verifies against the unmodified target.

Not lossless. Smallest counterexample: K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): P(token 1 at
position 1) = 3/4 instead of 1/2. Source: the code released with SpecTr-GBV (2604.25925).
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.controls.spectr_gbv_published import published
from draftproof.reference.models import Model
from draftproof.reference.scheme import Counterexample, Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["COUNTEREXAMPLE", "SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The rule of the released code."""
    return published(chance, drafts, draft, target, skip="inner", residual="code", carry=False)


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
    name="spectr_gbv_released",
    kind="control",
    summary="SpecTr-GBV with the residual of the released code, without a carry",
    paper="code of SpecTr-GBV 2026, arXiv 2604.25925",
    verify=verify,
    lossless=False,
    counterexample=str(COUNTEREXAMPLE),
)
