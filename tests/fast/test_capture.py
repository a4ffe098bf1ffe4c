"""No host synchronisation away from the CPU, shown without a GPU.

Tensors on the `meta` device have shapes and no values: reading one (`.item()`, `.tolist()`, a mask
used as an index, a branch on a tensor) raises. A call that goes through on them decides nothing on
the host, which is what a CUDA graph needs; `test_gpu.py` captures one where there is a GPU.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Uniforms, verify
from draftproof.fast.verifiers import HOST_PLANNED
from fast_blocks import batch_of, random_block

CASES: list[tuple[str, dict[str, Any]]] = [
    (name, {}) for name in sorted(set(VERIFIERS) - HOST_PLANNED)
]
CASES.append(("spectr_gbv", {"scale": "kseq"}))


def _on_meta(thing: Any) -> Any:
    fields = {
        f.name: value.to("meta")
        for f in dataclasses.fields(thing)
        if isinstance(value := getattr(thing, f.name), torch.Tensor)
    }
    return dataclasses.replace(thing, **fields)


@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_no_value_is_read(scheme: str, options: dict[str, Any]) -> None:
    vocab = 9000
    drafts = 1 if scheme in ("token_by_token", "block", "greedy_block") else 3
    here = batch_of([random_block(random.Random(b), 3, drafts, 3) for b in range(4)])
    nodes = here.target_rows.shape[0]
    rows = torch.zeros(nodes, vocab, dtype=torch.float32)
    batch = _on_meta(dataclasses.replace(here, draft_rows=rows, target_rows=rows))
    uniforms = _on_meta(Uniforms.from_generator(None, here))
    result = verify(scheme, batch, uniforms, validate=False, **options)
    assert result.tokens.shape == (4, 4)
    if result.carry is not None:
        again = verify(scheme, batch, uniforms, carry=result.carry, validate=False, **options)
        assert len(again.carry.bounds) > len(result.carry.bounds)


@pytest.mark.parametrize("scheme", sorted(HOST_PLANNED))
def test_a_plan_on_the_host_is_known(scheme: str) -> None:
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    uniforms = Uniforms.from_generator(None, batch)
    with pytest.raises(NotImplementedError, match="meta"):
        verify(scheme, _on_meta(batch), _on_meta(uniforms), validate=False)


def test_a_read_would_be_seen() -> None:
    """Validation does read values, and so it cannot run on tensors without any."""
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        verify("spectr", _on_meta(batch), _on_meta(Uniforms.from_generator(None, batch)))
