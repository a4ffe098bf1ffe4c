"""The fast path against the reference: the same uniforms give the same tokens.

Rows are dyadic, so both sides read exactly the same numbers. A case is excused only when the
reference's margin to a threshold is below the bound of its dtype, 2^8 units of roundoff: a
threshold h = S/D is computed with an error of at most 32u/D (docs/numerics.md), and a test with
D < 1/8 is reached with a probability of at most D, so an unexcused difference has probability below
2 · 32u a test. The K-SEQ scale is rounded up to a multiple of 2^-20; where rounding moves it by one
step all thresholds move by at most 2^-20, which is inside the float32 bound (2^-16). In float64 a
step moves with probability 2^-30 a block.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Uniforms, verify
from draftproof.fast.verifiers.ranked_block import design
from draftproof.reference import catalogue
from draftproof.reference.chance import Replay
from draftproof.reference.models import Model
from draftproof.reference.tree import FixedDrafts
from fast_blocks import (
    Block,
    Prefix,
    batch_of,
    draw_path,
    random_block,
    random_table,
    same_coupling,
    uniforms_for,
)

SINGLE = {"token_by_token", "block", "greedy_block"}
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in sorted(VERIFIERS)]
CASES.append(("spectr_gbv", {"scale": "kseq"}))
# A scale that is rounded up a lot leaves residual mass on drafted tokens: one that is drawn all the
# same ends the block.
CASES += [("spectr", {"grid": 1}), ("kseq_block", {"grid": 1})]
BOUNDS = {torch.float64: 2.0**-45, torch.float32: 2.0**-16}
SIZES = [(3, 1, 3), (4, 1, 2), (3, 2, 2), (2, 3, 3), (4, 4, 1), (3, 0, 2), (3, 2, 0)]


def _reference_name(scheme: str) -> str:
    return "spectr" if scheme == "spectr:kseq" else scheme


def _replay(uniforms: Uniforms, block: int) -> Replay:
    """The reference's answers from the uniforms of one block."""
    assert uniforms.select is not None
    return Replay(
        uniforms.accept[block].tolist(),
        uniforms.token[block].item(),
        uniforms.select[block].tolist(),
    )


def _fed_coupling(blocks: list[Block], batch: Any) -> Callable[[int], dict[str, Any]]:
    """The fast path's own coupling matrices, as the reference's `couple`."""
    made = design(batch)

    def options(b: int) -> dict[str, Any]:
        matrices = {
            path[:i]: made.matrices[b, k, i].tolist()
            for k, path in enumerate(blocks[b].paths)
            for i in range(len(path))
        }
        return {"couple": lambda prefix, *_: matrices[prefix]}

    return options


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_same_uniforms_same_tokens(
    scheme: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    verifier = catalogue.SCHEMES[_reference_name(scheme)].verify
    cases = excused = 0
    for vocab, drafts, length in SIZES:
        if scheme in SINGLE and drafts > 1:
            continue
        generator = random.Random(100 * vocab + 10 * drafts + length)
        blocks = [
            random_block(generator, vocab, drafts, length, "equal" if b % 6 == 0 else "random")
            for b in range(24)
        ]
        batch = batch_of(blocks, dtype, pad=(drafts, length))
        uniforms = uniforms_for(batch, vocab)
        result = verify(scheme, batch, uniforms, **options)
        extra: Callable[[int], dict[str, Any]] = lambda b: {}  # noqa: E731
        if scheme == "ranked_block" and drafts:
            extra = _fed_coupling(blocks, batch)
        elif scheme == "ranked_block:stateful":
            extra = lambda b: {"couple": same_coupling}  # noqa: E731
        for b, block in enumerate(blocks):
            replay = _replay(uniforms, b)
            outcome = verifier(
                replay,
                FixedDrafts(block.paths, length),
                Model.table(block.draft),
                Model.table(block.target),
                **options,
                **extra(b),
            )
            cases += 1
            emitted = tuple(int(t) for t in result.tokens[b] if t >= 0)
            accepted = int(result.accepted_length[b])
            same = emitted == (*outcome.accepted, outcome.next)
            on_path = not accepted or block.paths[int(result.path[b])][:accepted] == emitted[:-1]
            if not (same and on_path):
                assert replay.margin < BOUNDS[dtype], (block.paths, outcome, emitted)
                excused += 1
    # About eight thresholds a block; three times the expected number and three more.
    assert excused <= 3 * cases * 8 * 2 * BOUNDS[dtype] + 3
    print(f"{scheme} {options} {dtype}: {cases} cases, {excused} excused")


@pytest.mark.parametrize("scheme", ["token_by_token", "block", "greedy_block"])
def test_a_reused_uniform_is_seen(scheme: str) -> None:
    """The planted fault of one uniform for all depths disagrees far above any threshold's bound."""
    generator = random.Random(5)
    blocks = [random_block(generator, 3, 1, 3) for _ in range(60)]
    batch = batch_of(blocks)
    uniforms = uniforms_for(batch, 5)
    reused = dataclasses.replace(uniforms, accept=uniforms.accept[:, :, :1].expand(-1, -1, 3))
    result = verify(scheme, batch, reused)
    seen = 0
    for b, block in enumerate(blocks):
        replay = _replay(uniforms, b)
        outcome = catalogue.SCHEMES[scheme].verify(
            replay, FixedDrafts(block.paths, 3), Model.table(block.draft), Model.table(block.target)
        )
        emitted = tuple(int(t) for t in result.tokens[b] if t >= 0)
        different = emitted != (*outcome.accepted, outcome.next)
        seen += different and replay.margin >= BOUNDS[torch.float64]
    assert seen >= 3


def _after(table: dict[Prefix, Any], prefix: Prefix, length: int) -> dict[Prefix, Any]:
    size = len(prefix)
    return {
        x[size:]: row for x, row in table.items() if x[:size] == prefix and len(x) <= size + length
    }


@pytest.mark.parametrize(
    ("scheme", "options", "sizes"),
    [
        ("greedy_block", {}, (2, 1, 2, 3)),
        ("greedy_block", {}, (2, 1, 3, 2)),
        ("spectr_gbv", {}, (2, 2, 2, 3)),
        ("spectr_gbv", {}, (3, 2, 2, 2)),
        ("spectr_gbv", {"scale": "kseq"}, (2, 3, 2, 2)),
        ("ranked_block:stateful", {}, (2, 2, 2, 3)),
        ("ranked_block:stateful", {}, (2, 2, 3, 2)),
        ("ranked_block:stateful", {"classes": 3, "types": 6}, (3, 3, 2, 2)),
    ],
)
def test_carries_over_rounds(
    scheme: str, options: dict[str, Any], sizes: tuple[int, int, int, int]
) -> None:
    """Nested carries: each side verifies the next round with its own carry."""
    vocab, drafts, length, rounds = sizes
    generator = random.Random(sum(sizes))
    count = 24
    depth = rounds * (length + 1)
    tables = [
        (random_table(generator, vocab, depth), random_table(generator, vocab, depth))
        for _ in range(count)
    ]
    emitted: list[Prefix] = [()] * count
    models = [Model.table(target) for _, target in tables]
    verifier = catalogue.SCHEMES[scheme].verify
    extra = {"couple": same_coupling} if scheme == "ranked_block:stateful" else {}
    carry = None
    nested = 0
    for number in range(rounds):
        blocks = []
        for (draft, target), prefix in zip(tables, emitted, strict=True):
            own = _after(draft, prefix, length)
            paths = [draw_path(generator, own, length) for _ in range(drafts)]
            blocks.append(Block(own, _after(target, prefix, length), paths))
        batch = batch_of(blocks)
        uniforms = uniforms_for(batch, number)
        result = verify(scheme, batch, uniforms, carry=carry, **options)
        carry = result.carry
        for b, block in enumerate(blocks):
            replay = _replay(uniforms, b)
            outcome = verifier(
                replay,
                FixedDrafts(block.paths, length),
                Model.table(tables[b][0]).after(emitted[b]),
                models[b],
                **options,
                **extra,
            )
            new = tuple(int(t) for t in result.tokens[b] if t >= 0)
            assert new == (*outcome.accepted, outcome.next)
            emitted[b] += new
            nested += outcome.carry is not None and number > 0
            plain = Model.table(tables[b][1]).after(emitted[b])
            models[b] = outcome.carry if outcome.carry is not None else plain
    assert nested > 0
