"""Experiments: resumable lines, right statistics, text that is the target's, and sentences that say
what the numbers say."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from draftproof.fast.decoding import analysis, statements, tables
from draftproof.fast.decoding import experiments as ex
from draftproof.fast.decoding.methods import AUTOREGRESSIVE
from draftproof.fast.decoding.models import shipped_pair


@pytest.fixture(scope="module")
def pair():
    return shipped_pair()


def small(scheme="spectr", **changes):
    return dataclasses.replace(ex.cell(scheme, 2, 3), prompts=3, tokens=24, **changes)


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


def test_the_same_configuration_gives_the_same_numbers(pair, result):
    again = ex.run(small(), pair)
    assert again["per_prompt"] == result["per_prompt"]
    assert again["accepted_lengths"] == result["accepted_lengths"]


CELLS = {c.key: c for cells in ex.CELLS.values() for c in cells()}


def test_every_configuration_has_a_name_of_its_own():
    every = {repr(c) for cells in ex.CELLS.values() for c in cells()}
    assert len(CELLS) == len(every) > 90
    assert small().key != small(temperature=0.5).key


def test_what_the_claims_compare_is_measured():
    for claim in analysis.CLAIMS:
        assert {claim.first.key, claim.second.key} <= set(CELLS), claim.text
    assert len({claim.text for claim in analysis.CLAIMS}) == len(analysis.CLAIMS)
    assert {text for text, *_ in statements.PUBLISHED_GAINS} <= {c.text for c in analysis.CLAIMS}


def test_every_timed_method_has_its_tokens_per_call_measured():
    for name, group in ex.TIMED.items():
        assert group[0].scheme == AUTOREGRESSIVE, name
        for configuration in group[1:]:
            stand_in = "shipped" if configuration.pair == "random" else configuration.pair
            assert dataclasses.replace(configuration, pair=stand_in).key in CELLS, configuration


@pytest.fixture
def brief(monkeypatch):
    group = (ex.cell(AUTOREGRESSIVE, 1, 2), ex.cell("block", 1, 2), ex.cell("spectr", 4, 2))
    monkeypatch.setattr(ex, "TIMED", {"speed": group})
    monkeypatch.setattr(ex, "SPEED_TOKENS", 8)
    return group


def test_methods_are_timed_in_turn(pair, brief, monkeypatch):
    order = []
    right = ex.decode

    def watch(pair, prompts, seeds, settings):
        order.append(settings.scheme)
        return right(pair, prompts, seeds, settings)

    monkeypatch.setattr(ex, "decode", watch)
    warm = set()
    line = ex.time_group("speed", pair, 1, warm)
    a, b, c = AUTOREGRESSIVE, "block", "spectr"
    assert order == [a, b, c, b, c, a, c, a, b, a, b, c]
    ex.time_group("speed", pair, 0, warm)
    assert len(order) == 12 + 9
    json.dumps(line)
    assert line["speed"] == {"group": "speed", "prompt": 1, "tokens": 8}
    assert [m["key"] for m in line["methods"]] == [c.key for c in brief]
    assert all(len(m["seconds"]) == ex.REPETITIONS for m in line["methods"])
    assert line["methods"][0]["calls"] == 8
    assert 0 < line["busy"] < 1.1


def test_tasks_are_what_is_missing(pair, brief, monkeypatch):
    monkeypatch.setattr(ex, "CELLS", {"methods": lambda: iter([small(), small("block")])})
    names = ["methods", "speed", ex.LAW]
    pairs = {"shipped": pair}.__getitem__
    every = list(ex.tasks(names, pairs, ()))
    assert len(every) == 2 + len(ex.LAW_SCHEMES) + ex.SPEED_PROMPTS
    done = {small().key, f"law/{ex.LAW_SCHEMES[0]}", "speed/shipped/3"}
    assert len(list(ex.tasks(names, pairs, done))) == len(every) - 3
    (line,) = next(iter(ex.tasks(["methods"], pairs, ()))).measure(lambda _: None)
    assert line["key"] == small().key
    (line,) = next(iter(ex.tasks(["speed"], pairs, ()))).measure(lambda _: None)
    assert line["key"] == "speed/shipped/0"


def test_forward_times_have_every_case(pair, monkeypatch):
    monkeypatch.setattr(ex, "NODE_COUNTS", (1, 3))
    lines = ex.forward_times(pair.target, context=8, repeats=4)
    assert [line["key"].split("/")[2:] for line in lines] == [
        ["batch", "1"], ["batch", "3"], ["time", "1"], ["time", "3"]
    ]  # fmt: skip
    assert all(len(line["seconds"]) == 4 and min(line["seconds"]) > 0 for line in lines)


def test_random_pairs_have_the_size_they_are_called_after():
    """Counted on the meta device: nothing of the larger ones is allocated."""
    sizes = {}
    for size in ex.RANDOM_PAIRS:
        pair = ex.random_pair(size, "meta")
        assert pair.vocabulary == pair.draft.vocabulary == pair.target.vocabulary
        sizes[size] = pair.target.name
    assert sizes == {"17M": "random-17M", "1B": "random-1238M", "8B": "random-7493M"}


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


def test_lines_of_another_format_or_origin_are_not_mixed_in(tmp_path, pair):
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "a", "format": 1}\n')
    with pytest.raises(ValueError, match="line 1 has format 1, this version reads 2"):
        ex.Results(path)
    line = {
        "key": "a",
        "configuration": dataclasses.asdict(small()),
        "draft": "shipped-draft",
        "target": "shipped-target",
        "device": "cpu",
    }
    path.write_text(json.dumps(line) + "\n")
    ex.check_origin(path, pair)
    path.write_text(json.dumps(line | {"device": "cuda"}) + "\n")
    with pytest.raises(ValueError, match="has results of device cuda, this run has cpu"):
        ex.check_origin(path, pair)
    path.write_text(json.dumps(line | {"target": "other"}) + "\n")
    with pytest.raises(ValueError, match="has results of target other"):
        ex.check_origin(path, pair)


def test_again_drops_the_lines_of_the_named_parts(tmp_path):
    path = tmp_path / "results.jsonl"
    results = ex.Results(path)
    shared = ex.cell("spectr", 4, 6).key  # a cell of the methods and of other parts
    lines = [
        {"key": shared, "configuration": {}},
        {"key": "speed/x/0", "speed": {"group": "speed"}},
        {"key": "forward/x", "forward": {}},
    ]
    for line in lines:
        results.add(line)
    assert ex.Results(path, ["speed_long", "nodes"]).keys == {line["key"] for line in lines}
    assert ex.Results(path, ["speed", "forward"]).keys == {shared}
    assert ex.Results(path, ["drafts"]).keys == set()


def test_texts_are_scored_by_the_target(pair, result):
    """The log-likelihood of a text against one plain sum, and the excess of a biased text."""
    prompt = pair.tokenizer.encode("And the LORD")
    text = list(b" said unto Moses")
    longer = (pair.tokenizer.encode("In"), list(b" the beginning God created"))
    quality = ex.quality(pair, [(prompt, text), longer])
    (rows,) = ex.target_rows(pair, [(prompt, text)])
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
    filled = statements.fill_page(page, found, tables.TABLES)
    assert filled.startswith("before\n")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "stale" not in filled
    assert "| claim |" in filled
    assert statements.fill_page(filled, found, tables.TABLES) == filled


def test_every_cell_has_valid_settings():
    for configuration in (*CELLS.values(), *(c for group in ex.TIMED.values() for c in group)):
        configuration.settings.check()


def lines_of(tokens_by_cell, rng):
    """Results of 60 prompts with these mean tokens per call."""
    found = {}
    for configuration, mean in tokens_by_cell.items():
        rounds = np.full(60, 12)
        tokens = 12 * mean + rng.normal(0, 1, 60)
        key = configuration.key
        found[key] = {
            "key": key,
            "configuration": dataclasses.asdict(configuration),
            "per_prompt": {
                "tokens": tokens.tolist(),
                "rounds": rounds.tolist(),
                "nodes": [12 * configuration.drafts * configuration.length] * 60,
                **{name: rng.normal(0, 1, 60).tolist() for name in analysis.QUALITIES},
            },
        }
    return found


def timed_lines(group, milliseconds, rng):
    """Timings of six prompts: {scheme and length: milliseconds a call}; 1 % of noise."""
    found = {}
    for prompt in range(6):
        methods = []
        for c in ex.TIMED[group]:
            runs = [
                dict.fromkeys(
                    ("draft", "target", "verification", "rest"),
                    10 * milliseconds(c) / 4000 * rng.normal(1, 0.01),
                )
                for _ in range(3)
            ]
            methods.append({"key": c.key, "calls": 10, "seconds": runs})
        key = f"{group}/x/{prompt}"
        speed = {"group": group, "prompt": prompt}
        found[key] = {"key": key, "speed": speed, "methods": methods, "device": "cpu",
                      "threads": 1, "busy": 0.99}  # fmt: skip
    return found


def test_a_speed_up_is_tokens_per_call_over_the_break_even():
    rng = np.random.default_rng(2)
    block, plain = ex.cell("block", 4, 6), ex.TIMED["speed"][0]
    found = lines_of({block: 4.0}, rng)
    found |= timed_lines("speed", lambda c: 5.0 if c == plain else 10.0, rng)
    gain = analysis.speed_up(found, "speed", block)
    assert abs(gain.value - 2.0) < 2 * gain.half < 0.2
    assert analysis.speed_up(found, "speed", ex.cell("spectr", 4, 6)) is None
    assert "| block | 2." in tables.TABLES["speed"](found)


def test_speed_differences_keep_their_level():
    """The same two methods of equal speed in 300 simulations: at 5 %, fewer than 9 % are rejected
    (3 standard errors of 1.26 % more; the test is careful, as it takes the timed prompts alone for
    its degrees of freedom); a factor of 1.1 is seen in more than 90 %."""
    rng = np.random.default_rng(7)
    pair = ex.cell("block", 4, 6), ex.cell("token_by_token", 4, 6)

    def share(factor, count):
        seen = 0
        for _ in range(count):
            found = lines_of(dict.fromkeys(pair, 4.0), rng)
            found |= timed_lines("speed", lambda c: 9.0 if c == pair[0] else 9.0 * factor, rng)
            seen += analysis.speed_difference(found, "speed", *pair)[1] < 0.05
        return seen / count

    assert share(1.0, 300) < 0.09
    assert share(1.1, 50) > 0.9


def test_the_sentences_say_what_the_numbers_say():
    """The same text functions on results with and without a peak, and with the opposite of a
    claim."""
    rng = np.random.default_rng(4)
    tokens = {ex.cell(s, 4, n): 1 + n / 4 for s in ex.CURVES for n in ex.LENGTHS}
    found = lines_of(tokens, rng)
    steep = timed_lines("speed_lengths", lambda c: 1.0 + 0.08 * c.length**2, rng)
    text = statements.lengths_text(found | steep)
    assert "block: the speed-up is highest at L = " in text
    assert text.count("The speed-up peaks while block efficiency still grows.") == 2
    flat = timed_lines("speed_lengths", lambda c: 4.0, rng)
    assert "block, tokens per call at L = 24 against L = 12: more (+" in text
    assert "the speed-up is highest at the longest draft" in statements.lengths_text(found | flat)

    shape = ex.SHAPES[0]
    claims = {ex.cell("ranked_block", *shape): 4.0, ex.cell("kseq_block", *shape): 5.0}
    text = statements.methods_text(lines_of(claims, rng))
    assert "Most tokens per call: K-SEQ block at K=4 L=6 T=1." in text
    assert "ranked block over K-SEQ block: fewer at K=4 L=6 T=1 (" in text
    equal = lines_of(dict.fromkeys(claims, 4.0), rng)
    assert "no difference seen at K=4 L=6 T=1" in statements.methods_text(equal)

    busy = timed_lines("speed", lambda c: 4.0, rng)
    assert "the machine was quiet" in statements.timing_text(busy)
    busy["speed/x/2"]["busy"] = 0.5
    assert "busy: read these seconds with doubt" in statements.timing_text(busy)


def test_the_page_has_every_table_and_every_sentence_and_is_filled_again():
    page = (Path(__file__).parents[2] / "docs/experiments.md").read_text()
    for kind, names in (("table", tables.TABLES), ("text", statements.STATEMENTS)):
        for name in names:
            assert page.count(f"<!-- {kind}: {name} -->") == 1, name
    assert page.count("<!-- end -->") == len(tables.TABLES) + len(statements.STATEMENTS)
    rng = np.random.default_rng(1)
    found = lines_of(dict.fromkeys(CELLS.values(), 3.0), rng)
    once = statements.fill_page(page, found, tables.TABLES)
    assert statements.fill_page(once, found, tables.TABLES) == once
    assert "3.0" in once
    assert statements.fill_page(once, {}, tables.TABLES) == statements.fill_page(
        page, {}, tables.TABLES
    )
    with pytest.raises(ValueError, match="the page has a table 'nonsense'; there are methods"):
        statements.fill_page("<!-- table: nonsense --> <!-- end -->", found, tables.TABLES)
