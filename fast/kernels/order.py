"""The passes of greedy multi-path over rows in its order, compiled for the CPU.

They have the bits of the torch path: masses are whole multiples of 1/grain, and the other
operations are the same in the same order, without fused multiply-adds.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import Tensor

__all__ = ["mass_before", "selected_row"]

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def mass_before(p: Tensor, q: Tensor, tokens: Tensor, grain: int) -> Tensor:
    """int64 [r]: the draft mass before `tokens` [r] in rows p, q [r, V], in 1/grain."""
    out = torch.zeros(len(p), dtype=torch.int64)
    _mass_before(p.numpy(), q.numpy(), tokens.numpy(), float(grain), out.numpy())
    return out


def selected_row(
    p: Tensor, order: Tensor, place: tuple[Tensor, Tensor, Tensor], count: Tensor, grain: int
) -> Tensor:
    """The row p_sel of rows p [r, V] in `order` int64 [r, V].

    `place` is A/(A+J), J/(A+J) and Σ_{j<n} (A/(A+J))^j of each row, float64 [r]; `count` is n.
    """
    out = torch.empty_like(p)
    numbers = [values.contiguous().numpy() for values in (*place, count)]
    _selected(p.numpy(), order.numpy(), *numbers, float(grain), out.numpy())
    return out


@_compiled
def _mass_before(p, q, tokens, grain, out):
    for r in range(len(tokens)):
        token, total = tokens[r], np.int64(0)
        own = np.float64(p[r, token])
        limit = abs(np.float64(q[r, token]) / own) if own > 0 else np.inf
        for v in range(p.shape[1]):
            mass = np.float64(p[r, v])
            if mass > 0:
                ratio = abs(np.float64(q[r, v]) / mass)
                if ratio < limit or (ratio == limit and v < token):
                    total += np.int64(mass * grain)
        out[r] = total


@_compiled
def _selected(p, order, before, inside, whole, count, grain, out):
    for r in range(p.shape[0]):
        total = np.int64(0)
        for v in order[r]:
            mass = np.float64(p[r, v])
            low = before[r] + inside[r] * (np.float64(total) / grain)
            high = low + inside[r] * mass
            powers, power = 1.0, 1.0
            for _ in range(1, count[r]):
                power *= high
                powers = powers * low + power
            out[r, v] = mass * (powers / whole[r])
            total += np.int64(mass * grain)
