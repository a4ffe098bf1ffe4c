"""Real quantities whose comparisons split the space of all inputs into cells.

A program that computes with `Quantity` in place of numbers runs unchanged. Whenever it compares two
of them, the answer is looked up in the current `Cell`, a set of sign conditions on irreducible
polynomials. Where the cell does not decide it, the run stops, the cell is split, and the program is
run again on each part: `explore` returns every cell in which the program runs to its end.

A part is dropped only with a certificate that it is empty: non-negative multipliers of products of
its conditions that add up to a contradiction (Positivstellensatz of low degree), found and
confirmed in rationals by `draftproof.reference.linear_program`. A part that is empty but not
recognised as such is explored too, which is harmless: a claim is then checked where nothing can be
claimed.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from numbers import Rational
from typing import Any, TypeVar

from draftproof.reference.linear_program import CertificateError, Program, solve
from draftproof.reference.numbers import ONE, ZERO, rational
from sympy import QQ
from sympy.polys.fields import field as fraction_field
from sympy.polys.groebnertools import groebner

__all__ = ["Cell", "Quantity", "Space", "Split", "explore"]

Polynomial = Any
T = TypeVar("T")

Signs = frozenset[int]
ANY: Signs = frozenset({-1, 0, 1})

SAMPLES = 3000
GRID = 4
"""Coordinates of sample points are multiples of 1/GRID."""


@dataclass
class Space:
    """Named real variables and the polynomials that are known to be non-negative."""

    names: Sequence[str]
    at_least_zero: list[Polynomial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.field = fraction_field(list(self.names), QQ)[0]
        self.ring = self.field.ring
        self._rows: list[list[int]] = []  # variables that make up one row
        self._points: list[list[int]] | None = None
        self._signs: dict[Polynomial, list[int]] = {}
        self._factors: dict[Polynomial, Any] = {}
        self._results: dict[Any, Any] = {}

    def variable(self, name: str) -> Quantity:
        """The variable called `name`."""
        return Quantity(self, self.field.gens[list(self.names).index(name)])

    def constant(self, value: int | Rational) -> Quantity:
        """A rational number."""
        exact = Fraction(value)
        return Quantity(self, self.field(QQ(exact.numerator, exact.denominator)))

    def assume_at_least_zero(self, quantity: Quantity) -> None:
        """Restrict the space to where a polynomial is at least 0."""
        self.at_least_zero.append(quantity.value.numer)

    def row(self, name: str, vocab: int) -> tuple[Quantity, ...]:
        """A probability row: variables name0, name1, .., and one minus their sum, all ≥ 0."""
        entries = [self.variable(f"{name}{v}") for v in range(vocab - 1)]
        self._rows.append([list(self.names).index(f"{name}{v}") for v in range(vocab - 1)])
        last = self.constant(1) - sum(entries, self.constant(0))
        for entry in (*entries, last):
            self.assume_at_least_zero(entry)
        return (*entries, last)

    def compute(self, operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """operation(a, b) on rational functions; every run of a program asks for the same ones."""
        key = operation, a, b
        if key not in self._results:
            self._results[key] = operation(a, b)
        return self._results[key]

    def factors(self, polynomial: Polynomial) -> Any:
        """A rational coefficient and the irreducible factors with their powers."""
        if polynomial not in self._factors:
            self._factors[polynomial] = polynomial.factor_list()
        return self._factors[polynomial]

    def signs_at_samples(self, polynomial: Polynomial) -> list[int]:
        """The signs of a polynomial at the sample points, which lie on a coarse grid so that many
        of them satisfy equations. They only ever show that a condition *can* hold."""
        if self._points is None:
            self._points = self._sample()
        known = self._signs.get(polynomial)
        if known is None:
            degree = max((sum(monomial) for monomial in polynomial), default=0)
            terms = [
                (int(c), [(i, n) for i, n in enumerate(monomial) if n], degree - sum(monomial))
                for monomial, c in polynomial.clear_denoms()[1].terms()
            ]
            known = []
            for point in self._points:
                value = 0  # times GRID ** degree, in integers
                for coefficient, powers, missing in terms:
                    for i, n in powers:
                        coefficient *= point[i] ** n
                    value += coefficient * GRID**missing
                known.append((value > 0) - (value < 0))
            self._signs[polynomial] = known
        return known

    def _sample(self) -> list[list[int]]:
        generator = random.Random(0)
        points = []
        in_rows = {i for row in self._rows for i in row}
        for _ in range(SAMPLES):
            point = [
                0 if i in in_rows else generator.randint(0, 3 * GRID)
                for i in range(len(self.names))
            ]
            for row in self._rows:
                cuts = sorted(generator.choice((0, GRID, generator.randint(0, GRID))) for _ in row)
                last = 0
                for i, cut in zip(row, cuts):
                    point[i], last = cut - last, cut
            points.append(point)
        return points


class Split(Exception):  # noqa: N818  (a request, not an error)
    """The cell does not decide a comparison; `parts` are sign sets of `atom` that do."""

    def __init__(self, atom: Polynomial, parts: Sequence[Signs]) -> None:
        super().__init__(f"{atom} in {[sorted(p) for p in parts]}")
        self.atom, self.parts = atom, parts


class Cell:
    """Sign conditions on irreducible polynomials (atoms)."""

    def __init__(
        self,
        space: Space,
        signs: Mapping[Polynomial, Signs] | None = None,
        samples: Sequence[int] = range(SAMPLES),
    ) -> None:
        """`samples` are the numbers of the sample points that lie in the cell."""
        self.space = space
        self.signs: dict[Polynomial, Signs] = dict(signs or {})
        self.extra: list[tuple[Polynomial, bool]] = []
        self._basis = self._equations()
        self._reduced: dict[Polynomial, Polynomial] = {}
        self._found: dict[Polynomial, Signs] = {}
        self.samples = samples

    def __str__(self) -> str:
        words = {
            (-1,): "< 0",
            (0,): "= 0",
            (1,): "> 0",
            (-1, 0): "<= 0",
            (0, 1): ">= 0",
        }
        return ", ".join(f"{a.as_expr()} {words[tuple(sorted(s))]}" for a, s in self.signs.items())

    def _equations(self) -> list[Polynomial]:
        zeros = [atom for atom, signs in self.signs.items() if signs == {0}]
        return list(groebner(zeros, self.space.ring)) if zeros else []

    def reduce(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial up to multiples of the equations of the cell."""
        if not self._basis:
            return polynomial
        if polynomial not in self._reduced:
            self._reduced[polynomial] = polynomial.rem(self._basis)
        return self._reduced[polynomial]

    def and_also(self, atom: Polynomial, signs: Signs) -> Cell:
        """The part of the cell where `atom` has one of these signs."""
        at = self.space.signs_at_samples(atom)
        inside = [number for number in self.samples if at[number] in signs]
        # The newest condition comes last: emptiness is looked for around it.
        others = {a: s for a, s in self.signs.items() if a != atom}
        return Cell(self.space, {**others, atom: signs}, inside)

    # Conditions as polynomials that are ≥ 0 (with a flag for > 0) or = 0.

    def _conditions(self) -> tuple[list[tuple[Polynomial, bool]], list[Polynomial]]:
        bounds: list[tuple[Polynomial, bool]] = [(g, False) for g in self.space.at_least_zero]
        bounds += self.extra
        equations: list[Polynomial] = []
        for atom, signs in self.signs.items():
            if signs == {0}:
                equations.append(atom)
            elif signs <= {0, 1}:
                bounds.append((atom, 0 not in signs))
            elif signs <= {-1, 0}:
                bounds.append((-atom, 0 not in signs))
        return bounds, equations

    def is_empty(self) -> bool:
        """Whether low-degree multipliers prove that no point satisfies the conditions.

        Looks for Σ λ_i (products of one or two conditions) + Σ (any multiple of equations) = 0 with
        λ ≥ 0 and weight 1 on products that are strictly positive: that is a contradiction.
        """
        if self.samples and not self.extra:
            return False
        bounds, equations = self._conditions()
        newest = [g for g, _ in self.extra] or list(self.signs)[-1:]
        relevant = _connected([*(g for g, _ in bounds), *equations], newest)
        kept: dict[Polynomial, bool] = {}
        for g, strict in bounds:
            reduced = self.reduce(g)
            if reduced.is_ground:
                if _ground(reduced) < 0 or (strict and reduced == 0):
                    return True
            elif g in relevant:
                kept[reduced] = kept.get(reduced, False) or strict
        factors = list(kept.items())
        return any(self._contradiction(factors, degree) for degree in (1, 2))

    def _contradiction(self, factors: Sequence[tuple[Polynomial, bool]], degree: int) -> bool:
        if not factors:
            return False
        one = factors[0][0].ring.one
        products: dict[Polynomial, bool] = {one: True}
        for size in range(1, degree + 1):
            for chosen in combinations_with_replacement(factors, size):
                product = one
                for g, _ in chosen:
                    product = product * g
                strict = all(s for _, s in chosen)
                product = self.reduce(product)  # up to multiples of the equations
                products[product] = products.get(product, False) or strict
        # A square of anything is non-negative, which is what two equal factors give already.
        program = Program()
        terms: dict[Any, dict[int, Any]] = {}
        strict_terms: dict[int, Any] = {}
        for number, (product, strict) in enumerate(products.items()):
            if strict:
                strict_terms[number] = ONE
            for monomial, coefficient in product.terms():
                terms.setdefault(monomial, {})[number] = rational(
                    Fraction(int(coefficient.numerator), int(coefficient.denominator))
                )
        for line in terms.values():
            program.require(line, "=", ZERO)
        program.require(strict_terms, "=", ONE)
        try:
            solve(program)
        except (ValueError, CertificateError):
            return False
        return True

    def vanishes(self, polynomial: Polynomial) -> bool:
        """Whether it is 0 in all of the cell: by the equations, or because neither of the strict
        inequalities can hold."""
        if self.reduce(polynomial) == 0:
            return True
        at = self.space.signs_at_samples(polynomial)
        if any(at[number] for number in self.samples):
            return False
        return all(self._excludes(g) for g in (polynomial, -polynomial)) or (
            self.with_implied_equations().reduce(polynomial) == 0
        )

    def _excludes(self, polynomial: Polynomial) -> bool:
        """Whether the polynomial is shown to be positive nowhere."""
        positive = Cell(self.space, self.signs, ())
        positive.extra = [(polynomial, True)]
        return positive.is_empty()

    def with_implied_equations(self) -> Cell:
        """The same points, with the conditions that can only hold as equations made equations."""
        implied = self
        bounds, _ = self._conditions()
        for g, strict in bounds:
            atom, _ = _canonical(implied.reduce(g)) if implied.reduce(g) != 0 else (g, False)
            if strict or atom.is_ground:
                continue
            if any(self.space.signs_at_samples(g)[number] > 0 for number in implied.samples):
                continue
            if implied._excludes(g):
                implied = implied.and_also(atom, frozenset({0}))
        return implied

    def signs_of(self, polynomial: Polynomial) -> Signs:
        """The signs that an irreducible polynomial may have in the cell, as far as is known."""
        if polynomial.is_ground:
            value = _ground(polynomial)
            return frozenset({(value > 0) - (value < 0)})
        known = self.signs.get(polynomial, ANY)
        if polynomial in self._found:
            return self._found[polynomial]
        at = self.space.signs_at_samples(polynomial)
        seen = {at[number] for number in self.samples}
        possible = known
        for sign in known - seen:
            if len(possible) > 1 and self.and_also(polynomial, frozenset({sign})).is_empty():
                possible = possible - {sign}
        self._found[polynomial] = possible
        return possible

    def decide(self, quantity: Quantity, signs: Signs) -> bool:
        """Whether the sign of `quantity` is one of `signs`.

        Raises:
            Split: the cell does not say.
        """
        sign = 1
        open_atoms: list[tuple[Polynomial, Signs, int]] = []
        numer = self.reduce(quantity.value.numer)
        for polynomial in (numer, quantity.value.denom):
            if polynomial == 0:
                return 0 in signs
            coefficient, factors = self.space.factors(polynomial)
            sign *= 1 if coefficient > 0 else -1
            for atom, power in factors:
                atom, flipped = _canonical(atom)
                possible = self.signs_of(atom)
                if power % 2 and flipped:
                    sign = -sign
                if len(possible) == 1:
                    only = next(iter(possible))
                    if only == 0:
                        return 0 in signs
                    sign *= only if power % 2 else 1
                else:
                    open_atoms.append((atom, possible, power))
        if not open_atoms:
            return sign in signs
        results = {
            tuple(choice): _product(sign, choice, [power for *_, power in open_atoms]) in signs
            for choice in _choices([possible for _, possible, _ in open_atoms])
        }
        if len(set(results.values())) == 1:
            return next(iter(results.values()))
        atom, possible, power = open_atoms[0]
        if len(open_atoms) == 1:
            yes = frozenset(s for s in possible if results[(s,)])
            parts = [part for part in (yes, possible - yes) if part]
            if any(part == {-1, 1} for part in parts):
                parts = [frozenset({s}) for s in sorted(possible)]
        else:
            parts = [frozenset({s}) for s in sorted(possible)]
        raise Split(atom, parts)


def _ground(polynomial: Polynomial) -> Any:
    return polynomial.LC if polynomial != 0 else 0


def _canonical(atom: Polynomial) -> tuple[Polynomial, bool]:
    """The primitive form with a positive leading coefficient, and whether the sign was turned."""
    _, primitive = atom.clear_denoms()
    primitive = primitive.primitive()[1]
    return (-primitive, True) if primitive.LC < 0 else (primitive, False)


def _choices(options: Sequence[Signs]) -> Iterator[list[int]]:
    if not options:
        yield []
        return
    for first in sorted(options[0]):
        for rest in _choices(options[1:]):
            yield [first, *rest]


def _product(sign: int, choice: Sequence[int], powers: Sequence[int]) -> int:
    for s, power in zip(choice, powers):
        sign *= s if power % 2 else s * s
    return sign


def _connected(conditions: Sequence[Polynomial], seeds: Sequence[Polynomial]) -> set[Polynomial]:
    """The conditions that share variables, directly or through others, with the seeds."""
    wanted = {variable for seed in seeds for variable in _variables(seed)}
    if not wanted:
        return set(conditions)
    found: set[Polynomial] = set()
    grown = True
    while grown:
        grown = False
        for g in conditions:
            if g not in found and _variables(g) & wanted:
                found.add(g)
                # Bounds of one variable connect nothing by themselves.
                if len(_variables(g)) > 1 and not _variables(g) <= wanted:
                    wanted |= _variables(g)
                    grown = True
    return found


def _variables(polynomial: Polynomial) -> set[int]:
    return {i for monomial in polynomial for i, power in enumerate(monomial) if power}


_CURRENT: list[Cell] = []


class Quantity:
    """A rational function of the variables; comparisons are answered by the current cell."""

    __slots__ = ("space", "value")
    __hash__ = None  # type: ignore[assignment]  # equality depends on the cell

    def __init__(self, space: Space, value: Any) -> None:
        self.space, self.value = space, value

    def __repr__(self) -> str:
        return str(self.value.as_expr())

    def _other(self, other: object) -> Any:
        if isinstance(other, Quantity):
            return other.value
        if isinstance(other, (int, Rational)):
            return self.space.field(QQ(int(other.numerator), int(other.denominator)))
        return None

    def _with(self, operation: Callable[[Any, Any], Any], other: Any) -> Quantity:
        return Quantity(self.space, self.space.compute(operation, self.value, other))

    def __add__(self, other: object) -> Any:
        value = self._other(other)
        return NotImplemented if value is None else self._with(operator.add, value)

    __radd__ = __add__

    def __neg__(self) -> Quantity:
        return Quantity(self.space, -self.value)

    def __sub__(self, other: object) -> Any:
        value = self._other(other)
        return NotImplemented if value is None else self._with(operator.sub, value)

    def __rsub__(self, other: object) -> Any:
        return -(self - other)

    def __mul__(self, other: object) -> Any:
        value = self._other(other)
        return NotImplemented if value is None else self._with(operator.mul, value)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Any:
        value = self._other(other)
        if value is None:
            return NotImplemented
        divisor = Quantity(self.space, value)
        if divisor == 0:
            raise ZeroDivisionError(f"{self} / {divisor}")
        return self._with(operator.truediv, value)

    def __rtruediv__(self, other: object) -> Any:
        value = self._other(other)
        return NotImplemented if value is None else Quantity(self.space, value) / self

    def __pow__(self, power: int) -> Quantity:
        return Quantity(self.space, self.value**power)

    def __abs__(self) -> Quantity:
        return -self if self < 0 else self

    def _sign_in(self, other: object, signs: Signs) -> Any:
        value = self._other(other)
        if value is None:
            return NotImplemented
        return _CURRENT[-1].decide(self._with(operator.sub, value), signs)

    def __lt__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({-1}))

    def __le__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({-1, 0}))

    def __gt__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({1}))

    def __ge__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({0, 1}))

    def __eq__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({0}))

    def __ne__(self, other: object) -> Any:
        return self._sign_in(other, frozenset({-1, 1}))

    def vanishes(self) -> bool:
        """Whether it is 0 in the current cell by its equations alone (never splits)."""
        return bool(_CURRENT[-1].reduce(self.value.numer) == 0)


def explore(space: Space, program: Callable[[], T]) -> Iterator[tuple[Cell, T]]:
    """Run `program` on every cell of the space that its comparisons tell apart."""
    waiting = [Cell(space)]
    while waiting:
        cell = waiting.pop()
        _CURRENT.append(cell)
        try:
            result = program()
        except Split as split:
            parts = [cell.and_also(split.atom, signs) for signs in split.parts]
            waiting += [part for part in reversed(parts) if not part.is_empty()]
        else:
            yield cell, result
        finally:
            _CURRENT.pop()
