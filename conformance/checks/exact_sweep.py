"""Exact sweep: the subject's law without sampling error, for subjects that take uniforms.

Step 1 compares answers. The reference's decision tree cuts the cube of uniforms into boxes; the
subject is probed near the corners of every box, for every tuple of drafts. Where all answers agree,
its law *is* the reference's, up to thresholds that differ by less than the probing margin.
Step 2, where an answer differs, rebuilds the law of the subject by bisection (`boxes.rebuild`) and
compares it with the target as fractions: another use of the uniforms is no bias, another law is.
Instances with too many drafts are probed at a scrambled low-discrepancy set (see `_scrambled`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from draftproof.conformance.boxes import (
    Box,
    Rebuilt,
    Unbuildable,
    can_probe,
    corners,
    rebuild,
    reference_boxes,
)
from draftproof.conformance.context import Context
from draftproof.conformance.shrink import shrink
from draftproof.conformance.subject import Floats, Ints, SubjectError
from draftproof.conformance.tables import ChosenTable, Table, Uniforms, law_to_list, string_law
from draftproof.conformance.verdict import CheckResult, Counterexample
from draftproof.reference.chance import TOKEN, Place
from draftproof.reference.instance import Instance, instance_to_json
from draftproof.reference.law import Law
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, rational, text
from draftproof.reference.oracle import examine
from draftproof.reference.tree import FixedDrafts
from scipy.stats import qmc

__all__ = [
    "NAME",
    "ExactLaw",
    "counterexample_of",
    "exact_law_of",
    "graded_by_stops",
    "precision_of",
    "run",
    "said",
]

NAME = "exact sweep"

Stop = tuple[Prefix, int]
_PRECISION = {"float64": 1e-13, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
_LEAST = 8  # instances that are swept however long it takes
_PATIENCE = 20.0  # seconds of rebuilding at least, even on a small budget
_LOOSE = 1e-3
"""An error of a rebuilt law above which it says nothing about losslessness."""
_NET = 256  # points of one scrambled net


def precision_of(context: Context) -> float:
    """The accuracy of a threshold that the subject computes."""
    return _PRECISION[context.declaration.dtypes[0]]


def stops_of(table: Table, tuples: Ints, result: Any) -> list[Stop]:
    """The (accepted, next) pairs of a result."""
    accepted = table.accepted_tokens(tuples, result)
    return [
        (tuple(int(t) for t in row[:n]), int(token))
        for row, n, token in zip(accepted, result.accepted_length, result.next_token, strict=True)
    ]


@dataclass(frozen=True)
class ExactLaw:
    """The law of a subject on an instance, rebuilt."""

    stops: Law[Stop]
    subject: Law[Any]
    """What is graded: the law of L + 1 tokens, or of (accepted, next) for stateful schemes."""
    truth: Law[Any]
    exact: bool
    error: float

    @property
    def total_variation(self) -> Number:
        """Between the two."""
        return self.subject.total_variation(self.truth)

    @property
    def biased(self) -> bool:
        """Whether they differ by more than the rebuilding may err."""
        return bool(float(self.total_variation) > (0 if self.exact else self.error))


def exact_law_of(context: Context, table: Table) -> ExactLaw:
    """Rebuild the law of the subject on an instance.

    Raises:
        Unbuildable: it is not a function of its uniforms, or has too many boxes.
        SubjectError: the subject failed.
    """
    k, length = table.drafts, table.length
    selects = context.scheme.selects
    dimensions = k * length + (k if selects else 0) + 1

    def ask(tuples: Ints, points: Floats) -> list[Stop]:
        if context.elapsed > max(_PATIENCE, 4 * context.budget):
            raise Unbuildable(f"not rebuilt within {context.elapsed:.0f} s")
        n = len(tuples)
        accept = points[:, : k * length].reshape(n, k, length)
        select = points[:, k * length : -1] if selects else np.full((n, k), 0.5)
        uniforms = Uniforms(accept, select, points[:, -1])
        return stops_of(
            table, tuples, context.ask(table.batch(context.scheme.name, tuples, uniforms))
        )

    precision = precision_of(context)
    found: Rebuilt = rebuild(ask, len(table.chances), dimensions, precision=precision)
    collected: dict[Stop, Number] = {}
    error = 0.0
    for chance, stops in zip(table.chances, found.stops, strict=True):
        for stop, volume in stops.items():
            collected[stop] = collected.get(stop, ZERO) + chance * rational(volume)
    if not found.exact:
        error = found.error + 100 * precision
    stops_law: Law[Stop] = Law(collected)
    if graded_by_stops(context):
        # A stateful scheme owes the rest to its carry: one block is graded by the scheme's own law,
        # whose smallest valid scale is rounded up on a grid of 2^-20.
        truth: Law[Any] = examine(context.scheme, table.instance).law
        return ExactLaw(stops_law, stops_law, truth, False, error + 1e-4)
    return ExactLaw(
        stops_law,
        string_law(table.instance, stops_law),
        table.target_law,
        found.exact,
        error,
    )


def graded_by_stops(context: Context) -> bool:
    """Whether one block is compared with the scheme's law, not with the target's."""
    return context.scheme.stateful or bool(context.scheme.approximate)


def _shrunk(context: Context, instance: Instance, law: ExactLaw) -> tuple[Instance, ExactLaw, bool]:
    """The smallest instance found on which the law, rebuilt, is still biased.

    A bias is kept at a twentieth of the first one at least: not shrunk into what rounding explains.
    """
    found: dict[int, ExactLaw] = {}
    least = float(law.total_variation) / 20

    def biased(candidate: Instance) -> bool:
        if not context.takes(candidate):
            return False
        try:
            again = exact_law_of(context, Table(candidate))
        except (Unbuildable, SubjectError, ValueError):
            return False
        found[id(candidate)] = again
        kept.append(candidate)
        return again.biased and float(again.total_variation) >= least

    kept: list[Instance] = []  # keeps identities alive
    smallest, finished = shrink(instance, biased, max(2.0, context.budget))
    return smallest, found.get(id(smallest), law), finished


def counterexample_of(
    context: Context, instance: Instance, law: ExactLaw, smallest: bool
) -> Counterexample:
    """The two laws side by side."""
    both = (law.truth, law.subject)
    if graded_by_stops(context):
        target, subject = (_stops_to_list(one) for one in both)
    else:
        target, subject = (law_to_list(one) for one in both)
    told = instance_to_json(instance)
    return Counterexample(
        instance=told,
        target_law=target,
        subject_law=subject,
        total_variation=text(law.total_variation),
        exact=law.exact,
        command=context.rerun(told),
        smallest=smallest,
    )


@dataclass
class _Sweep:
    """What step 1 found on one instance."""

    covered: Number = ZERO
    boxes: int = 0
    disagrees: bool = False
    stops: dict[Stop, Number] = field(default_factory=dict)
    """The reference's own law, of the tuples of drafts so far."""
    tuples: int = 0


def _points(
    context: Context, table: Table, found: _Sweep, margin: float, most: int
) -> Iterator[tuple[int, list[Box], Uniforms, list[int]]]:
    """For each tuple of drafts: its boxes, probes and the box of every probe."""
    generator = context.generator("sweep")
    for m, paths in enumerate(table.paths):
        every = reference_boxes(context.scheme, table.instance, paths)
        for box in every:
            weight = table.chances[m] * box.volume
            found.stops[box.stop] = found.stops.get(box.stop, ZERO) + weight
        found.tuples += 1
        boxes = [box for box in every if can_probe(box, margin)]
        if not boxes:
            continue
        parts = [corners(b, margin, generator, table.drafts, table.length, most) for b in boxes]
        owner = [i for i, part in enumerate(parts) for _ in range(len(part.token))]
        yield m, boxes, _join(parts), owner


def _join(parts: list[Uniforms]) -> Uniforms:
    return Uniforms(
        np.concatenate([part.accept for part in parts]),
        np.concatenate([part.select for part in parts]),
        np.concatenate([part.token for part in parts]),
    )


def _sweep(context: Context, table: Table, margin: float) -> _Sweep:
    most = 32 if context.seconds_per_block < 2e-5 else 8
    found = _Sweep()
    pending: list[tuple[int, list[Box], Uniforms, list[int]]] = []

    def flush() -> None:
        tuples = np.concatenate([np.full(len(owner), m) for m, _, _, owner in pending])
        uniforms = _join([points for _, _, points, _ in pending])
        batch = table.batch(context.scheme.name, tuples, uniforms)
        answers = stops_of(table, tuples, context.ask(batch))
        expected = [boxes[i].stop for _, boxes, _, owner in pending for i in owner]
        found.disagrees = found.disagrees or answers != expected
        for m, boxes, _, _ in pending:
            found.covered += table.chances[m] * sum((box.volume for box in boxes), ZERO)
            found.boxes += len(boxes)
        pending.clear()

    for item in _points(context, table, found, margin, most):
        pending.append(item)
        if sum(len(owner) for *_, owner in pending) >= 4096:
            flush()
            if found.disagrees or context.elapsed > context.budget:
                return found
    if pending:
        flush()
    return found


class _Decode:
    """A `Chance` that decodes all its answers from one uniform, and records the boxes' sides."""

    def __init__(self, uniform: Number) -> None:
        self._uniform = uniform
        self.sides: list[tuple[Place, Number, Number]] = []

    def flip(self, probability: Number, place: Place) -> bool:
        if probability == 0 or probability == 1:
            return bool(probability == 1)
        if self._uniform < probability:
            self._uniform = self._uniform / probability
            self.sides.append((place, ZERO, probability))
            return True
        self._uniform = (self._uniform - probability) / (1 - probability)
        self.sides.append((place, probability, ONE))
        return False

    def draw(self, weights: Any, place: Place) -> int:
        mass = sum(weights, ZERO)
        reached = ZERO
        for index, weight in enumerate(weights):
            if weight != 0 and self._uniform * mass < reached + weight:
                self._uniform = (self._uniform * mass - reached) / weight
                self.sides.append((place, reached / mass, (reached + weight) / mass))
                return index
            reached += weight
        raise AssertionError("a uniform is below 1")


def missed_volume(points: int, nets: int) -> float:
    """The probability of boxes that `nets` scrambled nets miss with probability at most 1e-9.

    Each net is a scrambled (0, m, 2)-net in base 2, so that an average over it is unbiased and has
    at most twice the variance of independent sampling (Owen 1997: gain at most (b/(b-1))^(s-1)).
    Chebyshev: boxes of probability v are all missed with probability at most 2/(points·v), and by
    independent nets at most that to the power of their number.
    """
    return float(min(1.0, 2 / points * 1e9 ** (1 / nets))) if nets else 1.0


def _scrambled(context: Context, instance: Instance, margin: float) -> tuple[bool, int, float]:
    """Compare answers on a scrambled two-dimensional Sobol' set.

    One coordinate decodes the drafts, the other the box of the reference. Returns whether all
    answers agree, the boxes probed, and the probability of boxes that may have been missed.
    """
    generator = context.generator("scrambled")
    law = context.scheme
    k, length = instance.drafts, instance.length
    boxes = nets = 0
    while context.elapsed < context.budget and nets < 64:
        sobol = qmc.Sobol(2, scramble=True, rng=generator)
        points, stops, rows, tokens = [], [], [], []
        for first, second in sobol.random(_NET):
            decode = _Decode(rational(float(first)))
            paths: list[Prefix] = []
            while len(paths) < k:
                path: Prefix = ()
                while len(path) < length:
                    path = (*path, decode.draw(instance.draft_model(path), TOKEN))
                paths.append(path)
            chance = _Decode(rational(float(second)))
            outcome = law.verify(
                chance, FixedDrafts(paths, length), instance.draft_model, instance.target_model
            )
            box = Box(tuple(chance.sides), (outcome.accepted, outcome.next), ONE)
            if not can_probe(box, margin):
                continue
            probes = corners(box, margin, generator, k, length, 8)
            points.append(probes)
            stops += [box.stop] * len(probes.token)
            tokens.append(tuple(paths))
            rows += [len(tokens) - 1] * len(probes.token)
        table = ChosenTable(instance, tokens)
        index = np.array(rows)
        batch = table.batch(law.name, index, _join(points))
        if stops_of(table, index, context.ask(batch)) != stops:
            return False, boxes, 1.0
        boxes += _NET
        nets += 1
    return True, boxes, missed_volume(_NET, nets)


def run(context: Context) -> CheckResult:
    """The check."""
    declaration = context.declaration
    if not declaration.uniforms:
        return context.result(NAME, "skipped", "the subject takes no uniforms")
    precision = precision_of(context)
    # The reference rounds the smallest valid scale up on a grid of 2^-20.
    margin = max(1e-5, 1e3 * precision)
    instances = cells = rebuilt = 0
    least_covered = 1.0
    worst: tuple[Number, Instance, ExactLaw] | None = None
    unexplained = ""
    for table in context.sweep_tables():
        if context.elapsed > context.budget and instances >= _LEAST:
            break
        instance = table.instance
        found = _sweep(context, table, margin)
        instances += 1
        cells += found.boxes
        least_covered = min(least_covered, float(found.covered))
        if not found.disagrees:
            # The reference's own law: of a control, or for drafts that the scheme is not made for,
            # agreeing with it is a bias.
            if found.tuples == len(table.chances) and not graded_by_stops(context):
                own: Law[Stop] = Law(found.stops)
                law = ExactLaw(own, string_law(instance, own), table.target_law, True, 0.0)
                if law.biased:
                    worst = (law.total_variation, instance, law)
                    break
            continue
        try:
            law = exact_law_of(context, table)
        except Unbuildable as reason:
            unexplained = str(reason)
            continue
        if law.biased:
            worst = (law.total_variation, instance, law)
            break
        if law.error > _LOOSE:
            unexplained = f"its law is known up to {law.error:.2g} only, no bias beyond that"
            continue
        rebuilt += 1
    if worst is not None:
        first, instance, law = worst
        smallest = True
        if context.instance is None:
            instance, law, smallest = _shrunk(context, instance, law)
        return context.bias(
            NAME,
            f"total variation {said(law.total_variation, law.exact)} at V={instance.vocab}, "
            f"K={instance.drafts}, L={instance.length}",
            total_variation=float(first),
            detectable=0.0,
            details={"stops": _stops_to_list(law.stops)},
            counterexample=counterexample_of(context, instance, law, smallest),
        )
    missed = 0.0
    large = 0
    for instance in context.large_instances():
        if context.elapsed > context.budget:
            break
        agrees, boxes, missed = _scrambled(context, instance, margin)
        large += boxes
        if not agrees:
            unexplained = unexplained or (
                f"answers differ from the reference at V={instance.vocab}, K={instance.drafts}, "
                f"L={instance.length}"
            )
        break
    message = f"{instances} instances, {cells} boxes agree with the reference"
    if rebuilt:
        message = f"{instances} instances; {rebuilt} laws rebuilt and equal to the target's"
    if large and not unexplained:
        message += f"; {large} scrambled boxes at V=4, L=3 miss at most {missed:.1%}"
    if unexplained and not rebuilt:
        return context.result(
            NAME, "skipped", f"the law could not be rebuilt: {unexplained}; other checks decide"
        )
    return context.result(
        NAME,
        "passed",
        message,
        detectable=margin,
        details={
            "instances": instances,
            "boxes": cells,
            "laws_rebuilt": rebuilt,
            "least_covered_probability": least_covered,
            "scrambled_boxes": large,
            "scrambled_missed_probability": missed if large else None,
            "margin": margin,
            "not_explained": unexplained,
        },
    )


def _stops_to_list(stops: Law[Stop]) -> list[dict[str, Any]]:
    return [
        {"accepted": list(accepted), "next": token, "probability": text(chance)}
        for (accepted, token), chance in sorted(stops.items())
    ]


def said(value: Number, exact: bool) -> str:
    """A total variation for a message: the fraction where it is short, and its value."""
    if exact:
        shown = Fraction(int(value.numerator), int(value.denominator))
        if shown.denominator < 10**6:
            return f"{shown} = {float(shown):.4g}" if shown.denominator > 1 else f"{shown}"
    return f"{float(value):.6g}"
