"""Faster enumeration changes no law: late and exchangeable drafts against brute force."""

from __future__ import annotations

import random

import pytest
from draftproof.conformance.bench_enumeration import benchmark, naive_law, rounded
from draftproof.conformance.comparison import dirichlet_instance
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.instance import KINDS, random_instance
from draftproof.reference.models import random_table
from draftproof.reference.oracle import examine
from draftproof.reference.tree import SampledDrafts, alive

SAMPLED = [
    name
    for name, s in SCHEMES.items()
    if s.draft_law in ("iid", "independent", "any") and s.kind != "control" and s.stages is None
]
"""Without the schemes in two stages, which test_oracle compares with the whole."""


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
