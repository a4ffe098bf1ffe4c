"""Boxes: laws rebuilt from a black box, exactly."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from draftproof.conformance.boxes import Unbuildable, rebuild, reference_boxes, simplest
from draftproof.conformance.cases.fixtures import small_instance
from draftproof.conformance.tables import Table, draft_tuples
from draftproof.reference.catalogue import find
from draftproof.reference.instance import Instance
from draftproof.reference.oracle import exact_law
from draftproof.reference.rows import row
from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.fractions(0, 1, max_denominator=500))
@settings(max_examples=200, deadline=None)
def test_the_simplest_fraction_is_recognised(value: Fraction) -> None:
    slack = Fraction(1, 10**9)
    assert simplest(max(value - slack, Fraction(0)), value + slack) == value


def test_the_simplest_fraction_has_the_smallest_denominator() -> None:
    low, high = Fraction(7, 23), Fraction(8, 25)
    found = simplest(low, high)
    assert low <= found <= high
    for d in range(1, found.denominator):
        assert not any(low <= Fraction(n, d) <= high for n in range(d + 1))


@pytest.mark.parametrize("name", ["token_by_token", "block", "spectr", "kseq_block", "traversal"])
def test_boxes_of_the_reference_are_its_law(name: str) -> None:
    scheme = find(name)
    k = 1 if scheme.drafts[1] == 1 else 2
    instance = small_instance(3, 3, 2 if k == 1 else 1, k)
    assert instance is not None
    law: dict[Any, Any] = {}
    for paths, chance in draft_tuples(instance):
        boxes = reference_boxes(scheme, instance, paths)
        assert sum(box.volume for box in boxes) == 1
        for box in boxes:
            law[box.stop] = law.get(box.stop, 0) + chance * box.volume
    assert law == dict(exact_law(scheme, instance))


def test_drafts_without_replacement_are_distinct() -> None:
    rows = {(): row(["1/2", "1/3", "1/6"])}
    target = {(): row(["1/3", "1/3", "1/3"])}
    instance = Instance(3, 2, 1, rows, target, "without_replacement")
    law = dict(draft_tuples(instance))
    assert sum(law.values()) == 1
    assert law[((0,), (1,))] == Fraction(1, 2) * Fraction(1, 3) / Fraction(1, 2)
    assert ((0,), (0,)) not in law


def test_a_law_is_rebuilt_from_probes_alone() -> None:
    """A function with thresholds in two coordinates, one of them conditional on the other."""

    def ask(tuples: Any, points: Any) -> list[Any]:
        return [
            ((), 0 if x < 2 / 7 else 1 if y < 5 / 11 and m == 0 else 2)
            for m, (x, y) in zip(tuples, points, strict=True)
        ]

    found = rebuild(ask, 2, 2)
    assert found.exact
    first, second = Fraction(2, 7), Fraction(5, 11)
    assert found.stops[0] == {
        ((), 0): first,
        ((), 1): (1 - first) * second,
        ((), 2): (1 - first) * (1 - second),
    }
    assert found.stops[1] == {((), 0): first, ((), 2): 1 - first}


def test_an_irrational_threshold_is_known_up_to_a_bound() -> None:
    threshold = 2**-0.5

    def ask(tuples: Any, points: Any) -> list[Any]:
        return [((), int(x > threshold)) for (x,) in points]

    found = rebuild(ask, 1, 1)
    assert not found.exact
    assert abs(float(found.stops[0][(), 0]) - threshold) <= found.error < 1e-11


def test_noise_is_not_a_law() -> None:
    generator = np.random.default_rng(0)

    def ask(tuples: Any, points: Any) -> list[Any]:
        return [((), int(t)) for t in generator.integers(0, 2, len(points))]

    with pytest.raises(Unbuildable):
        rebuild(ask, 1, 2, most_boxes=500)


def test_strings_are_continued_from_the_target() -> None:
    instance = small_instance(5, 3, 2, 1)
    assert instance is not None
    table = Table(instance)
    array = table.as_array(table.target_law)
    assert array.sum() == pytest.approx(1)
    for string in product(range(3), repeat=3):
        assert array[table.number(string)] == float(table.target_law.probability(string))
