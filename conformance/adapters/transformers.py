"""Hugging Face transformers' `_speculative_sampling` as a subject (read at version 5.24).

The function takes logits and draws for itself from torch's global generator. It is asked two ways.
Without uniforms it runs untouched, after torch.manual_seed. With uniforms, the name `torch` in its
module stands, for the length of the call, for a view of torch whose `rand_like` and `multinomial`
answer from the given uniforms: everything else in it is its own. Nothing is patched afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Result, Unavailable

__all__ = ["create"]

_PARAMETERS = ["candidate_input_ids", "candidate_logits", "candidate_length", "new_logits"]


class _View:
    """torch, but for two functions."""

    def __init__(self, torch: Any, accept: Any, token: float) -> None:
        self._torch = torch
        self._accept = accept
        self._token = token

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def rand_like(self, like: Any) -> Any:
        """The accept uniforms, in the shape that is asked for."""
        return self._torch.as_tensor(self._accept, dtype=like.dtype).reshape(like.shape)

    def multinomial(self, weights: Any, num_samples: int) -> Any:
        """The inverse distribution function at the token uniform."""
        if num_samples != 1:
            raise ValueError(f"multinomial is asked for {num_samples} samples, not 1")
        reached = weights.double().cumsum(-1)
        threshold = self._token * reached[..., -1:]
        found = (reached <= threshold).sum(-1, keepdim=True)
        # Rounding may put the threshold on the total: never beyond the last token of weight > 0.
        last = weights.shape[-1] - 1 - (weights > 0).long().flip(-1).argmax(-1, keepdim=True)
        return self._torch.minimum(found, last)


class TransformersSubject:
    """`transformers.generation.utils._speculative_sampling`, one request at a time."""

    def __init__(self, torch: Any, module: Any, version: str) -> None:
        self._torch, self._module = torch, module
        self.declaration: dict[str, Any] = {
            "name": "transformers",
            "version": version,
            "schemes": ["token_by_token"],
            "drafts": [1, 1],
            "length": [1, None],
            "uniforms": True,
            "generator": True,
            "request_seeds": False,
            "rows": "logits",
            "dtypes": ["float64", "float32"],
            "known": ["at u = 0"],
            "note": "tests u <= ratio: a draft of target probability 0 passes when u is exactly 0, "
            "which float32 uniforms are once in 2^24",
        }

    @contextmanager
    def _given(self, accept: Any, token: float) -> Iterator[None]:
        original = self._module.torch
        self._module.torch = _View(original, accept, token)
        try:
            yield
        finally:
            self._module.torch = original

    def verify(self, batch: Batch) -> Result:
        """Verify each block by a call of its own."""
        torch = self._torch
        dtype = getattr(torch, batch.dtype)
        size, _, length, _ = batch.shape
        tokens = torch.as_tensor(batch.drafts)
        draft = torch.as_tensor(batch.draft_rows).to(dtype)
        target = torch.as_tensor(batch.target_rows).to(dtype)
        accepted = np.zeros(size, dtype=np.int64)
        following = np.zeros(size, dtype=np.int64)
        torch.manual_seed(batch.seed)
        for b in range(size):
            arguments = (tokens[b], draft[b], length, target[b])
            if batch.accept_uniforms is not None:
                assert batch.token_uniform is not None
                with self._given(batch.accept_uniforms[b], float(batch.token_uniform[b])):
                    emitted, matches = self._module._speculative_sampling(*arguments)
            else:
                emitted, matches = self._module._speculative_sampling(*arguments)
            accepted[b] = int(matches)
            following[b] = int(emitted[0, -1])
        return Result(accepted, np.zeros(size, dtype=np.int64), following)


def create(argument: str) -> TransformersSubject:
    """`transformers`.

    Raises:
        Unavailable: it is not installed, or its function takes other arguments than those known.
    """
    try:
        import torch
        import transformers
        from transformers.generation import utils
    except ImportError as error:
        raise Unavailable(f"{error}: pip install 'draftproof[transformers]'") from None
    if not hasattr(utils, "_speculative_sampling"):
        raise Unavailable(f"transformers {transformers.__version__} has no _speculative_sampling")
    parameters = inspect.signature(utils._speculative_sampling).parameters
    first = list(parameters)[: len(_PARAMETERS)]
    required = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty]
    if first != _PARAMETERS or required != _PARAMETERS:
        raise Unavailable(
            f"_speculative_sampling of transformers {transformers.__version__} takes "
            f"{', '.join(parameters)}: this adapter knows {', '.join(_PARAMETERS)}"
        )
    return TransformersSubject(torch, utils, str(transformers.__version__))
