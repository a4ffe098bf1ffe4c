"""Estimated laws: the counterexamples of subjects whose law cannot be rebuilt, only sampled.

*Shrinking.* The proposals are those of the exact shrinker; each is tested by an e-process of its
own, and taken if it is biased at its error level. The n-th instance that is tried is tested at
α/(n(n+1)), α the level of one test of the run. These sum to α, so that a whole chain of steps,
however long and however it is led on by what was seen, claims a bias that is not there with
probability at most α: it costs the run one of its tests.

*Re-checking.* The instance that is left is sampled afresh, its size fixed beforehand. The target's
law is exact. The subject's is estimated: each frequency has a Clopper-Pearson interval, all of them
right together with probability 0.999, and the total variation a lower bound: the set of outcomes
that were too frequent when the instance was taken is one event, whose probability the fresh run
bounds from below, and which the target gives an exact one. A subject that takes uniforms is
rebuilt there once more, without sampling error, since a small instance may have few enough boxes.
"""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.boxes import Unbuildable
from draftproof.conformance.checks.exact_sweep import counterexample_of, exact_law_of
from draftproof.conformance.checks.statistical import begin, sample
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import RUN_FALSE_ALARM, Sequential, samples_needed
from draftproof.conformance.shrink import shrink
from draftproof.conformance.subject import SubjectError
from draftproof.conformance.tables import Table, law_to_list
from draftproof.conformance.verdict import Counterexample
from draftproof.reference.instance import Instance, instance_to_json
from draftproof.reference.numbers import text
from scipy.stats import beta

__all__ = ["Chain", "counterexample", "interval", "lower_bound"]

CONFIDENCE = 0.999
"""That all intervals of a law are right."""
_KEPT = 0.25
"""A smaller instance keeps this share of the first total variation: not shrunk into a near miss."""
_LEAST_SECONDS = 5.0
_MOST = 50_000
"""Blocks of the fresh run."""


class Chain:
    """Smaller instances of one that is biased, each tested at its share of the error level."""

    def __init__(self, context: Context, first: Sequential, seconds: float) -> None:
        self._context = context
        self._floor = _KEPT * first.total_variation()
        self._deadline = time.monotonic() + seconds
        self.tried = 0
        self.tests: dict[int, Sequential] = {}
        """The tests of what was taken, by the identity of the instance."""
        self._kept: list[Instance] = []  # keeps identities alive

    def next_threshold(self) -> float:
        """ln(1/α) of the next test; the levels sum to that of one test of the run."""
        self.tried += 1
        return self._context.threshold + float(np.log(self.tried * (self.tried + 1)))

    def biased(self, candidate: Instance) -> bool:
        """Whether the subject is biased on it, at the level of this test."""
        context = self._context
        if not context.takes(candidate):
            return False
        threshold = self.next_threshold()
        try:
            table = Table(candidate)
            test, shorter = begin(context, table, threshold)
            generator = context.generator(f"shrink {self.tried}")
            # Enough to see what would be kept, and no more.
            most = samples_needed(int((test.null > 0).sum()), self._floor, threshold + 1.0)
            size = 128
            where = f"V={candidate.vocab}, K={candidate.drafts}, L={candidate.length}"
            what = f"shrinking: instance {self.tried}, {where}"
            while test.samples < most and time.monotonic() < self._deadline:
                _, strings = sample(context, table, generator, size, what)
                if test.see(strings // shorter) or self._futile(test):
                    break
                size = min(2 * size, max(64, most - test.samples), 20_000)
        except (SubjectError, ValueError):
            return False
        if not test.rejected or test.total_variation() < self._floor:
            return False
        self.tests[id(candidate)] = test
        self._kept.append(candidate)
        return True

    def _futile(self, test: Sequential) -> bool:
        """Whether it is plain that the bias is too small to be kept; costs no false alarms."""
        return test.samples >= 256 and test.total_variation() < self._floor / 2


def counterexample(context: Context, table: Table, first: Sequential) -> Counterexample:
    """The smallest instance that was found, with an estimate of the subject's law on it.

    Args:
        table: the instance that the statistical check was sampling.
        first: its test, which has rejected the target's law.
    """
    seconds = max(_LEAST_SECONDS, 2 * context.budget)
    chain = Chain(context, first, 0.7 * seconds)
    smallest = False
    test = first
    if context.instance is None and table.temperature is None:
        instance, smallest = shrink(table.instance, chain.biased, 0.7 * seconds)
        if instance is not table.instance:
            table, test = Table(instance), chain.tests[id(instance)]
    if context.declaration.uniforms and table.temperature is None:
        try:
            law = exact_law_of(context, table)
            if law.biased:
                return counterexample_of(context, table.instance, law, smallest)
        except (Unbuildable, SubjectError):
            pass
    return _estimate(context, table, test, smallest, 0.3 * seconds)


def _estimate(
    context: Context, table: Table, test: Sequential, smallest: bool, seconds: float
) -> Counterexample:
    """The target's law beside frequencies of a fresh run, with their intervals."""
    size = int(np.clip(seconds / max(context.seconds_per_block, 1e-9), 200, _MOST))
    generator = context.generator("re-check")
    fresh, shorter = begin(context, table, context.threshold)
    left = size
    while left:
        some = min(left, 10_000)
        what = f"re-checking: {size - left} of {size} blocks"
        _, strings = sample(context, table, generator, some, what)
        fresh.see(strings // shorter)
        left -= some
    tokens = round(np.log(len(fresh.null)) / np.log(table.vocab)) if table.vocab > 1 else 1
    truth = table.target_law.map(lambda y: y[:tokens])
    cells = int(((fresh.null > 0) | (fresh.counts > 0)).sum())
    observed: list[dict[str, Any]] = []
    distance = Fraction(0)
    for number, string in enumerate(product(range(table.vocab), repeat=tokens)):
        count, chance = int(fresh.counts[number]), truth.probability(string)
        if not count and not chance:
            continue
        frequency = Fraction(count, size)
        distance += abs(frequency - Fraction(int(chance.numerator), int(chance.denominator))) / 2
        low, high = interval(count, size, (1 - CONFIDENCE) / cells)
        observed.append(
            {
                "tokens": list(string),
                "probability": text(frequency),
                "low": round(low, 6),
                "high": round(high, 6),
            }
        )
    told = instance_to_json(table.instance)
    return Counterexample(
        instance=told,
        target_law=law_to_list(truth),
        subject_law=observed,
        total_variation=f"{float(distance):.4g}",
        exact=False,
        command=context.rerun(told),
        smallest=smallest,
        samples=size,
        at_least=f"{lower_bound(test, fresh):.4g}",
    )


def interval(count: int, size: int, error: float) -> tuple[float, float]:
    """Bounds on a probability (Clopper and Pearson 1934), wrong with probability `error` at most.

    They are rounded outwards by what six decimals lose.
    """
    low = float(beta.ppf(error / 2, count, size - count + 1)) if count else 0.0
    high = float(beta.ppf(1 - error / 2, count + 1, size - count)) if count < size else 1.0
    return max(0.0, low - 5e-7), min(1.0, high + 5e-7)


def lower_bound(chosen: Sequential, fresh: Sequential) -> float:
    """A lower bound on the total variation, wrong with probability 1e-9 at most.

    The outcomes that were too frequent in `chosen` are one event for the independent run `fresh`;
    the total variation is at least the probability of any event less that by the target.
    """
    event = chosen.counts > chosen.samples * chosen.null
    count, size = int(fresh.counts[event].sum()), fresh.samples
    if not count:
        return 0.0
    low = float(beta.ppf(RUN_FALSE_ALARM, count, size - count + 1))
    return max(0.0, low - float(fresh.null[event].sum()))
