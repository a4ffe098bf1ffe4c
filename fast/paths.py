"""Walking along drafts: ratios of drafted tokens, nodes at a depth, rows at a node."""

from __future__ import annotations

import torch
from draftproof.fast.clip import Owed, Rows, draw
from draftproof.fast.tree import Batch
from torch import Tensor

__all__ = ["divide", "draw_plain", "first_true", "node_at", "only_draft", "row_entry", "rows_at"]


def divide(numerator: Tensor, denominator: Tensor, otherwise: float = 0.0) -> Tensor:
    """numerator / denominator, and `otherwise` where the denominator is 0."""
    safe = torch.where(denominator == 0, 1.0, denominator)
    return torch.where(denominator == 0, otherwise, numerator / safe)


def only_draft(batch: Batch, scheme: str) -> tuple[Tensor, Tensor, Tensor]:
    """The one draft of each block: p and q of its tokens, float64 [B, L], and its length [B].

    A block without a draft has one of length 0.

    Raises:
        ValueError: more than one draft.
    """
    if batch.drafts > 1:
        raise ValueError(f"{scheme} verifies one draft, but tokens holds K = {batch.drafts}")
    if batch.drafts == 0:
        none = torch.zeros(batch.blocks, batch.length, dtype=torch.float64, device=batch.device)
        return none, none, torch.zeros(batch.blocks, dtype=torch.int64, device=batch.device)
    p = batch.token_probabilities(batch.draft_rows)[:, 0]
    q = batch.token_probabilities(batch.target_rows)[:, 0]
    return p, q, batch.lengths[:, 0]


def node_at(batch: Batch, path: Tensor, depth: Tensor) -> Tensor:
    """int64 [B]: the node after `depth` [B] tokens of draft `path` [B]."""
    own = batch.nodes.gather(1, path[:, None, None].expand(-1, 1, batch.length + 1))[:, 0]
    return own.gather(1, depth[:, None])[:, 0]


def rows_at(batch: Batch, node: Tensor, leaf: Tensor | None = None) -> Rows:
    """The rows after `node` [R] (-1: not needed); where `leaf` [R] there is no draft row."""
    draft = node if leaf is None else torch.where(leaf, -1, node)
    return Rows(batch.draft_rows, batch.target_rows, draft, node)


def row_entry(rows: Tensor, node: Tensor, token: Tensor) -> Tensor:
    """float64: entries of `rows` [N, V] at (node, token), which broadcast; 0 where either is -1."""
    entry = rows[node.clamp(min=0), token.clamp(min=0)].to(torch.float64)
    return torch.where((node >= 0) & (token >= 0), entry, 0.0)


def draw_plain(batch: Batch, node: Tensor, uniform: Tensor) -> Tensor:
    """int64 [R]: a token from the target row after `node` [R] (-1: not needed)."""
    rows = Rows(batch.draft_rows, batch.target_rows, torch.full_like(node, -1), node)
    return draw(rows, uniform, Owed(torch.ones_like(uniform), torch.zeros_like(uniform)))


def first_true(mask: Tensor) -> Tensor:
    """int64: the first true entry along the last dimension; 0 where there is none."""
    return mask.to(torch.int8).argmax(-1)
