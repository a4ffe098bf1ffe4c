"""Two rounds without sampling error, also of several drafts: laws as fractions, planted carries."""

from __future__ import annotations

import random
from importlib.util import find_spec
from itertools import product

import pytest
from draftproof.conformance.adapters import load
from draftproof.conformance.adapters.reference import ReferenceSubject
from draftproof.conformance.campaign import check_object
from draftproof.conformance.cases.fixtures import soft_instance
from draftproof.conformance.checks import rounds
from draftproof.conformance.context import Context
from draftproof.conformance.subject import declared
from draftproof.reference.catalogue import find
from draftproof.reference.chance import enumerate_law
from draftproof.reference.tree import FixedDrafts

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the reference is too slow")


def context_of(subject, scheme: str) -> Context:
    return Context(subject, declared(subject), find(scheme), "mine", 0, 60.0, 20.0)


def instance_of(k: int, seed: int = 2):
    return rounds._few_paths(soft_instance(random.Random(seed), 2, 2, k))


class NoCarryOfSeveral:
    """Planted: the carry is dropped where there are several drafts, and kept for one."""

    def __init__(self) -> None:
        self._right = load("fast")
        self.declaration = {**self._right.declaration, "schemes": ["spectr_gbv"]}

    def verify(self, batch):
        result = self._right.verify(batch)
        return result._replace(carry=None) if batch.drafts.shape[1] > 1 else result


@needs_torch
def test_two_drafts_are_exact_and_a_dropped_carry_shows():
    instance = instance_of(2)
    right = rounds.two_rounds(context_of(load("fast"), "spectr_gbv"), instance, 600)
    assert float(right.total_variation) <= right.error < 1e-6
    wrong = rounds.two_rounds(context_of(NoCarryOfSeveral(), "spectr_gbv"), instance, 600)
    assert wrong.biased
    assert float(wrong.total_variation) > 0.001


@needs_torch
def test_the_check_finds_what_only_several_drafts_show():
    verdict = check_object(NoCarryOfSeveral(), checks=["rounds"], budget=20).verdicts[0]
    assert verdict.verdict == "biased"
    case = verdict.counterexample
    assert case is not None
    assert case.exact
    assert case.instance["drafts"] >= 2


def test_one_draft_of_the_reference_is_exact():
    subject = ReferenceSubject([find("greedy_block")], "reference")
    law = rounds.two_rounds(context_of(subject, "greedy_block"), instance_of(1), 600)
    assert law.exact
    assert law.total_variation == 0


def test_it_ends_where_it_would_take_too_long():
    subject = ReferenceSubject([find("spectr_gbv")], "reference")
    with pytest.raises(rounds.Unbuildable, match="longer than 0 s"):
        rounds.two_rounds(context_of(subject, "spectr_gbv"), instance_of(3), 0.0)


@pytest.mark.parametrize("scheme", ["spectr_gbv", "greedy_block"])
def test_a_carry_depends_on_drafts_path_and_token_alone(scheme):
    """What the check takes for granted, on the reference: every branch of every tuple of drafts."""
    entry = find(scheme)
    k = 1 if scheme == "greedy_block" else 2
    instance = instance_of(k)
    paths = [path for path, _ in rounds._tuples(instance.draft_model, 1, 2, ())]
    seen = {}
    for chosen in product(paths, repeat=k):
        drafts = FixedDrafts([path[0] for path in chosen], 2)

        def told(chance, drafts=drafts):
            outcome = entry.verify(chance, drafts, instance.draft_model, instance.target_model)
            rows = ()
            if not outcome.accepted and outcome.carry is not None:
                rows = tuple(outcome.carry(()))
            return outcome.accepted, outcome.next, outcome.path, rows

        for accepted, token, path, rows in enumerate_law(told):
            if not accepted:
                assert seen.setdefault((chosen, token, path), rows) == rows
    assert seen
