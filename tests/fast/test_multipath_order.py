"""The order of greedy multi-path: exact masses, ties by index, and the same law from both sides."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from draftproof.fast import Batch, kernels
from draftproof.fast.clip import Rows, tiles
from draftproof.fast.verifiers import multipath
from torch import Tensor


def _rows(vocab: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two pairs of rows with ties, zeros on either side and on both, and a negative zero."""
    generator = torch.Generator().manual_seed(vocab)
    p = (4 * torch.randn(2, vocab, generator=generator)).softmax(1)
    q = (p.log() + torch.randn(2, vocab, generator=generator)).softmax(1)
    q[:, 1::5] = p[:, 1::5] / 2
    q[:, 2::7] = 0
    p[:, 3::11] = 0
    q[0, 2] = -0.0
    return p.to(dtype), q.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab", [7, 400, 8500])  # sorted alone, and padded for the digit sort
def test_masses_are_those_of_the_exact_order(vocab: int, dtype: torch.dtype) -> None:
    p, q = _rows(vocab, dtype)
    # a token that cannot be drafted is last whatever its target probability, and weighs nothing
    found = multipath._masses_before(p.double(), q)
    for row in range(2):
        exact = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(p[row], q[row])]
        ranked = sorted((b / a, v, a) for v, (a, b) in enumerate(exact) if a > 0)
        mass = Fraction(0)
        for _, v, a in ranked:
            assert abs(Fraction(float(found[row, v])) - mass) <= Fraction(len(ranked), 2**53)
            mass += a


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [400, 40_000, 70_000])
def test_one_token_and_the_whole_row_agree_to_the_last_bit(vocab: int, dtype: torch.dtype) -> None:
    p, q = _rows(vocab, dtype)
    index = torch.tensor([0, 1])
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    whole = multipath._masses_before(p.to(wide).double(), q.to(wide))
    for token in (0, 1, 2, vocab // 3, vocab - 1):
        tokens = torch.tensor([token, vocab - 1 - token])
        if bool((p[index, tokens] == 0).any()):
            continue  # never drafted
        before = multipath._mass_before(Rows(p, q, index, index), tokens)
        assert torch.equal(before, whole.gather(1, tokens[:, None])[:, 0])


@pytest.mark.parametrize("width", [5, 9000, 32_768, 40_000])
def test_the_digit_sort_is_stable(width: int) -> None:
    key = torch.randint(0, 50, (2, width), generator=torch.Generator().manual_seed(1)).double()
    key[0, ::3], key[1, 1::4] = torch.inf, 0.0
    assert torch.equal(multipath._order(key), key.sort(dim=1, stable=True).indices)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("vocab", [400, 70_000])
def test_compiled_passes_have_the_bits_of_torch(
    vocab: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    assert kernels.order_passes(torch.device("cpu")) is not None
    p, q = _rows(vocab, dtype)
    rows = p[:, None].expand(-1, 2, -1).reshape(4, vocab), q.repeat_interleave(2, 0)
    nodes = torch.tensor([[[0, 1]] * 3, [[2, 3]] * 3])
    batch = Batch(torch.zeros(2, 3, 1, dtype=torch.int64), nodes, *rows)
    count = torch.tensor([3, 2])
    place = multipath._Place(
        torch.tensor([0.0, 0.3]).double(), torch.tensor([1.0, 0.7]).double(), 3
    )
    index = torch.tensor([0, 2])

    def found() -> list[Tensor]:
        law = multipath._selected(batch, [place], count)(0 * index, index)
        parts = [x for _, x, _ in tiles(law)]
        token = torch.tensor([vocab // 2, 1])
        return [*parts, multipath._mass_before(Rows(*rows, index, index), token)]

    compiled = found()
    monkeypatch.setattr(kernels, "order_passes", lambda device: None)
    for one, other in zip(compiled, found(), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(torch.cat(compiled[:-1])[0], p[0])
