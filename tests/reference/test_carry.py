"""The carry: the chain of rows that a stateful scheme still owes."""

from __future__ import annotations

import random
from itertools import product

from draftproof.reference.carry import emit, owed_chain
from draftproof.reference.clip import cover_factor, kept_mass, smallest_scale
from draftproof.reference.instance import KINDS, random_instance
from draftproof.reference.models import context_free, joint, random_table
from draftproof.reference.numbers import rational, total
from draftproof.reference.rows import normalise, row


def test_by_hand_on_the_toy() -> None:
    """p = (2/3, 1/3), q = (1/3, 2/3), L = 2: after nothing is accepted the carried row after y is
    ∝ (r_y q - p)+ with r_0 = 1/2 and r_1 = 2; beyond the block it is q."""
    draft, target = context_free(["2/3", "1/3"]), context_free(["1/3", "2/3"])
    chain = owed_chain(draft, target, (), 2)
    assert chain(()) == (0, 1)
    assert chain((0,)) == target(())  # nothing is owed there: the plain row
    assert chain((1,)) == (0, 1)  # ∝ (0, 1)
    assert chain((1, 0)) == target(())
    outcome = emit((), 1, 0, chain)
    assert outcome.carry is not None
    assert outcome.carry(()) == (0, 1)
    assert outcome.carry((0,)) == target(())
    assert emit((0,), 1, 2, chain) == ((0,), 1, 2, None)


def test_what_is_owed_is_not_negative_and_masses_match() -> None:
    """The masses of the owed rows are those of the residual: Σ over blocks of r p-mass."""
    for seed in range(60):
        generator = random.Random(seed)
        kind = generator.choice(list(KINDS))
        instance = random_instance(generator, 2, 2, 2, denominator=6, kind=kind)
        draft, target = instance.draft_model, instance.target_model
        n = generator.choice([1, 2, 3])
        scale = smallest_scale(draft(()), target(()), n, 8)
        cover = cover_factor(kept_mass(draft(()), target(()), scale), n)
        chain = owed_chain(draft, target, (), 2, scale, cover)
        for x in [y for m in range(2) for y in product(range(2), repeat=m)]:
            assert total(chain(x)) == 1
            assert min(chain(x)) >= 0
            p, q = joint(draft, x), joint(target, x)
            if p != 0:
                r = q / p
                owed = tuple(
                    r * t - cover * min(a, r * t / scale)
                    for a, t in zip(draft(x), target(x), strict=True)
                )
                assert chain(x) == (normalise(owed) if any(owed) else target(x))
            else:
                assert chain(x) == target(x)


def test_below_a_node_ratios_start_there() -> None:
    draft, target = random_table(random.Random(4), 2, 3), random_table(random.Random(5), 2, 3)
    chain = owed_chain(draft, target, (1,), 3)
    shifted = owed_chain(draft.after((1,)), target.after((1,)), (), 2)
    for x in [y for m in range(3) for y in product(range(2), repeat=m)]:
        assert chain((1, *x)) == shifted(x)
    assert chain((0, 1)) == target((0, 1))


def test_a_layer_dies_at_the_end_of_its_block_and_an_older_one_lives_on() -> None:
    draft, target = random_table(random.Random(6), 2, 6), random_table(random.Random(7), 2, 6)
    first = owed_chain(draft, target, (), 4)
    assert first.carried == 4
    carry = emit((), 0, 0, first).carry
    assert carry is not None
    assert carry.carried == 3
    second = owed_chain(draft.after((0,)), carry, (), 1)
    assert second.carried == 3  # the shorter block is over first
    rest = emit((), 1, 0, second).carry
    assert rest is not None
    assert rest.carried == 2
    assert rest((1, 1)) == target((0, 1, 1, 1))


def test_an_infinite_ratio_gives_the_plain_row() -> None:
    draft, target = context_free([0, 1]), context_free(["1/2", "1/2"])
    chain = owed_chain(draft, target, (), 3)
    assert chain((0,)) == chain((0, 1)) == row(["1/2", "1/2"])
    assert chain(()) == (1, 0)
    assert rational(1) == total(chain((1,)))
