"""Token by token: standard speculative decoding, the accepted length is the first rejection.

Source: Leviathan et al. (2211.17192, algorithm 1); Chen et al. (2302.01318, algorithm 2).
"""

from __future__ import annotations

import torch
from draftproof.fast.clip import Owed, draw
from draftproof.fast.paths import divide, node_at, only_draft, rows_at
from draftproof.fast.tree import Batch, Result, Uniforms

__all__ = ["verify"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the one draft of each block by a maximal coupling at each depth in turn."""
    p, q, length = only_draft(batch, "token_by_token")
    first = torch.zeros_like(length)
    if batch.drafts:
        kept = uniforms.accept[:, 0] < divide(q, p)  # padding has p = 0: never kept
        accepted = kept.to(torch.int64).cumprod(1).sum(1)
    else:
        accepted = first
    whole = accepted == length
    rows = rows_at(batch, node_at(batch, first, accepted), whole)
    one = torch.ones_like(uniforms.token)
    token = draw(
        rows, uniforms.token, Owed(one, one)
    )  # (q - p)+, and q where there is no draft row
    return Result.of(batch, accepted, first, token)
