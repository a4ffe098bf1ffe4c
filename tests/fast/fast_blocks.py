"""Random blocks for the tests, as tables by prefix and as a batch, with rows exact in float32."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import torch
from draftproof.fast import Batch, Uniforms
from draftproof.fast.ranked_coupling import coupling

GRAIN = 2**12
"""Rows are multiples of 1/GRAIN: exact in every float type used, and they sum to exactly 1."""

Prefix = tuple[int, ...]
Table = dict[Prefix, tuple[Fraction, ...]]


def random_row(generator: random.Random, vocab: int, grain: int = GRAIN) -> tuple[Fraction, ...]:
    """A random row; now and then sparse or one-hot."""
    sharp = generator.choice((0.3, 1.0, 3.0))
    weights = [generator.gammavariate(sharp, 1.0) for _ in range(vocab)]
    for v in range(vocab):
        if generator.random() < 0.15:
            weights[v] = 0.0
    if sum(weights) == 0:
        weights[generator.randrange(vocab)] = 1.0
    counts = [int(grain * w / sum(weights)) for w in weights]
    counts[max(range(vocab), key=counts.__getitem__)] += grain - sum(counts)
    return tuple(Fraction(c, grain) for c in counts)


def random_table(generator: random.Random, vocab: int, depth: int, grain: int = GRAIN) -> Table:
    """An independent random row after every prefix of up to `depth` tokens."""
    return {
        prefix: random_row(generator, vocab, grain)
        for length in range(depth + 1)
        for prefix in product(range(vocab), repeat=length)
    }


def draw_path(generator: random.Random, table: Table, length: int) -> Prefix:
    """A path drawn from the rows of a table."""
    path: Prefix = ()
    for _ in range(length):
        row = table[path]
        path = (*path, generator.choices(range(len(row)), [float(x) for x in row])[0])
    return path


@dataclass
class Block:
    """One block: its two tables and its drafts."""

    draft: Table
    target: Table
    paths: list[Prefix]


def random_block(
    generator: random.Random, vocab: int, drafts: int, length: int, kind: str = "random"
) -> Block:
    """A block with independent drafts; `kind` "equal" has the same rows in both models."""
    draft = random_table(generator, vocab, length)
    target = draft if kind == "equal" else random_table(generator, vocab, length)
    return Block(draft, target, [draw_path(generator, draft, length) for _ in range(drafts)])


def batch_of(
    blocks: list[Block], dtype: torch.dtype = torch.float64, pad: tuple[int, int] | None = None
) -> Batch:
    """The blocks as one batch with a node for each distinct prefix; leaf draft rows are NaN."""
    drafts = max([len(b.paths) for b in blocks] + ([pad[0]] if pad else []))
    length = max([len(x) for b in blocks for x in b.paths] + ([pad[1]] if pad else [0]))
    tokens = torch.full((len(blocks), drafts, length), -1, dtype=torch.int64)
    nodes = torch.full((len(blocks), max(drafts, 1), length + 1), -1, dtype=torch.int64)
    draft_rows: list[list[float]] = []
    target_rows: list[list[float]] = []
    for b, block in enumerate(blocks):
        known: dict[Prefix, int] = {}
        inner = {x[:i] for x in block.paths for i in range(len(x))}
        vocab = len(block.target[()])
        for k, path in enumerate(block.paths or [()]):
            for i in range(len(path) + 1):
                prefix = path[:i]
                if prefix not in known:
                    known[prefix] = len(draft_rows)
                    row = block.draft[prefix] if prefix in inner else [float("nan")] * vocab
                    draft_rows.append([float(x) for x in row])
                    target_rows.append([float(x) for x in block.target[prefix]])
                nodes[b, k, i] = known[prefix]
            if block.paths:
                tokens[b, k, : len(path)] = torch.tensor(path, dtype=torch.int64)
    return Batch(
        tokens,
        nodes,
        torch.tensor(draft_rows, dtype=torch.float64).to(dtype),
        torch.tensor(target_rows, dtype=torch.float64).to(dtype),
    )


def uniforms_for(batch: Batch, seed: int) -> Uniforms:
    """Uniforms from a seeded generator, now and then 0 or the largest one."""
    generator = torch.Generator().manual_seed(seed)
    made = Uniforms.from_generator(generator, batch)
    edge = torch.rand(made.accept.shape, generator=generator)
    accept = torch.where(edge < 0.02, 0.0, made.accept)
    accept = torch.where(edge > 0.98, 1 - 2.0**-53, accept)
    return Uniforms(accept, made.select, made.token)


def same_coupling(*arguments: Any) -> Any:
    """The fast path's coupling as the reference's `couple`, on the reference's own numbers."""
    _, *numbers = arguments
    types, edges, labels, boost, weight = (
        torch.tensor(x, dtype=torch.float64)
        for x in ([float(y) for y in z] if isinstance(z, tuple) else float(z) for z in numbers)
    )
    return coupling(types[None], edges, labels[None], boost[None], weight[None])[0].tolist()
