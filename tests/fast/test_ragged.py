"""Blocks whose drafts have different lengths: the emitted tokens still have the target's law.

The reference takes drafts of one length, so this is checked by simulation with N = 150,000 blocks.
A cell of probability π is off by more than six standard deviations with probability below 2e-9, so
a run of all cells raises a false alarm with probability below 2e-7. A bias of total variation 0.06
moves one of the nine cells by at least 2 · 0.06/9, ten standard deviations: it is missed with
probability below 1e-4.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Batch, Uniforms, verify

SCHEMES = [
    "spectr",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "tree_match",
    "traversal",
    "kseq_block",
]
LENGTHS = (1, 3, 2)
VOCAB, DEPTH = 3, 3
BLOCKS = 150_000


def _tables() -> tuple[torch.Tensor, torch.Tensor, dict[tuple[int, ...], int]]:
    """Draft and target rows for every prefix of up to DEPTH tokens, and the index of each."""
    generator = torch.Generator().manual_seed(8)
    prefixes = [x for n in range(DEPTH + 1) for x in itertools.product(range(VOCAB), repeat=n)]
    shape = (len(prefixes), VOCAB)
    draft = torch.randn(shape, generator=generator, dtype=torch.float64).mul(0.7).softmax(1)
    target = torch.randn(shape, generator=generator, dtype=torch.float64).softmax(1)
    return draft, target, {x: n for n, x in enumerate(prefixes)}


def _batch(seed: int) -> tuple[Batch, torch.Tensor]:
    draft, target, index = _tables()
    generator = torch.Generator().manual_seed(seed)
    child = torch.full((len(index), VOCAB), -1, dtype=torch.int64)
    for prefix, n in index.items():
        if len(prefix) < DEPTH:
            for v in range(VOCAB):
                child[n, v] = index[(*prefix, v)]
    drafts = len(LENGTHS)
    tokens = torch.full((BLOCKS, drafts, DEPTH), -1, dtype=torch.int64)
    nodes = torch.full((BLOCKS, drafts, DEPTH + 1), -1, dtype=torch.int64)
    nodes[:, :, 0] = 0
    for k, length in enumerate(LENGTHS):
        for i in range(length):
            rows = draft[nodes[:, k, i]]
            tokens[:, k, i] = torch.multinomial(rows, 1, generator=generator)[:, 0]
            nodes[:, k, i + 1] = child[nodes[:, k, i], tokens[:, k, i]]
    return Batch(tokens, nodes, draft, target), child


def _first_two(scheme: str, options: dict[str, Any], seed: int) -> torch.Tensor:
    """Counts of the first two tokens, the second drawn from the target where none was emitted."""
    batch, child = _batch(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    uniforms = Uniforms.from_generator(generator, batch)
    result = verify(scheme, batch, uniforms, validate=False, **options)
    first, second = result.tokens[:, 0], result.tokens[:, 1]
    more = torch.multinomial(batch.target_rows[child[0, first]], 1, generator=generator)[:, 0]
    second = torch.where(second < 0, more, second)
    return torch.bincount(first * VOCAB + second, minlength=VOCAB * VOCAB)


def _deviations(counts: torch.Tensor) -> torch.Tensor:
    _, target, index = _tables()
    law = torch.stack([target[0, v] * target[index[(v,)]] for v in range(VOCAB)]).flatten()
    total = counts.sum()
    return (counts - total * law) / (total * law * (1 - law)).sqrt()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_target_law(scheme: str) -> None:
    deviations = _deviations(_first_two(scheme, {}, 3))
    assert deviations.abs().max() < 6, deviations


def test_unit_scale_first_token() -> None:
    """The stateful scheme owes the second token to its carry; the first has the target's law."""
    counts = _first_two("spectr_gbv", {}, 3).view(VOCAB, VOCAB).sum(1)
    _, target, _ = _tables()
    total, law = counts.sum(), target[0]
    assert ((counts - total * law) / (total * law * (1 - law)).sqrt()).abs().max() < 6


def test_a_bias_is_seen() -> None:
    """Counting a draft that is already over among the candidates is flagged."""
    from draftproof.fast.verifiers import spectr as module

    def miscounted(rows, tokens, p, q, alive, uniforms):  # type: ignore[no-untyped-def]
        decision = module.kseq(rows, tokens, p, q, alive, uniforms)
        few = module.kseq(rows, tokens, p, q, alive & (alive.cumsum(1) < 2), uniforms)
        return decision._replace(kept=torch.where(few.kept >= 0, few.kept, decision.kept))

    batch, child = _batch(3)
    generator = torch.Generator().manual_seed(4)
    result = module.spectr(miscounted, batch, Uniforms.from_generator(generator, batch))
    first = result.tokens[:, 0]
    more = torch.multinomial(batch.target_rows[child[0, first]], 1, generator=generator)[:, 0]
    second = torch.where(result.tokens[:, 1] < 0, more, result.tokens[:, 1])
    counts = torch.bincount(first * VOCAB + second, minlength=VOCAB * VOCAB)
    assert _deviations(counts).abs().max() > 6


def test_every_scheme_is_covered() -> None:
    """Schemes that need one length refuse others; the rest is tested above."""
    single = {"token_by_token", "block", "greedy_block"}
    refusing = {"multipath", "ranked_block"}
    assert set(SCHEMES) | single | refusing | {"spectr_gbv", "spectr:kseq"} == set(VERIFIERS)
