"""The straightforward versions that the benchmark times compute what the fast path computes.

In float64 on small vocabularies a threshold moves by about 1e-14 between the two, so that none of
some hundred blocks should differ; one is allowed. In float32 with V = 1000 each of at most K L
tests moves by a few 1e-7 and each of the V boundaries of the last draw by 1e-7: a block differs
with a probability of at most 1e-3, and 3 of 128 are allowed (false alarms below 1e-5).
"""

from __future__ import annotations

import random

import pytest
import torch
from draftproof.fast import VERIFIERS, Batch, Uniforms, verify
from draftproof.fast import baselines as written
from draftproof.fast.baselines import BASELINES
from draftproof.fast.verifiers import HOST_PLANNED
from fast_blocks import batch_of, random_block
from torch import Tensor

SINGLE = {"token_by_token", "block", "greedy_block"}


def differing(scheme: str, batch: Batch, seed: int) -> int:
    """In how many blocks the baseline emits other tokens than the fast path."""
    uniforms = Uniforms.from_generator(torch.Generator().manual_seed(seed), batch)
    name, _, scale = scheme.partition(" ")
    options = {"scale": scale} if scale else {}
    here = verify(name, batch, uniforms, **options).tokens
    draft = batch.draft_rows[batch.nodes[:, :, : batch.length]]
    there = BASELINES[scheme](batch.tokens, draft, batch.target_rows[batch.nodes], uniforms)
    return int((here != there).any(1).sum())


def small(scheme: str, count: int = 40) -> list[Batch]:
    """Blocks over 3 to 6 tokens, whose drafts share many prefixes."""
    generator = random.Random(7)
    sizes = [(3, 1, 3), (6, 1, 1), (4, 1, 4)]
    if scheme not in SINGLE:
        sizes += [(3, 2, 3), (2, 4, 4), (6, 3, 2), (4, 8, 1), (5, 2, 1)]
    return [
        batch_of([random_block(generator, *size) for _ in range(count)], pad=size[1:])
        for size in sizes
    ]


def large(drafts: int, blocks: int = 128, length: int = 3, vocab: int = 1000) -> Batch:
    """Blocks of float32 rows; half of the drafts begin with one token."""
    generator = torch.Generator().manual_seed(drafts)
    scores = 2 * torch.randn(blocks, length + 1, vocab, generator=generator)
    noise = torch.randn(blocks, length + 1, vocab, generator=generator)
    draft, target = scores.softmax(-1), (scores + 0.7 * noise).softmax(-1)
    rows = draft[:, None].expand(-1, drafts, -1, -1)[:, :, :length]
    tokens = torch.multinomial(rows.reshape(-1, vocab), 1, generator=generator)
    tokens = tokens.view(blocks, drafts, length)
    tokens[:, drafts // 2 + 1 :, 0] = tokens[:, :1, 0]
    return Batch.from_paths(tokens, rows, target[:, None].expand(-1, drafts, -1, -1))


def test_each_scheme_has_one() -> None:
    missing = set(VERIFIERS) - {scheme.partition(" ")[0] for scheme in BASELINES}
    # another name of spectr, and the schemes that are planned block by block on the host anyway
    assert missing == {"spectr:kseq"} | HOST_PLANNED


@pytest.mark.parametrize("scheme", BASELINES)
def test_same_tokens_as_the_fast_path(scheme: str) -> None:
    assert sum(differing(scheme, batch, n) for n, batch in enumerate(small(scheme))) <= 1


@pytest.mark.parametrize("scheme", BASELINES)
def test_same_tokens_in_float32(scheme: str) -> None:
    assert differing(scheme, large(1 if scheme in SINGLE else 4), 0) <= 3


FAULTS = {
    "token_by_token": ("_draw", lambda weights, uniform: weights.argmax(-1)),
    "block": ("_weights", lambda ratio, start: ratio.clamp(max=1)),
    "greedy_block": ("_longest", lambda h, u: (u < h).to(torch.int64).cumprod(-1).sum(-1)),
    "spectr": ("_smallest_scale", lambda p, target, drafts: (float(drafts), 1.0)),
    "spectr:recursive_rejection": ("_normalised", lambda row, otherwise: row),
    "spectr:without_replacement": ("_normalised", lambda row, otherwise: row),
    "spectr:target_match": ("_ratio", lambda numerator, denominator: numerator),
    "tree_match": ("_ratio", lambda numerator, denominator: numerator),
    "traversal": ("_ratio", lambda numerator, denominator: numerator),
    "multipath": ("_powers", lambda high, low, count: torch.ones_like(high)),
    "kseq_block": ("_smallest_scale", lambda p, target, drafts: (float(drafts), 1.0)),
    "ranked_block": ("coupling", None),
    "ranked_block:stateful": ("coupling", None),
    "spectr_gbv": ("_normalised", lambda row, otherwise: row),
    "spectr_gbv kseq": ("_smallest_scale", lambda p, target, drafts: (float(drafts), 1.0)),
}
"""A planted fault for each: the name of a step, and what takes its place."""


def independent(types: Tensor, labels: Tensor, **_: Tensor) -> Tensor:
    """The coupling of `ranked_block` with the label independent of the path."""
    return types[:, :, None] * labels[:, None]


@pytest.mark.parametrize("scheme", BASELINES)
def test_a_planted_fault_is_seen(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, fault = FAULTS[scheme]
    monkeypatch.setattr(written, step, fault or independent)
    assert sum(differing(scheme, batch, n) for n, batch in enumerate(small(scheme))) >= 5
