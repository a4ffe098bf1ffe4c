"""Batched verification in torch, on the device of the inputs: CPU, or CUDA with Triton kernels.

    result = verify("block", batch, uniforms)

Every lossless block scheme of `draftproof.reference`, by the same names and with the same
randomness contract: the same uniforms give the same tokens, except within rounding of a threshold
(docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from draftproof.fast import verifiers
from draftproof.fast.tree import Batch, Result, Uniforms, validate

__all__ = ["VERIFIERS", "Batch", "Result", "Uniforms", "validate", "verify"]

VERIFIERS: dict[str, Callable[..., Result]] = verifiers.VERIFIERS
"""Scheme name -> verify(batch, uniforms, **options)."""


@torch.no_grad()  # decisions have no gradient, and the rows may come from a model that has
def verify(
    scheme: str,
    batch: Batch,
    uniforms: Uniforms,
    *,
    carry: Any = None,
    validate: bool = True,
    **options: Any,
) -> Result:
    """Verify each block of the batch with a scheme.

    Args:
        scheme: a key of `VERIFIERS`.
        batch, uniforms: see `Batch` and `Uniforms`.
        carry: stateful schemes: the carry of the previous result for the same requests, or None.
        validate: check the inputs first, which reads every row once. Switch it off for inputs that
            are known to be right.
        options: options of the scheme, for example `scale="unit"` of `spectr_gbv`.

    Raises:
        ValueError: an unknown scheme, a carry for a stateless scheme, or (with `validate`) inputs
            that are not well formed.
    """
    if scheme not in VERIFIERS:
        raise ValueError(f"unknown scheme {scheme!r}; there are {', '.join(sorted(VERIFIERS))}")
    if validate:
        _validate(batch, uniforms)
        clipped = verifiers.CLIPPED_CHAIN if options.get("scale") == "kseq" else None
        if reason := verifiers.ONE_LENGTH.get(scheme, clipped):
            _check_one_length(scheme, reason, batch)
    if scheme in verifiers.STATEFUL:
        options["carry"] = carry
    elif carry is not None:
        raise ValueError(f"{scheme} is stateless and takes no carry")
    return VERIFIERS[scheme](batch, uniforms, **options)


_validate = validate


def _check_one_length(scheme: str, reason: str, batch: Batch) -> None:
    """Raise ValueError unless the drafts of each block have one length (absent ones apart)."""
    lengths = batch.lengths
    if batch.drafts > 1:
        uneven = (lengths > 0) & (lengths != lengths.amax(1, keepdim=True))
        if bool(uneven.any()):
            block = int(uneven.any(1).nonzero()[0])
            raise ValueError(
                f"{scheme} takes drafts of one length in a block: tokens[{block}] has lengths "
                f"{lengths[block].tolist()} ({reason})"
            )
