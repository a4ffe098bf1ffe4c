"""K-SEQ: test the drafts in order against the target clipped by a scale; the first kept wins.

Source: SpecTr (2310.15141, algorithm 3). Acceptance is between (1-(1-1/K)^K) α* and the optimum α*.
"""

from __future__ import annotations

from functools import partial

from draftproof.reference.chance import TOKEN, Chance
from draftproof.reference.clip import (
    DEFAULT_GRID,
    check_scale,
    residual,
    row_or_plain,
    smallest_scale,
)
from draftproof.reference.couplings.candidates import Candidates, Choice, one_token_block
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model
from draftproof.reference.numbers import Number
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "kseq", "verify"]


def kseq(
    chance: Chance,
    candidates: Candidates,
    draft_row: Row,
    target_row: Row,
    *,
    scale: Number | None = None,
    grid: int = DEFAULT_GRID,
) -> Choice:
    """Keep candidate k with probability min(1, q/(ρ p)); if none is kept draw the clip's residual.

    `scale` is ρ; by default the smallest valid multiple of 1/`grid`.

    Raises:
        ValueError: a scale that is not valid for this number of candidates.
    """
    candidates.require_one_row("kseq")
    n = len(candidates)
    if scale is None:
        scale = smallest_scale(draft_row, target_row, n, grid)
    else:
        check_scale(draft_row, target_row, scale, n)
    for k in range(n):
        token = candidates[k]
        if chance.flip(acceptance(draft_row, target_row, token, scale), candidates.test(k)):
            return Choice(token, True)
        candidates.rejected(chance, k + 1)
    owed = residual(draft_row, target_row, scale, n)
    return Choice(chance.draw(row_or_plain(owed, target_row), TOKEN), False)


def verify(
    chance: Chance,
    drafts: Drafts,
    draft: Model,
    target: Model,
    *,
    scale: Number | None = None,
    grid: int = DEFAULT_GRID,
) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(partial(kseq, scale=scale, grid=grid), chance, drafts, draft, target)


SCHEME = Scheme(
    name="kseq",
    kind="coupling",
    summary="keep draft k with probability min(1, q/(ρp)), first kept wins",
    paper="Sun et al. 2023 (SpecTr), arXiv 2310.15141, algorithm 3",
    verify=verify,
    options={"scale": None, "grid": DEFAULT_GRID},
)
