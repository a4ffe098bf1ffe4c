"""The oracle: known values, losslessness across stopping lengths, the law format."""

from __future__ import annotations

import random
from typing import Any

import pytest
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import TOKEN, Accept
from draftproof.reference.instance import Instance, random_instance
from draftproof.reference.models import Model, block_law, context_free
from draftproof.reference.numbers import rational
from draftproof.reference.oracle import (
    block_stops,
    continued_law,
    exact_law,
    examine,
    expected_accepted_length,
    freeze_carry,
    law_to_json,
    thaw_carry,
    total_variation,
)
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import FixedDrafts, SampledDrafts


def context_free_instance(p: list[str], q: list[str], length: int, drafts: int) -> Instance:
    draft, target = context_free(p), context_free(q)
    nodes = [()]
    for node in nodes:
        if len(node) < length:
            nodes += [(*node, v) for v in range(len(p))]
    return Instance(
        len(p),
        drafts,
        length,
        {x: draft(x) for x in nodes if len(x) < length},
        {x: target(x) for x in nodes},
    )


TOY = context_free_instance(["2/3", "1/3"], ["1/3", "2/3"], 2, 1)


def test_published_toy() -> None:
    """2403.10444, section 3: 10/9 token by token, 11/9 block, 12/9 greedy block."""
    assert expected_accepted_length("token_by_token", TOY) == rational("10/9")
    assert expected_accepted_length("block", TOY) == rational("11/9")
    assert expected_accepted_length("greedy_block", TOY) == rational("12/9")


def test_law_of_block_on_the_toy_by_hand() -> None:
    law = exact_law("block", TOY)
    assert law[(), 1] == rational("1/3")  # only token 1 is owed anything at the root
    assert law[(1,), 1] == rational("1/9")
    assert ((0,), 0) not in law


def test_law_format_is_sorted_and_exact() -> None:
    data = law_to_json(examine("block", TOY))
    assert data["expected_accepted_length"] == "11/9"
    assert data["total_variation"] == "0"
    keys = [(o["accepted"], o["next"]) for o in data["outcomes"]]
    assert keys == sorted(keys)
    assert sum(rational(o["probability"]) for o in data["outcomes"]) == 1


def test_the_fixed_draft_law_verifies_those_paths() -> None:
    instance = Instance(2, 1, 2, TOY.draft_rows, TOY.target_rows, "fixed", ((0, 1),))
    law = exact_law("block", instance)
    assert all(accepted == (0, 1)[: len(accepted)] for accepted, _ in law)
    # A deterministic draft verified as if it were sampled is not lossless.
    assert total_variation("block", instance) > 0
    assert total_variation("tree_match", instance) == 0


def test_a_residual_replaced_by_the_target_row_has_its_total_variation() -> None:
    """The plainest fault: on p = (2/3, 1/3), q = (1/3, 2/3) it is off by 1/3 · 1/3."""

    def faulty(chance, drafts, draft, target):  # type: ignore[no-untyped-def]
        token = drafts.token(0, 1)
        p, q = draft(()), target(())

        if chance.flip(min(rational(1), q[token] / p[token]), Accept(0, 1)):
            return Outcome((token,), chance.draw(target((token,)), TOKEN))
        return Outcome((), chance.draw(q, TOKEN))

    scheme = Scheme("faulty", "control", "", "", faulty, lossless=False)
    toy = context_free_instance(["2/3", "1/3"], ["1/3", "2/3"], 1, 1)
    assert total_variation(scheme, toy) == rational("1/9")


def test_continued_law_uses_the_carry_then_the_target() -> None:
    truth = block_law(TOY.target_model, 3)
    assert continued_law("greedy_block", TOY) == truth
    kept = examine("greedy_block", TOY)
    assert any(stop.carry for stop in kept.stops)
    # Without the carry the same stops are biased.
    dropped = kept.stops.map(lambda stop: stop._replace(carry=()))
    assert type(kept)(kept.scheme, TOY, dropped).total_variation > 0


def test_number_of_drafts_is_checked() -> None:
    two = context_free_instance(["1/2", "1/2"], ["1/2", "1/2"], 1, 2)
    with pytest.raises(ValueError, match="block takes 0 to 1 drafts, not 2"):
        exact_law("block", two)
    with pytest.raises(ValueError, match="unknown scheme 'blok'"):
        exact_law("blok", two)


def test_carries_freeze_to_what_they_can_emit() -> None:
    half, sure = (rational("1/2"),) * 2, (rational(0), rational(1))
    carry = Model(2, lambda prefix: sure if prefix == () else half, 2)
    frozen = freeze_carry(carry)
    assert dict(frozen) == {(): sure, (1,): half}
    other = context_free(["1/4", "3/4"])
    assert freeze_carry(None) == freeze_carry(other) == ()
    assert thaw_carry(frozen, other).carried == 2
    assert thaw_carry(frozen, other)((1,)) == half
    assert thaw_carry(frozen, other)((1, 0)) == other(())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("spectr", {"grid": 1.5}, r"grid must be an integer of at least 1, not 1\.5"),
        ("kseq_block", {"grid": "x"}, "grid must be an integer of at least 1, not 'x'"),
        ("spectr_gbv", {"scale": "kseqq"}, "scale must be 'unit' or 'kseq', not 'kseqq'"),
        ("ranked_block", {"classes": 0}, "classes must be an integer of at least 1, not 0"),
        ("ranked_block", {"types": 3}, "types must be an integer of at least 4, not 3"),
        ("ranked_block", {"couple": lambda *_: [[1]]}, "couple gave 1 rows for 17 ratio types"),
        (
            "ranked_block",
            {"couple": lambda *_: [[1]] * 17},
            r"couple\[0\] has 1 entries for 8 labels",
        ),
        (
            "ranked_block",
            {"couple": lambda *_: [["a"] * 8] * 17},
            r"couple\[0\]\[0\] is 'a', not a rational",
        ),
        ("transport", {"grid": 0}, "grid must be an integer of at least 1, not 0"),
        ("global_resolution", {"vocabulary": 0}, "vocabulary must be an integer of at least 1"),
        ("global_resolution", {"tolerance": -1.0}, r"tolerance must be positive, not -1\.0"),
        ("canonical", {"draft_law": "x"}, "draft_law must be 'iid' or 'without_replacement'"),
    ],
)
def test_bad_options_are_named(name: str, options: dict[str, Any], message: str) -> None:
    length = 1 if SCHEMES[name].kind != "verifier" else 2
    instance = random_instance(random.Random(0), 3, length, 2)
    with pytest.raises(ValueError, match=message):
        examine(name, instance, **options)


def test_models_of_different_vocabularies_are_refused() -> None:
    two, three = context_free(["1/2", "1/2"]), context_free(["1/2", "1/4", "1/4"])
    with pytest.raises(ValueError, match="the draft model has 2 tokens, the target model 3"):
        block_stops("block", lambda chance: SampledDrafts(chance, [two], 1), two, three)
    models = [three, two]
    with pytest.raises(ValueError, match="draft model 1 has 2 tokens, the target model 3"):
        block_stops("tree_match", lambda chance: FixedDrafts([(0,), (1,)]), models, three)


def test_no_drafts_or_no_length_draw_from_the_target() -> None:
    generator = random.Random(3)
    for name in ("spectr", "kseq_block", "traversal", "multipath", "ranked_block"):
        for length, drafts in ((0, 2), (2, 0), (0, 0)):
            instance = random_instance(generator, 3, length, drafts)
            law = exact_law(name, instance)
            assert law == block_law(instance.target_model, 1).map(lambda y: ((), y[0]))
