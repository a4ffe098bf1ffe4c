"""The whole decoder is lossless: the law of emitted tokens against enumeration of the target's
rows.

Tiny random models in float64 make everything real: caches, trees, merging, several rounds, ragged
prompts, requests that share a batch.  The law of the first `EMITTED` tokens is enumerated from
plain forwards of the target alone.  Each test is an anytime-valid likelihood ratio
(conformance/evidence) with false-alarm probability `FALSE_ALARM`; with `SAMPLES` texts it reveals,
with probability 0.999, any law further than `detectable` (asserted below) in total variation.
Every planted fault must be seen.
"""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import torch
from decoding_faults import SiblingsInARow, StaleSlot
from draftproof.conformance.evidence import Sequential, View, detectable
from draftproof.fast import VERIFIERS, Result, verify
from draftproof.fast.decoding import rounds
from draftproof.fast.decoding.methods import (
    AUTOREGRESSIVE,
    DISTINCT_DRAFTS,
    MIXED_DRAFTS,
    SINGLE_DRAFT,
)
from draftproof.fast.decoding.models import Pair, wrap
from draftproof.fast.decoding.rounds import Settings, decode
from draftproof.fast.decoding.scoring import PathScorer
from draftproof.fast.rows import rows_from_logits
from draftproof.fast.verifiers import STATEFUL

VOCABULARY = 3
EMITTED = 5
SCALE = 12.0  # of the target's weights: rows then depend strongly on position and earlier tokens
DRAFT_SCALE = 4.0
PROMPTS = ([1, 2, 0, 2], [2])
SAMPLES = 3000  # of each prompt
FALSE_ALARM = 1e-9
SETTINGS = Settings(drafts=3, length=2, max_new_tokens=EMITTED)


def settings_of(scheme, **changes):
    drafts = 1 if scheme in SINGLE_DRAFT else 3
    length = 4 if scheme in STATEFUL else 2  # a carry must live for a few tokens to matter
    return dataclasses.replace(SETTINGS, scheme=scheme, drafts=drafts, length=length, **changes)


@pytest.fixture(scope="module")
def pair(build):
    draft = wrap(build("llama", VOCABULARY, seed=1, scale=DRAFT_SCALE), "draft", attention="tree")
    target = wrap(build("llama", VOCABULARY, seed=4, scale=SCALE), "target", attention="tree")
    return Pair(draft, target, VOCABULARY)


@pytest.fixture(scope="module")
def target_law(build):
    """Law of the emitted tokens after each prompt, [V^n], from plain forwards."""

    @functools.cache
    def law(prompt, kind="llama", **cuts):
        model = build(kind, VOCABULARY, seed=4, scale=SCALE)
        texts = list(itertools.product(range(VOCABULARY), repeat=EMITTED))
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*prompt, *t] for t in texts])).logits
        rows = rows_from_logits(logits[:, len(prompt) - 1 : -1], **cuts)
        chosen = rows.gather(2, torch.tensor(texts)[:, :, None])[:, :, 0]
        return chosen.prod(1).numpy()

    return law


def evidence(pair, settings, law, samples=SAMPLES):
    """ln of the evidence against losslessness, the mean of both prompts' e-processes."""
    prompts = [list(prompt) for prompt in PROMPTS for _ in range(samples)]
    decoded = decode(pair, prompts, range(len(prompts)), settings)
    weights = VOCABULARY ** np.arange(EMITTED)[::-1]
    texts = np.array([g.tokens for g in decoded.generations]) @ weights
    cells = np.arange(VOCABULARY**EMITTED)
    tests = []
    for i, prompt in enumerate(PROMPTS):
        views = tuple(
            View(f"first {n}", cells // VOCABULARY ** (EMITTED - n), 1 / 4) for n in (5, 4, 3, 2)
        )
        test = Sequential(law(tuple(prompt)), views, -np.log(FALSE_ALARM / 2))
        test.see(texts[i * samples : (i + 1) * samples])
        tests.append(test)
    return max(test.evidence for test in tests)


THRESHOLD = -np.log(FALSE_ALARM / 2)


EVERY_SCHEME = [
    *(pytest.param(scheme, {}, id=scheme) for scheme in sorted(VERIFIERS)),
    pytest.param("spectr_gbv", {"scale": "unit"}, id="spectr_gbv-unit"),
    pytest.param(AUTOREGRESSIVE, {}, id=AUTOREGRESSIVE),
]


def test_the_power_is_what_this_file_says():
    assert detectable(VOCABULARY**EMITTED, SAMPLES, THRESHOLD + np.log(4)) < 0.17
    assert detectable(VOCABULARY**2, SAMPLES, THRESHOLD + np.log(4)) < 0.11


@pytest.mark.parametrize(("scheme", "options"), EVERY_SCHEME)
def test_lossless(scheme, options, pair, target_law):
    settings = settings_of(scheme, options=options)
    assert evidence(pair, settings, target_law) < THRESHOLD


@pytest.mark.parametrize("scheme", ["block", "spectr", "ranked_block", "spectr_gbv"])
def test_lossless_with_cuts_and_another_draft_temperature(scheme, pair, target_law):
    cuts = {"temperature": 0.7, "top_k": 2}
    settings = settings_of(scheme, draft_temperature=1.5, **cuts)
    assert evidence(pair, settings, functools.partial(target_law, **cuts)) < THRESHOLD


@pytest.mark.parametrize("scheme", sorted(MIXED_DRAFTS))
def test_lossless_with_a_temperature_for_each_draft(scheme, pair, target_law):
    settings = settings_of(scheme, draft_temperature=(0.5, 1.0, 3.0))
    assert evidence(pair, settings, target_law) < THRESHOLD


@pytest.mark.parametrize(
    ("scheme", "cuts"),
    [*((scheme, {"top_k": 2}) for scheme in sorted(DISTINCT_DRAFTS)), ("tree_match", {})],
)
def test_lossless_with_distinct_drafts(scheme, cuts, pair, target_law):
    """With top_k = 2 there are 4 paths for 5 drafts: all of them are drawn, and one again."""
    settings = dataclasses.replace(settings_of(scheme, distinct=True, **cuts), drafts=5)
    law = functools.partial(target_law, **cuts) if cuts else target_law
    assert evidence(pair, settings, law) < THRESHOLD


def test_the_rule_for_distinct_drafts_takes_independent_ones_too(pair, target_law):
    settings = settings_of("spectr:without_replacement", distinct=False)
    assert evidence(pair, settings, target_law) < THRESHOLD


def balancing(batch, uniforms, carry):
    """A user's function with a carry of its own: it accepts drafts in every other round only, and
    counts its rounds."""
    rounds_seen = torch.zeros_like(batch.roots) if carry is None else carry["rounds"]
    ruled = verify("spectr:recursive_rejection", batch, uniforms)
    plain = verify("spectr:target_match", batch, uniforms)
    even = rounds_seen % 2 == 0
    return Result(
        torch.where(even, ruled.accepted_length, plain.accepted_length),
        torch.where(even, ruled.path, plain.path),
        torch.where(even, ruled.next_token, plain.next_token),
        torch.where(even[:, None], ruled.tokens, plain.tokens),
        {"rounds": rounds_seen + 1},
    )


def boasting(batch, uniforms, carry):
    """A biased function: it accepts the first token of the first draft without a test."""
    first = torch.zeros_like(batch.roots)
    row = batch.target_rows[batch.nodes[:, 0, 1]].cumsum(1)
    token = torch.searchsorted(row, uniforms.token[:, None] * row[:, -1:], right=True)[:, 0]
    return Result.of(batch, first + 1, first, token)


def test_a_function_of_the_users_own(pair, target_law):
    assert evidence(pair, settings_of(balancing), target_law) < THRESHOLD
    assert evidence(pair, settings_of(boasting), target_law) > THRESHOLD


@pytest.mark.parametrize("kind", ["gpt2", "mistral"])
def test_lossless_on_other_architectures(kind, build, target_law):
    draft = wrap(build("llama", VOCABULARY, seed=1, scale=DRAFT_SCALE), "draft", attention="tree")
    target = wrap(build(kind, VOCABULARY, seed=4, scale=SCALE), "target", attention="tree")
    law = functools.partial(target_law, kind=kind)
    pair = Pair(draft, target, VOCABULARY)
    assert evidence(pair, settings_of("spectr"), law) < THRESHOLD


def test_lossless_when_paths_run_as_a_batch(pair, target_law):
    paths = dataclasses.replace(
        pair,
        draft=dataclasses.replace(pair.draft, start=with_scorer(pair.draft, PathScorer)),
        target=dataclasses.replace(pair.target, start=with_scorer(pair.target, PathScorer)),
    )
    # One forward per request and level: fewer samples, and the same texts as under the tree mask.
    prompts = [list(prompt) for prompt in PROMPTS for _ in range(40)]
    settings = settings_of("spectr")
    texts = [
        [g.tokens for g in decode(p, prompts, range(80), settings).generations]
        for p in (pair, paths)
    ]
    assert texts[0] == texts[1]


def with_scorer(model, scorer):
    """``model.start`` with another scorer class around the same network."""
    network = model.start.__closure__[[*model.start.__code__.co_freevars].index("model")]
    return lambda vocabulary, batch: scorer(network.cell_contents, vocabulary, batch)


# Planted faults.


@pytest.mark.parametrize("fault", [SiblingsInARow, StaleSlot])
@pytest.mark.parametrize("side", ["target"])
def test_a_fault_in_scoring_is_seen(fault, side, pair, target_law):
    model = dataclasses.replace(pair.target, start=with_scorer(pair.target, fault))
    broken = dataclasses.replace(pair, target=model)
    assert evidence(broken, settings_of("spectr"), target_law) > THRESHOLD


def test_a_draft_row_from_before_top_k_is_seen(pair, target_law, monkeypatch):
    cuts = {"temperature": 1.0, "top_k": 2}

    def uncut(scorer, fresh, uniforms, to_rows, groups, distinct):
        seen = []

        def remember(logits):
            seen.append(torch.softmax(logits, -1)[None])
            return to_rows[0](logits)

        tree = drawn(scorer, fresh, uniforms, [remember], groups, distinct)
        leaves = tree.rows[:, :, sum(rows.shape[2] for rows in seen) :]
        return dataclasses.replace(tree, rows=torch.cat([*seen, leaves], 2))

    drawn = rounds.draw_tree
    law = functools.partial(target_law, **cuts)
    assert evidence(pair, settings_of("spectr", **cuts), law) < THRESHOLD
    monkeypatch.setattr(rounds, "draw_tree", uncut)
    assert evidence(pair, settings_of("spectr", **cuts), law) > THRESHOLD


@pytest.mark.parametrize("scheme", sorted(STATEFUL))
def test_a_dropped_carry_is_seen(scheme, pair, target_law, monkeypatch):
    right = rounds.verify_any

    def forgetful(*arguments, **named):
        return dataclasses.replace(right(*arguments, **named), carry=None)

    monkeypatch.setattr(rounds, "verify_any", forgetful)
    settings = settings_of(scheme)
    if scheme == "ranked_block:stateful":  # which owes little after many drafts
        settings = dataclasses.replace(settings, drafts=1)
    assert evidence(pair, settings, target_law) > THRESHOLD


def test_uniforms_reused_across_rounds_are_seen(pair, target_law, monkeypatch):
    right = rounds.draw_uniforms

    def repeating(generations, settings, device):
        again = [dataclasses.replace(g, tokens=[]) for g in generations]
        return right(again, settings, device)

    monkeypatch.setattr(rounds, "draw_uniforms", repeating)
    assert evidence(pair, settings_of("block"), target_law) > THRESHOLD


def test_drafts_that_share_verification_uniforms_are_seen(pair, target_law, monkeypatch):
    right = rounds.draw_uniforms

    def shared(generations, settings, device):
        _, uniforms = right(generations, settings, device)
        return uniforms.accept, uniforms

    monkeypatch.setattr(rounds, "draw_uniforms", shared)
    assert evidence(pair, settings_of("token_by_token"), target_law) > THRESHOLD
