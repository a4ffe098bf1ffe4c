"""What verifies a round: a scheme of `draftproof.fast`, a control, or a function of the user's.

A function of the user's own has the signature

    verify(batch, uniforms, carry) -> Result

with `Batch`, `Uniforms` and `Result` of `draftproof.fast`; `carry` is what it returned as
``result.carry`` in the round before for the same requests, None in the first.  What it returns is
checked in every round (`checked`): a decoder that takes an accepted length beyond the draft would
go on and write nonsense.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from draftproof.fast import VERIFIERS, Batch, Result, Uniforms, verify
from draftproof.fast.decoding.controls import CONTROLS
from torch import Tensor

AUTOREGRESSIVE = "autoregressive"
"""One target call per token, through the same loop: the yardstick."""

SINGLE_DRAFT = frozenset(
    {"token_by_token", "block", "greedy_block", "control:greedy_block_without_carry"}
)
"""Schemes that verify one draft."""

MIXED_DRAFTS = frozenset({"tree_match", "spectr:target_match"})
"""Schemes that never read a draft row, so that each draft may have a law of its own."""

WITHOUT_REPLACEMENT = "spectr:without_replacement"
"""The scheme for drafts drawn without replacement."""

DISTINCT_DRAFTS = MIXED_DRAFTS | {WITHOUT_REPLACEMENT, "traversal"}
"""Schemes that are lossless for drafts drawn without replacement."""

Verifier = Callable[..., Result]
"""verify(batch, uniforms, carry) -> Result"""


def known_schemes() -> list[str]:
    """Every name that `verify_any` takes."""
    return [*sorted(VERIFIERS), *sorted(CONTROLS)]


def load_method(place: str) -> Verifier:
    """The function at ``package.module:function``; the working directory is searched too.

    Raises ``ValueError`` if there is none, or if it cannot be called with three arguments.
    """
    module_name, colon, name = place.partition(":")
    if not (colon and module_name and name):
        raise ValueError(f"method {place!r} is not of the form package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"method {place!r}: cannot import {module_name}: {error}") from error
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ValueError(f"method {place!r}: {module_name} has no function {name!r}")
    verifier: Verifier = function
    check_signature(verifier)
    return verifier


def check_signature(function: Verifier) -> None:
    """Raise ``ValueError`` unless the function takes (batch, uniforms, carry)."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables do not say
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise ValueError(
            f"method {name_of(function)} is called as verify(batch, uniforms, carry), "
            f"but takes {signature}: {error}"
        ) from None


def name_of(method: str | Verifier) -> str:
    """The name of a scheme, or ``module:function``."""
    if isinstance(method, str):
        return method
    named = method if hasattr(method, "__qualname__") else type(method)
    return f"{named.__module__}:{named.__qualname__}"


def verify_any(
    method: str | Verifier, batch: Batch, uniforms: Uniforms, carry: Any = None, **options: Any
) -> Result:
    """Verify a round, its inputs taken as right; a user's function has its result checked.

    Raises ``ValueError`` for a malformed result, and ``RuntimeError`` naming a user's function that
    raised an exception, which is its cause.
    """
    if not isinstance(method, str):
        try:
            result = method(batch, uniforms, carry, **options)
        except Exception as error:
            raise RuntimeError(
                f"method {name_of(method)} raised {type(error).__name__}: {error}"
            ) from error
        return checked(result, batch, name_of(method))
    if method in CONTROLS:
        return CONTROLS[method](batch, uniforms, **options)
    return verify(method, batch, uniforms, carry=carry, validate=False, **options)


def checked(result: Any, batch: Batch, name: str) -> Result:
    """What the function ``name`` returned for a batch, as a `Result` on the batch's device.

    It must have ``accepted_length``, ``path`` and ``next_token``, integer tensors [B]; if it has
    ``tokens`` they must be those that the three say.  Raises ``ValueError`` naming the field, the
    request and the value.
    """
    blocks, drafts, _ = batch.tokens.shape
    accepted, path, token = (
        _integers(result, field, blocks, name).to(batch.device, torch.int64)
        for field in ("accepted_length", "path", "next_token")
    )
    _within(path, torch.full_like(path, drafts), "path", name, f"0 to {drafts - 1}")
    longest = batch.lengths.gather(1, path[:, None])[:, 0]
    _within(accepted, longest + 1, "accepted_length", name, "at most the length of its draft, {}")
    size = torch.full_like(token, batch.vocab)
    _within(token, size, "next_token", name, f"0 to {batch.vocab - 1}")
    carry = getattr(result, "carry", None)
    _check_carry(carry, blocks, name)
    whole = Result.of(batch, accepted, path, token, carry)
    emitted = getattr(result, "tokens", None)
    if emitted is not None:
        same = isinstance(emitted, Tensor) and emitted.shape == whole.tokens.shape
        for b in range(blocks):
            if not same or emitted[b].tolist() != whole.tokens[b].tolist():
                shown = emitted[b].tolist() if same else getattr(emitted, "shape", emitted)
                raise ValueError(
                    f"method {name} returned tokens[{b}] = {shown}, but its path, accepted length "
                    f"and next token say {whole.tokens[b].tolist()}"
                )
    return whole


def _integers(result: Any, field: str, blocks: int, name: str) -> Tensor:
    value = getattr(result, field, None)
    if not isinstance(value, Tensor):
        raise ValueError(
            f"method {name} returned a {type(result).__name__} whose {field} is {value!r}, "
            f"expected a tensor of {blocks} integers"
        )
    integer = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    if not integer or value.shape != (blocks,):
        raise ValueError(
            f"method {name} returned {field} of shape {list(value.shape)} and {value.dtype}, "
            f"expected integers of shape [{blocks}]"
        )
    return value


def _within(value: Tensor, limit: Tensor, field: str, name: str, wanted: str) -> None:
    bad = (value < 0) | (value >= limit)
    if bool(bad.any()):
        b = int(bad.nonzero()[0])
        raise ValueError(
            f"method {name} returned {field}[{b}] = {int(value[b])}, "
            f"expected {wanted.format(int(limit[b]) - 1)}"
        )


def _check_carry(carry: Any, blocks: int, name: str) -> None:
    """Raise ``ValueError`` for a carry that `select_carry` could not take apart."""
    if isinstance(carry, Tensor):
        if not carry.dim() or len(carry) != blocks:
            raise ValueError(
                f"method {name} returned a carry with a tensor of shape {list(carry.shape)}, "
                f"expected {blocks} entries, one a request, in the first dimension"
            )
    elif isinstance(carry, dict):
        for part in carry.values():
            _check_carry(part, blocks, name)
    elif carry is not None and not callable(getattr(carry, "select", None)):
        if not isinstance(carry, tuple | list):
            raise ValueError(
                f"method {name} returned a carry of type {type(carry).__name__}, expected None, "
                "tensors, tuples, lists or dicts of them, or an object with select(requests)"
            )
        for part in carry:
            _check_carry(part, blocks, name)


def select_carry(carry: Any, requests: Tensor) -> Any:
    """The carry of some requests of the batch, int64 [n]: a tensor's rows, those of all tensors in
    a tuple, list or dict, or whatever ``carry.select(requests)`` returns."""
    if carry is None:
        return None
    if isinstance(carry, Tensor):
        return carry[requests.to(carry.device)]
    if isinstance(carry, dict):
        return {key: select_carry(part, requests) for key, part in carry.items()}
    if callable(getattr(carry, "select", None)):
        return carry.select(requests)
    parts = [select_carry(part, requests) for part in carry]
    return type(carry)(*parts) if hasattr(carry, "_fields") else type(carry)(parts)
