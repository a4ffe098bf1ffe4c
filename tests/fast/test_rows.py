"""Rows from logits: one function for drafter and verifier."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from draftproof.fast.rows import rows_from_logits

LOGITS = torch.tensor([2.0, 1.0, 0.0, 1.0, -1.0, -torch.inf], dtype=torch.float64)


def _kept(**options: Any) -> list[int]:
    row = rows_from_logits(LOGITS, **options)
    assert abs(float(row.sum()) - 1) < 1e-15
    plain = LOGITS.softmax(0)
    kept = row > 0
    # what is kept keeps its proportions
    assert torch.allclose(row[kept], (plain[kept] / plain[kept].sum()), rtol=1e-14, atol=0)
    return [int(v) for v in kept.nonzero()[:, 0]]


def test_filters() -> None:
    mass = LOGITS.softmax(0)
    assert _kept() == [0, 1, 2, 3, 4]
    assert _kept(top_k=1) == [0]
    assert _kept(top_k=2) == [0, 1, 3]  # a tie with the last one kept
    assert _kept(top_k=99) == [0, 1, 2, 3, 4]
    assert _kept(top_p=float(mass[0]) - 1e-9) == [0]
    assert _kept(top_p=float(mass[0]) + 1e-9) == [0, 1, 3]
    assert _kept(top_p=float(mass[0] + 2 * mass[1]) + 1e-9) == [0, 1, 2, 3]
    assert _kept(min_p=math.exp(-1) * 0.999) == [0, 1, 3]
    assert _kept(min_p=math.exp(-1) * 1.001) == [0]
    # each filter sees what the ones before it have left
    assert _kept(top_k=2, top_p=0.7) == [0, 1, 3]


def test_temperature() -> None:
    assert rows_from_logits(LOGITS, temperature=0).tolist() == [1, 0, 0, 0, 0, 0]
    tied = torch.tensor([1.0, 3.0, 3.0])
    assert rows_from_logits(tied, temperature=0).tolist() == [0, 1, 0]
    hot = rows_from_logits(LOGITS, temperature=2.0)
    assert torch.allclose(hot, (LOGITS / 2).softmax(0), rtol=1e-14, atol=0)
    cold = rows_from_logits(LOGITS.float() * 1e30, temperature=1e-30)
    assert cold.tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_softmax_is_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 5, 400, generator=generator).to(dtype)
    rows = rows_from_logits(logits, temperature=0.7, top_p=0.95, top_k=50)
    assert rows.dtype == torch.float32
    assert rows.shape == logits.shape
    assert (rows.sum(-1) - 1).abs().max() < 1e-5


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(40, 3001, generator=torch.Generator().manual_seed(2))
    options = {"temperature": 0.8, "top_k": 100, "top_p": 0.9, "min_p": 0.001}
    together = rows_from_logits(logits, **options)  # type: ignore[arg-type]
    for r in (0, 17, 39):
        alone = rows_from_logits(logits[r : r + 1], **options)  # type: ignore[arg-type]
        assert torch.equal(together[r], alone[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0, not a finite number >= 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -2}, "top_k is -2"),
        ({"top_p": 0.0}, "top_p is 0.0, not in"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": 2.0}, "min_p is 2.0"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_from_logits(LOGITS, **options)
