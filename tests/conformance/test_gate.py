"""Gate: the baseline holds for the same code, and every way to be worse fails it."""

from __future__ import annotations

import copy
import json
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
        ({"accepted_length": 1.995, "speed_ratio": 1.45}, ""),
        ({"accepted_length": 2.5, "speed_ratio": 0.1}, ""),
        ({"verdict": "biased", "reason": "x"}, "verdict: lossless → biased"),
        ({"verdict": "error"}, "verdict: lossless → error"),
        ({"verdict": "skipped"}, "verdict: lossless → skipped"),
        ({"accepted_length": 1.98}, "accepted length: 2.0000 → 1.9800"),
        ({"accepted_length": None}, "accepted length: no longer measured"),
        ({"speed_ratio": 1.51}, "speed ratio: 1.00 → 1.51"),
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


def test_the_accepted_length_is_the_same_every_time(quickstart):
    subject = quickstart.factory()
    first = gating.accepted_length(subject, declared(subject), "token_by_token", blocks=300)
    assert first == gating.accepted_length(subject, declared(subject), "token_by_token", blocks=300)
    assert 0 < first[0] < 4


def test_a_slower_subject_has_a_higher_ratio(quickstart):
    class Slow(quickstart.TokenByToken):
        def verify(self, batch):
            time.sleep(0.2)
            return super().verify(batch)

    ratios = [
        gating.speed_ratio(s, declared(s), "token_by_token", vocab=512)[0]
        for s in (quickstart.factory(), Slow())
    ]
    assert ratios[1] > (1 + gating.SPEED_RISE) * ratios[0]


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
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    subject = "python:quickstart:factory"
    path = tmp_path / "baseline.json"
    common = ["--baseline", str(path), "--budget", "2", "--no-speed", "--scheme", "token_by_token"]
    done = CliRunner().invoke(gate, [*common, "--update", "--subject", subject])
    assert done.exit_code == 0, done.output
    data = json.loads(path.read_text())
    entry = data["subjects"][subject]["token_by_token"]
    assert entry["verdict"] == "lossless"
    assert CliRunner().invoke(gate, common).exit_code == 0
    planted = copy.deepcopy(data)
    planted["subjects"][subject]["token_by_token"]["accepted_length"] *= 1.02
    path.write_text(json.dumps(planted))
    done = CliRunner().invoke(gate, common)
    assert done.exit_code == 1
    assert f"worse: {subject} token_by_token: accepted length" in done.output
