"""Gate: the baseline holds for the same code, and every way to be worse fails it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from draftproof.conformance import gate as gating
from draftproof.conformance.gate_commands import gate
from draftproof.conformance.subject import Declaration, declared

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def quickstart():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import quickstart as module
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


GOOD = {
    "verdict": "lossless", "uniforms": True, "accepted_length": 2.0, "standard_error": 0.03,
    "speed_ratio": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({}, ""),
        ({"accepted_length": 1.995, "speed_ratio": 1.7}, ""),
        ({"accepted_length": 2.5, "speed_ratio": 0.1}, ""),
        ({"verdict": "biased", "reason": "x"}, "verdict: lossless → biased"),
        ({"verdict": "error"}, "verdict: lossless → error"),
        ({"verdict": "skipped"}, "verdict: lossless → skipped"),
        ({"accepted_length": 1.98}, "accepted length: 2.0000 → 1.9800"),
        ({"accepted_length": None}, "accepted length: no longer measured"),
        ({"speed_ratio": 1.76}, "speed ratio: 1.00 → 1.76"),
        ({"speed_ratio": None}, "speed ratio: no longer measured"),
        ({"uniforms": False, "accepted_length": 1.98}, ""),
        ({"uniforms": False, "accepted_length": 1.78}, "accepted length"),
    ],
)
def test_what_is_worse(now, expected):
    found = gating.compare(GOOD, {**GOOD, **now})
    assert len(found) == bool(expected)
    assert "".join(found).startswith(expected)


def test_a_scheme_that_is_gone_is_worse():
    assert gating.compare(GOOD, None) == ["is gone"]


def test_a_bias_that_was_known_does_not_fail():
    known = {**GOOD, "verdict": "biased"}
    assert gating.compare(known, known) == []
    assert gating.compare(known, GOOD) == []


def test_the_blocks_are_consistent_and_drafted_from_their_rows(quickstart):
    declaration = declared(quickstart.factory())
    batch = gating._batch("token_by_token", declaration, size=4000, vocab=16, length=2, drafts=3)
    assert batch.shape == (4000, 1, 2, 16)
    assert np.allclose(batch.draft_rows.sum(-1), 1)
    assert np.allclose(batch.target_rows.sum(-1), 1)
    first = batch.drafts[:, 0, 0]
    expected = batch.draft_rows[:, 0, 0].mean(axis=0)
    # 4000 blocks: each frequency is within five standard errors.
    error = 5 * np.sqrt(expected / 4000)
    assert (abs(np.bincount(first, minlength=16) / 4000 - expected) < error).all()


def test_drafts_that_share_a_prefix_share_its_rows():
    given = {"name": "any", "schemes": ["kseq_block"], "uniforms": True}
    declaration = Declaration.parse(given)
    batch = gating._batch("kseq_block", declaration, size=300, vocab=4, length=3, drafts=3)
    seen = 0
    for b in range(300):
        rows = {}
        for k in range(3):
            for depth in range(4):
                prefix = tuple(batch.drafts[b, k, :depth])
                row = batch.target_rows[b, k, depth].tobytes()
                seen += prefix in rows and depth > 0
                assert rows.setdefault(prefix, row) == row
    assert seen > 100


def test_siblings_without_replacement_are_distinct_and_follow_their_row():
    given = {"name": "any", "schemes": ["spectr:without_replacement"], "uniforms": True}
    declaration = Declaration.parse(given)
    batch = gating._batch(
        "spectr:without_replacement", declaration, size=6000, vocab=4, length=4, drafts=2
    )
    assert batch.shape == (6000, 2, 1, 4)
    first, second = batch.drafts[:, 0, 0], batch.drafts[:, 1, 0]
    assert (first != second).all()
    rows, every = batch.draft_rows[:, 0, 0], np.arange(6000)
    for tokens, expected in ((first, rows.copy()), (second, rows.copy())):
        if tokens is second:
            expected[every, first] = 0
            expected /= expected.sum(axis=1, keepdims=True)
        # 6000 blocks: each frequency is within five standard errors.
        mean = expected.mean(axis=0)
        assert (
            abs(np.bincount(tokens, minlength=4) / 6000 - mean) < 5 * np.sqrt(mean / 6000)
        ).all()


def test_the_accepted_length_is_the_same_every_time(quickstart):
    subject = quickstart.factory()
    first = gating.accepted_length(subject, declared(subject), "token_by_token", blocks=300)
    assert first == gating.accepted_length(subject, declared(subject), "token_by_token", blocks=300)
    assert 0 < first[0] < 4


class Slow:
    """A subject that is slower: `how` is "sleeps" or "computes" (the same rows three times)."""

    def __init__(self, subject, how):
        self._subject, self._how = subject, how
        self.declaration = subject.declaration

    def verify(self, batch):
        begun = time.perf_counter()
        result = self._subject.verify(batch)
        if self._how == "sleeps":
            time.sleep(2 * (time.perf_counter() - begun))
        else:
            self._subject.verify(batch)
            self._subject.verify(batch)
        return result


@pytest.mark.parametrize("how", ["sleeps", "computes"])
def test_a_slower_subject_has_a_higher_ratio(quickstart, how):
    subject = quickstart.factory()
    declaration = declared(subject)

    def measure(one):
        return lambda: gating.speed_ratio(one, declaration, "token_by_token", vocab=2048)

    was = gating.speed_within(None, measure(subject))
    assert len(was["speed_tries"]) == gating.SPEED_TRIES
    stored = {**GOOD, **was}
    now = {**GOOD, **gating.speed_within(stored["speed_ratio"], measure(subject))}
    assert gating.compare(stored, now) == []
    slow = {**GOOD, **gating.speed_within(stored["speed_ratio"], measure(Slow(subject, how)))}
    assert len(slow["speed_tries"]) == gating.SPEED_TRIES
    [said] = gating.compare(stored, slow)
    assert said.startswith("speed ratio: ")
    assert "median of 5" in said


def test_a_ratio_that_is_too_high_once_is_measured_again():
    found = iter([2.0, 1.1, 1.2, 9.0, 1.0])
    again = gating.speed_within(1.0, lambda: (next(found), 1.0))
    assert again["speed_ratio"] == 1.2
    assert gating.compare(GOOD, {**GOOD, **again}) == []
    found = iter([2.0, 1.1, 1.9, 9.0, 1.8])
    worse = gating.speed_within(1.0, lambda: (next(found), 1.0))
    assert worse["speed_ratio"] == 1.9
    assert gating.compare(GOOD, {**GOOD, **worse}) != []
    assert gating.speed_within(1.0, lambda: (1.7, 1.0))["speed_tries"] == [1.7]


def test_waiting_for_a_core_is_not_counted_and_sleeping_is():
    """Beside three processes that never rest, a loop takes as long as its own work."""
    clock = gating._Clock()

    def work():
        begun, cpu = clock(), time.process_time()
        while time.process_time() - cpu < 0.1:
            np.cumsum(np.ones(20_000))
        return clock() - begun

    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        times = [work() for _ in range(5)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    if clock._file is None:
        pytest.skip("the system does not tell how long a thread waited for a core")
    assert 0.09 < sorted(times)[2] < 0.15
    begun = clock()
    time.sleep(0.05)
    assert clock() - begun > 0.045


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 2, "subjects": {"fast": {}}}', '{"format": 1}']
)
def test_a_bad_baseline_exits_2(tmp_path, content):
    path = tmp_path / "baseline.json"
    path.write_text(content)
    assert CliRunner().invoke(gate, ["--baseline", str(path)]).exit_code == 2


def test_a_missing_baseline_or_subject_exits_2(tmp_path):
    path = tmp_path / "baseline.json"
    assert CliRunner().invoke(gate, ["--baseline", str(path)]).exit_code == 2
    path.write_text(json.dumps({"format": 1, "subjects": {"fast": {"block": GOOD}}}))
    done = CliRunner().invoke(gate, ["--baseline", str(path), "--subject", "reference"])
    assert done.exit_code == 2
    assert "write it with --update" in done.output


def test_written_compared_and_failed(tmp_path, monkeypatch):
    """The whole command on a real subject: written, held, and failed after a planted regression."""
    monkeypatch.chdir(EXAMPLES)  # a subject is found from the folder that one is in
    subject = "python:quickstart:factory"
    path = tmp_path / "baseline.json"
    common = ["--baseline", str(path), "--budget", "2", "--no-speed", "--scheme", "token_by_token"]
    done = CliRunner().invoke(gate, [*common, "--update", "--subject", subject])
    assert done.exit_code == 0, done.output
    data = json.loads(path.read_text())
    entry = data["subjects"][subject]["token_by_token"]
    assert entry["verdict"] == "lossless"
    assert CliRunner().invoke(gate, common).exit_code == 0
    timed = [argument for argument in common if argument != "--no-speed"]
    done = CliRunner().invoke(gate, [*timed, "--update"])
    assert done.exit_code == 0, done.output
    measured = json.loads(path.read_text())["subjects"][subject]["token_by_token"]
    done = CliRunner().invoke(gate, timed)
    assert done.exit_code == 0, done.output
    planted = copy.deepcopy(data)
    planted["subjects"][subject]["token_by_token"]["accepted_length"] *= 1.02
    path.write_text(json.dumps(planted))
    done = CliRunner().invoke(gate, common)
    assert done.exit_code == 1
    assert f"worse: {subject} token_by_token: accepted length" in done.output
    # A speed that was stored when it was three times as fast; everything else is as before.
    planted["subjects"][subject]["token_by_token"] = {
        **data["subjects"][subject]["token_by_token"],
        "speed_ratio": measured["speed_ratio"] / 3,
    }
    path.write_text(json.dumps(planted))
    done = CliRunner().invoke(gate, timed)
    assert done.exit_code == 1
    assert f"worse: {subject} token_by_token: speed ratio" in done.output
    # The same, stored on another kind of processor: said, and not compared.
    planted["subjects"][subject]["token_by_token"]["processor"] = "another, 1 cores"
    path.write_text(json.dumps(planted))
    done = CliRunner().invoke(gate, timed)
    assert done.exit_code == 0, done.output
    assert "stored on another, 1 cores are not compared" in done.output
