"""SpecTr: walk down the drafts, deciding each depth by a one-token coupling of the alive drafts.

Source: Sun et al. (2310.15141, section 3). Lossless with any lossless coupling. `spectr:NAME` uses
the coupling NAME; `spectr` alone is `spectr:kseq`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from draftproof.fast.clip import draw
from draftproof.fast.couplings import (
    Coupling,
    canonical,
    kseq,
    recursive_rejection,
    target_match,
    transport,
    without_replacement,
)
from draftproof.fast.paths import draw_plain, first_true, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms

__all__ = ["COUPLINGS", "spectr", "verify"]


def spectr(coupling: Coupling, batch: Batch, uniforms: Uniforms, **options: Any) -> Result:
    """Run `coupling` on the next tokens of the alive drafts until none follows its token."""
    b, k, length = batch.tokens.shape
    lengths = batch.lengths
    p = batch.token_probabilities(batch.draft_rows)
    q = batch.token_probabilities(batch.target_rows)
    node = batch.roots
    accepted, path = torch.zeros_like(node), torch.zeros_like(node)
    alive = torch.ones(b, k, dtype=torch.bool, device=batch.device)
    token = torch.full_like(node, -1)
    for depth in range(length if k else 0):
        alive = alive & (lengths > depth)
        going = alive.any(1)
        tokens = batch.tokens[:, :, depth]
        at = (p[:, :, depth], q[:, :, depth])
        rows = rows_at(batch, torch.where(going, node, -1))
        decision = coupling(rows, tokens, *at, alive, uniforms.accept[:, :, depth], **options)
        kept = decision.kept
        found = going & (kept >= 0)
        stopped = going & ~found
        left = (decision.rows or rows).only(stopped)
        drawn = draw(left, uniforms.token, decision.owed, decision.overrides)
        token = torch.where(stopped, drawn, token)
        chosen = kept.clamp(min=0)[:, None]
        alive = alive & found[:, None] & (tokens == tokens.gather(1, chosen))
        accepted = accepted + found
        path = torch.where(found, first_true(alive), path)
        node = torch.where(found, batch.nodes[:, :, depth + 1].gather(1, chosen)[:, 0], node)
    whole = token < 0
    bonus = draw_plain(batch, torch.where(whole, node, -1), uniforms.token)
    return Result.of(batch, accepted, path, torch.where(whole, bonus, token))


COUPLINGS: dict[str, Coupling] = {
    "canonical": canonical,
    "kseq": kseq,
    "recursive_rejection": recursive_rejection,
    "target_match": target_match,
    "transport": transport,
    "without_replacement": without_replacement,
}
"""Coupling name -> coupling, for `spectr:NAME`."""

verify: Callable[..., Result] = partial(spectr, kseq)
