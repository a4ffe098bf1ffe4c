"""A block's result does not depend on the rest of its batch: bitwise, over shapes and orders."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Batch, Result, Uniforms, verify
from draftproof.fast.clip import Rows, kept_mass, owed_mass, ratio_masses, smallest_scale
from draftproof.fast.sums import LANES, row_sums
from fast_blocks import Block, batch_of, random_block

SINGLE = {"token_by_token", "block", "greedy_block"}
CASES = [(name, {}) for name in VERIFIERS] + [("spectr_gbv", {"scale": "kseq"})]


def _uniforms(batch: Batch, seeds: torch.Tensor) -> Uniforms:
    return Uniforms.from_seeds(seeds, torch.zeros_like(seeds), batch.drafts, batch.length)


def _fields(result: Result, block: int) -> list[torch.Tensor]:
    emitted = result.tokens[block]
    fields = [emitted[emitted >= 0], result.accepted_length[block], result.path[block]]
    if result.carry is not None:
        fields += [part[block] for part in result.carry[:-1]]
    return fields


@pytest.mark.parametrize(("scheme", "options"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_alone_padded_and_permuted(scheme: str, options: Any, dtype: torch.dtype) -> None:
    generator = random.Random(11)
    most = 1 if scheme in SINGLE else 3
    shapes = [(most, 3), (most, 2), (1, 3), (1, 1), (0, 0), (most, 1)]
    blocks: list[Block] = [random_block(generator, 5, k, n) for k, n in shapes * 3]
    seeds = torch.arange(len(blocks))
    # the largest padding makes the carries of all calls of one shape
    together = batch_of(blocks, dtype, pad=(most, 3))
    whole = verify(scheme, together, _uniforms(together, seeds), validate=False, **options)
    order = torch.randperm(len(blocks), generator=torch.Generator().manual_seed(1))
    shuffled = batch_of([blocks[i] for i in order], dtype, pad=(most, 4))
    mixed = verify(scheme, shuffled, _uniforms(shuffled, seeds[order]), validate=False, **options)
    for place, b in enumerate(order.tolist()):
        alone = batch_of([blocks[b]], dtype, pad=(most, 3))
        single = verify(
            scheme, alone, _uniforms(alone, seeds[b : b + 1]), validate=False, **options
        )
        for one, many in zip(_fields(single, 0), _fields(whole, b), strict=True):
            assert torch.equal(one, many)
        for one, other in zip(_fields(single, 0)[:3], _fields(mixed, place)[:3], strict=True):
            assert torch.equal(one, other)
        tight = batch_of([blocks[b]], dtype)
        bare = verify(scheme, tight, _uniforms(tight, seeds[b : b + 1]), validate=False, **options)
        for one, other in zip(_fields(single, 0)[:3], _fields(bare, 0)[:3], strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("vocab", [7, 1025, LANES, 3 * LANES + 5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_masses_are_row_local(vocab: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocab)
    rows = torch.rand(9, vocab, generator=generator, dtype=torch.float64).to(dtype)
    p, q = rows / rows.sum(1, keepdim=True), rows.flip(0) / rows.flip(0).sum(1, keepdim=True)
    index = torch.arange(9)
    many = Rows(p, q, index, index)
    scale = torch.linspace(0.3, 1.0, 9, dtype=torch.float64)
    edges = torch.tensor([0.0, 0.25, 1.0, 4.0, 64.0], dtype=torch.float64)
    drafts = torch.full((9,), 3)

    def masses(rows: Rows, scale: torch.Tensor, drafts: torch.Tensor) -> list[torch.Tensor]:
        return [
            owed_mass(rows, scale),
            kept_mass(rows, scale[:, None]),
            ratio_masses(rows, edges),
            torch.stack(smallest_scale(rows, drafts)),
        ]

    together = masses(many, scale, drafts)
    order = torch.tensor([4, 2, 8, 0])
    few = masses(Rows(p, q, order, order), scale[order], drafts[order])
    part = masses(dataclasses.replace(many).only(index % 2 == 0), scale, drafts)
    for b, one in enumerate(order.tolist()):
        assert torch.equal(together[0][one], few[0][b])
        assert torch.equal(together[1][one], few[1][b])
        assert torch.equal(together[2][one], few[2][b])
        assert torch.equal(together[3][:, one], few[3][:, b])
        assert torch.equal(together[0][one], part[0][one])
        assert torch.equal(together[2][one], part[2][one])


def test_a_shared_generator_is_seen() -> None:
    """Uniforms drawn in batch order, the planted fault, make a request depend on its batch."""
    generator = random.Random(11)
    blocks = [random_block(generator, 5, 1, 3) for _ in range(12)]
    batch = batch_of(blocks, pad=(1, 3))

    def drawn(batch: Batch) -> Uniforms:
        return Uniforms.from_generator(torch.Generator().manual_seed(1), batch)

    whole = verify("block", batch, drawn(batch))
    different = 0
    for b, block in enumerate(blocks):
        alone = batch_of([block], pad=(1, 3))
        single = verify("block", alone, drawn(alone))
        different += not torch.equal(single.tokens[0], whole.tokens[b])
    assert different >= 3


@pytest.mark.parametrize("vocab", [200, 40_000])
def test_a_sum_that_runs_through_the_batch_is_seen(vocab: int) -> None:
    """The planted fault of row sums taken as differences of one running sum over all rows."""
    tile = torch.rand(9, vocab, generator=torch.Generator().manual_seed(3))

    def faulty(tile: torch.Tensor) -> torch.Tensor:
        ends = tile.flatten().cumsum(0)[vocab - 1 :: vocab].double()
        return ends - torch.cat([ends.new_zeros(1), ends[:-1]])

    def alone(sums: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return torch.cat([sums(tile[r : r + 1]) for r in range(9)])

    assert not torch.equal(faulty(tile), alone(faulty))
    assert torch.equal(row_sums(tile), alone(row_sums))
