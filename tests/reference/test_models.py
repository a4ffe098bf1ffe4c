"""Models: prefix in, exact row out."""

from __future__ import annotations

import random
from itertools import product

import pytest
from draftproof.reference.law import Law
from draftproof.reference.models import (
    Model,
    Prefix,
    block_law,
    context_free,
    joint,
    model_of_each,
    random_row,
    random_table,
)
from draftproof.reference.numbers import rational
from draftproof.reference.rows import Row, row


def test_a_table_answers_and_computes_each_row_once() -> None:
    asked: list[Prefix] = []

    def source(prefix: Prefix) -> Row:
        asked.append(prefix)
        return row(["1/2", "1/2"])

    model = Model(2, source)
    assert model((0, 1)) is model((0, 1))
    assert asked == [(0, 1)]


def test_table_errors_name_the_prefix() -> None:
    with pytest.raises(ValueError, match=r'draft\["0,1"\] sums to 3/4'):
        Model.table({(): [1, 0], (0, 1): ["1/4", "1/2"]}, "draft")
    with pytest.raises(ValueError, match=r'rows\["1"\] has 3 entries, others have 2'):
        Model.table({(): [1, 0], (1,): [1, 0, 0]})
    with pytest.raises(ValueError, match="rows is empty"):
        Model.table({})
    with pytest.raises(ValueError, match=r'target has no row for the prefix "1,0"'):
        Model.table({(): [1, 0]}, "target")((1, 0))


def test_joint_and_block_law() -> None:
    model = random_table(random.Random(0), 3, 2)
    law = block_law(model, 2)
    for x in product(range(3), repeat=2):
        assert law.probability(x) == joint(model, x) == model(())[x[0]] * model((x[0],))[x[1]]
    after = block_law(model, 1, start=(2,))
    assert after == Law(((v,), p) for v, p in enumerate(model((2,))))
    assert joint(model, ()) == 1
    assert block_law(model, 0) == Law.point(())


def test_after_shifts_prefixes() -> None:
    model = random_table(random.Random(1), 2, 3)
    assert model.after((1, 0))((1,)) == model((1, 0, 1))
    assert model.after(()).after((1,))(()) == model((1,))


def test_after_counts_down_what_is_carried() -> None:
    carried = Model(2, lambda prefix: row(["1/2", "1/2"]), carried=3)
    assert [carried.after((0,) * n).carried for n in range(5)] == [3, 2, 1, 0, 0]
    assert context_free(["1/2", "1/2"]).carried == 0


def test_models_of_drafts() -> None:
    one, other = context_free([1]), context_free([1])
    assert model_of_each(one, 3) == [one, one, one]
    assert model_of_each([one, other], 2) == [one, other]
    with pytest.raises(ValueError, match="1 draft models were given for 2 drafts"):
        model_of_each([one], 2)


def test_random_rows_are_rows_and_degenerate_ones_occur() -> None:
    rows = [random_row(random.Random(seed), 3, 4) for seed in range(200)]
    assert all(sum(r) == 1 and min(r) >= 0 for r in rows)
    assert any(1 in r for r in rows)
    assert any(0 in r for r in rows)
    assert len(set(rows)) > 10
    table = random_table(random.Random(0), 2, 2, 100)
    assert len({table(x) for n in range(3) for x in product(range(2), repeat=n)}) == 7
    assert random_row(random.Random(0), 1) == (rational(1),)
