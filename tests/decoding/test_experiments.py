"""Experiments: resumable lines, right statistics, and text that is the target's."""

import dataclasses
import json
import math

import numpy as np
import pytest
from draftproof.fast.decoding import analysis
from draftproof.fast.decoding import experiments as ex
from draftproof.fast.decoding.models import shipped_pair


@pytest.fixture(scope="module")
def pair():
    return shipped_pair()


def small(scheme="spectr", **changes):
    return dataclasses.replace(ex.cell(scheme, 2, 3), prompts=3, tokens=24, timed=1, **changes)


@pytest.fixture(scope="module")
def result(pair):
    return ex.run(small(), pair)


def test_a_line_has_what_the_tables_need(result):
    json.dumps(result)
    assert result["key"] == small().key
    per_prompt = result["per_prompt"]
    assert all(len(values) == 3 for values in per_prompt.values())
    assert sum(result["accepted_lengths"]) == sum(per_prompt["rounds"])
    tokens = sum((tau + 1) * n for tau, n in enumerate(result["accepted_lengths"]))
    assert tokens == sum(per_prompt["tokens"])
    estimate = analysis.per_call(result)
    assert estimate.value == tokens / sum(per_prompt["rounds"])
    assert 1 <= estimate.value <= 4
    assert analysis.speed_up(result).value > 0
    assert analysis.stage_milliseconds(result, "target") > 0


def test_the_same_configuration_gives_the_same_numbers(pair, result):
    again = ex.run(small(), pair)
    assert again["per_prompt"] == result["per_prompt"]
    assert again["accepted_lengths"] == result["accepted_lengths"]


def test_every_configuration_has_a_name_of_its_own():
    every = {c for name in ex.EXPERIMENTS for c in map(repr, ex.EXPERIMENTS[name]("shipped"))}
    keys = {c.key for name in ex.EXPERIMENTS for c in ex.EXPERIMENTS[name]("shipped")}
    assert len(keys) == len(every) > 100
    assert small().key != small(temperature=0.5).key


def test_what_the_claims_compare_is_measured():
    measured = {c.key for name in ex.EXPERIMENTS for c in ex.EXPERIMENTS[name]("shipped")}
    for claim in analysis.CLAIMS:
        assert {claim.first.key, claim.second.key} <= measured, claim.text


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "results.jsonl"
    results = ex.Results(path)
    results.add({"key": "a", "value": 1})
    results.add({"key": "b", "value": 2})
    whole = path.read_text()
    path.write_text(whole + '{"key": "c", "val')  # killed while writing
    again = ex.Results(path)
    assert again.keys == {"a", "b"}
    assert path.read_text() == whole
    again.add({"key": "c", "value": 3})
    assert [r["key"] for r in ex.read_results(path)] == ["a", "b", "c"]
    assert not list(tmp_path.glob("*.part"))


def test_damage_in_the_middle_is_not_passed_over(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "a"}\n{"key": \n{"key": "b"}\n')
    with pytest.raises(ValueError, match="line 2"):
        ex.Results(path)


def test_texts_are_scored_by_the_target(pair, result):
    """The log-likelihood of a text against one plain sum, and the excess of a biased text."""
    prompt = pair.tokenizer.encode("And the LORD")
    text = list(b" said unto Moses")
    quality = ex.quality(pair, [(prompt, text)])
    rows = ex._target_rows(pair, prompt, text)
    logs = [math.log(float(rows[i, token])) for i, token in enumerate(text)]
    assert quality["log_likelihood"][0] == pytest.approx(np.mean(logs))
    entropy = -np.mean([float((row * row.log()).sum()) for row in rows])
    assert quality["excess"][0] == pytest.approx(np.mean(logs) + entropy)
    assert quality["word_length"][0] == pytest.approx(13 / 3)
    assert quality["distinct"][0] == 1.0


def fake(tokens, rounds, key="x"):
    return {"key": key, "per_prompt": {"tokens": tokens, "rounds": rounds}}


def test_the_paired_test_keeps_its_level_and_has_power():
    """2000 simulated pairs of methods without a difference: a 5 % test rejects 3.5 to 6.5 % of them
    (three standard errors of 0.5 %); with a difference of 0.4 it rejects more than 90 %."""
    rng = np.random.default_rng(3)

    def rejections(gap, count):
        rejected = 0
        for _ in range(count):
            ease = rng.normal(0, 0.4, 48)
            rounds = rng.integers(15, 25, (2, 48))
            means = np.array([3.0 + ease, 3.0 + ease + gap])
            tokens = rounds * means + rng.normal(0, 2.0, (2, 48)) * np.sqrt(rounds)
            first, second = (fake(tokens[i], rounds[i]) for i in (1, 0))
            _, p = analysis.paired_difference(first, second)
            rejected += p < 0.05
        return rejected / count

    assert 0.035 < rejections(0.0, 2000) < 0.065
    assert rejections(0.4, 300) > 0.9


def test_identical_results_do_not_differ():
    estimate, p = analysis.paired_difference(fake([4, 5], [2, 2]), fake([4, 5], [2, 2]))
    assert (estimate.value, p) == (0.0, 1.0)


def test_holm_corrects_for_claims_made_together():
    assert analysis.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert analysis.holm([0.9, 0.8]) == [1.0, 1.0]


def test_intervals_cover():
    """95 % intervals of 10 values cover the mean in 93.5 to 96.5 % of 2000 simulations."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        estimate = analysis.mean_interval(rng.normal(1.0, 2.0, 10))
        covered += abs(estimate.value - 1.0) <= estimate.half
    assert 0.935 < covered / 2000 < 0.965


def test_tables_are_filled_into_a_page(result):
    found = {result["key"]: result}
    page = "before\n<!-- table: claims -->\nstale text\n<!-- end -->\nafter\n"
    filled = analysis.fill_page(page, found)
    assert filled.startswith("before\n")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "stale" not in filled
    assert "| claim |" in filled
    assert analysis.fill_page(filled, found) == filled


def test_forward_times_cover_both_axes(pair, monkeypatch):
    monkeypatch.setattr(ex, "NODE_COUNTS", (1, 4))
    lines = list(ex.forward_times(pair.target, context=16, repeats=3))
    assert [(r["forward"]["axis"], r["forward"]["nodes"]) for r in lines] == [
        ("batch", 1),
        ("batch", 4),
        ("time", 1),
        ("time", 4),
    ]
    assert all(r["seconds"] > 0 for r in lines)
    assert "shipped-target, time" in analysis.forward_table({r["key"]: r for r in lines})


@pytest.mark.parametrize("experiment", sorted(ex.EXPERIMENTS))
def test_every_experiment_lists_valid_settings(experiment):
    for configuration in ex.EXPERIMENTS[experiment]("shipped"):
        configuration.settings.check()
