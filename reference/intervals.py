"""Certified numbers for irrational inputs: logits and temperatures as intervals (mpmath `iv`).

An `Interval` stands for an unknown real number inside two rational bounds. Arithmetic is exact on
the bounds, so a verifier of this package runs on rows of intervals unchanged and its result
encloses the truth. A comparison that the bounds do not settle raises `UndecidedError`: the oracle
never guesses. `law_bounds` gives rigorous bounds on every probability of a law.

The smallest valid scale ρ* is in general irrational as well: `scale_interval` encloses it, and
`algebraic_scale` gives it as an algebraic number for small cases (sympy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Rational
from typing import Any

from draftproof.reference.catalogue import find
from draftproof.reference.chance import Chance, Place
from draftproof.reference.clip import is_valid_scale
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, rational, total
from draftproof.reference.rows import Row
from draftproof.reference.tree import SampledDrafts

__all__ = [
    "Interval",
    "LawBounds",
    "UndecidedError",
    "algebraic_scale",
    "law_bounds",
    "model_from_logits",
    "row_from_logits",
    "scale_interval",
]


class UndecidedError(ArithmeticError):
    """A comparison that the bounds do not settle; more bits may settle it."""


@dataclass(frozen=True, eq=False)
class Interval:
    """A real number known to lie in [low, high], both rational."""

    low: Number
    high: Number

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"an interval from {self.low} down to {self.high}")

    @property
    def width(self) -> Number:
        """high - low."""
        return self.high - self.low

    def __contains__(self, value: object) -> bool:
        return bool(self.low <= rational(value) <= self.high)

    def __repr__(self) -> str:
        return f"[{float(self.low):.17g}, {float(self.high):.17g}]"

    def __add__(self, other: object) -> Interval:
        o = _interval(other)
        return NotImplemented if o is None else Interval(self.low + o.low, self.high + o.high)

    __radd__ = __add__

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: object) -> Interval:
        o = _interval(other)
        return NotImplemented if o is None else self + -o

    def __rsub__(self, other: object) -> Interval:
        return -self + other

    def __mul__(self, other: object) -> Interval:
        o = _interval(other)
        if o is None:
            return NotImplemented
        ends = (self.low * o.low, self.low * o.high, self.high * o.low, self.high * o.high)
        return Interval(min(ends), max(ends))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Interval:
        o = _interval(other)
        if o is None:
            return NotImplemented
        if o.low <= 0 <= o.high:
            if o.low == 0 == o.high:
                raise ZeroDivisionError(f"{self} / 0")
            raise UndecidedError(f"is the divisor {o!r} zero?")
        return self * Interval(1 / o.high, 1 / o.low)

    def __rtruediv__(self, other: object) -> Interval:
        o = _interval(other)
        return NotImplemented if o is None else o / self

    def __pow__(self, power: int) -> Interval:
        result = Interval(ONE, ONE)
        for _ in range(power):
            result = result * self
        return result

    # A comparison has one answer for all values in the bounds, or none is given. The same object
    # is the same number.

    def __lt__(self, other: object) -> bool:
        return self is not other and _settled(self, other, "<", lambda gap: gap < 0)

    def __le__(self, other: object) -> bool:
        return self is other or _settled(self, other, "<=", lambda gap: gap <= 0)

    def __gt__(self, other: object) -> bool:
        return self is not other and _settled(self, other, ">", lambda gap: gap > 0)

    def __ge__(self, other: object) -> bool:
        return self is other or _settled(self, other, ">=", lambda gap: gap >= 0)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        o = _interval(other)
        if o is None:
            return NotImplemented
        if self.high < o.low or self.low > o.high:
            return False
        if self.low == self.high == o.low == o.high:
            return True
        raise UndecidedError(f"is {self!r} equal to {o!r}?")

    # Caches may hold intervals by identity; two objects are never assumed to be the same number.
    __hash__ = object.__hash__


def _interval(value: object) -> Interval | None:
    if isinstance(value, Interval):
        return value
    return Interval(value, value) if isinstance(value, (int, Rational)) else None


def _settled(a: Interval, b: object, sign: str, holds: Callable[[Number], bool]) -> bool:
    o = _interval(b)
    if o is None:
        raise TypeError(f"cannot compare an interval with {b!r}")
    ends = holds(a.low - o.high), holds(a.high - o.low)
    if ends[0] != ends[1]:
        raise UndecidedError(f"is {a!r} {sign} {o!r}?")
    return bool(ends[0])


# Rows.


def row_from_logits(
    logits: Sequence[object], temperature: object = 1, bits: int = 96, where: str = "logits"
) -> Row:
    """softmax(logits / temperature), each entry enclosed by an interval.

    Logits are rationals, floats or text, and -inf (as a float or as text) for probability 0, which
    stays exactly 0. Temperature 0 is the limit, one-hot at the largest logit.

    Raises:
        ValueError: an empty row, NaN or +inf, no finite logit, a negative temperature, or a tie for
            the largest logit at temperature 0; the message names `where` and the position.
    """
    from mpmath import iv
    from mpmath.libmp import to_rational

    heat = rational(temperature, "temperature")
    if heat < 0:
        raise ValueError(f"temperature is {temperature}; it must not be negative")
    if bits < 2:
        raise ValueError(f"bits is {bits}; at least 2 are needed")
    exact = [
        None if x in (float("-inf"), "-inf") else rational(x, f"{where}[{v}]")
        for v, x in enumerate(logits)
    ]
    finite = [x for x in exact if x is not None]
    if not finite:
        raise ValueError(f"{where} has no finite entry")
    if heat == 0:
        largest = [v for v, x in enumerate(exact) if x == max(finite)]
        if len(largest) > 1:
            raise ValueError(f"{where}: temperature 0 and a tie between tokens {largest}")
        return tuple(ONE if v == largest[0] else ZERO for v in range(len(exact)))

    def exponential(x: Number) -> Number:
        if x == 0:
            return ONE
        power = iv.exp(iv.mpf(int(x.numerator)) / int(x.denominator))
        low, high = (rational(Fraction(*map(int, to_rational(end)))) for end in power._mpi_)
        return Interval(low, high)

    previous, iv.prec = iv.prec, bits
    try:
        # 1/Σ_u exp(l_u - l_v) names every unknown once, so that nothing is lost to dependency.
        return tuple(
            ZERO if x is None else _reciprocal([exponential((u - x) / heat) for u in finite])
            for x in exact
        )
    finally:
        iv.prec = previous


def _reciprocal(terms: Sequence[Number]) -> Number:
    return ONE / total(terms)


def model_from_logits(
    logits: Mapping[Prefix, Sequence[object]], temperature: object = 1, bits: int = 96
) -> Model:
    """A model given by logits after every prefix; its rows are intervals.

    Raises:
        ValueError: as `row_from_logits`, or (when it is asked for) a missing prefix.
    """
    if not logits:
        raise ValueError("logits is empty")

    def source(prefix: Prefix) -> Row:
        if prefix not in logits:
            raise ValueError(f"logits has no entry for the prefix {prefix}")
        return row_from_logits(logits[prefix], temperature, bits, f"logits[{prefix}]")

    return Model(len(next(iter(logits.values()))), source)


# Laws.


class _Bounding:
    """Follows every branch that is not certainly impossible, with bounds on its probability."""

    def __init__(self, script: list[list[Any]]) -> None:
        self._script, self._asked = script, 0
        self.probability: Interval = Interval(ONE, ONE)

    def _answer(self, answers: Sequence[tuple[int, Number]]) -> int:
        if self._asked == len(self._script):
            possible = []
            for answer, chance in answers:
                bounds = _interval(chance)
                if bounds is None:
                    raise TypeError(f"a probability must be a number, not {chance!r}")
                # A probability lies in [0, 1], whatever its bounds say.
                low, high = max(bounds.low, ZERO), min(bounds.high, ONE)
                if high > 0:
                    possible.append((answer, self.probability * Interval(low, max(low, high))))
            if not possible:
                raise UndecidedError("no branch is possible")
            self._script.append([possible, 0])
        possible, chosen = self._script[self._asked]
        self._asked += 1
        answer, self.probability = possible[chosen]
        return int(answer)

    def flip(self, probability: Number, place: Place) -> bool:
        return bool(self._answer([(1, probability), (0, 1 - probability)]))

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        if len(weights) == 1:
            return 0
        if all(map(_is_zero, weights)):
            raise _Nowhere

        def share(v: int, w: Number) -> Number:
            # w / (w + the others) rather than w / mass: w is named once.
            others = total((*weights[:v], *weights[v + 1 :]))
            return ZERO if _is_zero(w) else ONE / (ONE + others / w)

        return self._answer([(v, share(v, w)) for v, w in enumerate(weights)])


class _Nowhere(Exception):  # noqa: N818
    """All weights are exactly 0: only a branch of probability 0 leads here."""


def _is_zero(weight: Number) -> bool:
    bounds = _interval(weight)
    return bounds is not None and bool(bounds.low == 0 == bounds.high)


@dataclass(frozen=True)
class LawBounds:
    """Certified bounds on the law of (accepted, next)."""

    bounds: Mapping[tuple[Prefix, int], Interval]
    bits: int

    @property
    def expected_accepted_length(self) -> Interval:
        """Bounds on E[τ]."""
        zero = Interval(ZERO, ZERO)
        return sum((chance * len(x) for (x, _), chance in self.bounds.items()), zero)


def law_bounds(
    scheme: str,
    models: Callable[[int], tuple[Model, Model]],
    drafts: int,
    length: int,
    bits: Sequence[int] = (64, 128, 256),
    **options: Any,
) -> LawBounds:
    """Bounds on every probability of the law of a scheme on K i.i.d. drafts.

    `models(bits)` makes the draft and the target model at a precision; the precisions of `bits` are
    tried in turn until every comparison is settled.

    Raises:
        UndecidedError: a comparison that even the last precision does not settle, a tie for
            instance. Nothing is returned then: no comparison is guessed.
    """
    for precision in bits:
        try:
            found = _bounds(scheme, *models(precision), drafts, length, options)
            return LawBounds(found, precision)
        except UndecidedError as error:
            undecided = error
    raise UndecidedError(f"not settled by {max(bits)} bits: {undecided}") from None


def _bounds(
    scheme: str, draft: Model, target: Model, drafts: int, length: int, options: dict[str, Any]
) -> dict[tuple[Prefix, int], Interval]:
    verify = find(scheme).verify
    found: dict[tuple[Prefix, int], Interval] = {}
    nowhere = ZERO
    script: list[list[Any]] = []
    while True:
        chance = _Bounding(script)
        given: Chance = chance
        try:
            sampled = SampledDrafts(given, [draft] * drafts, length)
            outcome = verify(given, sampled, draft, target, **options)
        except _Nowhere:
            nowhere += chance.probability.high
        else:
            key = outcome.accepted, outcome.next
            found[key] = chance.probability + found.get(key, ZERO)
        while script and script[-1][1] == len(script[-1][0]) - 1:
            script.pop()
        if not script:
            # A branch that certainly has probability 0 may look possible within the bounds; what
            # it is worth is granted to every outcome.
            return {
                key: Interval(chance.low, min(chance.high + nowhere, ONE))
                for key, chance in found.items()
            }
        script[-1][1] += 1


# The smallest valid scale.


def scale_interval(draft_row: Row, target_row: Row, drafts: int, bits: int = 60) -> Interval:
    """An enclosure of ρ* of width at most n/2^bits: its upper end is valid, and its lower end is 1
    or not valid.

    Raises:
        UndecidedError: on rows of intervals that are too wide for `bits`.
    """
    low, high = ONE, rational(max(drafts, 1))
    if is_valid_scale(draft_row, target_row, low, drafts):
        return Interval(low, low)
    for _ in range(bits):
        middle = (low + high) / 2
        if is_valid_scale(draft_row, target_row, middle, drafts):
            high = middle
        else:
            low = middle
    return Interval(low, high)


def algebraic_scale(draft_row: Row, target_row: Row, drafts: int) -> Any:
    """ρ* itself as a sympy number, for rational rows of a small vocabulary.

    Between two neighbouring ratios q/p the kept mass is β = a + b/ρ, and 1 - (1-β)^n = ρ β is a
    polynomial equation in ρ; ρ* is its root on the piece where validity begins.
    """
    import sympy

    ratios = {q / p for p, q in zip(draft_row, target_row, strict=True) if p != 0}
    edges = sorted({r for r in ratios if 1 < r < drafts} | {ONE, rational(max(drafts, 1))})
    if is_valid_scale(draft_row, target_row, ONE, drafts):
        return sympy.Integer(1)
    low, high = next(
        (low, high)
        for low, high in pairwise(edges)
        if is_valid_scale(draft_row, target_row, high, drafts)
    )
    middle = (low + high) / 2
    full = [p * middle <= q for p, q in zip(draft_row, target_row, strict=True)]
    a = total(p for p, whole in zip(draft_row, full, strict=True) if whole)
    b = total(q for q, whole in zip(target_row, full, strict=True) if not whole)
    rho = sympy.Symbol("rho")
    beta = _sympy(a) + _sympy(b) / rho
    equation = sympy.numer(sympy.together(1 - (1 - beta) ** drafts - rho * beta))
    roots = sympy.Poly(sympy.expand(equation), rho).real_roots(multiple=True)
    inside = [root for root in roots if _sympy(low) <= root <= _sympy(high)]
    if not inside:
        raise AssertionError(f"no root in [{low}, {high}] of {equation}")
    return inside[0]


def _sympy(value: Number) -> Any:
    import sympy

    return sympy.Rational(int(value.numerator), int(value.denominator))
