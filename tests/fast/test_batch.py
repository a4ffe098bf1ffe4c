"""The batch, its validation, and the counter-based uniforms."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Batch, Uniforms, verify
from draftproof.fast.philox import ACCEPT, TOKEN, philox4x32, uniforms
from draftproof.fast.tree import row_sum_tolerance
from fast_blocks import batch_of, random_block, uniforms_for


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        # the known answers published with Random123
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            [0xFFFFFFFF] * 4,
            [0xFFFFFFFF] * 2,
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
    k0, k1 = (torch.tensor([word]) for word in key)
    assert [int(word) for word in philox4x32((c0, c1, c2, c3), (k0, k1))] == words  # type: ignore[arg-type]


def test_uniforms_of_a_request_do_not_depend_on_its_batch() -> None:
    seeds = torch.tensor([5, -(2**63), 2**63 - 1, 5])
    positions = torch.tensor([0, 7, 2**40, 1])
    wide = Uniforms.from_seeds(seeds, positions, 4, 9)
    for b in range(4):
        alone = Uniforms.from_seeds(seeds[b : b + 1], positions[b : b + 1], 2, 3)
        assert torch.equal(alone.accept[0], wide.accept[b, :2, :3])
        assert wide.select is not None
        assert alone.select is not None
        assert torch.equal(alone.select[0], wide.select[b, :2])
        assert torch.equal(alone.token[0], wide.token[b])
    flat = torch.cat([wide.accept.flatten(), wide.select.flatten(), wide.token])
    assert flat.unique().numel() == flat.numel()  # no uniform is used for two places
    assert 0 <= flat.min() < 0.05
    assert 0.95 < flat.max() < 1


def test_uniforms_are_uniform() -> None:
    drawn = uniforms(torch.arange(200_000), torch.tensor(3), ACCEPT, 1, 2)
    other = uniforms(torch.arange(200_000), torch.tensor(3), TOKEN, 1, 2)
    # five standard deviations each: false alarm below 1e-6
    for u in (drawn, other):
        assert abs(float(u.mean()) - 0.5) < 5 / (12 * 200_000) ** 0.5
        assert abs(float((u * u).mean()) - 1 / 3) < 5 * (4 / 45 / 200_000) ** 0.5
    assert abs(float(((drawn - 0.5) * (other - 0.5)).mean())) < 5 / 12 / 200_000**0.5


def test_paths_become_nodes() -> None:
    tokens = torch.tensor([[[0, 1], [0, 2], [2, -1]], [[1, 1], [1, 1], [-1, -1]]])
    target = torch.rand(2, 3, 3, 3)
    draft = torch.rand(2, 3, 2, 3)
    batch = Batch.from_paths(tokens, draft, target)
    assert batch.nodes[0, 0, 0] == batch.nodes[0, 1, 0] == batch.nodes[0, 2, 0]
    assert batch.nodes[0, 0, 1] == batch.nodes[0, 1, 1] != batch.nodes[0, 2, 1]
    assert batch.nodes[0, 0, 2] != batch.nodes[0, 1, 2]
    assert batch.nodes[0, 2, 2] == -1
    assert torch.equal(batch.nodes[1, 0], batch.nodes[1, 1])
    assert torch.equal(batch.target_rows[batch.nodes[0, 1, 2]], target[0, 1, 2])
    assert torch.equal(batch.draft_rows[batch.nodes[0, 1, 1]], draft[0, 0, 1])
    assert batch.lengths.tolist() == [[2, 2, 1], [2, 2, 0]]


def test_no_drafts_draw_from_the_root_row() -> None:
    batch = Batch.from_paths(
        torch.zeros(1, 0, 0, dtype=torch.int64),
        torch.zeros(1, 0, 0, 3, dtype=torch.float64),
        torch.tensor([[[[0.25, 0.0, 0.75]]]], dtype=torch.float64),
    )
    for u, token in ((0.0, 0), (0.24, 0), (0.25, 2), (1 - 2.0**-53, 2)):
        result = verify(
            "kseq_block",
            batch,
            Uniforms(
                torch.zeros(1, 0, 0, dtype=torch.float64),
                None,
                torch.tensor([u], dtype=torch.float64),
            ),
        )
        assert result.next_token.tolist() == [token]
        assert result.tokens.tolist() == [[token]]


def _set(name: str, index: tuple[int, ...], value: float) -> Callable[[Batch], Batch]:
    def change(batch: Batch) -> Batch:
        tensor = getattr(batch, name).clone()
        tensor[index] = value
        return dataclasses.replace(batch, **{name: tensor})

    return change


FAULTS: list[tuple[Callable[[Batch], Batch], str]] = [
    (_set("target_rows", (0, 1), float("nan")), r"target_rows\[0, 1\] is nan"),
    (_set("target_rows", (0, 1), -0.25), r"target_rows\[0, 1\] is -0.25"),
    (_set("draft_rows", (0, 0), float("inf")), r"draft_rows\[0, 0\] is inf"),
    (_set("draft_rows", (0, 2), 3.0), r"draft_rows\[0\] sums to [0-9.]+, not 1"),
    (_set("tokens", (0, 1, 0), 3), r"tokens\[0, 1, 0\] is 3, not -1 or 0..2"),
    (_set("tokens", (0, 1, 0), -1), r"tokens\[0, 1, 0\] is -1, not a token: padding must come"),
    (_set("nodes", (0, 1, 0), 99), r"nodes\[0, 1, 0\] is 99, not -1 or 0"),
    (_set("nodes", (0, 1, 2), -1), r"nodes\[0, 1, 2\] is -1, not a node"),
    (_set("nodes", (0, 0, 0), -1), r"nodes\[:, 0, 0\]\[0\] is -1, not the node of the root"),
    (
        lambda b: dataclasses.replace(b, tokens=b.tokens.to(torch.int32)),
        r"tokens is torch.int32, not one of torch.int64",
    ),
    (
        lambda b: dataclasses.replace(b, draft_rows=b.draft_rows[:, :2]),
        r"draft_rows must have shape",
    ),
    (
        lambda b: dataclasses.replace(b, draft_rows=b.draft_rows.float()),
        r"draft_rows is torch.float32 and target_rows torch.float64",
    ),
    (lambda b: dataclasses.replace(b, nodes=b.nodes[:, :1]), r"nodes must have shape \[1, 2, 3\]"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_faults_are_named(fault: Callable[[Batch], Batch], message: str) -> None:
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    uniforms_ = uniforms_for(batch, 0)
    verify("spectr", batch, uniforms_)
    with pytest.raises((ValueError, TypeError), match=message):
        verify("spectr", fault(batch), uniforms_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": torch.tensor([1.0], dtype=torch.float64)}, r"token uniform\[0\] is 1.0, not in"),
        ({"token": torch.tensor([0.5])}, r"token uniform is torch.float32"),
        ({"accept": torch.zeros(1, 2, 1, dtype=torch.float64)}, r"accept uniforms must have shape"),
        ({"select": torch.full((1, 2), -0.5, dtype=torch.float64)}, r"select uniforms\[0, 0\] is"),
    ],
)
def test_faulty_uniforms_are_named(changes: dict[str, Any], message: str) -> None:
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    good = uniforms_for(batch, 0)
    with pytest.raises((ValueError, TypeError), match=message):
        verify("spectr", batch, dataclasses.replace(good, **changes))


def test_wrong_use_is_named() -> None:
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    good = uniforms_for(batch, 0)
    with pytest.raises(ValueError, match="unknown scheme 'blok'; there are block, "):
        verify("blok", batch, good)
    with pytest.raises(ValueError, match="block verifies one draft, but tokens holds K = 2"):
        verify("block", batch, good)
    with pytest.raises(ValueError, match="spectr is stateless and takes no carry"):
        verify("spectr", batch, good, carry=object())
    with pytest.raises(ValueError, match="ranked_block selects a draft: select uniforms"):
        verify("ranked_block", batch, dataclasses.replace(good, select=None))
    with pytest.raises(ValueError, match="scale must be 'unit' or 'kseq', not 'two'"):
        verify("spectr_gbv", batch, good, scale="two")
    uneven = batch_of([random_block(random.Random(1), 3, 2, 2)])
    uneven.tokens[0, 1, 1], uneven.nodes[0, 1, 2] = -1, -1
    verify("spectr", uneven, good)
    with pytest.raises(ValueError, match=r"multipath .* tokens\[0\] has lengths \[2, 1\]"):
        verify("multipath", uneven, good)


def test_validation_can_be_switched_off() -> None:
    batch = batch_of([random_block(random.Random(1), 3, 2, 2)])
    far = _set("draft_rows", (0, 2), 3.0)(batch)
    verify("spectr", far, uniforms_for(batch, 0), validate=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rounded_softmax_rows_are_accepted(dtype: torch.dtype) -> None:
    """Rows that a softmax and one rounding make are within the tolerance of the sum, wrong ones
    are not: the tolerance is above every rounded row here and far below a missing token."""
    generator = torch.Generator().manual_seed(3)
    for vocab in (3, 1000, 151_936):
        logits = torch.randn(4, vocab, generator=generator, dtype=torch.float64) * 4
        wide = logits if dtype == torch.float64 else logits.float()
        rows = wide.softmax(-1).to(dtype)
        error = (rows.to(torch.float64).sum(1) - 1).abs().max()
        assert error <= row_sum_tolerance(dtype, vocab)
    assert row_sum_tolerance(torch.float32, 151_936) <= 1e-3


@pytest.mark.parametrize("scheme", sorted(VERIFIERS))
def test_rows_with_a_gradient_give_the_same_tokens(scheme: str) -> None:
    """Rows that come from a model outside `torch.no_grad` are rows like others."""
    drafts = 1 if scheme in ("token_by_token", "block", "greedy_block") else 2
    blocks = [random_block(random.Random(seed), 4, drafts, 2) for seed in range(6)]
    batch = batch_of(blocks, torch.float32)
    uniforms = uniforms_for(batch, 3)
    learning = dataclasses.replace(
        batch,
        draft_rows=batch.draft_rows.clone().requires_grad_(),
        target_rows=batch.target_rows.clone().requires_grad_(),
    )
    expected = verify(scheme, batch, uniforms)
    assert torch.equal(verify(scheme, learning, uniforms).tokens, expected.tokens)
