"""Many rounds: the exact law of the emitted tokens across stopping lengths, carries included.

A round drafts and verifies one block after what was emitted so far, and emits the accepted tokens
and the correction or bonus. A stateful scheme verifies the next round against its carry, and so on:
carries nest. Block efficiency (Leviathan et al., 2211.17192, section 3.1) is the number of tokens
emitted per target call, one call a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from draftproof.reference.catalogue import find
from draftproof.reference.chance import Chance
from draftproof.reference.law import Law
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, whole
from draftproof.reference.oracle import CarryRows, Stop, block_stops, check_drafts, thaw_carry
from draftproof.reference.tree import SampledDrafts

__all__ = ["Decoded", "Rounds", "reach", "stopping_lengths"]


class Decoded(NamedTuple):
    """What some rounds left behind."""

    emitted: Prefix
    pattern: tuple[int, ...]
    """The stopping pattern: the accepted length of every round."""
    carry: CarryRows


@dataclass(frozen=True)
class Rounds:
    """Decoding by one scheme, `drafts` independent drafts of `length` tokens a round.

    The models take prefixes from the start of the decoding. After n emitted tokens a round reads
    their rows up to n + `length` tokens deep.
    """

    scheme: str
    draft: Model
    target: Model
    drafts: int
    length: int
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    _known: dict[tuple[Prefix, CarryRows], Law[Stop]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Raise ValueError on a number of drafts that the scheme does not take, or a length < 0."""
        check_drafts(find(self.scheme), self.drafts)
        whole(self.length, "length", 0)

    def block(self, emitted: Prefix = (), carry: CarryRows = ()) -> Law[Stop]:
        """How the round after `emitted` ends, when the rounds before left `carry`."""
        known = self._known.get((emitted, carry))
        if known is None:
            draft = self.draft.after(emitted)

            def drafts(chance: Chance) -> SampledDrafts:
                return SampledDrafts(chance, [draft] * self.drafts, self.length)

            target = thaw_carry(carry, self.target.after(emitted))
            known = block_stops(self.scheme, drafts, draft, target, **self.options)
            self._known[emitted, carry] = known
        return known

    def _next_round(self, before: Decoded) -> Iterator[tuple[Decoded, Number]]:
        for stop, chance in self.block(before.emitted, before.carry).items():
            emitted = (*before.emitted, *stop.accepted, stop.next)
            yield Decoded(emitted, (*before.pattern, len(stop.accepted)), stop.carry), chance

    def after(self, rounds: int) -> Law[Decoded]:
        """The law of emitted tokens, stopping pattern and carry after `rounds` ≥ 0 rounds."""
        whole(rounds, "rounds", 0)
        law = Law.point(Decoded((), (), ()))
        for _ in range(rounds):
            law = law.bind(lambda before: Law(self._next_round(before)))
        return law

    def emitted(self, tokens: int) -> Law[Prefix]:
        """The law of the first `tokens` emitted tokens, whichever rounds they come from.

        For a lossless scheme it is the target's law of `tokens` tokens; the laws of fewer tokens
        are its marginals.
        """
        whole(tokens, "tokens", 0)
        # The stopping pattern is dropped: the future depends on the tokens and the carry alone.
        # States are kept by the number of tokens emitted, so that equal ones meet before going on.
        waiting: list[dict[tuple[Prefix, CarryRows], Number]] = [{} for _ in range(tokens)]
        finished: dict[Prefix, Number] = {}

        def add(emitted: Prefix, carry: CarryRows, weight: Number) -> None:
            if len(emitted) < tokens:
                states = waiting[len(emitted)]
                states[emitted, carry] = states.get((emitted, carry), ZERO) + weight
            else:
                shown = emitted[:tokens]
                finished[shown] = finished.get(shown, ZERO) + weight

        add((), (), ONE)
        for states in waiting:
            for (emitted, carry), weight in states.items():
                for after, chance in self._next_round(Decoded(emitted, (), carry)):
                    add(after.emitted, after.carry, weight * chance)
        return Law(finished)

    def next_token(self, before: Decoded) -> Law[int]:
        """The law of the first token that the round after `before` emits."""
        stops = self.block(before.emitted, before.carry)
        return stops.map(lambda stop: (*stop.accepted, stop.next)[0])

    def expected_accepted_lengths(self, rounds: int) -> list[Number]:
        """E[τ] of each of the first `rounds` rounds."""
        patterns = self.after(rounds).map(lambda decoded: decoded.pattern)
        return [patterns.expectation(lambda p, m=m: p[m]) for m in range(rounds)]  # type: ignore[misc]

    def block_efficiency(self, rounds: int) -> Number:
        """Expected tokens emitted per target call over the first `rounds` ≥ 1 rounds."""
        whole(rounds, "rounds", 1)
        return sum(self.expected_accepted_lengths(rounds), ZERO) / rounds + 1


def stopping_lengths(stops: Law[Stop]) -> Law[int]:
    """The law of the accepted length of one round."""
    return stops.map(lambda stop: len(stop.accepted))


def reach(stops: Law[Stop]) -> dict[Prefix, Number]:
    """For every node, the probability that the accepted prefix reaches it; the root has 1."""
    reached: dict[Prefix, Number] = {}
    for stop, chance in stops.items():
        for depth in range(len(stop.accepted) + 1):
            node = stop.accepted[:depth]
            reached[node] = reached.get(node, ZERO) + chance
    return reached
