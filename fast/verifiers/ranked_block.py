"""Ranked block verification: each draft gets a rank, the highest is selected and block-verified.

The rank of a draft is a label from J classes, independent over drafts, with the same law for all of
them, but coupled to the path: paths that the target prefers rank higher. The coupling is built row
by row along each draft's own path, so the law R of the selected path is known exactly there, and
block verification with the rows of R in place of those of p is lossless.

    π_x      law of the label of a draft that passes through x (the root: π0)
    u(c)     how much more often a draft of label c is selected than a draft in general
    T_x      Σ_c π_x(c) u(c) = R(x)/p(x)

At a prefix x every token is a mixture of two neighbouring *ratio types*, by its q/p. A coupling M
of the types (mass P) with the labels (mass π_x) gives each type its label law, each token the
mixture of two, and so the selected row and the states of the children.

Source: this project (proved in `proofs` for every coupling with these marginals). J = 1 is block
verification of the first draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import torch
from draftproof.fast.clip import Rows, ratio_masses, selected_row
from draftproof.fast.paths import divide, first_true, node_at, rows_at
from draftproof.fast.ranked_carry import RankedCarry, draw_owed, visit
from draftproof.fast.ranked_coupling import couple
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.block import RowsAt, plain_rows, verify_path
from torch import Tensor

__all__ = ["CLASSES", "RATIO_TYPES", "Design", "design", "verify", "verify_stateful"]

CLASSES = 8
"""J, the default number of labels."""
RATIO_TYPES = 17
"""NT, the default number of ratio types."""
LABEL_GRID = 2**16
RATIO_GRID = 2**10


def verify(
    batch: Batch, uniforms: Uniforms, *, classes: int = CLASSES, types: int = RATIO_TYPES
) -> Result:
    """Select the draft of the highest label and verify its path with the law that it has.

    The drafts of a block must have one length; blocks may differ.

    Raises:
        ValueError: no select uniforms.
    """
    if uniforms.select is None:
        raise ValueError("ranked_block selects a draft: select uniforms are needed")
    made = design(batch, classes=classes, types=types)
    path = made.selected(uniforms.select)
    every = torch.arange(batch.blocks, device=batch.device)
    length = made.length[every, path] if batch.drafts else torch.zeros_like(path)
    ratio = (
        made.ratio[every, path]
        if batch.drafts
        else made.ratio.new_zeros(batch.blocks, batch.length)
    )
    return verify_path(batch, uniforms, path, length, ratio, made.law(batch, path))


def verify_stateful(
    batch: Batch,
    uniforms: Uniforms,
    *,
    carry: RankedCarry | None = None,
    classes: int = CLASSES,
    types: int = RATIO_TYPES,
) -> Result:
    """Select the draft of the highest label and verify its path by the greedy block rule.

    `carry` is that of the previous round, which had as many `classes` and `types`. The drafts of a
    block must have one length; blocks may differ.

    Raises:
        ValueError: no select uniforms, or a carry of another number of classes.
    """
    if uniforms.select is None:
        raise ValueError("ranked_block:stateful selects a draft: select uniforms are needed")
    b, k, length = batch.tokens.shape
    device = batch.device
    if carry is not None and carry.labels.shape[2] != classes:
        raise ValueError(f"carry has {carry.labels.shape[2]} classes, not {classes}")
    layers = carry if carry is not None else RankedCarry.empty(b, classes, device)
    edges = edges_on(types, device)
    every, path = torch.arange(b, device=device), torch.zeros_like(batch.roots)
    depth = torch.zeros_like(path)
    if k and length:
        lengths = batch.lengths
        laws, boosts = label_constants(k, classes, device)
        number = (lengths > 0).sum(1).repeat_interleave(k)
        start = layers.select(every.repeat_interleave(k))
        start = start.with_layer(laws[number], boosts[number], lengths.flatten(), length)
        states, tests = _greedy_tests(batch, start, edges)
        path = highest(states[-1].labels[:, -1].view(b, k, -1), lengths > 0, uniforms.select)
        own = every * k + path
        uniform = uniforms.accept[every, path]
        passed = uniform < torch.stack(tests, 1)[own]
        inside = torch.arange(1, length + 1, device=device)
        passed = passed & (inside <= lengths[every, path][:, None])
        depth = (passed * inside).amax(1)
        layers = states[0].select(own)
        for i in range(1, length + 1):
            layers = states[i].select(own).where(depth == i, layers)
    node = node_at(batch, path, depth)
    rows = rows_at(batch, node, ~layers.active().any(1))
    token, layers = draw_owed(rows, layers, edges, uniforms.token)
    rest = layers.shortened()
    path = torch.where(depth > 0, path, 0)
    return Result.of(batch, depth, path, token, rest if rest.bounds else None)


def _greedy_tests(
    batch: Batch, layers: RankedCarry, edges: Tensor
) -> tuple[list[RankedCarry], list[Tensor]]:
    """The layers [B·K] at the depths 0 .. L of each draft, and its tests h_1 .. h_L, [B·K] each.

    The last layer is that of this block: with its joint ratio r_i and selected row R

        h_L = min(1, r_L),   h_i = min(1, Σ (r_i T - R)+ / Σ (R - r_i T)+),   1 when r_i ≥ 1 or 0/0.
    """
    b, k, length = batch.tokens.shape
    p = batch.token_probabilities(batch.draft_rows).flatten(0, 1)
    lengths = batch.lengths.flatten()
    every = torch.arange(b * k, device=batch.device)
    states, tests = [layers], []
    for i in range(length):
        going = i < lengths
        node, owner = _first_visits(batch, i)
        token = batch.tokens[:, :, i]
        tokens = token.repeat_interleave(k, 0)
        seen = visit(rows_at(batch, node), layers, edges, tokens, owner)
        s = layers.joint()
        inner = torch.where(s >= 1, 1.0, divide(seen.gained, seen.lost, 1.0).clamp(max=1.0))
        tests.append(torch.where(going, inner, s.clamp(max=1.0)))
        target = seen.entries[every, :, every % k]
        layers = layers.after(seen.made, p[:, i], target).where(going, layers)
        states.append(layers)
    tests.append(layers.joint().clamp(max=1.0))
    return states, tests[1:]


@dataclass(frozen=True)
class Design:
    """The label laws along all drafts, and what follows from them."""

    length: Tensor
    """int64 [B, K]"""
    labels: Tensor
    """float64 [B, K, J]: π at the end of each draft."""
    ratio: Tensor
    """float64 [B, K, L]: q/r of each draft's tokens, r the selected row."""
    rise: Tensor
    """float64 [B, K, L, NT]: t, the factor r/p of each ratio type at each node of a draft."""
    matrices: Tensor
    """float64 [B, K, L, NT, J]: the coupling at each node of a draft."""
    edges: Tensor
    """float64 [NT]: the ratio types."""

    def selected(self, uniforms: Tensor) -> Tensor:
        """int64 [B]: the first draft with the highest label, from a uniform [B, K] for each."""
        return highest(self.labels, self.length > 0, uniforms)

    def law(self, batch: Batch, path: Tensor) -> RowsAt:
        """The rows of the selected draft `path` [B] along itself."""
        every = torch.arange(len(path), device=path.device)

        if self.rise.shape[1] == 0 or self.rise.shape[2] == 0:
            return plain_rows(batch)

        def at(depth: Tensor, nodes: Tensor) -> Rows:
            return selected_row(rows_at(batch, nodes), self.rise[every, path, depth], self.edges)

        return at


def design(batch: Batch, *, classes: int = CLASSES, types: int = RATIO_TYPES) -> Design:
    """The label laws of all drafts, depth by depth from the root."""
    b, k, length = batch.tokens.shape
    device = batch.device
    count = (batch.lengths > 0).sum(1)
    steps, boosts = label_constants(k, classes, device)
    labels = steps[count][:, None].expand(b, k, classes)
    boost = boosts[count][:, None].expand(b, k, classes)
    edges = edges_on(types, device)
    tilt = torch.ones(b, k, dtype=torch.float64, device=device)
    weight = tilt
    p = batch.token_probabilities(batch.draft_rows)
    q = batch.token_probabilities(batch.target_rows)
    masses = _masses(batch, edges)
    ratios, rises, matrices = [], [], []
    for i in range(length):
        made = couple(masses[:, :, i], edges, labels, boost / tilt[:, :, None], weight)
        drafted = batch.tokens[:, :, i] >= 0
        labels, own = made.child(p[:, :, i], q[:, :, i], drafted)
        ratio = divide(q[:, :, i], p[:, :, i] * own)
        tilt = torch.where(drafted, tilt * own, tilt)
        weight = torch.where(drafted, (weight * ratio).clamp(max=1.0), weight)
        ratios.append(ratio)
        rises.append(made.rise)
        matrices.append(made.matrix)
    return Design(
        batch.lengths,
        labels,
        torch.stack(ratios, 2) if ratios else p,
        torch.stack(rises, 2) if rises else p.new_zeros(b, k, 0, types),
        torch.stack(matrices, 2) if matrices else p.new_zeros(b, k, 0, types, classes),
        edges,
    )


def highest(labels: Tensor, present: Tensor, uniforms: Tensor) -> Tensor:
    """int64 [B]: the first draft with the highest label, drawn from its law [B, K, J] with a
    uniform [B, K] for each; 0 if none is `present` [B, K]."""
    if labels.shape[1] == 0:
        return torch.zeros(len(labels), dtype=torch.int64, device=labels.device)
    reached = labels.cumsum(2)
    above = (reached > uniforms[:, :, None] * reached[:, :, -1:]) & (labels > 0)
    label = torch.where(present, first_true(above), -1)
    return first_true(label == label.amax(1, keepdim=True))


def _masses(batch: Batch, edges: Tensor) -> Tensor:
    """float64 [B, K, L, NT]: the type masses P at each node of a draft, computed once a node."""
    b, k, length = batch.tokens.shape
    if k == 0 or length == 0:
        return torch.zeros(b, k, length, len(edges), dtype=torch.float64, device=batch.device)
    visits = [_first_visits(batch, i) for i in range(length)]
    nodes, owners = (torch.stack(x, 1) for x in zip(*visits, strict=True))
    masses = ratio_masses(rows_at(batch, nodes.flatten()), edges).view(b * k, length, -1)
    depth = torch.arange(length, device=batch.device)
    return masses[owners, depth].view(b, k, length, -1)


def _first_visits(batch: Batch, depth: int) -> tuple[Tensor, Tensor]:
    """int64 [B·K] each: the inner node of each draft at a depth, -1 where an earlier draft of the
    block has the same or there is none, and the place of the first draft that has it."""
    b, k, _ = batch.tokens.shape
    nodes = torch.where(batch.tokens[:, :, depth] >= 0, batch.nodes[:, :k, depth], -1)
    first = (nodes[:, :, None] == nodes[:, None]).to(torch.int8).argmax(2)  # [B, K]
    draft = torch.arange(k, device=batch.device)
    block = torch.arange(b, device=batch.device)[:, None]
    return torch.where(first == draft, nodes, -1).flatten(), (block * k + first).flatten()


@lru_cache(maxsize=16)
def ratio_edges(types: int) -> tuple[float, ...]:
    """0, then `types` - 2 log-spaced ratios from 1/16 to 16 (rounded to 1/1024), then 64.

    Raises:
        ValueError: fewer than 4 types.
    """
    if types < 4:
        raise ValueError(f"types is {types}; there are at least 4 ratio types")
    steps = types - 3
    inner = [round(16.0 ** (2 * i / steps - 1) * RATIO_GRID) / RATIO_GRID for i in range(steps + 1)]
    return (0.0, *inner, 64.0)


@lru_cache(maxsize=64)  # once: a copy to the device cannot be captured in a CUDA graph
def edges_on(types: int, device: torch.device) -> Tensor:
    return torch.tensor(ratio_edges(types), dtype=torch.float64, device=device)


@lru_cache(maxsize=64)
def label_edges(drafts: int, classes: int) -> tuple[Fraction, ...]:
    """0 = s_0 < .. < s_J = 1 with (s_j + s_j^K)/2 = j/J, rounded up to a multiple of 2^-16."""

    def edge(j: int) -> Fraction:
        low, high = 0, LABEL_GRID
        while low < high:
            middle = (low + high) // 2
            s = Fraction(middle, LABEL_GRID)
            low, high = (low, middle) if (s + s**drafts) * classes >= 2 * j else (middle + 1, high)
        return Fraction(low, LABEL_GRID)

    return tuple(edge(j) for j in range(classes + 1))


@lru_cache(maxsize=64)
def label_constants(most: int, classes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """π0 and u, float64 [K+1, J] each, for every number of drafts up to `most`."""
    laws, boosts = [], []
    for n in range(most + 1):
        s = label_edges(max(n, 1), classes)
        law = [high - low for low, high in pairwise(s)]
        powers = [edge ** max(n, 1) for edge in s]
        rises = [high - low for low, high in pairwise(powers)]
        laws.append([float(x) for x in law])
        boosts.append([float(y / x) for x, y in zip(law, rises, strict=True)])
    return (
        torch.tensor(laws, dtype=torch.float64, device=device),
        torch.tensor(boosts, dtype=torch.float64, device=device),
    )
