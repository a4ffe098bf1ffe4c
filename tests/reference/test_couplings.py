"""One-token couplings: how much they accept, against α* and its closed forms, exactly.

That they emit the target's law is tested in test_verifiers.py, for every scheme of the catalogue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from typing import Any

import pytest
from draftproof.reference.chance import TOKEN, Accept, enumerate_law
from draftproof.reference.clip import DEFAULT_GRID, kept_mass, smallest_scale
from draftproof.reference.couplings import canonical
from draftproof.reference.couplings.candidates import Candidates, answer, one_token_block
from draftproof.reference.couplings.canonical import (
    distinct_draft_sets,
    optimal_plan,
)
from draftproof.reference.couplings.global_resolution import TOLERANCE, selection_error
from draftproof.reference.couplings.maximal import maximal
from draftproof.reference.couplings.spechub import spechub
from draftproof.reference.couplings.transport import ROOT_GRID, pooled, score_plan
from draftproof.reference.instance import KINDS, Instance, random_instance
from draftproof.reference.models import context_free, random_row
from draftproof.reference.numbers import ONE, ZERO, Number, divide, rational, total
from draftproof.reference.optima import (
    acceptance_by_sorted_prefix,
    acceptance_by_subsets,
    independent_draft_sets,
)
from draftproof.reference.oracle import examine
from draftproof.reference.rows import Row, row
from draftproof.reference.tree import FixedDrafts, hub_drafts, hub_of
from hypothesis import given, settings
from hypothesis import strategies as st


def rows(count: int, largest: int = 5) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows of all kinds, degenerate ones among them."""
    for seed in range(count):
        generator = random.Random(seed)
        kind = KINDS[generator.choice(list(KINDS))]
        yield kind(generator, generator.randint(1, largest), generator.choice([3, 6, 12]))


def one_token(p: Row, q: Row, drafts: int, law: Any = "iid") -> Instance:
    tails = {(v,): q for v in range(len(q))}
    return Instance(len(p), drafts, 1, {(): p}, {(): q, **tails}, law)


def accepted(scheme: str, p: Row, q: Row, drafts: int, law: Any = "iid", **options: Any) -> Number:
    return examine(scheme, one_token(p, q, drafts, law), **options).expected_accepted_length


def best(p: Row, q: Row, drafts: int) -> Number:
    """α* for i.i.d. drafts."""
    return acceptance_by_sorted_prefix(p, q, drafts)


# What each coupling accepts.


def test_maximal_accepts_one_minus_the_total_variation() -> None:
    for p, q in rows(300):
        variation = total(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
        assert accepted("maximal", p, q, 1) == 1 - variation == best(p, q, 1)


def test_target_match_accepts_what_is_drafted() -> None:
    for p, q in rows(200, 4):
        for n in (1, 2, 3):
            drafted = total(b * (1 - (1 - a) ** n) for a, b in zip(p, q, strict=True))
            assert accepted("target_match", p, q, n) == drafted


def test_kseq_accepts_what_its_clip_covers() -> None:
    """c β, and what the residual owes to a draft because the scale is rounded up."""
    for p, q in rows(150, 3):
        for n in (1, 2, 3):
            kept = kept_mass(p, q, smallest_scale(p, q, n))
            covered = 1 - (1 - kept) ** n
            assert 0 <= accepted("kseq", p, q, n) - covered <= rational(2 * n) / DEFAULT_GRID


def test_canonical_is_optimal() -> None:
    for p, q in rows(300, 4):
        for n in (1, 2, 3):
            assert accepted("canonical", p, q, n) == best(p, q, n)


def test_canonical_of_many_sets_is_optimal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MOST_SETS", 3)
    for p, q in rows(100, 4):
        result = examine("canonical", one_token(p, q, 2))
        assert result.expected_accepted_length == best(p, q, 2)
        assert result.total_variation == 0


def test_canonical_is_optimal_for_drafts_without_replacement() -> None:
    """For that draft law recursive rejection falls short too, though seldom."""
    below = 0
    for p, q in rows(200, 4):
        for n in (1, 2, 3):
            law = "without_replacement"
            alpha = acceptance_by_subsets(distinct_draft_sets(p, n), q)
            assert accepted("canonical", p, q, n, law, draft_law=law) == alpha
            recursive = accepted("without_replacement", p, q, n, law)
            assert recursive <= alpha
            below += recursive < alpha
    assert below >= 1


def test_transport_is_optimal_for_two_drafts() -> None:
    for p, q in rows(300, 4):
        assert accepted("transport", p, q, 2) == best(p, q, 2)


def test_the_score_plan_is_optimal() -> None:
    """Over larger vocabularies and more drafts, without enumerating: acceptance Σ min(q, r).

    Rounding an end by half a step of the grid moves an integral of n s^(n-1) by at most n/2 steps;
    each token but the last of a block has at most one rounded end, and passes what it moves on.
    """
    for p, q in rows(2000, 7):
        for n in (1, 2, 3, 4):
            plan = score_plan(p, q, n)
            alpha = best(p, q, n)
            reached = total(min(a, b) for a, b in zip(plan.selected, q, strict=True))
            slack = ZERO if n <= 2 else rational(n * len(p)) / ROOT_GRID
            assert alpha - slack <= reached <= alpha
            assert total(plan.selected) == 1


def test_the_pieces_of_a_plan_tile_the_scores() -> None:
    for p, q in rows(400, 6):
        for n in (2, 3):
            pieces = score_plan(p, q, n).pieces
            ends = [ZERO, *(piece.high for piece in pieces)]
            assert [piece.low for piece in pieces] == ends[:-1]
            assert ends[-1] == 1
            for v, mass in enumerate(p):
                assert total(x.high - x.low for x in pieces if x.token == v) == mass


def test_the_pooled_law_is_best_for_every_weight_at_once() -> None:
    """Σ min(w q, r) is the most that any selected law reaches, min_H [w q(H) + 1 - p(H)^n]."""
    for p, q in rows(300, 4):
        for n in (1, 2, 3):
            r = [ZERO] * len(p)
            for b in pooled(p, q, n):
                for v in b.tokens:
                    r[v] = b.r * (q[v] / b.q if b.q else p[v] / b.p)
            subsets = [H for size in range(len(p) + 1) for H in combinations(range(len(p)), size)]
            for w in (rational("1/5"), rational("1/2"), ONE, rational("3/2"), rational(4)):
                most = min(
                    w * total(q[v] for v in H) + 1 - total(p[v] for v in H) ** n for H in subsets
                )
                assert total(min(w * b, a) for a, b in zip(r, q, strict=True)) == most


def test_spechub_is_optimal_for_its_draft_law() -> None:
    for p, q in rows(300, 5):
        pairs: dict[frozenset[int], Number] = {}
        law = enumerate_law(lambda chance, p=p: _pair(hub_drafts(chance, context_free(p))))  # type: ignore[misc]
        for pair, chance in law.items():
            pairs[frozenset(pair)] = pairs.get(frozenset(pair), ZERO) + chance
        assert accepted("spechub", p, q, 2) == acceptance_by_subsets(pairs, q)
        hub = hub_of(p)
        for pair, chance in pairs.items():
            assert hub in pair
            for x in pair - {hub}:
                assert chance == p[x] / (1 - p[hub])


def _pair(drafts: FixedDrafts) -> tuple[int, int]:
    return drafts.token(0, 1), drafts.token(1, 1)


def test_a_pair_without_the_hub_is_refused() -> None:
    p = row(["1/2", "1/4", "1/4"])
    with pytest.raises(ValueError, match=r"neither draft of \[1, 2\] is the hub, token 0"):
        one_token_block(
            spechub, _Never(), FixedDrafts([(1,), (2,)]), context_free(p), context_free(p)
        )


class _Never:
    def flip(self, probability: Number, place: Any) -> bool:
        raise AssertionError(place)

    def draw(self, weights: Any, place: Any) -> int:
        raise AssertionError(place)


def test_global_resolution_is_off_by_no_more_than_it_says() -> None:
    """Its exact total variation is at most the exact error of the selected law, which the solver
    keeps below its tolerance where nothing is truncated. It is not zero: the label is needed."""
    largest = ZERO
    for seed in range(150):
        generator = random.Random(seed)
        V, n = generator.choice([(2, 2), (3, 2), (3, 3), (4, 2)])
        kind = generator.choice(list(KINDS))
        instance = random_instance(generator, V, 1, n, denominator=6, kind=kind)
        p, q = instance.draft_rows[()], instance.target_rows[()]
        error = selection_error(p, q, n)
        assert examine("global_resolution", instance).total_variation <= error
        assert error <= rational(TOLERANCE) * V
        truncated = examine("global_resolution", instance, vocabulary=1)
        assert truncated.total_variation <= selection_error(p, q, n, 1)
        largest = max(largest, truncated.total_variation)
        loose = examine("global_resolution", instance, tolerance=0.05)
        assert loose.total_variation <= selection_error(p, q, n, tolerance=0.05)
        close = examine("global_resolution", instance).expected_accepted_length
        assert abs(close - best(p, q, n)) <= 2 * error
    assert largest > rational("1/10")


# Bounds and limits, over thousands of instances.


def kseq_acceptance(p: Row, q: Row, drafts: int) -> tuple[Number, Number]:
    """The acceptance of K-SEQ at the rounded scale, and one step of the grid below it: the exact
    smallest scale lies between, and so does its acceptance."""
    scale = smallest_scale(p, q, drafts)
    below = max(ONE, scale - rational(1) / DEFAULT_GRID)
    low, high = (1 - (1 - kept_mass(p, q, s)) ** drafts for s in (scale, below))
    return low, high


def test_kseq_is_within_its_factor_of_the_optimum() -> None:
    """(1 - (1-1/K)^K) α* ≤ acceptance ≤ α*, also at the scale that is rounded up."""
    for p, q in rows(3000):
        for n in (1, 2, 3, 5):
            alpha = best(p, q, n)
            low, _ = kseq_acceptance(p, q, n)
            assert (1 - (1 - rational(1) / n) ** n) * alpha <= low <= alpha


def test_acceptance_does_not_fall_with_more_drafts() -> None:
    for p, q in rows(2000):
        alphas = [best(p, q, n) for n in range(8)]
        assert alphas == sorted(alphas)
        bounds = [kseq_acceptance(p, q, n) for n in range(1, 6)]
        for (low, _), (_, high) in pairwise(bounds):
            assert low <= high


@pytest.mark.parametrize(
    "scheme", ["recursive_rejection", "target_match", "canonical", "without_replacement"]
)
def test_enumerated_acceptance_does_not_fall_with_more_drafts(scheme: str) -> None:
    law = "without_replacement" if scheme == "without_replacement" else "iid"
    for p, q in rows(250, 3):
        values = [accepted(scheme, p, q, n, law) for n in range(4)]
        assert values == sorted(values)


def test_the_optimum_tends_to_the_target_mass_of_the_support() -> None:
    """α*(K) → q(supp p), which is 1 when supp p ⊇ supp q. A set of draft mass below 1 has at most
    11/12 here, so the gap is at most (11/12)^K."""
    for p, q in rows(1000):
        limit = total(b for a, b in zip(p, q, strict=True) if a != 0)
        for n in (10, 40, 160):
            gap = limit - best(p, q, n)
            assert 0 <= gap <= rational("11/12") ** n


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_the_orders_of_the_couplings(data: st.DataObject) -> None:
    """recursive rejection, target match and K-SEQ ≤ α*, and ≥ 1 - TV of one draft for the first."""
    V = data.draw(st.integers(1, 3))
    weights = st.lists(st.integers(0, 4), min_size=V, max_size=V).filter(any)
    p, q = (
        tuple(rational(w) / sum(ws) for w in ws) for ws in (data.draw(weights), data.draw(weights))
    )
    n = data.draw(st.integers(1, 3))
    alpha = acceptance_by_subsets(independent_draft_sets(p, n), q)
    assert alpha == best(p, q, n)
    one = accepted("maximal", p, q, 1)
    assert one <= accepted("recursive_rejection", p, q, n) <= alpha
    assert accepted("target_match", p, q, n) <= alpha
    assert accepted("kseq", p, q, n) <= alpha
    assert accepted("transport", p, q, n) <= alpha


# The parts.


def test_a_plan_moves_no_more_than_there_is() -> None:
    """The maximum flow is a flow, and the sets that it cannot serve certify it: the tokens of the
    unserved sets, closed under augmenting, have all their demand met."""
    for p, q in rows(200, 4):
        for sets in (independent_draft_sets(p, 2), distinct_draft_sets(p, 2)):
            flow = optimal_plan(sets, q)
            assert min(flow.values()) >= 0
            for S, mass in sets.items():
                assert total(flow[S, v] for v in S) <= mass
            for v, demand in enumerate(q):
                assert total(f for (_, token), f in flow.items() if token == v) <= demand
            assert total(flow.values()) == acceptance_by_subsets(sets, q)


def test_sets_drawn_without_replacement() -> None:
    sets = distinct_draft_sets(row(["1/2", "1/4", "1/4", "0"]), 2)
    assert sets == {
        frozenset({0, 1}): rational("1/2") * rational("1/2") + rational("1/4") * rational("2/3"),
        frozenset({0, 2}): rational("1/2") * rational("1/2") + rational("1/4") * rational("2/3"),
        frozenset({1, 2}): 2 * rational("1/4") * rational("1/3"),
    }
    assert distinct_draft_sets(row(["1", "0"]), 3) == {frozenset({0}): 1}


def test_answer_has_the_law_it_is_given() -> None:
    generator = random.Random(5)
    for tokens in product(range(3), repeat=2):
        law = random_row(generator, 3)
        candidates = Candidates(FixedDrafts([(t,) for t in tokens]), [0, 1], 1, [law, law])
        found = enumerate_law(lambda chance, c=candidates, w=law: answer(chance, c, w).token)  # type: ignore[misc]
        assert all(found.probability(v) == law[v] for v in range(3))
        assert candidates.test(1) == Accept(1, 1)
        assert candidates.draft(1) == 1


def test_answer_tests_each_token_once() -> None:
    """A candidate that comes again is not kept, and the last draw leaves the candidates out."""

    class Recording:
        def __init__(self) -> None:
            self.asked: list[tuple[Any, Any]] = []

        def flip(self, probability: Number, place: Any) -> bool:
            self.asked.append((probability, place))
            return False

        def draw(self, weights: Any, place: Any) -> int:
            self.asked.append((tuple(weights), place))
            return 2

    chance = Recording()
    law = row(["1/2", "1/3", "1/6"])
    candidates = Candidates(FixedDrafts([(1,), (1,), (0,)]), [0, 1, 2], 1, [law] * 3)
    assert answer(chance, candidates, law) == (2, False)
    assert chance.asked == [
        (rational("1/3"), Accept(0, 1)),
        (0, Accept(1, 1)),
        (rational("3/4"), Accept(2, 1)),
        ((0, 0, rational("1/6")), TOKEN),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: one_token_block(maximal, _Never(), FixedDrafts([(0, 0)]), m, m),
            "verifies length 1, not 2",
        ),
        (
            lambda m: one_token_block(maximal, _Never(), FixedDrafts([(0,), (1,)]), m, m),
            "takes one draft, not 2",
        ),
        (
            lambda m: one_token_block(spechub, _Never(), FixedDrafts([(0,)]), m, m),
            "a pair of drafts, not 1",
        ),
        (
            lambda m: examine("canonical", one_token(m(()), m(()), 2), draft_law="other"),
            "draft_law must be 'iid' or 'without_replacement', not 'other'",
        ),
        (
            lambda m: examine(
                "kseq", one_token(row(["1/2", "1/2"]), row(["3/4", "1/4"]), 2), scale=rational(1)
            ),
            "scale 1 is not valid for 2 drafts",
        ),
    ],
)
def test_wrong_use_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(context_free(["1/2", "1/2"]))


def test_two_drafts_in_closed_form() -> None:
    """K = 2: α* = min_S q(S) + 1 - p(S)^2 (Khisti et al.), also as the two-step scheme."""
    for p, q in rows(200, 4):
        closed = min(
            total(q[v] for v in S) + 1 - total(p[v] for v in S) ** 2
            for size in range(len(p) + 1)
            for S in combinations(range(len(p)), size)
        )
        assert accepted("canonical", p, q, 2) == closed


def test_recursive_rejection_leaves_a_scaled_residual() -> None:
    """The residual of a residual is again ∝ (q - a p)+, so a fixed p never needs more than a."""
    for p, q in rows(300, 5):
        owed, a, mass = q, ZERO, ONE
        for _ in range(3):
            left = [max(t - d, ZERO) for d, t in zip(p, owed, strict=True)]
            a, kept = a + mass, total(left)
            if kept == 0:
                break
            owed = tuple(x / kept for x in left)
            mass *= kept
            again = [max(t - a * d, ZERO) for d, t in zip(p, q, strict=True)]
            assert owed == tuple(divide(x, total(again), ZERO) for x in again)
