"""Triton kernels for the passes over rows, behind the seam `draftproof.fast.clip`.

Their sums have the order of `draftproof.fast.sums`, and multiplications are not fused with
additions, so they return the same bits as the torch path. Set ``DRAFTPROOF_KERNELS=0`` to do
without them. They are imported when a CUDA device first needs them; in Triton's interpreter
(``TRITON_INTERPRET=1`` before Python starts) they run on the CPU too.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from draftproof.fast.clip import Overrides, Owed, Rows

__all__ = ["available", "kept_mass", "owed_mass", "ratio_masses", "segment_masses"]

_ENABLED = (
    os.environ.get("DRAFTPROOF_KERNELS", "1") != "0"
    and importlib.util.find_spec("triton") is not None
)
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def available(device: torch.device) -> bool:
    """Whether the kernels run on this device."""
    return _ENABLED and (device.type == "cuda" or _INTERPRETED)


def owed_mass(rows: Rows, a: Tensor, b: Tensor | None, overrides: Overrides | None) -> Tensor:
    """As `clip.owed_mass`."""
    from draftproof.fast.kernels import launch

    return launch.owed_mass(rows, a, b, overrides)


def kept_mass(
    rows: Rows, scales: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ min(p, s T) and the part of it where s T < p, float64 [R, G] each."""
    from draftproof.fast.kernels import launch

    return launch.kept_mass(rows, scales, a, b)


def ratio_masses(rows: Rows, edges: Tensor) -> Tensor:
    """As `clip.ratio_masses`."""
    from draftproof.fast.kernels import launch

    return launch.ratio_masses(rows, edges)


def segment_masses(rows: Rows, owed: Owed, overrides: Overrides | None) -> tuple[Tensor, Tensor]:
    """float64 [R, segments]: the weights of `clip.draw` and the plain row, summed by segment."""
    from draftproof.fast.kernels import launch

    return launch.segment_masses(rows, owed, overrides)
