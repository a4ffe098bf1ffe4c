"""Chance: the two random effects of a verifier, `flip` and `draw`, and their interpreters.

A verifier is a plain function that asks a `Chance` for coins and draws. What it means depends on
who answers: `enumerate_law` follows every branch and returns the exact law of the result, `Replay`
answers from given uniforms (the randomness contract), `Sampler` answers from a generator.

Every question names its *place*, so that `Replay` knows which uniform answers it:

    Accept(draft, depth)   the test of a draft's token at a depth (1 to L)
    Select(draft)          the label of a draft, in schemes that select one
    TOKEN                  the correction or bonus token
    Draft(draft, depth)    the drafting itself; a verifier never asks this

A verifier may also say that all that follows depends on a few values alone (`meet`). It changes no
answer; an enumeration that merges goes on from there once, for all the histories that meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, cast

from draftproof.reference.law import Law
from draftproof.reference.numbers import ONE, ZERO, Number, rational, total

__all__ = [
    "TOKEN",
    "Accept",
    "Chance",
    "Draft",
    "Place",
    "Replay",
    "Sampler",
    "Select",
    "Token",
    "enumerate_law",
    "meet",
    "pick",
]


class Accept(NamedTuple):
    """The acceptance test of draft `draft` (from 0) at depth `depth` (from 1)."""

    draft: int
    depth: int


class Select(NamedTuple):
    """The label of draft `draft` (from 0)."""

    draft: int


class Token(NamedTuple):
    """The token that ends a block: correction or bonus."""


class Draft(NamedTuple):
    """Drawing the token of draft `draft` (from 0) at depth `depth` (from 1)."""

    draft: int
    depth: int


TOKEN = Token()
Place = Accept | Select | Token | Draft
T = TypeVar("T", bound=Hashable)


class Chance(Protocol):
    """What a verifier may ask."""

    def flip(self, probability: Number, place: Place) -> bool:
        """True with the given probability (0 never, 1 always)."""
        ...

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        """An index with probability proportional to its weight; the weights need not sum to 1."""
        ...


def check_probability(probability: Number, place: Place) -> None:
    """Raise ValueError unless 0 ≤ probability ≤ 1."""
    if not 0 <= probability <= 1:
        raise ValueError(f"flip at {place}: probability {probability} is outside [0, 1]")


def check_weights(weights: Sequence[Number], place: Place) -> Number:
    """Raise ValueError on a negative weight or total weight 0; return the total."""
    for index, weight in enumerate(weights):
        if weight < 0:
            raise ValueError(f"draw at {place}: weight {index} is negative: {weight}")
    mass = total(weights)
    if mass == 0:
        raise ValueError(f"draw at {place}: all weights are 0")
    return mass


@dataclass
class _Branch:
    """A question on the current path of the enumeration, with its possible answers."""

    answers: list[tuple[int, Number]]  # (answer, probability of the path up to and including it)
    chosen: int = 0


@dataclass(frozen=True)
class _State:
    """All that the rest of a program depends on."""

    values: tuple[Hashable, ...]


class _Met(Exception):  # noqa: N818
    """The program has come to a state, and is not followed further on this run."""

    def __init__(self, state: _State) -> None:
        self.state = state


class _Way(NamedTuple):
    """One history that leads to a state."""

    answers: tuple[int, ...] = ()
    meetings: int = 0


class _Enumerator:
    """Follows the scripted answers, then the first possible answer of each new question."""

    def __init__(self, script: list[_Branch], meetings: int | None) -> None:
        """`meetings`: how many to pass before the program is stopped at one; None for all."""
        self._script = script
        self._asked = 0
        self._meetings = meetings
        self.probability = ONE

    def _answer(self, answers: Callable[[], list[tuple[int, Number]]]) -> int:
        if self._asked == len(self._script):
            reached = self.probability
            possible = [(answer, reached * chance) for answer, chance in answers() if chance != 0]
            self._script.append(_Branch(possible))
        branch = self._script[self._asked]
        self._asked += 1
        answer, self.probability = branch.answers[branch.chosen]
        return answer

    def flip(self, probability: Number, place: Place) -> bool:
        check_probability(probability, place)
        # A certain answer is not a branch: it is not recorded, on this visit or on later ones.
        if probability == 0 or probability == 1:
            return bool(probability == 1)
        return bool(self._answer(lambda: [(1, probability), (0, 1 - probability)]))

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        def answers() -> list[tuple[int, Number]]:
            mass = check_weights(weights, place)
            return [(index, weight / mass) for index, weight in enumerate(weights)]

        return self._answer(answers)

    def meet(self, values: tuple[Hashable, ...]) -> None:
        if self._meetings is None:
            return
        if self._meetings == 0:
            raise _Met(_State(values))
        self._meetings -= 1


def meet(chance: Chance, *values: Hashable) -> None:
    """Say that the law of all that follows depends on `values` alone.

    They name the point of the program too (by a first value that no other point uses). Only
    `enumerate_law` with `merge` listens.
    """
    if isinstance(chance, _Enumerator):
        chance.meet(values)


def enumerate_law(program: Callable[[Chance], T], *, merge: bool = False) -> Law[T]:
    """The exact law of `program(chance)`.

    The program is run once per leaf of its decision tree; it must ask the same questions whenever
    it gets the same answers. With `merge` it is run to the next meeting only (`meet`), the
    probabilities of all histories that lead to one state are added up, and it goes on from there
    once. For i.i.d. drafts that have been looked at in turn, the histories that meet are the
    orders of a multiset, and the sum is its multinomial weight.

    Raises:
        ValueError: a state that is met twice on one history.
    """
    start = _State(())
    ways = {start: _Way()}
    segments: dict[_State, dict[T | _State, Number]] = {}
    finished: list[_State] = []

    def explore(state: _State) -> None:
        segments[state] = _segment(program, ways[state], merge, ways)
        for end in segments[state]:
            if isinstance(end, _State) and end not in segments:
                explore(end)
        finished.append(state)

    explore(start)
    reached: dict[T | _State, Number] = {start: ONE}
    for state in reversed(finished):  # a state comes after all those that lead to it
        mass = reached.pop(state)
        for end, probability in segments[state].items():
            reached[end] = reached.get(end, ZERO) + mass * probability
    for end in reached:
        if isinstance(end, _State):
            raise ValueError(f"the program comes back to {end.values}: name what has changed since")
    return Law(cast("dict[T, Number]", reached))


def _segment(
    program: Callable[[Chance], T], way: _Way, merge: bool, ways: dict[_State, _Way]
) -> dict[T | _State, Number]:
    """The law of where the program comes from a state: an outcome, or the next state.

    Notes a way to each new state in `ways`.
    """
    ends: dict[T | _State, Number] = {}
    script = [_Branch([(answer, ONE)]) for answer in way.answers]
    while True:
        chance = _Enumerator(script, way.meetings if merge else None)
        end: T | _State
        try:
            end = program(chance)
        except _Met as met:
            end = met.state
            if end not in ways:
                answers = tuple(branch.answers[branch.chosen][0] for branch in script)
                ways[end] = _Way(answers, way.meetings + 1)
        ends[end] = ends.get(end, ZERO) + chance.probability
        while len(script) > len(way.answers) and script[-1].chosen == len(script[-1].answers) - 1:
            script.pop()
        if len(script) == len(way.answers):
            return ends
        script[-1].chosen += 1


def pick(weights: Sequence[Number], uniform: Number) -> int:
    """The smallest index v with cumsum(weights)(v) > uniform · sum(weights).

    Never an index of weight 0, for any uniform in [0, 1).
    """
    threshold = uniform * total(weights)
    reached = ZERO
    for index, weight in enumerate(weights):
        reached += weight
        if reached > threshold:
            return index
    raise ValueError(f"uniform {uniform} is not below 1")


class Replay:
    """Answers from given uniforms: the randomness contract shared with the fast implementation.

    A test accepts iff its uniform is strictly below the probability; a token is drawn by `pick`.
    `margin` is the smallest distance of any used uniform from a threshold it was compared with, in
    units of probability: the answer is the same for all uniforms nearer than that.
    """

    def __init__(
        self,
        accept_uniforms: Sequence[Sequence[object]] = (),
        token_uniform: object = 0,
        select_uniforms: Sequence[object] = (),
    ) -> None:
        """Uniforms in [0, 1): `accept_uniforms` [K][L], one `token_uniform`, `select_uniforms` [K].

        Raises:
            ValueError: a uniform outside [0, 1), or a row that is not one; the message names which.
        """
        for k, row in enumerate(accept_uniforms):
            if not hasattr(row, "__iter__"):
                raise ValueError(f"accept_uniforms[{k}] is {row!r}, not the uniforms of a draft")
        self._accept = [
            [_uniform(u, f"accept_uniforms[{k}][{i}]") for i, u in enumerate(row)]
            for k, row in enumerate(accept_uniforms)
        ]
        self._token = _uniform(token_uniform, "token_uniform")
        self._select = [_uniform(u, f"select_uniforms[{k}]") for k, u in enumerate(select_uniforms)]
        self.margin: Number = ONE

    def _look_up(self, place: Place) -> Number:
        try:
            match place:
                case Accept(draft, depth):
                    return self._accept[draft][depth - 1]
                case Select(draft):
                    return self._select[draft]
                case Token():
                    return self._token
        except IndexError:
            raise ValueError(f"no uniform was given for {place}") from None
        raise ValueError(f"{place} is not part of the randomness contract: give the drafts")

    def flip(self, probability: Number, place: Place) -> bool:
        check_probability(probability, place)
        uniform = self._look_up(place)
        if 0 < probability < 1:
            self.margin = min(self.margin, abs(uniform - probability))
        return bool(uniform < probability)

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        mass = check_weights(weights, place)
        uniform = self._look_up(place)
        reached = ZERO
        for weight in weights:
            reached += weight
            if weight != 0 and reached != mass:
                self.margin = min(self.margin, abs(uniform - reached / mass))
        return pick(weights, uniform)


def _uniform(value: object, where: str) -> Number:
    exact = rational(value, where)
    if not 0 <= exact < 1:
        raise ValueError(f"{where} is {value}, not in [0, 1)")
    return exact


class Sampler:
    """Answers from a pseudo-random generator with 53-bit uniforms."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def flip(self, probability: Number, place: Place) -> bool:
        check_probability(probability, place)
        return bool(rational(self._generator.random()) < probability)

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        check_weights(weights, place)
        return pick(weights, rational(self._generator.random()))
