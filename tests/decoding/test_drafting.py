"""Drafts without replacement: the order and the law of the paths, and what verification gets."""

import itertools

import numpy as np
import pytest
import torch
from draftproof.conformance.evidence import Sequential, View, detectable
from draftproof.fast.decoding import drafting
from draftproof.fast.decoding.drafting import draw_tree

V, K, L = 3, 3, 2
REQUESTS = 20_000
THRESHOLD = -np.log(1e-9)


class Table:
    """A `Scorer` of a model whose next row depends on the last token alone."""

    def __init__(self, rows):
        self._logits = torch.tensor(rows, dtype=torch.float64).log()
        self.tokens = []

    def extend(self, tokens, parents):
        self.tokens.append(tokens)
        return self._logits[tokens.clamp(min=0)]


def rows_of(kind):
    rows = np.random.default_rng(5).dirichlet(np.full(V, 0.7), V)
    if kind == "holes":  # only three paths from token 0
        rows = np.array([[0, 0.3, 0.7], [1, 0, 0], [0.5, 0, 0.5]])
    return rows


def drawn(rows, count, drafts=K, seed=1):
    uniforms = np.random.default_rng(seed).random((count, drafts, L, 2 * drafts))
    fresh = torch.zeros((count, 1), dtype=torch.int64)
    softmax = lambda logits: torch.softmax(logits, -1)  # noqa: E731
    scorer = Table(rows)
    groups = [0] * drafts
    return draw_tree(scorer, fresh, torch.from_numpy(uniforms), [softmax], groups, True), scorer


def law_of_ordered_paths(rows, drafts=K):
    """P(first path, second path, ..): each drawn in proportion to its probability, the earlier
    ones left out."""
    paths = list(itertools.product(range(V), repeat=L))
    p = np.array([rows[0][a] * rows[a][b] for a, b in paths])
    law = np.zeros(len(paths) ** drafts)
    for order in itertools.permutations(range(len(paths)), drafts):
        left, chance = 1.0, 1.0
        for i in order:
            chance *= p[i] / left if left > 1e-12 else 0
            left -= p[i]
        law[np.ravel_multi_index(order, [len(paths)] * drafts)] = chance
    return law


def evidence(rows, drafts=2):
    tree, _ = drawn(rows, REQUESTS, drafts)
    number = (tree.paths @ torch.tensor([V, 1])).numpy()
    law = law_of_ordered_paths(rows, drafts)
    seen = np.ravel_multi_index(number.T, [V**L] * drafts)
    test = Sequential(law, (View("paths", np.arange(len(law)), 1.0),), THRESHOLD)
    test.see(seen)
    return test.evidence


def test_paths_come_in_the_order_of_drawing_without_replacement():
    """False alarm 1e-9; with probability 0.999 a law 0.09 away in total variation is seen."""
    assert detectable(V ** (2 * L), REQUESTS, THRESHOLD) < 0.09
    assert evidence(rows_of("full")) < THRESHOLD


def test_a_race_whose_clocks_stand_still_is_seen(monkeypatch):
    right = drafting.race

    def still(rows, runners, uniforms):
        count = uniforms.shape[2] // 2
        return right(
            rows, runners, torch.cat([uniforms[..., :count], 0 * uniforms[..., count:]], 2)
        )

    monkeypatch.setattr(drafting, "race", still)
    assert evidence(rows_of("full")) > THRESHOLD


@pytest.mark.parametrize("kind", ["full", "holes"])
def test_the_tree_has_the_paths_and_nothing_else(kind):
    rows = rows_of(kind)
    tree, scorer = drawn(rows, 500, drafts=4)
    below = torch.cat(scorer.tokens, 1)
    for b in range(500):
        paths = [tuple(path) for path in tree.paths[b].tolist()]
        possible = 3 if kind == "holes" else 4
        assert len(set(paths)) == possible
        assert paths[possible:] == paths[possible - 1 : possible] * (4 - possible)
        prefixes = {}
        for k, i in itertools.product(range(4), range(L + 1)):
            place = int(tree.places[b, k, i])
            assert prefixes.setdefault(paths[k][:i], place) == place
            if i:
                assert int(tree.tokens[b, place]) == paths[k][i - 1]
                assert int(tree.parents[b, place]) == int(tree.places[b, k, i - 1])
            if i < L:
                last = paths[k][i - 1] if i else 0
                assert np.allclose(tree.rows[0, b, place], rows[last])
                assert int(below[b, tree.drawn[b, place]]) == last
        assert sorted(prefixes.values()) == list(range(tree.distinct[b] + 1))


def test_a_request_draws_the_same_whatever_the_batch():
    together, _ = drawn(rows_of("holes"), 50, drafts=4)
    for b in (0, 17, 49):
        uniforms = np.random.default_rng(1).random((50, 4, L, 8))[b : b + 1]
        alone = draw_tree(
            Table(rows_of("holes")),
            torch.zeros((1, 1), dtype=torch.int64),
            torch.from_numpy(uniforms),
            [lambda logits: torch.softmax(logits, -1)],
            [0] * 4,
            True,
        )
        assert torch.equal(alone.paths[0], together.paths[b])
