"""This project's batched implementation in torch as a subject."""

from __future__ import annotations

from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Result, Unavailable
from draftproof.reference.catalogue import SCHEMES

__all__ = ["create"]


class FastSubject:
    """`draftproof.fast.verify` on a device."""

    def __init__(self, device: str) -> None:
        import torch
        from draftproof import fast

        self._torch, self._fast, self._device = torch, fast, device
        self.declaration: dict[str, Any] = {
            "name": "fast" if device == "cpu" else f"fast:{device}",
            "version": f"torch {torch.__version__}",
            "schemes": [name for name in fast.VERIFIERS if name in SCHEMES],
            "uniforms": True,
            "generator": True,
            "request_seeds": True,
            "ragged": True,
            "dtypes": ["float64", "float32", "bfloat16", "float16"],
        }

    def verify(self, batch: Batch) -> Result:
        """Verify the batch; without uniforms they come from a counter-based stream per request."""
        torch = self._torch
        dtype = getattr(torch, batch.dtype)

        def rows(array: Any) -> Any:
            return torch.as_tensor(array, device=self._device).to(dtype)

        size, count, length, vocab = batch.shape
        target = batch.target_rows
        if count == 0:
            target = np.broadcast_to(
                batch.root_rows[:, None, None], (size, 1, length + 1, vocab)
            ).copy()
        tokens = torch.as_tensor(batch.drafts, device=self._device)
        given = self._fast.Batch.from_paths(tokens, rows(batch.draft_rows), rows(target))
        result = self._fast.verify(
            batch.scheme, given, self._uniforms(batch, count, length), carry=batch.carry
        )
        return Result(
            result.accepted_length.cpu().numpy(),
            result.path.cpu().numpy(),
            result.next_token.cpu().numpy(),
            result.carry,
        )

    def _uniforms(self, batch: Batch, count: int, length: int) -> Any:
        torch = self._torch

        def tensor(array: Any) -> Any:
            return torch.as_tensor(array, device=self._device)

        if batch.accept_uniforms is not None:
            return self._fast.Uniforms(
                tensor(batch.accept_uniforms),
                tensor(batch.select_uniforms),
                tensor(batch.token_uniform),
            )
        assert batch.seeds is not None
        assert batch.position is not None
        return self._fast.Uniforms.from_seeds(
            tensor(batch.seeds), tensor(batch.position), count, length
        )


def create(argument: str) -> FastSubject:
    """`fast`, on the CPU, or `fast:DEVICE`.

    Raises:
        Unavailable: torch is not installed, or the device is missing.
    """
    try:
        import torch
    except ImportError:
        raise Unavailable("torch is not installed: pip install 'draftproof[fast]'") from None
    device = argument or "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Unavailable(f"no device {device!r} on this machine")
    return FastSubject(device)
