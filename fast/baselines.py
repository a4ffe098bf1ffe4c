"""What the benchmark sets beside the fast path: the same rules written in the straightforward way.

Each reads probabilities [B, K, L, V] and [B, K, L+1, V], makes whole-tensor temporaries, and draws
with torch's own generator, as an implementation that follows the papers line by line would.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["BASELINES", "transformers_sampler"]

Baseline = Callable[[Tensor, Tensor, Tensor], Tensor]
"""baseline(tokens [B, K, L], draft rows, target rows) -> next token [B]"""


def _draw(weights: Tensor, plain: Tensor) -> Tensor:
    empty = weights.sum(-1, keepdim=True) <= 0
    return torch.multinomial(torch.where(empty, plain, weights), 1)[:, 0]


def _along(tokens: Tensor, rows: Tensor) -> Tensor:
    """The entry of each token in its row: tokens [B, L], rows [B, L, V]."""
    return rows.gather(2, tokens[..., None])[..., 0]


def token_by_token(tokens: Tensor, draft: Tensor, target: Tensor) -> Tensor:
    """All residual rows at once, then the one at the first rejection."""
    tokens, p, q = tokens[:, 0], draft[:, 0], target[:, 0]
    length = tokens.shape[1]
    ratio = _along(tokens, q[:, :length]) / _along(tokens, p)
    accepted = (torch.rand_like(ratio) < ratio).to(torch.int64).cumprod(1).sum(1)
    residual = torch.cat([(q[:, :length] - p).clamp(min=0), q[:, length:]], 1)
    every = torch.arange(len(tokens), device=tokens.device)
    return _draw(residual[every, accepted], q[every, accepted])


def block(tokens: Tensor, draft: Tensor, target: Tensor) -> Tensor:
    """All sums at once, then the scan."""
    tokens, p, q = tokens[:, 0], draft[:, 0], target[:, 0]
    length = tokens.shape[1]
    ratio = _along(tokens, q[:, :length]) / _along(tokens, p)
    weights = [torch.ones_like(ratio[:, 0])]
    for i in range(length):
        weights.append((weights[-1] * ratio[:, i]).clamp(max=1))
    w = torch.stack(weights, 1)
    residual = torch.cat([(w[:, :length, None] * q[:, :length] - p).clamp(min=0), q[:, length:]], 1)
    owed = residual[:, 1:length].sum(-1)
    inner = torch.nan_to_num(owed / (owed + 1 - w[:, 1:length]))
    h = torch.cat([inner, w[:, length:]], 1)
    depth = torch.arange(1, length + 1, device=tokens.device)
    accepted = torch.where(torch.rand_like(h) < h, depth, 0).amax(1)
    every = torch.arange(len(tokens), device=tokens.device)
    return _draw(residual[every, accepted], q[every, accepted])


def greedy_block(tokens: Tensor, draft: Tensor, target: Tensor) -> Tensor:
    """One round without a carry: joint ratios, both gaps of all rows at once."""
    tokens, p, q = tokens[:, 0], draft[:, 0], target[:, 0]
    length = tokens.shape[1]
    ratio = (_along(tokens, q[:, :length]) / _along(tokens, p)).cumprod(1)
    r = torch.cat([torch.ones_like(ratio[:, :1]), ratio], 1)
    gap = r[:, :length, None] * q[:, :length] - p
    gained, lost = gap.clamp(min=0).sum(-1), (-gap).clamp(min=0).sum(-1)
    inner = torch.where(lost > 0, gained / lost, 1.0)[:, 1:].clamp(max=1)
    h = torch.cat([inner, r[:, length:].clamp(max=1)], 1)
    depth = torch.arange(1, length + 1, device=tokens.device)
    accepted = torch.where(torch.rand_like(h) < h, depth, 0).amax(1)
    residual = torch.cat([gap.clamp(min=0), q[:, length:]], 1)
    every = torch.arange(len(tokens), device=tokens.device)
    return _draw(residual[every, accepted], q[every, accepted])


def _walk(coupling: Callable[..., tuple[int, Tensor]]) -> Baseline:
    """SpecTr, block by block in Python, over a coupling of the alive drafts."""

    def verify(tokens: Tensor, draft: Tensor, target: Tensor) -> Tensor:
        ends = []
        for block_tokens, p, q in zip(tokens, draft, target, strict=True):
            alive = list(range(len(block_tokens)))
            weights = q[0, 0]
            for i in range(block_tokens.shape[1]):
                candidates = [int(block_tokens[k, i]) for k in alive]
                kept, weights = coupling(candidates, p[alive[0], i], q[alive[0], i])
                if kept < 0:
                    break
                alive = [k for k, x in zip(alive, candidates, strict=True) if x == candidates[kept]]
                weights = q[alive[0], i + 1]
            ends.append(_draw(weights[None], weights[None]))
        return torch.cat(ends)

    return verify


def _kseq(candidates: list[int], p: Tensor, q: Tensor) -> tuple[int, Tensor]:
    """The scale by bisection, reading both rows in each of 30 steps."""
    n = len(candidates)
    low, high = 1.0, float(n)
    for _ in range(30):
        rho = (low + high) / 2
        kept = float(torch.minimum(p, q / rho).sum())
        low, high = (low, rho) if 1 - (1 - kept) ** n <= rho * kept else (rho, high)
    covered = torch.minimum(p, q / high)
    kept = float(covered.sum())
    for k, x in enumerate(candidates):
        if float(torch.rand(())) < float(q[x] / (high * p[x])):
            return k, q
    cover = (1 - (1 - kept) ** n) / max(kept, 1e-30)
    return -1, (q - cover * covered).clamp(min=0)


def _recursive(candidates: list[int], p: Tensor, q: Tensor) -> tuple[int, Tensor]:
    owed = q
    for k, x in enumerate(candidates):
        if float(torch.rand(())) < float(owed[x] / p[x]):
            return k, q
        owed = (owed - p).clamp(min=0)
        owed = owed / owed.sum().clamp(min=1e-30)
    return -1, owed


def _match(candidates: list[int], p: Tensor, q: Tensor) -> tuple[int, Tensor]:
    y = int(torch.multinomial(q, 1))
    if y in candidates:
        return candidates.index(y), q
    one = torch.zeros_like(q)
    one[y] = 1
    return -1, one


BASELINES: dict[str, Baseline] = {
    "token_by_token": token_by_token,
    "block": block,
    "greedy_block": greedy_block,
    "spectr": _walk(_kseq),
    "spectr:recursive_rejection": _walk(_recursive),
    "spectr:target_match": _walk(_match),
    "tree_match": _walk(_match),
}
"""Scheme name -> its straightforward version."""


def transformers_sampler() -> Callable[[Tensor, Tensor, Tensor], None] | None:
    """transformers' `_speculative_sampling` called per block on logits, or None without it.

    call(tokens [B, L], draft logits [B, L, V], target logits [B, L+1, V])
    """
    try:
        from transformers.generation.utils import _speculative_sampling
    except ImportError:
        return None

    def call(tokens: Tensor, draft: Tensor, target: Tensor) -> None:
        for b in range(len(tokens)):
            _speculative_sampling(
                tokens[b : b + 1], draft[b : b + 1], tokens.shape[1], target[b : b + 1]
            )

    return call
