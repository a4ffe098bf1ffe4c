"""The catalogue: every scheme is registered, described, and usable as it says."""

from __future__ import annotations

import inspect
import pkgutil
import random
import re

import pytest
from draftproof.reference import catalogue, controls, couplings, verifiers
from draftproof.reference.catalogue import SCHEMES, find
from draftproof.reference.chance import Sampler
from draftproof.reference.models import random_table
from draftproof.reference.scheme import Counterexample, Scheme
from draftproof.reference.tree import FixedDrafts, hub_drafts

EXPECTED = {
    "coupling": """canonical global_resolution kseq maximal recursive_rejection spechub target_match
        transport without_replacement""",
    "verifier": """block greedy_block kseq_block multipath ranked_block ranked_block:stateful spectr
        spectr:canonical spectr:recursive_rejection spectr:target_match spectr:transport
        spectr:without_replacement spectr_gbv token_by_token traversal tree_match""",
    "control": """greedy_block_without_carry hsd_released independent_trials multipath_released
        siblings_without_update spectr_gbv_published spectr_gbv_released unsampled_drafts""",
}


def test_every_scheme_is_there_in_order() -> None:
    found = {kind: [s.name for s in SCHEMES.values() if s.kind == kind] for kind in EXPECTED}
    assert found == {kind: names.split() for kind, names in EXPECTED.items()}
    assert list(SCHEMES) == [name for names in found.values() for name in names]
    assert all(name == scheme.name for name, scheme in SCHEMES.items())


def test_every_module_that_is_a_scheme_is_registered() -> None:
    helpers = {"candidates", "ranked_coupling"}
    for package in (couplings, verifiers, controls):
        for module in pkgutil.iter_modules(package.__path__):
            assert module.name in SCHEMES or module.name in helpers, module.name


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda s: s.name)
def test_metadata(scheme: Scheme) -> None:
    assert 20 <= len(scheme.summary) <= 100
    assert not scheme.summary.endswith(".")
    assert re.search(r"\d{4}\.\d{5}|this project|folklore", scheme.paper)
    assert scheme.lossless == (scheme.kind != "control" and not scheme.approximate)
    assert scheme.drafts[1] is None or scheme.drafts[0] <= scheme.drafts[1]
    assert not scheme.stateful or scheme.kind != "coupling"


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda s: s.name)
def test_options_are_those_of_the_function(scheme: Scheme) -> None:
    parameters = inspect.signature(scheme.verify).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for name, default in scheme.options.items():
        assert takes_any or parameters[name].default == default


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda s: s.name)
def test_every_scheme_obeys_the_protocol(scheme: Scheme) -> None:
    """verify(chance, drafts, draft, target, **options) -> Outcome, for the numbers of drafts it
    says; a carry is left only by stateful schemes."""
    for seed in range(40):
        generator = random.Random(seed)
        draft, target = random_table(generator, 3, 2), random_table(generator, 3, 2)
        chance = Sampler(generator)
        count = scheme.drafts[1] if scheme.drafts[1] is not None else generator.choice([0, 1, 2, 3])
        length = 1 if scheme.kind == "coupling" else generator.choice([0, 1, 2])
        drafts = FixedDrafts(
            [[generator.randrange(3) for _ in range(length)] for _ in range(count)], length
        )
        if scheme.draft_law == "hub":
            drafts = hub_drafts(chance, draft)
        outcome = scheme.verify(chance, drafts, draft, target, **scheme.options)
        assert len(outcome.accepted) <= length
        if outcome.accepted:
            assert drafts.passes(outcome.path, outcome.accepted)
        else:
            assert outcome.path == 0
        assert 0 <= outcome.next < 3
        if outcome.carry is not None:
            assert scheme.stateful
            assert 0 < outcome.carry.carried < length
            assert sum(outcome.carry(())) == 1


def test_unknown_schemes_are_refused_with_the_names() -> None:
    with pytest.raises(ValueError, match=r"unknown scheme 'blok'; known: canonical, .*, block, "):
        find("blok")
    assert find("block") is SCHEMES["block"]


def test_two_schemes_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        catalogue, "_registered", lambda: iter([SCHEMES["block"], SCHEMES["block"]])
    )
    with pytest.raises(RuntimeError, match="two schemes are called 'block'"):
        catalogue._collect()


def test_counterexample_text() -> None:
    counterexample = Counterexample(2, 1, ("0", "1"), ("1/2", "1/2"), 0, 1, "3/4")
    assert str(counterexample) == (
        "K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): P(token 1 at position 1) = 3/4 instead of 1/2"
    )
