"""Estimated laws: seeds-only mutants are shrunk, at an error level that holds, and re-checked."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from draftproof.conformance import estimated
from draftproof.conformance.campaign import check_object, threshold_for
from draftproof.conformance.cases.fixtures import soft_instance
from draftproof.conformance.checks.statistical import test_instance as sampled
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential, View
from draftproof.conformance.mutants import programs, subjects
from draftproof.conformance.report import to_html, to_markdown
from draftproof.conformance.subject import Floats, declared
from draftproof.conformance.tables import Table
from draftproof.conformance.verdict import Report
from draftproof.reference.catalogue import find
from draftproof.reference.instance import instance_from_json
from draftproof.reference.models import block_law


@dataclass
class Seeded:
    """Token by token in numpy, with a generator of its own; `fault` is "", "residual" (the target
    row instead of the residual) or "scaled" (accept probabilities times 1.25)."""

    fault: str = ""
    pause: float = 0.0

    @property
    def declaration(self):
        return {"name": "seeded", "schemes": ["token_by_token"], "drafts": [1, 1], "length": [1, 4]}

    def verify(self, batch):
        time.sleep(self.pause * batch.size)
        generator = np.random.default_rng(batch.seed)
        size, _, length, _ = batch.shape
        every = np.arange(size)
        accepted, alive = np.zeros(size, int), np.ones(size, bool)
        weights = batch.target_rows[:, 0, length].copy()
        for depth in range(length):
            p, q = batch.draft_rows[:, 0, depth], batch.target_rows[:, 0, depth]
            token = batch.drafts[:, 0, depth]
            ratio = q[every, token] / p[every, token]
            if self.fault == "scaled":
                ratio *= 1.25
            kept = generator.random(size) < ratio
            residual = q.copy() if self.fault == "residual" else np.maximum(q - p, 0)
            empty = residual.sum(axis=1) <= 0
            residual[empty] = q[empty]
            weights[alive & ~kept] = residual[alive & ~kept]
            alive &= kept
            accepted += alive
        reached = weights.cumsum(axis=1)
        token = (reached <= generator.random((size, 1)) * reached[:, -1:]).sum(axis=1)
        return {"accepted_length": accepted, "path": np.zeros(size, int), "next_token": token}


def exact_law(instance, fault):
    """Of one block of length 1 of `Seeded`, as fractions."""
    law: dict[tuple[int, ...], Fraction] = {}

    def row(rows, prefix):
        return [Fraction(int(x.numerator), int(x.denominator)) for x in rows[prefix]]

    p, q = row(instance.draft_rows, ()), row(instance.target_rows, ())
    for token, chance in enumerate(p):
        if not chance:
            continue
        ratio = q[token] / chance * (Fraction(5, 4) if fault == "scaled" else 1)
        keep = min(ratio, Fraction(1))
        for last, weight in enumerate(row(instance.target_rows, (token,))):
            law[token, last] = law.get((token, last), Fraction(0)) + chance * keep * weight
        residual = q if fault == "residual" else [max(b - a, 0) for a, b in zip(p, q, strict=True)]
        residual = residual if sum(residual) else q
        for drawn, mass in enumerate(residual):
            for last, weight in enumerate(row(instance.target_rows, (drawn,))):
                more = chance * (1 - keep) * mass / sum(residual) * weight
                law[drawn, last] = law.get((drawn, last), Fraction(0)) + more
    return law


def found(subject, budget=4.0, seed=0):
    report = check_object(subject, checks=["statistical"], budget=budget, seed=seed)
    assert report.verdicts[0].verdict == "biased"
    return report


@pytest.mark.parametrize("fault", ["residual", "scaled"])
def test_a_seeds_only_mutant_is_shrunk_and_its_estimate_holds_the_exact_law(fault):
    report = found(Seeded(fault), budget=15.0)
    case = report.verdicts[0].counterexample
    assert case is not None
    instance = instance_from_json(dict(case.instance))
    # Nothing smaller can be biased: one token alone has one law.
    assert (instance.vocab, instance.drafts, instance.length, case.smallest) == (2, 1, 1, True)
    assert not case.exact
    exact = exact_law(instance, fault)
    assert sum(exact.values()) == 1
    truth = {
        tokens: Fraction(int(chance.numerator), int(chance.denominator))
        for tokens, chance in block_law(instance.target_model, 2).items()
    }
    told = {tuple(entry["tokens"]): Fraction(entry["probability"]) for entry in case.target_law}
    assert told == {tokens: chance for tokens, chance in truth.items() if chance}
    distance = sum(abs(exact.get(t, 0) - truth.get(t, 0)) for t in {*exact, *truth}) / 2
    assert distance > 0
    # The bounds hold the truth (with probability 0.999 by statement; the seed is fixed), and the
    # lower bound is one, and not a vacuous one.
    for entry in case.subject_law:
        assert entry["low"] <= exact[tuple(entry["tokens"])] <= entry["high"]
    assert distance / 2 < float(case.at_least) <= distance
    assert case.samples >= 5000


def test_a_correct_subject_has_no_counterexample():
    report = check_object(Seeded(), checks=["statistical"], budget=1.0)
    assert report.verdicts[0].verdict == "lossless"
    assert report.verdicts[0].counterexample is None


class Siblings:
    """Siblings tested one after the other against the same target row, as if each were the first;
    a generator of its own."""

    declaration: ClassVar = {
        "name": "siblings", "schemes": ["spectr:recursive_rejection"], "length": [1, 1],
        "drafts": [1, 3],
    }  # fmt: skip

    def verify(self, batch):
        generator = np.random.default_rng(batch.seed)
        size, count, _, _ = batch.shape
        every = np.arange(size)
        p, q = batch.draft_rows[:, 0, 0], batch.target_rows[:, 0, 0]
        path, accepted = np.zeros(size, int), np.zeros(size, int)
        residual = np.maximum(q - p, 0)
        weights = np.where(residual.sum(axis=1, keepdims=True) > 0, residual, q)
        for draft in range(count):
            token = batch.drafts[:, draft, 0]
            kept = (generator.random(size) < q[every, token] / p[every, token]) & (accepted == 0)
            path[kept], accepted[kept] = draft, 1
            weights[kept] = batch.target_rows[kept, draft, 1]
        reached = weights.cumsum(axis=1)
        token = (reached <= generator.random((size, 1)) * reached[:, -1:]).sum(axis=1)
        return {"accepted_length": accepted, "path": path, "next_token": token}


def test_several_drafts_are_shrunk_to_the_two_that_are_needed():
    """One draft is verified rightly, so that K = 2 is the least."""
    subject = Siblings()
    context = Context(
        subject, declared(subject), find("spectr:recursive_rejection"), "siblings", 1, 4.0,
        threshold_for(1),
    )  # fmt: skip
    table = Table(soft_instance(random.Random(3), 4, 1, 3))
    first, _ = sampled(context, table, 2.0, "first", True)
    assert first.rejected
    case = estimated.counterexample(context, table, first)
    assert [case.instance[name] for name in ("vocab", "drafts", "length")] == [2, 2, 1]
    assert float(case.at_least) > 0


def test_a_subject_that_takes_uniforms_is_rebuilt_exactly_where_sampling_led():
    subject = subjects.Spoilt("residual", "token_by_token", programs.residual_is_target)
    case = found(subject, budget=3.0).verdicts[0].counterexample
    assert case is not None
    assert case.exact
    assert case.samples == 0
    assert Fraction(case.total_variation) > 0


def test_shrinking_keeps_to_its_time():
    begun = time.monotonic()
    case = found(Seeded("residual", pause=5e-4), budget=1.0).verdicts[0].counterexample
    assert case is not None
    assert not case.smallest
    # One second of sampling to find it (ten at most), five of shrinking, and a step to end each.
    assert time.monotonic() - begun < 25


def test_every_report_says_that_the_law_is_estimated():
    report = found(Seeded("residual"), budget=0.5)
    for said in (to_html(report), to_markdown(report)):
        assert "estimated from" in said
        assert "fresh blocks" in said
    again = Report.from_json(report.to_json())
    assert again.verdicts[0].counterexample == report.verdicts[0].counterexample


# ---- the error level -----------------------------------------------------------------------------

LEVEL, CHAINS, STEPS = 0.2, 1000, 20


class Unspent(estimated.Chain):
    """Planted: every step at the level of one test, as if the chain were one."""

    def next_threshold(self) -> float:
        self.tried += 1
        return self._context.threshold


@dataclass
class Sharp:
    """Evidence on a correct subject that reaches any threshold as often as Ville's inequality lets
    it: no test of a correct subject errs more often."""

    threshold: float
    generator: np.random.Generator
    null: Floats = field(default_factory=lambda: np.full(2, 0.5))
    samples: int = 0
    rejected: bool = False

    def see(self, cells):
        self.samples += len(cells)
        self.rejected = self.generator.exponential() >= self.threshold
        return self.rejected

    def total_variation(self):
        return 1.0


def false_claims(kind, monkeypatch) -> int:
    """Chains on a correct subject that claim a bias somewhere."""
    generator = np.random.default_rng(7)
    monkeypatch.setattr(estimated, "begin", lambda c, t, level: (Sharp(level, generator), 1))
    monkeypatch.setattr(estimated, "sample", lambda *_: (None, np.zeros(1, int)))
    monkeypatch.setattr(estimated, "samples_needed", lambda *_: 1)
    subject = Seeded()
    instance = soft_instance(random.Random(1), 2, 1, 1)
    context = Context(
        subject, declared(subject), find("token_by_token"), "seeded", 0, 60.0, -math.log(LEVEL)
    )
    first = Sequential(np.full(2, 0.5), (View("all", np.arange(2), 1.0),), 1.0)
    chains = [kind(context, first, 60.0) for _ in range(CHAINS)]
    return sum(any(chain.biased(instance) for _ in range(STEPS)) for chain in chains)


def test_a_chain_of_steps_keeps_the_level_of_one_test(monkeypatch):
    # 1000 chains at level 0.2 claim a bias 200 times at most on average; 250 or more have
    # probability 7e-5. The seed is fixed.
    assert false_claims(estimated.Chain, monkeypatch) < 250


def test_without_spending_it_would_not(monkeypatch):
    # 1 - 0.8^20 = 0.99 of them do.
    assert false_claims(Unspent, monkeypatch) > 950


def test_the_levels_sum_to_that_of_one_test():
    chain = estimated.Chain.__new__(estimated.Chain)
    chain.tried = 0
    threshold = threshold_for(3)
    chain._context = type("Given", (), {"threshold": threshold})()  # type: ignore[assignment]
    levels = [math.exp(-chain.next_threshold()) for _ in range(2000)]
    assert 0.999 * math.exp(-threshold) < sum(levels) <= math.exp(-threshold)


# ---- bounds --------------------------------------------------------------------------------------


def test_intervals_hold_as_often_as_they_say_and_no_wider():
    generator = np.random.default_rng(5)
    wrong = {0.1: 0, 0.001: 0}
    runs = 4000
    for error in wrong:
        for count in generator.binomial(200, 0.3, size=runs):
            low, high = estimated.interval(int(count), 200, error)
            wrong[error] += not low <= 0.3 <= high
    # Clopper-Pearson errs on the safe side: at most the stated error, and here at least a third.
    assert runs * 0.1 / 3 < wrong[0.1] < runs * 0.1
    assert wrong[0.001] < 15  # mean 4 at most; P(15 or more) < 2e-5


def test_the_lower_bound_is_below_the_truth_and_close_to_it():
    generator = np.random.default_rng(6)
    null, law = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    bounds = []
    for _ in range(500):
        pair = []
        for size in (500, 20_000):
            test = Sequential(null, (View("all", np.arange(3), 1.0),), 1.0)
            test.see(generator.choice(3, p=law, size=size))
            pair.append(test)
        bounds.append(estimated.lower_bound(*pair))
    assert max(bounds) <= 0.1
    # Six standard errors of a frequency near 0.3 in 20,000 are 0.02.
    assert np.mean(bounds) > 0.1 - 0.03
    # Planted: the event chosen and bounded on the same few samples is too often too frequent.
    reused = []
    for _ in range(500):
        test = Sequential(null, (View("all", np.arange(3), 1.0),), 1.0)
        test.see(generator.choice(3, p=null, size=50))
        event = test.counts > test.samples * test.null
        reused.append((test.counts[event].sum() / 50) - null[event].sum())
    assert np.mean(reused) > 0.03
