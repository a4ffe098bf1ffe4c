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
from draftproof.fast.verifiers import HOST_PLANNED, ONE_LENGTH

SCHEMES = [
    "spectr",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "spectr:without_replacement",
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


@pytest.mark.parametrize(
    ("scheme", "options", "why"),
    [(scheme, {}, "tell the numbers apart") for scheme in sorted(ONE_LENGTH)]
    + [("spectr_gbv", {"scale": "kseq"}, "down to one depth")],
)
def test_schemes_that_need_one_length_say_why(
    scheme: str, options: dict[str, Any], why: str
) -> None:
    draft, target, index = _tables()
    paths = [(0,), (0, 1)]
    tokens = torch.tensor([[[0, -1], [0, 1]]])
    nodes = torch.tensor([[[index[x[:i]] if i <= len(x) else -1 for i in range(3)] for x in paths]])
    batch = Batch(tokens, nodes, draft, target)
    with pytest.raises(ValueError, match=rf"tokens\[0\] has lengths \[1, 2\] \(.*{why}\)"):
        verify(scheme, batch, Uniforms.from_generator(None, batch), **options)


def test_what_is_refused_would_be_biased() -> None:
    """Greedy multi-path on drafts of several lengths, the inputs taken as right: the law of the
    largest draft is not the one that it is verified with."""
    assert _deviations(_first_two("multipath", {}, 3)).abs().max() > 6


@pytest.mark.parametrize("scheme", sorted(HOST_PLANNED))
def test_planned_couplings_walk_any_lengths(scheme: str) -> None:
    """A coupling does not see the lengths: at each depth it gets the drafts that are still alive.

    So a draft that is over changes nothing for the others: without it the outcome is the same.
    """
    draft, target, index = _tables()
    short, long = [(2,), (0, 1, 0), (0, 0, 2)], [(0, 1, 0), (0, 0, 2)]

    def after_one(paths: list[tuple[int, ...]], uniforms: Uniforms) -> torch.Tensor:
        """Tokens 2 and 3 of a block whose first two tests are settled by the uniforms."""
        tokens = torch.tensor([[[*x, -1, -1][:3] for x in paths]])
        nodes = [[[index[x[:i]] if i <= len(x) else -1 for i in range(4)] for x in paths]]
        return verify(scheme, Batch(tokens, torch.tensor(nodes), draft, target), uniforms).tokens

    generator = torch.Generator().manual_seed(3)
    settled = 0
    for _ in range(200):
        accept = torch.rand(1, 3, 3, generator=generator, dtype=torch.float64)
        token = torch.rand(1, generator=generator, dtype=torch.float64)
        many = after_one(short, Uniforms(accept, None, token))
        few = after_one(long, Uniforms(accept[:, 1:], None, token))
        if many[0, 0] == few[0, 0] == 0 and many[0, 1] >= 0 and few[0, 1] >= 0:
            assert many.equal(few)
            settled += 1
    assert settled >= 20


def test_every_scheme_is_covered() -> None:
    """Schemes that need one length refuse others; the rest is tested above."""
    single = {"token_by_token", "block", "greedy_block"}
    known = set(SCHEMES) | single | set(ONE_LENGTH) | HOST_PLANNED
    assert known | {"spectr_gbv", "spectr:kseq"} == set(VERIFIERS)
