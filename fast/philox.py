"""Philox4x32-10: counter-based uniforms, so that a draw depends on its place and nothing else.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The
32-bit words are held in int64 tensors, so the bits are the same on every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ACCEPT", "DRAFT", "SELECT", "TOKEN", "philox4x32", "uniforms"]

ACCEPT, SELECT, TOKEN, DRAFT = range(4)
"""What a uniform is for: an acceptance test, a draft's label, the last token, drafting."""

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
Word = Tensor | int


def _multiply(constant: int, word: Word) -> tuple[Word, Word]:
    """High and low word of constant · word; partial products stay below 2^49."""
    low = constant * (word & 0xFFFF)
    high = constant * (word >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def philox4x32(
    counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]
) -> tuple[Word, Word, Word, Word]:
    """Four pseudo-random 32-bit words of a 128-bit counter and a 64-bit key (words in int64
    tensors or plain integers)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniforms(
    seed: Tensor, position: Tensor, purpose: int, draft: Tensor | int, depth: Tensor | int
) -> Tensor:
    """float64 in [0, 1) with 53 random bits, one for each place; arguments broadcast.

    Args:
        seed: int64, the request's key (all 64 bits are used).
        position: int64, the position of the block in the request.
        purpose: ACCEPT, SELECT, TOKEN or DRAFT.
        draft, depth: the place inside the block, below 2^28 and 2^32.
    """
    counter = (
        depth & _MASK,
        (draft & 0xFFFFFFF) | (purpose << 28),
        position & _MASK,
        (position >> 32) & _MASK,
    )
    words = philox4x32(counter, (seed & _MASK, (seed >> 32) & _MASK))
    bits = (words[0] >> 5) * 2**26 + (words[1] >> 6)  # 27 and 26 bits
    return torch.as_tensor(bits).to(torch.float64) * 2.0**-53
