"""Law: a finite distribution with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from draftproof.reference.numbers import ONE, ZERO, Number, total

A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)

__all__ = ["Law"]


class Law(Mapping[A, Number], Generic[A]):
    """A finite distribution: outcome → probability, positive entries only.

    Looking up an outcome that cannot occur gives probability 0 through `probability`, and a
    `KeyError` through indexing.
    """

    __slots__ = ("_weights",)

    def __init__(self, weights: Mapping[A, Number] | Iterable[tuple[A, Number]]) -> None:
        """Collect `weights`, adding up repeated outcomes.

        Raises:
            ValueError: a negative probability, or a sum other than 1.
        """
        collected: dict[A, Number] = {}
        items = weights.items() if isinstance(weights, Mapping) else weights
        for outcome, weight in items:
            if weight < 0:
                raise ValueError(f"probability of {outcome!r} is negative: {weight}")
            if weight != 0:
                collected[outcome] = collected.get(outcome, ZERO) + weight
        mass = total(collected.values())
        if mass != ONE:
            raise ValueError(f"probabilities sum to {mass}, not 1")
        self._weights = collected

    @classmethod
    def point(cls, outcome: A) -> Law[A]:
        """The law of a constant."""
        return cls({outcome: ONE})

    def __getitem__(self, outcome: A) -> Number:
        return self._weights[outcome]

    def __iter__(self) -> Iterator[A]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __repr__(self) -> str:
        inside = ", ".join(f"{outcome!r}: {weight}" for outcome, weight in self._weights.items())
        return f"Law({{{inside}}})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Law) and self._weights == other._weights

    __hash__ = None  # type: ignore[assignment]  # a law is a mapping, and mappings do not hash

    def probability(self, outcome: A) -> Number:
        """P(outcome), 0 when it cannot occur."""
        return self._weights.get(outcome, ZERO)

    def map(self, function: Callable[[A], B]) -> Law[B]:
        """The law of `function(outcome)`; a marginal is the map of a projection."""
        return Law((function(outcome), weight) for outcome, weight in self.items())

    def bind(self, kernel: Callable[[A], Law[B]]) -> Law[B]:
        """The law of an outcome of `kernel(first)`, `first` drawn from this law."""
        return Law(
            (second, weight * inner)
            for first, weight in self.items()
            for second, inner in kernel(first).items()
        )

    def condition(self, event: Callable[[A], bool]) -> Law[A]:
        """The law given `event`.

        Raises:
            ZeroDivisionError: the event has probability 0.
        """
        kept = {outcome: weight for outcome, weight in self.items() if event(outcome)}
        mass = total(kept.values())
        if mass == 0:
            raise ZeroDivisionError("conditioning on an event of probability 0")
        return Law({outcome: weight / mass for outcome, weight in kept.items()})

    def expectation(self, value: Callable[[A], Number | int]) -> Number:
        """E[value(outcome)]."""
        return total(weight * value(outcome) for outcome, weight in self.items())

    def total_variation(self, other: Law[A]) -> Number:
        """Half the sum of |P - P'| over all outcomes, in [0, 1]."""
        outcomes = self._weights.keys() | other._weights.keys()
        distance = total(abs(self.probability(o) - other.probability(o)) for o in outcomes)
        return distance / 2
