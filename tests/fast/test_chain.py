"""The rows of a chain: layers that do not act, masses too small to invert, one pass or several."""

from __future__ import annotations

import pytest
import torch
from draftproof.fast.carry import Carry, chain_draw, chain_entries, chain_gap, chained
from draftproof.fast.chain import chain_row, settle_rows
from draftproof.fast.clip import Rows
from torch import Tensor


def _rows(p: Tensor, q: Tensor) -> Rows:
    index = torch.arange(len(p))
    return Rows(p, q, index, index)


def _carry(ratio: list[float], remaining: int = 1) -> Carry:
    """One block with a layer for each ratio, of cover and scale 1."""
    r = torch.tensor([ratio], dtype=torch.float64)
    one = torch.ones_like(r)
    left = torch.full((1, len(ratio)), remaining)
    return Carry(r, one, one, left, (1,) * len(ratio))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mass_too_small_to_invert_makes_no_nan(dtype: torch.dtype) -> None:
    """q = p but for one subnormal: 1/mass overflows the dtype, and 0 · inf would be NaN."""
    least = 2.0**-149 if dtype == torch.float32 else 2.0**-1074
    p = torch.tensor([[0.5, 0.5, 0.0]], dtype=dtype)
    q = torch.tensor([[0.5, 0.5, least]], dtype=dtype)
    assert torch.isinf((1 / torch.tensor(least, dtype=torch.float64)).to(dtype))
    rows, carry = _rows(p, q), _carry([1.0, 1.0])
    row = chain_row(p, q, chained(rows, carry).chain)
    assert row.isfinite().all()
    assert (row[0, :2] == 0).all()
    for u in (0.0, 0.5, 1 - 2.0**-53):
        token, entries = chain_draw(rows, carry, torch.tensor([u], dtype=torch.float64))
        assert token.tolist() == [2]
        assert entries.isfinite().all()
    assert all(x.isfinite().all() for x in chain_gap(rows, carry, torch.ones(1).double()))


def test_a_layer_that_leaves_nothing_or_does_not_act_changes_no_bit() -> None:
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(1, 3000, generator=generator).softmax(1)
    p = torch.randn(1, 3000, generator=generator).softmax(1)
    over = chained(_rows(p, q), _carry([0.7, torch.inf], remaining=0)).chain
    assert torch.equal(chain_row(p, q, over), q)
    endless = chained(_rows(p, q), _carry([torch.inf])).chain
    assert torch.equal(chain_row(p, q, endless), q)
    same = chained(_rows(q, q), _carry([1.0])).chain  # (q - q)+ = 0
    assert torch.equal(chain_row(q, q, same), q)


def test_layers_are_normalised_one_after_the_other() -> None:
    p = torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64)
    q = torch.tensor([[0.125, 0.25, 0.5, 0.125]], dtype=torch.float64)
    rows, carry = _rows(p, q), _carry([1.0, 2.0])
    # (q - p)+ = (0, 0, 3/8, 0), normalised (0, 0, 1, 0); then (2 T - p)+ is on the third token too
    assert chain_row(p, q, chained(rows, carry).chain).tolist() == [[0, 0, 1, 0]]
    entries = chain_entries(rows, carry, torch.tensor([2]))
    assert entries.tolist() == [[0.5, 1.0, 1.0]]


def test_a_pass_for_each_layer_settles_what_one_pass_settles() -> None:
    """The masses that kernels compute one after the other are those of the whole chain."""
    generator = torch.Generator().manual_seed(2)
    p = torch.randn(3, 40_000, generator=generator).softmax(1)
    q = torch.randn(3, 40_000, generator=generator).softmax(1)
    layers = torch.rand(3, 4, 4, generator=generator)
    layers[..., 3] = 1
    whole = settle_rows(p, q, layers)
    steps: list[Tensor] = []
    for j in range(4):
        before = torch.stack(steps, 1) if steps else layers[:, :0]
        row = chain_row(p, q, before)
        steps.append(settle_rows(p, row, layers[:, j : j + 1])[:, 0])
    assert torch.equal(torch.stack(steps, 1), whole)
