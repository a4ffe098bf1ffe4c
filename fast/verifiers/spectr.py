"""SpecTr: walk down the drafts, deciding each depth by a one-token coupling of the alive drafts.

Source: Sun et al. (2310.15141, section 3). Lossless with any lossless coupling. `spectr:NAME` uses
the coupling NAME; `spectr` alone is `spectr:kseq`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from draftproof.fast.clip import Owed, Rows, cover_factor, draw, smallest_scale
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.paths import divide, rows_at
from torch import Tensor

__all__ = ["COUPLINGS", "Decision", "kseq", "spectr", "verify"]


@dataclass(frozen=True)
class Decision:
    """What a coupling decides at one node of each block."""

    kept: Tensor
    """int64 [B]: the candidate whose token is the output, -1 if it is drawn from the residual."""
    residual: Owed
    """The weights that the token is drawn from when no candidate is kept."""


Coupling = Callable[[Rows, Tensor, Tensor, Tensor, Tensor, Tensor], Decision]
"""coupling(rows, tokens [B, K], p [B, K], q [B, K], alive [B, K], uniforms [B, K])"""


def spectr(coupling: Coupling, batch: Batch, uniforms: Uniforms) -> Result:
    """Run `coupling` on the next tokens of the alive drafts until none follows its token."""
    b, k, length = batch.tokens.shape
    lengths = batch.lengths
    p = batch.token_probabilities(batch.draft_rows)
    q = batch.token_probabilities(batch.target_rows)
    node = batch.roots
    accepted, path = torch.zeros_like(node), torch.zeros_like(node)
    alive = torch.ones(b, k, dtype=torch.bool, device=batch.device)
    residual = Owed.plain(uniforms.token)
    rejected = torch.zeros_like(node, dtype=torch.bool)
    for depth in range(length if k else 0):
        alive = alive & (lengths > depth)
        going = alive.any(1)
        tokens = batch.tokens[:, :, depth]
        rows = rows_at(batch, node, ~going)
        decision = coupling(
            rows, tokens, p[:, :, depth], q[:, :, depth], alive, uniforms.accept[:, :, depth]
        )
        found = going & (decision.kept >= 0)
        stopped = going & ~found
        rejected = rejected | stopped
        residual = decision.residual.where(stopped, residual)
        kept = decision.kept.clamp(min=0)[:, None]
        alive = alive & found[:, None] & (tokens == tokens.gather(1, kept))
        accepted = accepted + found
        path = torch.where(found, alive.to(torch.int8).argmax(1), path)
        node = torch.where(found, batch.nodes[:, :, depth + 1].gather(1, kept)[:, 0], node)
    token = draw(rows_at(batch, node, ~rejected), uniforms.token, residual)
    return Result.of(batch, accepted, path, token)


def kseq(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    """Keep candidate k with probability min(1, q/(ρ p)); first kept wins (SpecTr, algorithm 3)."""
    n = alive.sum(1)
    scale, mass = smallest_scale(rows, n)
    kept = alive & (uniforms < divide(q, scale[:, None] * p))
    first = torch.where(kept.any(1), kept.to(torch.int8).argmax(1), -1)
    cover = cover_factor(mass, n)
    one = torch.ones_like(scale)
    return Decision(first, Owed(one, torch.zeros_like(one), cover, 1 - cover / scale))


COUPLINGS: dict[str, Coupling] = {"kseq": kseq}

verify = partial(spectr, kseq)
