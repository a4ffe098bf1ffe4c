"""The controls are biased, each by exactly what its counterexample says, and by nothing smaller."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.controls.spectr_gbv_published import published
from draftproof.reference.controls.unsampled_drafts import beam
from draftproof.reference.instance import KINDS, Instance, random_instance
from draftproof.reference.law import Law
from draftproof.reference.models import Model, Prefix, context_free, random_table
from draftproof.reference.numbers import Number, rational
from draftproof.reference.optima import (
    conditional_independence_value,
    full_optimum,
    stateless_optimum,
)
from draftproof.reference.oracle import Examination, examine
from draftproof.reference.rows import Row, row
from draftproof.reference.scheme import Counterexample, Scheme

CONTROLS = [s for s in SCHEMES.values() if s.kind == "control"]
PAGE = Path(__file__).parents[2] / "docs" / "not_lossless.md"


def module(scheme: Scheme) -> Any:
    return importlib.import_module(f"draftproof.reference.controls.{scheme.name}")


def context_free_instance(
    p: Row, q: Row, length: int, drafts: int, paths: tuple[Prefix, ...] = ()
) -> Instance:
    prefixes = [x for n in range(length + 1) for x in product(range(len(p)), repeat=n)]
    draft = {x: p for x in prefixes if len(x) < length}
    law = "fixed" if paths else "iid"
    return Instance(len(p), drafts, length, draft, dict.fromkeys(prefixes, q), law, paths)  # type: ignore[arg-type]


def of(counterexample: Counterexample) -> Instance:
    p, q = row(counterexample.draft_row), row(counterexample.target_row)
    c = counterexample
    return context_free_instance(p, q, c.length, c.drafts, c.paths)


def marginal(result: Examination, position: int) -> Law[int]:
    return result.continued.map(lambda y: y[position])


def test_the_controls_are_the_published_list() -> None:
    assert [s.name for s in CONTROLS] == [
        "greedy_block_without_carry",
        "hsd_released",
        "independent_trials",
        "multipath_released",
        "siblings_without_update",
        "spectr_gbv_published",
        "spectr_gbv_released",
        "unsampled_drafts",
    ]
    assert not any(s.lossless for s in CONTROLS)
    for scheme in SCHEMES.values():
        assert bool(scheme.counterexample) == (scheme.kind == "control")


@pytest.mark.parametrize("scheme", CONTROLS, ids=lambda s: s.name)
def test_counterexample(scheme: Scheme) -> None:
    """Recomputed: the marginal that it names is what it says, and not the target's."""
    c = module(scheme).COUNTEREXAMPLE
    result = examine(scheme, of(c))
    emitted = marginal(result, c.position).probability(c.token)
    assert emitted == rational(c.emitted)
    assert emitted != rational(c.target_row[c.token])
    assert result.total_variation > 0


@pytest.mark.parametrize("scheme", CONTROLS, ids=lambda s: s.name)
def test_the_text_is_the_same_everywhere(scheme: Scheme) -> None:
    text = str(module(scheme).COUNTEREXAMPLE)
    assert scheme.counterexample == text
    documentation = inspect.getdoc(module(scheme))
    assert documentation is not None
    assert text in " ".join(documentation.split())
    assert text in " ".join(PAGE.read_text(encoding="utf-8").split())


def context_free_rows(vocab: int, denominator: int) -> Iterator[Row]:
    for counts in product(range(denominator + 1), repeat=vocab):
        if sum(counts) == denominator:
            yield tuple(rational(c) / denominator for c in counts)


def biased_at(scheme: Scheme, size: tuple[int, int, int, int]) -> list[Number]:
    """The total variations of a scheme on all pairs of context-free rows of a size."""
    length, drafts, vocab, denominator = size
    rows = list(context_free_rows(vocab, denominator))
    found = []
    for p, q in product(rows, repeat=2):
        paths: tuple[Prefix, ...] = ()
        if scheme.draft_law == "deterministic":
            paths = tuple(beam(context_free(p), drafts, length))
        result = examine(scheme, context_free_instance(p, q, length, drafts, paths))
        found.append(result.total_variation)
    return found


@pytest.mark.parametrize("scheme", CONTROLS, ids=lambda s: s.name)
def test_no_smaller_counterexample(scheme: Scheme) -> None:
    """Sizes are ordered by length, drafts, vocabulary and common denominator of the rows (2 to 4);
    the counterexample is at the first that has any, and none of its size is further off."""
    c = module(scheme).COUNTEREXAMPLE
    vocab = len(c.target_row)
    denominator = max(int(rational(x).denominator) for x in (*c.draft_row, *c.target_row))
    wanted = (c.length, c.drafts, vocab, denominator)
    _, most = scheme.drafts
    for size in product((1, 2), range(1, (most or 2) + 1), (2, 3), (2, 3, 4)):
        if size == wanted:
            assert max(biased_at(scheme, size)) == examine(scheme, of(c)).total_variation
            return
        assert max(biased_at(scheme, size)) == 0, size
    raise AssertionError(f"{wanted} is not among the sizes")


@pytest.mark.parametrize("scheme", CONTROLS, ids=lambda s: s.name)
def test_biased_on_rows_that_differ_at_every_node(scheme: Scheme) -> None:
    biased = 0
    for seed in range(20):
        generator = random.Random(seed)
        drafts = scheme.drafts[1] or 2
        instance = random_instance(generator, 3, 2, drafts, denominator=6)
        if scheme.draft_law == "deterministic":
            paths = tuple(beam(instance.draft_model, drafts, 2))
            instance = Instance(
                3, drafts, 2, instance.draft_rows, instance.target_rows, "fixed", paths
            )
        biased += examine(scheme, instance).total_variation > 0
    assert biased >= 8


# The numbers that are published about each.

HALF = ("1/2", "1/2")


@pytest.mark.parametrize("drafts", range(1, 7))
def test_independent_trials_emit_the_draft_token_too_often(drafts: int) -> None:
    """p = (0, 1), q = (1/2, 1/2): P(1) = 1 - 2^-K; for any rows with p(1) = 1 it is at least
    1 - (1 - q(1))^K."""
    instance = context_free_instance(row(["0", "1"]), row(HALF), 1, drafts)
    result = examine("independent_trials", instance)
    assert marginal(result, 0).probability(1) == 1 - rational("1/2") ** drafts


def test_independent_trials_on_the_reported_fault() -> None:
    """Siblings tested with min(1, q/p) each, the residual updated once (a tree engine)."""
    p, q = row(["6/10", "3/10", "1/10"]), row(["2/10", "5/10", "3/10"])
    result = examine("independent_trials", context_free_instance(p, q, 1, 2))
    assert marginal(result, 0) == Law(
        {0: rational("7/25"), 1: rational("1/2"), 2: rational("11/50")}
    )


Skip = Literal["all", "inner", "none"]


@pytest.mark.parametrize("residual", ["paper", "code"])
@pytest.mark.parametrize(
    ("skip", "emitted", "accepted"),
    [("all", "89/108", "83/108"), ("inner", "83/108", "275/324"), ("none", "83/108", "275/324")],
)
def test_published_spectr_gbv(
    skip: Skip, residual: Literal["paper", "code"], emitted: str, accepted: str
) -> None:
    """L = 1, K = 2, p = (1/2, 1/2), q = (3/4, 1/4): every variant is biased, and none accepts what
    is stated, 11/12; the optimum is 1, and the lossless form accepts 7/8."""
    verify = partial(published, skip=skip, residual=residual, carry=True)
    scheme = Scheme("variant", "control", "", "", verify, lossless=False, stateful=True)
    instance = context_free_instance(row(HALF), row(["3/4", "1/4"]), 1, 2)
    result = examine(scheme, instance)
    assert marginal(result, 0).probability(0) == rational(emitted) != rational("3/4")
    assert result.expected_accepted_length == rational(accepted)
    assert conditional_independence_value(instance) == rational("11/12")
    assert full_optimum(instance).value == stateless_optimum(instance).value == 1
    assert examine("spectr_gbv", instance).expected_accepted_length == rational("7/8")


def test_published_spectr_gbv_is_biased_for_drafts_from_the_target_itself() -> None:
    same = row(["1/3", "2/3"])
    result = examine("spectr_gbv_published", context_free_instance(same, same, 1, 2))
    assert marginal(result, 0).probability(0) == rational("3/10")


def test_published_spectr_gbv_reaches_an_undefined_residual() -> None:
    """p = q, L = K = 2: r = 1 everywhere, so every residual is 0/0, and rejection occurs."""
    result = examine("spectr_gbv_published", context_free_instance(row(HALF), row(HALF), 2, 2))
    stopping = result.law.map(lambda outcome: len(outcome[0]))
    assert stopping == Law({0: rational("12/49"), 2: rational("37/49")})


def random_single(count: int) -> Iterator[Instance]:
    for seed in range(count):
        generator = random.Random(seed)
        V, L = generator.choice([(2, 1), (3, 1), (2, 2), (3, 2), (2, 3)])
        kind = generator.choice(list(KINDS))
        yield random_instance(generator, V, L, 1, denominator=6, kind=kind)


def test_published_spectr_gbv_with_one_draft_is_greedy_block() -> None:
    for instance in random_single(200):
        one, other = examine("spectr_gbv_published", instance), examine("greedy_block", instance)
        assert (one.law, one.continued) == (other.law, other.continued)


def test_hsd_as_printed_is_block_verification() -> None:
    for instance in random_single(200):
        printed = examine("hsd_released", instance, printed=True)
        assert printed.stops == examine("block", instance).stops


def test_hsd_as_released() -> None:
    instance = context_free_instance(row(HALF), row(["3/4", "1/4"]), 2, 1)
    law = marginal(examine("hsd_released", instance), 1)
    assert law == Law({0: rational("11/16"), 1: rational("5/16")})


def test_greedy_block_is_lossless_with_its_carry() -> None:
    """The control differs from the scheme by the carry alone."""
    for instance in random_single(60):
        with_it = examine("greedy_block", instance)
        without = examine("greedy_block_without_carry", instance)
        assert with_it.law == without.law
        assert with_it.total_variation == 0


def test_one_consistent_order_of_ties_is_lossless() -> None:
    """The order by min(1, q/p) is as good as any, if it is used in both places."""
    from draftproof.reference.controls.multipath_released import _by_clipped_ratio
    from draftproof.reference.tree import whole_path
    from draftproof.reference.verifiers.block import verify_path
    from draftproof.reference.verifiers.multipath import largest_draft, law_of_largest

    def verify(chance: Any, drafts: Any, draft: Model, target: Model) -> Any:
        order = _by_clipped_ratio(draft, target, larger_index_first=False)
        number = largest_draft(chance, drafts, order)
        law = law_of_largest(draft, drafts.count, order)
        return verify_path(chance, whole_path(drafts, number), number, law, target)

    scheme = Scheme("one order", "verifier", "", "", verify)
    for seed in range(60):
        instance = random_instance(random.Random(seed), 3, 2, 2, denominator=3)
        assert examine(scheme, instance).total_variation == 0


def test_unsampled_drafts_verify_sampled_drafts_well() -> None:
    """The fault is in the drafts: sampled ones are verified without bias."""
    for instance in random_single(40):
        assert examine("unsampled_drafts", instance).total_variation == 0


def test_beam() -> None:
    model = random_table(random.Random(3), 3, 1)
    paths = beam(model, 4, 2)
    assert len(set(paths)) == 4
    from draftproof.reference.models import joint

    chances = [joint(model, path) for path in paths]
    assert chances == sorted(chances, reverse=True)
    everything = [joint(model, path) for path in product(range(3), repeat=2)]
    assert chances == sorted(everything, reverse=True)[:4]
