"""Boxes: a verifier as a partition of the cube of its uniforms into boxes.

With its drafts given, a verifier that follows the randomness contract is a function of its
uniforms, constant on boxes. `reference_boxes` reads them off the decision tree of the reference.
`rebuild` finds those of *any* function by probing it: boxes whose probes disagree are cut at the
threshold between two of them, which bisection finds to the last bits and which is then recognised
as the rational it is. The volumes are the law of the function, without sampling error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.subject import Floats, Ints
from draftproof.conformance.tables import Paths, Uniforms
from draftproof.reference.chance import (
    Accept,
    Place,
    Select,
    Token,
    check_probability,
    check_weights,
)
from draftproof.reference.instance import Instance
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import ONE, ZERO, Number
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import FixedDrafts

__all__ = ["Box", "Rebuilt", "Unbuildable", "corners", "rebuild", "reference_boxes", "simplest"]

Stop = tuple[Prefix, int]


@dataclass(frozen=True)
class Box:
    """The uniforms for which the reference stops in one way; places it does not ask are free."""

    sides: tuple[tuple[Place, Number, Number], ...]
    stop: Stop
    volume: Number


class _Sides:
    """A `Chance` that follows a script and records the interval of every answer."""

    def __init__(self, script: list[tuple[list[tuple[int, Number, Number]], int]]) -> None:
        self._script = script
        self._asked = 0
        self.sides: list[tuple[Place, Number, Number]] = []

    def _answer(self, place: Place, answers: Callable[[], list[tuple[int, Number, Number]]]) -> int:
        if self._asked == len(self._script):
            self._script.append((answers(), 0))
        possible, chosen = self._script[self._asked]
        self._asked += 1
        answer, low, high = possible[chosen]
        if any(known == place for known, _, _ in self.sides):
            raise AssertionError(f"{place} is asked twice")
        self.sides.append((place, low, high))
        return answer

    def flip(self, probability: Number, place: Place) -> bool:
        check_probability(probability, place)
        if probability == 0 or probability == 1:
            return bool(probability == 1)
        sides = [(1, ZERO, probability), (0, probability, ONE)]
        return bool(self._answer(place, lambda: sides))

    def draw(self, weights: Any, place: Place) -> int:
        def answers() -> list[tuple[int, Number, Number]]:
            mass, reached, found = check_weights(weights, place), ZERO, []
            for index, weight in enumerate(weights):
                if weight != 0:
                    found.append((index, reached / mass, (reached + weight) / mass))
                reached += weight
            return found

        return self._answer(place, answers)


def reference_boxes(scheme: Scheme, instance: Instance, paths: Paths, **options: Any) -> list[Box]:
    """The boxes of a scheme for given drafts; their volumes sum to 1."""
    drafts = FixedDrafts(paths, instance.length)
    boxes = []
    script: list[tuple[list[tuple[int, Number, Number]], int]] = []
    while True:
        chance = _Sides(script)
        outcome: Outcome = scheme.verify(
            chance, drafts, instance.draft_model, instance.target_model, **options
        )
        volume = ONE
        for _, low, high in chance.sides:
            volume *= high - low
        stop = (outcome.accepted, outcome.next)
        boxes.append(Box(tuple(chance.sides), stop, volume))
        while script and script[-1][1] == len(script[-1][0]) - 1:
            script.pop()
        if not script:
            return boxes
        script[-1] = (script[-1][0], script[-1][1] + 1)


def can_probe(box: Box, margin: float) -> bool:
    """Whether the box has room for probes that keep the margin from its sides."""
    return all(high - low > 3 * margin for _, low, high in box.sides)


def corners(
    box: Box, margin: float, generator: np.random.Generator, drafts: int, length: int, most: int
) -> Uniforms:
    """Points of a box near its corners: `margin` inside its sides, free places at random.

    All corners if there are at most `most`; else the two extreme ones, those that differ from them
    in one place, and random ones.
    """
    m = len(box.sides)
    if 2**m <= most:
        which = np.array(list(product((0, 1), repeat=m)), dtype=np.int64).reshape(2**m, m)
    else:
        single = np.eye(m, dtype=np.int64)
        some = [np.zeros((1, m), dtype=np.int64), np.ones((1, m), dtype=np.int64), single]
        some.append(1 - single)
        left = max(most - 2 - 2 * m, 0)
        some.append(generator.integers(0, 2, (left, m)))
        which = np.concatenate(some)
    n = len(which)
    points = Uniforms.random(generator, n, drafts, length)
    for side, (place, low, high) in enumerate(box.sides):
        value = np.where(which[:, side] == 0, float(low) + margin, float(high) - margin)
        match place:
            case Accept(draft, depth):
                points.accept[:, draft, depth - 1] = value
            case Select(draft):
                points.select[:, draft] = value
            case Token():
                points.token[:] = value
    return points


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in [low, high], 0 ≤ low ≤ high (Stern-Brocot)."""
    whole = low.numerator // low.denominator
    if whole == low:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / simplest(1 / (high - whole), 1 / (low - whole))


class Unbuildable(Exception):  # noqa: N818 - an outcome, not a fault of the caller
    """The function is not constant on a manageable number of boxes."""


@dataclass(frozen=True)
class Rebuilt:
    """The law of a function of uniforms, for every tuple of drafts."""

    stops: list[dict[Stop, Fraction]]
    """One law of (accepted, next) for each tuple."""
    exact: bool
    """Whether every threshold was recognised as a rational with a small denominator."""
    error: float
    """A bound on the error of each law in total variation where it is not exact."""
    probes: int


Ask = Callable[[Ints, Floats], list[Stop]]
"""(tuple indices [N], points [N, D]) → how each block stops."""


def rebuild(
    ask: Ask, tuples: int, dimensions: int, *, precision: float = 1e-13, most_boxes: int = 20_000
) -> Rebuilt:
    """The law of a black box on [0, 1)^D for every tuple of drafts, by probing and bisection.

    Exact if (1) the function is constant on boxes, (2) every box shows in the probes (all corners
    up to D = 6, the centre and random points) and (3) `precision`, the accuracy of its thresholds,
    tells them from other simple rationals.

    Raises:
        Unbuildable: more than `most_boxes` boxes.
    """
    generator = np.random.default_rng(20_240_229)
    zero, one = Fraction(0), Fraction(1)
    steps = int(np.ceil(np.log2(1 / precision)))
    largest = int(np.sqrt(1e-3 / precision))
    inside = max(precision * 1e4, 1e-10)
    open_boxes: list[tuple[int, list[Fraction], list[Fraction]]] = [
        (m, [zero] * dimensions, [one] * dimensions) for m in range(tuples)
    ]
    stops: list[dict[Stop, Fraction]] = [{} for _ in range(tuples)]
    exact, error, probes, seen = True, 0.0, 0, tuples
    if 2**dimensions <= 64:
        pattern = np.array(list(product((0.0, 1.0), repeat=dimensions))).reshape(-1, dimensions)
    else:
        pattern = np.concatenate(
            [
                np.zeros((1, dimensions)),
                np.ones((1, dimensions)),
                np.eye(dimensions),
                1 - np.eye(dimensions),
                generator.integers(0, 2, (24, dimensions)).astype(float),
            ]
        )
    while open_boxes:
        extra = generator.random((6, dimensions))
        extra[0] = 0.5
        shape = np.concatenate([pattern, extra])
        low = np.array([[float(v) for v in b[1]] for b in open_boxes]).reshape(-1, dimensions)
        high = np.array([[float(v) for v in b[2]] for b in open_boxes]).reshape(-1, dimensions)
        pad = np.minimum(inside, (high - low) / 4)
        points = (low + pad)[:, None] + shape[None] * (high - low - 2 * pad)[:, None]
        owner = np.repeat([b[0] for b in open_boxes], len(shape))
        answers = ask(owner, points.reshape(-1, dimensions))
        probes += len(answers)
        split: list[tuple[int, Floats, Floats, Stop]] = []
        for i, (m, lo, hi) in enumerate(open_boxes):
            mine = answers[i * len(shape) : (i + 1) * len(shape)]
            other = next((j for j, answer in enumerate(mine) if answer != mine[0]), None)
            narrow = bool((high[i] - low[i] < 8 * inside).any())
            if other is None or narrow:
                volume = one
                for a, b in zip(lo, hi, strict=True):
                    volume *= b - a
                stops[m][mine[0]] = stops[m].get(mine[0], zero) + volume
                if other is not None:
                    exact, error = False, error + float(volume)
                continue
            split.append((i, points[i, 0], points[i, other], mine[0]))
        if not split:
            break
        cuts = _cuts(ask, open_boxes, split, dimensions, steps)
        probes += (dimensions + steps) * len(split)
        following = []
        for (i, _, _, _), (axis, below, above) in zip(split, cuts, strict=True):
            m, lo, hi = open_boxes[i]
            slack = Fraction(precision)
            at = simplest(
                max(Fraction(below) - slack, lo[axis]), min(Fraction(above) + slack, hi[axis])
            )
            if at.denominator > largest or not lo[axis] < at < hi[axis]:
                at = (Fraction(below) + Fraction(above)) / 2
                exact = False
                error += float(above - below) + precision
            following.append((m, lo, [*hi[:axis], at, *hi[axis + 1 :]]))
            following.append((m, [*lo[:axis], at, *lo[axis + 1 :]], hi))
        seen += len(split)
        if seen > most_boxes:
            raise Unbuildable(f"more than {most_boxes} boxes")
        open_boxes = following
    return Rebuilt(stops, exact, error, probes)


def _cuts(
    ask: Ask,
    boxes: list[tuple[int, list[Fraction], list[Fraction]]],
    split: list[tuple[int, Floats, Floats, Stop]],
    dimensions: int,
    steps: int,
) -> list[tuple[int, float, float]]:
    """For each box to be split: the axis and the two sides of a threshold on it."""
    owner = np.array([boxes[i][0] for i, _, _, _ in split])
    start = np.array([x for _, x, _, _ in split]).reshape(-1, dimensions)
    end = np.array([y for _, _, y, _ in split]).reshape(-1, dimensions)
    # Walk from start to end one coordinate at a time; the first change of answer names the axis.
    axis = np.full(len(split), -1)
    base = start.copy()
    current = start.copy()
    for j in range(dimensions):
        moved = current.copy()
        moved[:, j] = end[:, j]
        answers = ask(owner, moved)
        for r, (_, _, _, first) in enumerate(split):
            if axis[r] < 0:
                if answers[r] != first:
                    axis[r], base[r] = j, current[r]
                else:
                    current[r] = moved[r]
    if (axis < 0).any():
        raise Unbuildable("the same uniforms do not always give the same answer")
    rows = np.arange(len(split))
    near, far = base[rows, axis], end[rows, axis]
    for _ in range(steps + 2):
        middle = (near + far) / 2
        points = base.copy()
        points[rows, axis] = middle
        answers = ask(owner, points)
        same = np.array([a == first for a, (_, _, _, first) in zip(answers, split, strict=True)])
        near, far = np.where(same, middle, near), np.where(same, far, middle)
    return [(int(axis[r]), float(min(near[r], far[r])), float(max(near[r], far[r]))) for r in rows]
