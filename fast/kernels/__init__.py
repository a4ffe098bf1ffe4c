"""Compiled passes over rows, behind the seam `draftproof.fast.clip`.

On a CUDA device they are Triton kernels (`launch`), on the CPU loops compiled by numba (`cpu`).
Their sums have the order of `draftproof.fast.sums`, and multiplications are not fused with
additions, so they return the same bits as the torch path, which does what they cannot and stands in
where Triton or numba is not installed. Set ``DRAFTPROOF_KERNELS=0`` to do without them. In Triton's
interpreter (``TRITON_INTERPRET=1`` before Python starts) the Triton kernels run on the CPU too.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    import torch
    from draftproof.fast.clip import Overrides, Owed, Rows

__all__ = ["Kernels", "OrderPasses", "choose", "order_passes"]


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


_ENABLED = os.environ.get("DRAFTPROOF_KERNELS", "1") != "0"
_TRITON = _ENABLED and _installed("triton")
_NUMBA = _ENABLED and _installed("numba")
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Kernels(Protocol):
    """The passes that a backend does in place of torch."""

    def owed_mass(
        self, rows: Rows, a: Tensor, b: Tensor | None, overrides: Overrides | None
    ) -> Tensor:
        """As `clip.owed_mass`."""

    def kept_mass(
        self, rows: Rows, scales: Tensor, a: Tensor | None, b: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Σ min(p, s T) and the part of it where s T < p, float64 [R, G] each."""

    def ratio_masses(self, rows: Rows, edges: Tensor) -> Tensor:
        """As `clip.ratio_masses`."""

    def draw(self, rows: Rows, uniform: Tensor, owed: Owed, overrides: Overrides | None) -> Tensor:
        """As `clip.draw`."""

    def settle_chain(self, rows: Rows, chain: Tensor) -> Tensor:
        """As `chain.settle_rows`, for the pairs of `rows`."""

    def gap_masses(self, rows: Rows, s: Tensor) -> tuple[Tensor, Tensor]:
        """As `carry.chain_gap`."""


class OrderPasses(Protocol):
    """The passes of `verifiers.multipath` in the order of its tokens."""

    def mass_before(self, p: Tensor, q: Tensor, tokens: Tensor, grain: int) -> Tensor:
        """int64 [r]: the draft mass before `tokens` [r] in rows p, q [r, V], in 1/grain."""

    def selected_row(
        self,
        p: Tensor,
        order: Tensor,
        place: tuple[Tensor, Tensor, Tensor],
        count: Tensor,
        grain: int,
    ) -> Tensor:
        """The row of the selected draft."""


def order_passes(device: torch.device) -> OrderPasses | None:
    """The compiled passes in an order on this device; None: torch."""
    if _NUMBA and device.type == "cpu":
        from draftproof.fast.kernels import order

        return order
    return None


def choose(rows: Rows) -> Kernels | None:
    """The backend for these rows; None: torch."""
    kind = rows.device.type
    if _TRITON and (kind == "cuda" or _INTERPRETED):
        from draftproof.fast.kernels import launch

        return launch
    if _NUMBA and kind == "cpu":
        from draftproof.fast.kernels import cpu

        return cpu if cpu.takes(rows) else None
    return None
