"""Biased verifiers, run through the same decoder to show how far off they are.  Never a default.

    control:independent_trials          each draft tested with min(1, q/p) against the unmodified
                                        target, the correction drawn from (q - p)+
    control:greedy_block_without_carry  greedy block verification that forgets what it owes
    control:spectr_gbv_without_carry    SpecTr-GBV that forgets what it owes

The first two have their smallest counterexamples in `draftproof.reference.controls`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from draftproof.fast import Batch, Result, Uniforms, verify
from draftproof.fast.clip import Owed, Rows
from draftproof.fast.couplings import Decision
from draftproof.fast.verifiers.spectr import spectr
from torch import Tensor


def _independent_trials(
    rows: Rows, tokens: Tensor, p: Tensor, q: Tensor, alive: Tensor, uniforms: Tensor
) -> Decision:
    kept = alive & (uniforms * p < q)
    first = torch.where(kept.any(1), kept.to(torch.int8).argmax(1), -1)
    one = torch.ones_like(p[:, 0])
    return Decision(first, Owed(one, one))


def _without_carry(scheme: str) -> Callable[..., Result]:
    def forgetful(batch: Batch, uniforms: Uniforms, **options: Any) -> Result:
        result = verify(scheme, batch, uniforms, validate=False, **options)
        return dataclasses.replace(result, carry=None)

    return forgetful


CONTROLS: dict[str, Callable[..., Result]] = {
    "control:independent_trials": lambda batch, uniforms: spectr(
        _independent_trials, batch, uniforms
    ),
    "control:greedy_block_without_carry": _without_carry("greedy_block"),
    "control:spectr_gbv_without_carry": _without_carry("spectr_gbv"),
}
"""Control name -> verify(batch, uniforms, **options)."""
