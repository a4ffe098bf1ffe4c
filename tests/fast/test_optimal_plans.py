"""The plans of the optimal couplings against the reference's exact ones, and at full size."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from draftproof.fast import Batch, Uniforms, score_plan, verify
from draftproof.fast.clip import Rows
from draftproof.fast.flow_plan import few_sets, flow_plan
from draftproof.fast.open_node import OpenNode
from draftproof.fast.score_plan import Plan, Row
from draftproof.reference.couplings import canonical, transport
from draftproof.reference.models import random_row

ROUNDED = 1e-6
"""For n > 2 the reference rounds the ends of pieces to 2^-30; a token of draft mass 1/100 or more
has its weights moved by at most a few hundred times as much."""


def _floats(row: tuple[object, ...]) -> Row:
    return np.array([float(x) for x in row])  # type: ignore[arg-type]


@pytest.mark.parametrize("drafts", [1, 2, 3, 4])
def test_scores_are_those_of_the_reference(drafts: int) -> None:
    generator = random.Random(drafts)
    worst = 0.0
    for case in range(300):
        vocab = generator.choice([2, 3, 4, 6, 10])
        p = random_row(generator, vocab, 100)
        q = random_row(generator, vocab, 100) if case % 5 else p
        drawn = [v for v in range(vocab) if p[v] != 0]
        tokens = tuple(sorted(generator.choice(drawn) for _ in range(drafts)))
        exact = transport.score_plan(p, q, drafts)
        weights = transport.selection(exact, p, tokens)
        plan = score_plan.score_plan(_floats(p), _floats(q), tokens)
        off = max(abs(float(weights[v]) - plan.weights[v]) for v in weights)
        row = np.abs(plan.selected - _floats(exact.selected)).max()
        worst = max(worst, off, float(row))
    print(f"{drafts} drafts: off by {worst:.1e}")
    assert worst <= (1e-12 if drafts <= 2 else ROUNDED)


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_flows_are_those_of_the_reference(drafts: int) -> None:
    generator = random.Random(drafts)
    for case in range(120):
        vocab = generator.choice([2, 3, 5])
        p = random_row(generator, vocab, 60)
        q = random_row(generator, vocab, 60) if case % 5 else p
        drawn = [v for v in range(vocab) if p[v] != 0]
        tokens = tuple(generator.choice(drawn) for _ in range(drafts))
        weights, selected = canonical._weights(p, q, drafts, "iid")
        plan = flow_plan(_floats(p), _floats(q), tokens)
        assert np.abs(plan.selected - _floats(selected)).max() <= 1e-14
        for v, weight in weights[frozenset(tokens)].items():
            assert abs(plan.weights[v] - float(weight)) <= 1e-12


def _large(vocab: int) -> tuple[Row, Row]:
    generator = np.random.default_rng(vocab)
    scores = 2 * generator.normal(size=vocab)
    p, q = np.exp(scores), np.exp(scores + 0.7 * generator.normal(size=vocab))
    p[:3], q[3:6] = 1e-38 * p.sum(), 0.0
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("drafts", [2, 5])
def test_pieces_have_their_lengths_and_masses(drafts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At V = 20,000: what every token of a block gets is disjoint, of length p and of mass r."""
    p, q = _large(20_000)
    seen: list[tuple[list[float], list[float], list[score_plan.Pieces]]] = []
    cut = score_plan._cut

    def whole(low, high, lengths, wanted, n, stop):  # type: ignore[no-untyped-def]
        made = cut(low, high, lengths, wanted, n, len(lengths) - 1)
        seen.append((lengths, wanted, made))
        return made

    monkeypatch.setattr(score_plan, "_cut", whole)
    order = np.argsort(-(q / p), kind="stable")
    for start in (0, 2000, 12_000):
        tokens = tuple(int(v) for v in order[start : start + drafts])
        plan = score_plan.score_plan(p, q, tokens)
        assert abs(math.fsum(plan.selected) - 1) <= 1e-13
        assert abs(sum(plan.weights.values()) - 1) <= 1e-12
    assert seen
    for lengths, wanted, made in seen:
        every = sorted(piece for own in made for piece in own)
        assert all(a + m <= b + 1e-13 for (a, m), (b, _) in pairwise(every))
        for m, need, own in zip(lengths, wanted, made, strict=True):
            assert abs(sum(size for _, size in own) - m) <= 1e-13
            mass = sum(score_plan._area(start, size, drafts) for start, size in own)
            assert abs(mass - need) <= 1e-13


def test_a_wrong_order_is_seen() -> None:
    """A block cut worst ratio first, the planted fault, has the same masses but other weights."""
    lengths, wanted = [0.2, 0.3, 0.3], [0.2, 0.28, 0.16]
    right = score_plan._cut(0.0, 0.8, lengths, wanted, 2, 2)
    wrong = score_plan._cut(0.0, 0.8, lengths[::-1], wanted[::-1], 2, 2)[::-1]
    for need, own in zip(wanted, wrong, strict=True):
        assert abs(sum(score_plan._area(start, size, 2) for start, size in own) - need) <= 1e-14
    good, bad = (score_plan._selection({0: x[0], 2: x[2]}, {0: 1, 2: 1}) for x in (right, wrong))
    assert abs(good[0] - bad[0]) > 1e-2


def test_many_sets_take_the_scores() -> None:
    assert few_sets(98, 2)
    assert not few_sets(100, 2)
    vocab = 100
    row = torch.full((1, vocab), 1 / vocab, dtype=torch.float64)
    target = torch.linspace(1, 3, vocab, dtype=torch.float64)[None]
    nodes = torch.zeros(1, 2, 2, dtype=torch.int64)
    batch = Batch(torch.tensor([[[5], [90]]]), nodes, row, target / target.sum())
    for u in (0.1, 0.5, 0.9):
        one = torch.full((1, 2, 1), u, dtype=torch.float64)
        uniforms = Uniforms(one, None, one[0, 0])
        found = [verify(f"spectr:{name}", batch, uniforms) for name in ("canonical", "transport")]
        assert found[0].tokens.equal(found[1].tokens)


def test_plans_are_of_the_drafted_tokens() -> None:
    p, q = _large(1000)
    plan: Plan = score_plan.score_plan(p, q, (7, 7, 9))
    assert set(plan.weights) == {7, 9}


def test_what_is_left_of_a_draft_row_is_summed() -> None:
    """A token of nearly all draft mass is taken away from a row whose sum is off by 2e-7: the
    difference, the planted fault, is wrong by a fifth of what is left."""
    p = torch.tensor([[1 - 1e-6, 4e-7, 6e-7]], dtype=torch.float32)
    p[0, 0] += 2e-7
    q = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float32)
    first, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.float64)
    rows = Rows(p, q, first, first)
    child = (first, p[:, 0].double(), q[:, 0].double())
    node, _ = OpenNode.fresh(one, 2).without(rows, child, 0, one)
    left = float(p[0, 1].double() + p[0, 2].double())
    assert abs(float(node.rest) / left - 1) <= 1e-6
    assert abs(float(1 - p[0, 0].double()) / left - 1) > 0.1
    draft, _ = node.entries(p[:, 1].double(), q[:, 1].double())
    assert abs(float(draft) - 0.4) <= 1e-6
