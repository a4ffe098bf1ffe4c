"""Drafts: what they say when looked at early or late, and the laws they are drawn by."""

from __future__ import annotations

import random
from itertools import product

import pytest
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.law import Law
from draftproof.reference.models import Model, Prefix, block_law, context_free, random_table
from draftproof.reference.numbers import rational
from draftproof.reference.rows import row
from draftproof.reference.tree import (
    FixedDrafts,
    SampledDrafts,
    alive,
    distinct_drafts,
    distinct_prefixes,
    hub_drafts,
    hub_of,
    tree_drafts,
    whole_path,
)

HALF = rational("1/2")


def test_fixed_drafts() -> None:
    drafts = FixedDrafts([(0, 1), (0, 2), (1, 1)])
    assert (drafts.count, drafts.length) == (3, 2)
    assert drafts.token(1, 2) == 2
    assert alive(drafts, [0, 1, 2], (0,)) == [0, 1]
    assert alive(drafts, [1, 2], (0, 2)) == [1]
    assert alive(drafts, [0, 2], ()) == [0, 2]
    assert whole_path(drafts, 2) == (1, 1)
    assert (FixedDrafts([], 3).count, FixedDrafts([], 3).length) == (0, 3)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([(0, 1), (0,)], r"drafts\[1\] has 1 tokens, drafts\[0\] has 2"),
        ([(0,), (-1,)], r"drafts\[1\]\[0\] must be an integer of at least 0, not -1"),
    ],
)
def test_bad_paths_are_named(paths: list[Prefix], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedDrafts(paths)


def test_prefix_tree() -> None:
    assert distinct_prefixes([(0, 1), (0, 2), (0, 1)]) == [(), (0,), (0, 1), (0, 2)]
    assert distinct_prefixes([]) == [()]


@pytest.mark.parametrize("seed", range(10))
def test_looking_late_changes_no_law(seed: int) -> None:
    """Whatever is asked first, the paths have the law of the model and agree with what was said."""
    generator = random.Random(seed)
    model = random_table(generator, 3, 2, 6)
    questions = [
        (k, tuple(generator.choices(range(3), k=generator.randint(0, 2)))) for k in (0, 1, 0, 1)
    ]

    def program(chance: Chance) -> tuple[Prefix, Prefix]:
        drafts = SampledDrafts(chance, [model, model], 2)
        said = [drafts.passes(k, prefix) for k, prefix in questions]
        paths = whole_path(drafts, 0), whole_path(drafts, 1)
        for (k, prefix), answer in zip(questions, said, strict=True):
            assert answer == (paths[k][: len(prefix)] == prefix)
            assert answer == drafts.passes(k, prefix)
        return paths

    one = block_law(model, 2)
    assert enumerate_law(program) == one.bind(lambda x: one.map(lambda y: (x, y)))


def test_asking_whether_a_draft_passes_branches_two_ways() -> None:
    model = context_free(["1/5"] * 5)
    runs = []

    def program(chance: Chance) -> bool:
        runs.append(1)
        return SampledDrafts(chance, [model], 2).passes(0, (3,))

    assert enumerate_law(program) == Law({True: rational("1/5"), False: rational("4/5")})
    assert len(runs) == 2


def paths_of(drafts: FixedDrafts) -> tuple[Prefix, ...]:
    return tuple(whole_path(drafts, k) for k in range(drafts.count))


def test_distinct_drafts_are_drawn_given_that_they_are_new() -> None:
    model = random_table(random.Random(3), 2, 2, 12)
    one = block_law(model, 2)
    law = enumerate_law(lambda chance: paths_of(distinct_drafts(chance, model, 2, 2)))
    assert len(one) > 1
    expected = one.bind(lambda x: one.condition(lambda y: y != x).map(lambda y: (x, y)))
    assert law == expected


def test_distinct_drafts_of_an_exhausted_model_start_over() -> None:
    model = context_free([0, 1])
    law = enumerate_law(lambda chance: paths_of(distinct_drafts(chance, model, 3, 1)))
    assert law == Law.point(((1,), (1,), (1,)))
    pair = context_free(["1/3", "2/3"])
    law = enumerate_law(lambda chance: paths_of(distinct_drafts(chance, pair, 3, 1)))
    third = law.map(lambda paths: paths[2])
    assert {len(set(paths[:2])) for paths in law} == {2}
    assert third == Law({(0,): rational("1/3"), (1,): rational("2/3")})


def test_a_static_tree_draws_children_without_replacement() -> None:
    root, child = row(["1/2", "1/4", "1/4"]), row(["1/2", "1/2", "0"])
    model = Model(3, lambda prefix: child if prefix else root)
    law = enumerate_law(lambda chance: paths_of(tree_drafts(chance, model, (2, 1))))
    firsts = law.map(lambda paths: (paths[0][0], paths[1][0]))
    assert firsts == Law(
        {
            (0, 1): rational("1/4"),
            (0, 2): rational("1/4"),
            (1, 0): rational("1/6"),
            (1, 2): rational("1/12"),
            (2, 0): rational("1/6"),
            (2, 1): rational("1/12"),
        }
    )
    seconds = law.map(lambda paths: (paths[0][1], paths[1][1]))
    assert seconds == Law(((a, b), HALF * HALF) for a, b in product((0, 1), repeat=2))
    wide = enumerate_law(lambda chance: paths_of(tree_drafts(chance, model, (1, 2))))
    assert {paths[0][0] == paths[1][0] and paths[0] != paths[1] for paths in wide} == {True}


def test_the_pair_of_spechub() -> None:
    p = row(["1/4", "1/2", "1/4"])
    assert hub_of(p) == 1
    assert hub_of(row(["1/2", "1/2"])) == 0
    law = enumerate_law(lambda chance: paths_of(hub_drafts(chance, context_free(p))))
    quarter = rational("1/4")
    assert law == Law(
        dict.fromkeys([((0,), (1,)), ((2,), (1,)), ((1,), (0,)), ((1,), (2,))], quarter)
    )
    certain = enumerate_law(lambda chance: paths_of(hub_drafts(chance, context_free([0, 1]))))
    assert certain == Law.point(((1,), (1,)))
