"""Many rounds: the emitted string is the target's at every length, whatever the stops were."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.law import Law
from draftproof.reference.models import Model, block_law, context_free, random_table
from draftproof.reference.numbers import ONE, ZERO, rational
from draftproof.reference.rounds import Decoded, Rounds, reach, stopping_lengths

LOSSLESS = [
    name
    for name, s in SCHEMES.items()
    if s.kind == "verifier"
    and s.lossless
    and not s.approximate
    and s.draft_law in ("iid", "independent", "any")
]
STATEFUL = [name for name in LOSSLESS if SCHEMES[name].stateful]


def drafts_of(name: str, wanted: int = 2) -> int:
    most = SCHEMES[name].drafts[1]
    return wanted if most is None else min(most, wanted)


def options_of(name: str) -> dict[str, int]:
    # Few labels keep the enumeration of ranked block small; any number is lossless.
    return {"classes": 2, "types": 4} if name.startswith("ranked_block") else {}


def pair(seed: object, vocab: int = 2, depth: int = 8) -> tuple[Model, Model]:
    generator = random.Random(f"{seed}")
    return random_table(generator, vocab, depth, 7), random_table(generator, vocab, depth, 7)


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("seed", range(3))
def test_the_emitted_string_is_lossless_at_every_length(name: str, seed: int) -> None:
    draft, target = pair(seed)
    rounds = Rounds(name, draft, target, drafts_of(name), 2, options_of(name))
    law = rounds.emitted(4)
    for n in range(5):
        assert law.map(lambda y, n=n: y[:n]) == block_law(target, n)  # type: ignore[misc]
    assert rounds.emitted(3) == block_law(target, 3)  # shorter decodings are the marginals


@pytest.mark.parametrize("name", LOSSLESS)
def test_next_token_given_every_stopping_pattern(name: str) -> None:
    """Stateless: the target row, whatever the pattern. Stateful: the carried row, and the target
    row only on average over the patterns that lead to the same tokens."""
    draft, target = pair(name)
    rounds = Rounds(name, draft, target, drafts_of(name), 2, options_of(name))
    after = rounds.after(2)
    assert len({decoded.pattern for decoded in after}) >= 4
    depart = 0
    for decoded in after:
        row = rounds.next_token(decoded)
        expected = dict(decoded.carry).get((), target(decoded.emitted))
        assert all(row.probability(v) == expected[v] for v in range(2)), decoded
        depart += expected != target(decoded.emitted)
    assert (depart > 0) == SCHEMES[name].stateful


@pytest.mark.parametrize("name", STATEFUL)
def test_carries_average_to_the_target(name: str) -> None:
    """Given the first tokens alone, the next one is the target's: over all ways to get there."""
    draft, target = pair(name)
    rounds = Rounds(name, draft, target, drafts_of(name), 2, options_of(name))
    law = rounds.emitted(4)
    for prefix in block_law(target, 3):
        given = law.condition(lambda y, prefix=prefix: y[:3] == prefix)  # type: ignore[misc]
        next_row = given.map(lambda y: y[3])
        assert tuple(next_row.probability(v) for v in range(2)) == target(prefix)


@pytest.mark.parametrize("name", STATEFUL)
def test_nested_carries_are_needed(name: str) -> None:
    """Planted fault: a carry that forgets what it inherited from the round before is a bias."""

    class Forgetful(Rounds):
        def block(self, emitted=(), carry=()):  # type: ignore[no-untyped-def]
            stops = super().block(emitted, carry)
            return stops if not emitted else stops.map(lambda stop: stop._replace(carry=()))

    for seed in range(6):
        draft, target = pair(f"{name} {seed}")
        args = (name, draft, target, drafts_of(name), 3, options_of(name))
        if Forgetful(*args).emitted(5) != block_law(target, 5):
            assert Rounds(*args).emitted(5) == block_law(target, 5)
            return
    pytest.fail("no pair shows the fault")


def test_a_control_is_biased_from_the_second_round_on() -> None:
    draft, target = pair(1)
    rounds = Rounds("independent_trials", draft, target, 2, 1)
    assert rounds.emitted(3).total_variation(block_law(target, 3)) > 0


def test_quantities_of_a_round() -> None:
    draft, target = pair(4)
    rounds = Rounds("block", draft, target, 1, 2)
    stops = rounds.block()
    lengths = stopping_lengths(stops)
    expected = lengths.expectation(lambda n: n)
    reached = reach(stops)
    assert reached[()] == 1
    # E[τ] is the sum over nodes of the probability of reaching them, and that is R(x) w(x).
    assert expected == sum((p for x, p in reached.items() if x), ZERO)
    for x, probability in reached.items():
        weight, joint_p = ONE, ONE
        for depth, token in enumerate(x):
            p, q = draft(x[:depth])[token], target(x[:depth])[token]
            weight, joint_p = min(ONE, weight * q / p), joint_p * p
        assert probability == joint_p * weight
    first, second = rounds.expected_accepted_lengths(2)
    assert first == expected
    assert rounds.block_efficiency(2) == (first + second) / 2 + 1


def test_states_after_no_round() -> None:
    draft, target = pair(0)
    rounds = Rounds("block", draft, target, 1, 2)
    assert rounds.after(0) == Law.point(Decoded((), (), ()))
    assert rounds.emitted(0) == Law.point(())
    with pytest.raises(ValueError, match="block takes 0 to 1 drafts"):
        Rounds("block", draft, target, 2, 2)


def test_p_equal_q_accepts_everything() -> None:
    _, target = pair(8)
    rounds = Rounds("kseq_block", target, target, 2, 2)
    assert rounds.block_efficiency(2) == 3
    assert stopping_lengths(rounds.block()) == Law.point(2)
    assert rational(2) == rounds.expected_accepted_lengths(1)[0]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: replace(r, drafts=2), "block takes 0 to 1 drafts, not 2"),
        (lambda r: replace(r, length=-2), "length must be an integer of at least 0, not -2"),
        (lambda r: r.after(-1), "rounds must be an integer of at least 0, not -1"),
        (lambda r: r.emitted(1.5), r"tokens must be an integer of at least 0, not 1\.5"),
        (lambda r: r.block_efficiency(0), "rounds must be an integer of at least 1, not 0"),
    ],
)
def test_sizes_out_of_range_are_named(ask: Any, message: str) -> None:
    model = context_free(["1/2", "1/2"])
    with pytest.raises(ValueError, match=message):
        ask(Rounds("block", model, model, 1, 2))
