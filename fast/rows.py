"""Rows from logits: the one function that turns a model's logits into the rows of both models.

The drafter draws from the rows that this function returns and the verifier reads the same ones;
most real faults come from two different row pipelines.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["rows_from_logits"]


def rows_from_logits(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Tensor:
    """Probabilities [.., V] from logits [.., V], in float64 for float64 logits, else in float32.

    In this order: divide by the temperature, keep the `top_k` largest, keep the fewest largest
    whose mass reaches `top_p`, keep those of at least `min_p` times the largest probability;
    softmax of what is left. A token that ties with the last one kept is kept too, so that no filter
    depends on the order of the vocabulary.

    Args:
        logits: no NaN; -inf is a token of probability 0; each row has a finite maximum.
        temperature: at least 0; 0 puts all mass on the largest logit, the first if several tie.
        top_k: at least 1, or None (or 0) for all.
        top_p: in (0, 1]; 1 keeps all.
        min_p: in [0, 1]; 0 keeps all.

    Raises:
        ValueError: a parameter out of its range.
    """
    _check(temperature, top_k, top_p, min_p)
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    scores = logits.to(wide)
    if temperature == 0:
        best = scores.argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter_(-1, best, 1.0)
    if temperature != 1:
        # Relative to the maximum, so that a small temperature cannot make inf - inf.
        scores = (scores - scores.amax(-1, keepdim=True)) / temperature
    vocab = scores.shape[-1]
    if top_k and top_k < vocab:
        least = scores.topk(top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p < 1:
        probabilities = scores.softmax(-1)
        ranked = probabilities.sort(dim=-1, descending=True).values
        before = ranked.to(torch.float64).cumsum(-1) - ranked
        count = (before < top_p).sum(-1, keepdim=True).clamp(min=1)
        least = ranked.gather(-1, count - 1)
        scores = scores.masked_fill(probabilities < least, -torch.inf)
    if min_p > 0:
        scores = scores.masked_fill(
            scores < scores.amax(-1, keepdim=True) + math.log(min_p), -torch.inf
        )
    return scores.softmax(-1)


def _check(temperature: float, top_k: int | None, top_p: float, min_p: float) -> None:
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature is {temperature}, not a finite number >= 0")
    if top_k is not None and top_k < 0:
        raise ValueError(f"top_k is {top_k}, not an integer >= 1 (or None for all)")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}, not in (0, 1]")
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p is {min_p}, not in [0, 1]")
