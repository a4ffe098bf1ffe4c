"""FlashInfer: chain speculative sampling, CUDA alone.

Follows the signature of FlashInfer 0.7.4, `flashinfer.sampling.chain_speculative_sampling`.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from typing import Any

import numpy as np
from draftproof.conformance.adapters.unpacked import choose
from draftproof.conformance.subject import Batch, Result, Unavailable

__all__ = ["create"]


class _Chain:
    """`chain_speculative_sampling(draft_probs, draft_token_ids, target_probs, ..)`."""

    def __init__(self) -> None:
        if importlib.util.find_spec("flashinfer") is None:
            raise Unavailable("flashinfer is not installed")
        import torch

        if not torch.cuda.is_available():
            raise Unavailable("FlashInfer is CUDA alone, and there is no GPU")
        from flashinfer.sampling import (  # type: ignore[import-not-found]
            chain_speculative_sampling,
        )

        self._sample = chain_speculative_sampling
        self.declaration = {
            "name": "flashinfer:chain",
            "version": version("flashinfer-python"),
            "schemes": ["token_by_token"],
            "drafts": [1, 1],
            "length": [1, None],
            "dtypes": ["float32"],
            "note": "flashinfer.sampling.chain_speculative_sampling of the installed package",
        }

    def verify(self, batch: Batch) -> Result:
        """The emitted count is read from the tokens: the engine adds to its counters."""
        import torch

        size = batch.size
        generator = torch.Generator("cuda").manual_seed(batch.seed)

        def to(values: Any, dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device="cuda")

        tokens, _, _ = self._sample(
            to(batch.draft_rows[:, 0], torch.float32),
            to(batch.drafts[:, 0], torch.int32),
            to(batch.target_rows[:, 0], torch.float32),
            generator=generator,
        )
        emitted = tokens.cpu().numpy().astype(np.int64)
        accepted = (emitted >= 0).sum(axis=1) - 1
        return Result(accepted, np.zeros(size, np.int64), emitted[np.arange(size), accepted])


def create(argument: str = "") -> Any:
    """The subject `flashinfer:chain` (or `flashinfer`).

    Raises:
        ValueError: another name.
        Unavailable: FlashInfer or a GPU is missing.
    """
    return choose("flashinfer", {"chain": _Chain}, argument)
