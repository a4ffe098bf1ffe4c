"""Power: faults that only sampling can see are seen with probability 0.999 at the least sample.

Checks without sampling error (exact sweep, edges, metamorphic, two rounds) find a fault or not,
whatever the seed; test_exam says that they do. What is left is seen by `rounds` and `drafter`: here
their evidence after the 2000 samples that every run takes is measured on twenty repetitions, and
its mean has to be 3.1 standard deviations above the threshold of a large run.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from draftproof.conformance.adapters import load
from draftproof.conformance.checks import rounds
from draftproof.conformance.checks.drafter import DraftRequest
from draftproof.conformance.checks.statistical import string_views
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential, log_evidence
from draftproof.conformance.subject import Batch, declared
from draftproof.reference.catalogue import find

THRESHOLD = math.log(1000 * 40 / 1e-9)  # a thousand checks of forty tests each
SAMPLES, REPETITIONS, QUANTILE = 2000, 20, 3.1


def assert_power(evidence: list[float]) -> None:
    mean, spread = np.mean(evidence), np.std(evidence, ddof=1)
    assert mean - QUANTILE * spread > THRESHOLD, (mean, spread)


class RepeatsItself:
    """The fast path with streams made from the seed alone."""

    def __init__(self) -> None:
        self._fast = load("fast")
        self.declaration = self._fast.declaration | {"uniforms": False, "generator": None}

    def verify(self, batch: Batch) -> Any:
        assert batch.position is not None
        return self._fast.verify(replace(batch, position=batch.position * 0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_uniforms_reused_across_rounds(seed: int) -> None:
    pytest.importorskip("torch")
    subject = RepeatsItself()
    context = Context(
        subject, declared(subject), find("token_by_token"), "reused", seed, 60.0, THRESHOLD
    )
    generator = context.generator(rounds.NAME)
    draft, target = (rounds.Markov.random(generator, 3) for _ in range(2))
    tokens = 4
    powers = 3 ** np.arange(tokens - 1, -1, -1)
    found = []
    for _ in range(REPETITIONS):
        test = Sequential(target.law(tokens), string_views(3, tokens), THRESHOLD)
        strings = rounds.emit(
            context, generator, draft, target,
            size=SAMPLES, drafts=1, length=2, tokens=tokens, law="iid",
        )  # fmt: skip
        test.see(strings @ powers)
        found.append(test.evidence)
    assert_power(found)


@pytest.mark.parametrize("name", ["argmax-draft-soft-q", "raw-q-topk-draft"])
def test_drafts_from_other_rows_than_reported(name: str) -> None:
    subject = load(f"mutant:{name}")
    row = np.array([0.4, 0.2, 0.4]) if name.startswith("raw") else np.array([0.7, 0.2, 0.1])
    found = []
    for repetition in range(REPETITIONS):
        request = DraftRequest(SAMPLES, 1, 1, 3, lambda prefix: row, lambda prefix: row, repetition)
        tokens, reported = subject.draft(request)
        assert np.allclose(reported, row)
        counts = np.bincount(tokens.reshape(-1), minlength=3)
        found.append(min(log_evidence(counts, row), 1e6))
    assert_power(found)


def test_the_bar_can_fail() -> None:
    """The same measure refuses a fault that is too small for 2000 samples."""
    generator = np.random.default_rng(0)
    law, other = np.full(3, 1 / 3), np.array([0.34, 0.33, 0.33])
    found = [log_evidence(generator.multinomial(SAMPLES, other), law) for _ in range(REPETITIONS)]
    with pytest.raises(AssertionError):
        assert_power(found)
