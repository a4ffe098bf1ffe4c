"""Faster enumeration changes no law: late, exchangeable and merged drafts against brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from math import factorial, prod
from typing import Any

import pytest
from draftproof.conformance.bench_enumeration import benchmark, naive_law, rounded
from draftproof.conformance.comparison import dirichlet_instance
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import Chance, Draft, enumerate_law, meet
from draftproof.reference.instance import KINDS, random_instance
from draftproof.reference.law import Law
from draftproof.reference.models import Model, random_table
from draftproof.reference.numbers import rational
from draftproof.reference.oracle import (
    Stop,
    block_stops,
    check_drafts,
    draw_drafts,
    examine,
    freeze_carry,
)
from draftproof.reference.tree import Drafts, SampledDrafts, alive, look

SAMPLED = [
    name
    for name, s in SCHEMES.items()
    if s.draft_law in ("iid", "independent", "any") and s.kind != "control" and not s.selects
]
"""Without ranked block, whose labels make the naive enumeration too long."""
SMALL: dict[str, dict[str, Any]] = {
    "ranked_block": {"classes": 3, "types": 4},
    "ranked_block:stateful": {"classes": 3, "types": 4},
}


def unmerged(
    name: str, drafts: Callable[[Chance], Drafts], draft: Any, target: Model, **options: Any
) -> Law[Stop]:
    """The law of every history followed to its end, on its own."""

    def program(chance: Chance) -> Stop:
        outcome = SCHEMES[name].verify(chance, drafts(chance), draft, target, **options)
        return Stop(outcome.accepted, outcome.next, freeze_carry(outcome.carry))

    return enumerate_law(program)


@pytest.mark.parametrize("name", SCHEMES)
def test_merging_changes_no_law(name: str) -> None:
    scheme, options = SCHEMES[name], SMALL.get(name, {})
    for seed in range(25):
        generator = random.Random(f"{name} {seed}")
        V, L, K = generator.choice(((2, 2, 2), (3, 1, 3), (2, 1, 4), (2, 2, 3), (3, 2, 2)))
        length = 1 if scheme.kind == "coupling" else L
        least, most = scheme.drafts
        drafts = max(least, K if most is None else min(K, most))
        law: Any = scheme.draft_law if scheme.draft_law == "without_replacement" else "iid"
        if scheme.draft_law == "deterministic" or (law == "iid" and seed % 5 == 4):
            law = "fixed"
        drafts = min(drafts, V**length) if law == "without_replacement" else drafts
        kind = generator.choice(list(KINDS))
        instance = random_instance(
            generator, V, length, drafts, kind=kind, denominator=7, draft_law=law
        )
        check_drafts(scheme, drafts)
        draft, target = instance.draft_model, instance.target_model

        def draw(chance: Chance, instance: Any = instance) -> Drafts:
            return draw_drafts(chance, instance, scheme)

        merged = block_stops(name, draw, draft, target, **options)
        assert merged == unmerged(name, draw, draft, target, **options)


@pytest.mark.parametrize(
    "name", [n for n, s in SCHEMES.items() if s.draft_law in ("independent", "any")]
)
def test_merging_keeps_different_models_apart(name: str) -> None:
    """Two drafts share a model, the third has another: their order matters."""
    scheme, options = SCHEMES[name], SMALL.get(name, {})
    for seed in range(15):
        generator = random.Random(f"{name} {seed}")
        length = 1 if scheme.kind == "coupling" else 2
        one, other, target = (random_table(generator, 2, length, 7) for _ in range(3))
        models = generator.choice(([one, other, one], [one, one, other], [other, one, one]))

        def draw(chance: Chance, models: Any = models, length: int = length) -> Drafts:
            return SampledDrafts(chance, models, length)

        merged = block_stops(name, draw, models, target, **options)
        assert merged == unmerged(name, draw, models, target, **options)


def test_a_meeting_that_forgets_what_matters_changes_the_law() -> None:
    """The comparison above can fail: here the first draw matters and is not named."""

    def program(chance: Chance, named: bool) -> int:
        first = chance.draw((1, 1), Draft(0, 1))
        meet(chance, "after the first", first if named else None)
        return chance.flip(rational(1 + first) / 3, Draft(0, 2)) + 2 * first

    whole = enumerate_law(lambda chance: program(chance, True))
    assert enumerate_law(lambda chance: program(chance, True), merge=True) == whole
    assert enumerate_law(lambda chance: program(chance, False)) == whole
    assert enumerate_law(lambda chance: program(chance, False), merge=True) != whole


def test_a_state_that_comes_back_is_refused() -> None:
    def program(chance: Chance) -> int:
        heads = 0
        for toss in range(3):
            heads += chance.flip(rational("1/2"), Draft(0, toss))
            meet(chance, "heads", heads)
        return heads

    assert enumerate_law(program).expectation(lambda n: n) == rational("3/2")
    with pytest.raises(ValueError, match=r"comes back to \('heads', 0\)"):
        enumerate_law(program, merge=True)


def test_orders_are_merged_into_multisets_with_multinomial_weights() -> None:
    """Six tokens from three: 28 multisets in place of 729 sequences.

    One run for each ordered pair, three for each multiset of 2 to 5 tokens, one for each of 6.
    """
    model = random_table(random.Random(4), 3, 1, 7)
    row = model(())
    runs = 0

    def program(chance: Chance) -> tuple[int, ...]:
        nonlocal runs
        runs += 1
        drafts = SampledDrafts(chance, [model] * 6, 1)
        return tuple(sorted(look(chance, drafts, range(6), 1)))

    law = enumerate_law(program, merge=True)
    merged_runs, runs = runs, 0
    assert law == enumerate_law(program)
    assert len(law) == 28
    assert (merged_runs, runs) == (9 + 3 * (6 + 10 + 15 + 21) + 28, 3**6)
    for tokens, chance in law.items():
        counts = Counter(tokens).values()
        orders = factorial(6) // prod(map(factorial, counts))
        assert chance == orders * prod((row[v] for v in tokens), start=rational(1))


@pytest.mark.parametrize("name", SAMPLED)
def test_law_equals_the_naive_enumeration(name: str) -> None:
    scheme = SCHEMES[name]
    generator = random.Random(name)
    for kind in KINDS:
        for V, L, K in ((2, 2, 3), (3, 1, 3), (2, 1, 4)):
            length = min(L, 1) if scheme.kind == "coupling" else L
            drafts = K if scheme.drafts[1] is None else min(K, scheme.drafts[1])
            instance = random_instance(generator, V, length, drafts, kind=kind, denominator=7)
            assert examine(name, instance).stops == naive_law(scheme, instance)


def test_exchangeable_drafts_are_counted() -> None:
    """How many of five fresh drafts pass through a prefix: six branches, with the exact law."""
    model = random_table(random.Random(1), 3, 2, 7)
    prefix = (1, 2)
    h = model(())[1] * model((1,))[2]
    runs = 0

    def program(chance: Chance) -> int:
        nonlocal runs
        runs += 1
        return len(alive(SampledDrafts(chance, [model] * 5, 2), range(5), prefix))

    law = enumerate_law(program)
    assert law.expectation(lambda n: n) == 5 * h
    assert law.probability(0) == (1 - h) ** 5
    assert law.probability(5) == h**5
    assert runs <= 21  # pairs (pass at depth 1) >= (pass at depth 2), instead of 3^5


def test_drafts_of_different_models_are_not_exchanged() -> None:
    generator = random.Random(2)
    one, other = random_table(generator, 2, 1, 7), random_table(generator, 2, 1, 7)
    models = [one, other, one]

    def program(chance: Chance) -> tuple[int, ...]:
        return tuple(alive(SampledDrafts(chance, models, 1), range(3), (0,)))

    law = enumerate_law(program)
    for k, model in enumerate(models):
        passes = sum(chance for found, chance in law.items() if k in found)
        assert passes == model(())[0]


def test_what_is_known_of_failed_drafts_is_kept() -> None:
    """A draft that did not pass through (0,) passes through (1,) when there are two tokens."""
    model = random_table(random.Random(3), 2, 1, 7)

    def program(chance: Chance) -> bool:
        drafts = SampledDrafts(chance, [model] * 3, 1)
        zeros = alive(drafts, range(3), (0,))
        ones = alive(drafts, range(3), (1,))
        return sorted(zeros + ones) == [0, 1, 2]

    assert enumerate_law(program)[True] == 1


def test_benchmark_compares_and_counts() -> None:
    instance = rounded(dirichlet_instance(0, 2, 2, 2))
    timing = benchmark("kseq_block", instance, naive_limit=60.0)
    assert timing.naive_seconds is not None
    assert 20 < timing.branches < 2000
    assert benchmark("block", instance).naive_seconds is None
    with pytest.raises(TimeoutError, match="more than 0"):
        naive_law(SCHEMES["kseq_block"], instance, 0.0)
