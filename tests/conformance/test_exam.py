"""The exam in small: every mutant is flagged, every control passes, correct runs raise no alarm."""

import json
from functools import cache

import pytest
from draftproof.conformance.exam import Answer, examine_fault, null_run
from draftproof.conformance.mutants import FAULTS, public_faults


@cache
def answer_to(name: str) -> Answer:
    """The suite's answer, asked once."""
    return examine_fault(name, budget=4.0)


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_suite_gives_the_expected_verdict(name: str) -> None:
    answer = answer_to(name)
    assert answer.right, f"{answer.verdict.verdict}: {answer.verdict.reason}"
    if answer.fault.expected == "biased":
        assert answer.found is not None
        assert answer.found.status == "failed"


def test_every_public_fault_has_its_mutant() -> None:
    assert set(public_faults()) <= set(FAULTS)
    assert sum(fault.control for fault in FAULTS.values()) == 5
    extra = set(FAULTS) - set(public_faults())
    assert {"accept-times-1.1", "accept-times-1.01", "off-by-one-rows", "swapped-requests"} <= extra
    assert {"wrong-prefix-weight", "uniforms-reused"} <= extra


def test_lossless_but_slow_rules_are_measured() -> None:
    for name, expected in (("sample-match", "accepts less"), ("one-hot-draft-row", "accepts less")):
        answer = answer_to(name)
        acceptance = next(c for c in answer.verdict.checks if c.check == "acceptance")
        assert acceptance.status == "measured"
        assert expected in acceptance.message
        assert answer.verdict.verdict == "lossless"
        json.dumps(answer.verdict.to_json())


@pytest.mark.parametrize("seed", range(11))
def test_correct_runs_raise_no_alarm(seed: int) -> None:
    """One short run for each scheme; `draftproof exam` makes a thousand."""
    assert null_run(seed) == []


def test_no_time_at_all_is_no_alarm() -> None:
    """The first instance is sampled however late it is."""
    assert null_run(2, budget=1e-6) == []
