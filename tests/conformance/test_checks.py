"""Checks: correct verifiers pass, planted faults are seen, with their exact size."""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from draftproof.conformance.adapters import load
from draftproof.conformance.campaign import check_object
from draftproof.conformance.cases.fixtures import (
    small_instance,
    soft_instance,
    sweep_instances,
    tempered,
)
from draftproof.conformance.checks import CHECKS
from draftproof.conformance.checks.exact_sweep import missed_volume
from draftproof.conformance.mutants import subjects
from draftproof.conformance.shrink import measure, shrink, simpler
from draftproof.conformance.subject import Batch, Declaration, Result
from draftproof.conformance.verdict import Report, Verdict
from draftproof.reference.catalogue import find
from draftproof.reference.instance import Instance, instance_from_json, instance_to_json
from draftproof.reference.oracle import continued_law, total_variation
from draftproof.reference.rows import row
from scipy.stats import qmc


def verdict_of(subject: Any, *checks: str, budget: float = 1.0, **options: Any) -> Verdict:
    report = check_object(subject, checks=checks, budget=budget, **options)
    assert len(report.verdicts) == 1
    return report.verdicts[0]


@pytest.mark.parametrize("name", ["block", "spectr", "greedy_block", "tree_match"])
def test_the_reference_passes_every_check(name: str) -> None:
    subject = subjects.Spoilt("right", name)  # the scheme itself, nothing spoilt
    verdict = verdict_of(subject, budget=2.0)
    assert verdict.verdict == "lossless", verdict.reason
    by_name = {check.check: check for check in verdict.checks}
    assert list(by_name) == list(CHECKS)
    assert by_name["drafter"].status == "skipped"
    assert "no drafter" in by_name["drafter"].message
    assert all(c.status == "passed" for n, c in by_name.items() if n != "drafter")
    assert by_name["statistical"].detectable is not None
    assert by_name["statistical"].samples > 100


def test_reports_and_verdicts_survive_json() -> None:
    report = check_object(
        load("mutant:residual-is-target"), checks=["exact sweep", "statistical"], budget=1.0
    )
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.to_json()["verdicts"][0]["counterexample"] is not None


def on_its_case(name: str, p: list[str], q: list[str], length: int, k: int = 1) -> Verdict:
    """The exact sweep on a context-free instance."""
    v = len(p)
    prefixes = [()] if length == 1 else [(), *((t,) for t in range(v))]
    deeper = [(*prefix, t) for prefix in prefixes[-(v if length > 1 else 1) :] for t in range(v)]
    instance = Instance(
        v,
        k,
        length,
        {prefix: row(p) for prefix in prefixes},
        {prefix: row(q) for prefix in [*prefixes, *deeper]},
    )
    return verdict_of(
        load(f"mutant:{name}"), "exact sweep", instance=instance_to_json(instance), budget=5.0
    )


def first_token(verdict: Verdict, which: str) -> list[Fraction]:
    assert verdict.counterexample is not None
    law = getattr(verdict.counterexample, which)
    v = verdict.counterexample.instance["vocab"]
    sums = [Fraction(0)] * v
    for entry in law:
        sums[entry["tokens"][0]] += Fraction(entry["probability"])
    return sums


def test_the_residual_replaced_by_the_target_row_has_its_published_law() -> None:
    verdict = on_its_case("residual-is-target", ["1/2", "3/10", "1/5"], ["1/5", "3/10", "1/2"], 1)
    assert verdict.verdict == "biased"
    assert first_token(verdict, "subject_law") == [
        Fraction(13, 50),
        Fraction(39, 100),
        Fraction(7, 20),
    ]
    assert first_token(verdict, "target_law") == [Fraction(1, 5), Fraction(3, 10), Fraction(1, 2)]
    assert verdict.counterexample is not None
    assert verdict.counterexample.exact


def test_one_uniform_for_all_positions_has_its_published_total_variation() -> None:
    verdict = on_its_case("shared-uniform", ["4/5", "1/5"], ["1/2", "1/2"], 2)
    assert verdict.verdict == "biased"
    assert verdict.counterexample is not None
    assert Fraction(verdict.counterexample.total_variation) == Fraction(3, 20)
    assert first_token(verdict, "subject_law") == [Fraction(1, 2), Fraction(1, 2)]


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("residual-one-hot", ["1/5", "11/20", "1/4"]),
        ("siblings-no-update", ["7/25", "1/2", "11/50"]),
        ("keep-longest-of-B", ["7/25", "1/2", "11/50"]),
        ("mutates-but-right", ["1/5", "1/2", "3/10"]),
        ("sample-match", ["1/5", "1/2", "3/10"]),
    ],
)
def test_published_laws_of_the_case_with_three_tokens(name: str, law: list[str]) -> None:
    """Every fault and control of the public record on p = (6, 3, 1)/10, q = (2, 5, 3)/10."""
    k = 2 if name in ("siblings-no-update", "keep-longest-of-B") else 1
    p, q = ["3/5", "3/10", "1/10"], ["1/5", "1/2", "3/10"]
    verdict = on_its_case(name, p, q, 1, k)
    if law == q:
        assert verdict.verdict == "lossless"
    else:
        assert verdict.verdict == "biased"
        assert first_token(verdict, "subject_law") == [Fraction(x) for x in law]


def test_hsd_and_unscaled_block_residuals_have_their_published_size() -> None:
    verdict = on_its_case("hsd-uncapped", ["1/2", "1/2"], ["3/4", "1/4"], 2)
    assert verdict.counterexample is not None
    second = sum(
        Fraction(entry["probability"])
        for entry in verdict.counterexample.subject_law
        if entry["tokens"][1] == 0
    )
    assert second == Fraction(11, 16)


def test_drafts_without_replacement_with_raw_rows_have_their_published_law() -> None:
    p, q = ["3/5", "3/10", "1/10"], ["1/5", "1/2", "3/10"]
    instance = Instance(
        3,
        2,
        1,
        {(): row(p)},
        {(): row(q), (0,): row(q), (1,): row(q), (2,): row(q)},
        "without_replacement",
    )
    verdict = verdict_of(
        load("mutant:without-replacement-raw-p"),
        "exact sweep",
        instance=instance_to_json(instance),
        budget=5.0,
    )
    assert first_token(verdict, "subject_law") == [Fraction(1, 5), Fraction(3, 5), Fraction(1, 5)]


class MirroredUniforms(subjects.Spoilt):
    """Accepts iff 1 - u < h: another use of the uniforms, and the same law."""

    def verify(self, batch: Batch) -> Result:
        accept = batch.accept_uniforms
        if accept is not None:
            batch = replace(batch, accept_uniforms=np.clip(1 - accept, 0, 1 - 2.0**-53))
        return super().verify(batch)


def test_another_use_of_the_uniforms_is_no_bias() -> None:
    verdict = verdict_of(MirroredUniforms("mirrored", "block"), "exact sweep", budget=0.5)
    assert verdict.verdict == "lossless", verdict.reason
    assert verdict.checks[0].details["laws_rebuilt"] > 0


class Lucky(subjects.Spoilt):
    """Right on all small vocabularies, wrong above."""

    def verify(self, batch: Batch) -> Result:
        result = super().verify(batch)
        if batch.shape[3] < 4:
            return result
        return result._replace(next_token=result.next_token * 0)


def test_counterexamples_are_no_smaller_than_the_fault_allows() -> None:
    verdict = verdict_of(Lucky("lucky", "token_by_token"), "exact sweep", budget=2.0)
    assert verdict.counterexample is not None
    assert verdict.counterexample.instance["vocab"] == 4


def test_a_control_is_biased_by_its_exact_amount() -> None:
    verdict = verdict_of(load("control:independent_trials"), "exact sweep", budget=20.0)
    assert verdict.verdict == "biased"
    found = verdict.counterexample
    assert found is not None
    assert found.smallest
    instance = instance_from_json(dict(found.instance))
    assert (instance.vocab, instance.drafts, instance.length) == (2, 2, 1)
    assert total_variation("independent_trials", instance) == Fraction(found.total_variation)


def test_shrinking_ends_in_an_instance_that_cannot_be_made_simpler() -> None:
    scheme = find("independent_trials")
    start = soft_instance(random.Random(1), 3, 2, 2)

    def biased(instance: Instance) -> bool:
        try:
            truth = continued_law(scheme, instance)
        except ValueError:
            return False
        return bool(total_variation(scheme, instance) != 0 and truth)

    found, finished = shrink(start, biased, 60.0)
    assert finished
    assert (found.vocab, found.drafts, found.length) == (2, 2, 1)
    assert not any(biased(s) for s in simpler(found) if measure(s) < measure(found))


def test_fixtures_differ_at_every_node_and_keep_residuals_of_two_tokens() -> None:
    instance = small_instance(0, 3, 2, 1)
    assert instance is not None
    several = 0
    for prefix, p in instance.draft_rows.items():
        q = instance.target_rows[prefix]
        assert p != q
        several += sum(b > a for a, b in zip(p, q, strict=True)) >= 2
    assert several
    declaration = Declaration.parse({"name": "x", "schemes": ["block"]})
    instances = list(sweep_instances(find("block"), declaration, 0))
    shapes = {(i.vocab, i.drafts, i.length) for i in instances}
    assert {(3, 0, 1), (3, 1, 0), (2, 1, 1), (3, 1, 2), (2, 1, 3)} <= shapes
    for instance in instances:
        assert instance_from_json(instance_to_json(instance)) == instance


def test_temperatures_are_exact() -> None:
    instance = small_instance(0, 3, 1, 1)
    assert instance is not None
    for temperature in (Fraction(1, 2), Fraction(2)):
        at, shown = tempered(instance, temperature)
        for prefix, given in shown.target_rows.items():
            powered = np.array([float(x) for x in given]) ** (1 / float(temperature))
            expected = powered / powered.sum()
            assert np.allclose([float(x) for x in at.target_rows[prefix]], expected)


def test_scrambled_nets_are_two_dimensional_nets() -> None:
    """The bound on missed boxes needs (0, m, 2)-nets: every elementary interval has one point."""
    points = qmc.Sobol(2, scramble=True, rng=np.random.default_rng(3)).random(256)
    for a in range(9):
        cells = np.floor(points * [2**a, 2 ** (8 - a)]).astype(int)
        assert len({tuple(c) for c in cells}) == 256
    assert missed_volume(256, 0) == 1.0
    assert missed_volume(256, 64) < 0.011
    assert missed_volume(256, 64) < missed_volume(256, 16)
