"""Reports: every number against a second way of counting it, and errors against simulation."""

import json
import math

import numpy as np
import pytest
from draftproof.fast.decoding import metrics
from draftproof.fast.decoding.models import shipped_pair
from draftproof.fast.decoding.rounds import Generation, Settings, autoregressive, generate

PROMPTS = ["And it came to pass", "Blessed"]


@pytest.fixture(scope="module")
def run():
    pair = shipped_pair()
    settings = Settings(scheme="spectr", drafts=3, length=4, max_new_tokens=40)
    decoded = generate(pair, PROMPTS, [1, 2], settings)
    baseline = generate(pair, PROMPTS, [1, 2], autoregressive(settings))
    return pair, decoded, baseline


def test_a_report_counts_what_happened(run):
    pair, decoded, baseline = run
    report = metrics.summary(decoded, pair, baseline)
    json.dumps(report)
    calls = sum(len(g.accepted) for g in decoded.generations)
    assert (report["prompts"], report["tokens"], report["target_calls"]) == (2, 80, calls)
    histogram = report["accepted_lengths"]
    assert sum(histogram.values()) == calls
    emitted = sum((int(tau) + 1) * count for tau, count in histogram.items())
    assert emitted >= 80
    assert report["total_nodes"] == calls * 12
    assert report["distinct_nodes"] == sum(sum(g.nodes) for g in decoded.generations) < calls * 12
    assert report["target_batch_expansion"] == pytest.approx(1 + report["distinct_nodes"] / calls)
    assert report["tree_depth"] == 4
    assert set(report["seconds"]) == {"draft", "target", "verification", "rest"}
    assert all(seconds > 0 for seconds in report["seconds"].values())
    total = sum(report["seconds"].values())
    assert report["tokens_per_second"] == pytest.approx(80 / total)
    assert report["speed_up"] == pytest.approx(sum(baseline.seconds.values()) / total)
    assert report["finish"] == {"length": 2}
    labels = [label for label, _ in metrics.table(report)]
    assert "block efficiency" in labels
    assert "speed-up over autoregressive" in labels


def test_autoregressive_decoding_is_one_token_a_call(run):
    pair, _, baseline = run
    report = metrics.summary(baseline, pair)
    assert report["block_efficiency"] == 1.0
    assert report["target_calls"] == report["tokens"] == 80
    assert report["target_batch_expansion"] == 1.0
    assert report["total_nodes"] == report["distinct_nodes"] == 0
    assert report["speed_up"] is None


def test_rounds_that_could_be_cut_are_not_counted():
    generation = Generation([1], 0, accepted=[2, 0, 3, 1], whole_rounds=3)
    other = Generation([1], 0, accepted=[1, 1], whole_rounds=1)
    ratio, _ = metrics.block_efficiency([generation, other])
    assert ratio == (3 + 1 + 4 + 2) / 4
    short = Generation([1], 0, accepted=[1], whole_rounds=0)
    assert metrics.block_efficiency([short])[0] == 2.0
    assert math.isnan(metrics.block_efficiency([short])[1])


def test_the_error_of_a_ratio_is_that_of_repeated_experiments():
    """400 simulated experiments of 60 pairs: the mean stated error is the spread of the ratios, to
    within 12 % (the spread itself is known to 1/sqrt(800) = 3.5 %, so 12 % is 3.4 of its
    errors)."""
    rng = np.random.default_rng(5)
    ratios, errors = [], []
    for _ in range(400):
        x = rng.integers(5, 30, 60)
        y = rng.poisson(2.5 * x * rng.uniform(0.8, 1.2, 60))
        ratio, error = metrics.ratio_with_error(y, x)
        ratios.append(ratio)
        errors.append(error)
    assert abs(np.mean(errors) / np.std(ratios, ddof=1) - 1) < 0.12
