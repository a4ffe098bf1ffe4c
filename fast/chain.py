"""The row of a chain: a target row from which earlier decisions have taken something, by layers.

    T_0 = q,    T_{j+1} = max(a_j T_j - c_j p, d_j a_j T_j) · i_j,    i_j the inverse of its mass

The numbers (a, c, d, i) of the layers are a table [R, J, 4] in the dtype that rows are computed in.
A layer that does not act is (1, 0, 0, 1), which changes no bit. Before its mass is known a layer
has i = 1 if it acts and 0 if not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from draftproof.fast.sums import row_sums
from torch import Tensor

__all__ = ["chain_row", "chain_rows", "settle", "settle_nothing", "settle_rows"]


def chain_rows(p: Tensor, q: Tensor, chain: Tensor) -> Iterator[Tensor]:
    """T_0 .. T_J for draft and target rows [r, n] and the layers [r, J, 4]."""
    yield q
    for layer in chain.unbind(1):
        q = _owed(p, q, layer) * layer[:, 3:]
        yield q


def chain_row(p: Tensor, q: Tensor, chain: Tensor) -> Tensor:
    """T_J, [r, n]."""
    *_, last = chain_rows(p, q, chain)
    return last


def settle_rows(p: Tensor, q: Tensor, chain: Tensor) -> Tensor:
    """The layers [r, J, 4] of whole rows [r, V], with the inverses of their masses."""
    settled = []
    for unsettled in chain.unbind(1):
        layer = settle(unsettled, row_sums(_owed(p, q, unsettled)))
        q = _owed(p, q, layer) * layer[:, 3:]
        settled.append(layer)
    return torch.stack(settled, 1)


def settle(layer: Tensor, mass: Tensor) -> Tensor:
    """A layer [r, 4] with the inverse of its mass, float64 [r]; neutral where nothing is left.

    A mass below the reciprocal of the largest number is held there: a product stays finite, and the
    row is met with a probability of that size.
    """
    acts = (mass > 0) & (layer[:, 3] > 0)
    inverse = (1.0 / mass.clamp(min=torch.finfo(layer.dtype).tiny)).to(layer.dtype)
    whole = torch.cat([layer[:, :3], inverse[:, None]], 1)
    return torch.where(acts[:, None], whole, settle_nothing(layer))


def settle_nothing(layers: Tensor) -> Tensor:
    """As many layers [.., 4] that do not act."""
    neutral = torch.zeros_like(layers)
    neutral[..., 0] = neutral[..., 3] = 1
    return neutral


def _owed(p: Tensor, q: Tensor, layer: Tensor) -> Tensor:
    a, c, d = (layer[:, k, None] for k in range(3))
    scaled = q * a
    return torch.maximum(scaled - p * c, scaled * d)
