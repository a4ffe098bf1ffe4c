"""The pytest plugin, run as an engine's own tests would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

ENGINE = """
import numpy as np
from quickstart import TokenByToken, draw

class Wrong(TokenByToken):
    "The correction is drawn from the target row."
    def _block(self, batch, b):
        accepted, token = super()._block(batch, b)
        if accepted < batch.drafts.shape[2]:
            token = draw(batch.target_rows[b, 0, accepted], batch.token_uniform[b])
        return accepted, token

def right():
    return TokenByToken()

def wrong():
    return Wrong()

def missing():
    from draftproof.conformance.subject import Unavailable
    raise Unavailable("no such device")
"""

TESTS = """
import engine, pytest

def test_right(draftproof):
    report = draftproof(engine.right(), checks=["exact sweep"], budget=2)
    assert [v.verdict for v in report.verdicts] == ["lossless"]

def test_wrong(draftproof):
    draftproof(engine.wrong(), checks=["exact sweep"], budget=2)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    (folder / "engine.py").write_text(ENGINE)
    (folder / "test_engine.py").write_text(TESTS)

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-v", *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{EXAMPLES}"},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return start


@pytest.fixture(scope="module")
def done(run):
    """One run with every kind of subject, and the tests that use the fixture."""
    subjects = [f"--draftproof=engine:{name}" for name in ("right", "wrong", "missing", "nothing")]
    return run(
        *subjects,
        "--draftproof-checks=exact_sweep,drafter",
        "--draftproof-budget=1",
        "--draftproof-html=report.html",
    )


def outcome(done: subprocess.CompletedProcess[str], test: str) -> str:
    return re.search(rf"{re.escape(test)} (PASSED|FAILED|SKIPPED|ERROR)", done.stdout).group(1)


def test_every_check_of_a_subject_is_a_test(done):
    right = "draftproof::python:engine:right::token_by_token::"
    assert outcome(done, right + "exact sweep") == "PASSED"
    assert outcome(done, right + "drafter") == "SKIPPED"
    assert "python:engine:right token_by_token: lossless" in done.stdout


def test_a_biased_subject_fails_with_its_counterexample(done):
    assert done.returncode == 1
    assert outcome(done, "python:engine:wrong::token_by_token::exact sweep") == "FAILED"
    assert re.search(r"^total variation \d+/\d+$", done.stdout, re.M)
    assert '"draft_rows"' in done.stdout
    assert "again: draftproof check python:engine:wrong" in done.stdout
    assert "campaign.py" not in done.stdout  # no traceback through the suite


def test_what_cannot_run_is_skipped_and_what_does_not_exist_fails(done):
    assert outcome(done, "draftproof::python:engine:missing") == "SKIPPED"
    assert "no such device" in done.stdout
    assert outcome(done, "draftproof::python:engine:nothing") == "FAILED"


def test_the_fixture_tests_an_object(done):
    assert outcome(done, "test_engine.py::test_right") == "PASSED"
    assert outcome(done, "test_engine.py::test_wrong") == "FAILED"
    assert "quickstart token_by_token: biased: exact sweep" in done.stdout


def test_the_page_is_written(done):
    folder = Path(re.search(r"^rootdir: (\S+?),?$", done.stdout, re.M).group(1))
    assert "1 biased" in (folder / "report.html").read_text(encoding="utf-8")


def test_wrong_usage_is_said(run):
    wrong = run("--draftproof=engine:right", "--draftproof-checks=luck")
    assert wrong.returncode == 4
    assert "unknown check 'luck'" in wrong.stderr


def test_without_the_option_nothing_is_added(run):
    listed = run("--collect-only", "-qq").stdout
    assert "test_engine.py::test_right" in listed
    assert "draftproof::" not in listed
