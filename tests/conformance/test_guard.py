"""One broken subject never loses the results of the others, and gets a verdict of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from draftproof.conformance.campaign import (
    Task,
    ask_declaration,
    plan,
    read_results,
    run_campaign,
    run_task,
)
from draftproof.conformance.cli import main
from draftproof.conformance.guard import Guard
from draftproof.conformance.subject import Declaration
from draftproof.conformance.verdict import CheckResult, Verdict, exit_code, judge

SUBJECTS = '''
import os, time
import numpy as np

DECLARATION = {"name": "broken", "schemes": ["token_by_token"], "drafts": [1, 1],
               "time_limit": 1.0, "memory_limit": 1.0}

class Broken:
    declaration = DECLARATION
    def verify(self, batch):
        return self.answer(batch, np.zeros(batch.size, dtype=int))

class Hangs(Broken):
    def answer(self, batch, zeros):
        time.sleep(60)

class Crashes(Broken):
    def answer(self, batch, zeros):
        print("about to crash", flush=True)
        os.abort()

class Exits(Broken):
    def answer(self, batch, zeros):
        os._exit(3)

class Leaks(Broken):
    declaration = DECLARATION | {"time_limit": 60.0}
    kept = []
    def answer(self, batch, zeros):
        while True:
            self.kept.append(np.ones(10_000_000))
            time.sleep(0.02)

class Raises(Broken):
    def answer(self, batch, zeros):
        raise RuntimeError("no such kernel")

class WrongShape(Broken):
    def answer(self, batch, zeros):
        return {"accepted_length": zeros[:-1], "path": zeros, "next_token": zeros}

class OutOfRange(Broken):
    def answer(self, batch, zeros):
        return {"accepted_length": zeros, "path": zeros, "next_token": zeros + 99}

class NotANumber(Broken):
    def answer(self, batch, zeros):
        return {"accepted_length": zeros, "path": zeros, "next_token": zeros + float("nan")}

class Quits(Broken):
    def answer(self, batch, zeros):
        raise SystemExit(1)

class Chatty(Broken):
    def answer(self, batch, zeros):
        print("{garbage" * 100)
        raise RuntimeError("done talking")

def no_declaration():
    return object()

def bad_factory():
    raise ValueError("no licence")

class Fine:
    """Standard speculative decoding in plain numpy with a generator of its own."""
    declaration = {"name": "fine", "schemes": ["token_by_token"], "drafts": [1, 1]}
    def verify(self, batch):
        generator = np.random.default_rng(batch.seed)
        size, _, length = batch.drafts.shape
        accepted, tokens = np.zeros(size, dtype=int), np.zeros(size, dtype=int)
        for b in range(size):
            n = 0
            while n < length:
                x = batch.drafts[b, 0, n]
                p, q = batch.draft_rows[b, 0, n], batch.target_rows[b, 0, n]
                if generator.random() * p[x] >= q[x]:
                    break
                n += 1
            row = batch.target_rows[b, 0, n]
            if not np.isfinite(row).all():
                raise ValueError("target row is not finite")
            if n < length:
                row = np.maximum(row - batch.draft_rows[b, 0, n], 0)
            row = np.cumsum(row)
            accepted[b] = n
            tokens[b] = np.searchsorted(row, generator.random() * row[-1], side="right")
        return {"accepted_length": accepted, "path": accepted * 0, "next_token": tokens}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broken_subjects.py").write_text(SUBJECTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec(name: str) -> str:
    return f"python:broken_subjects:{name}"


def task(name: str, **changes: Any) -> Task:
    values: dict[str, Any] = {
        "subject": spec(name),
        "scheme": "token_by_token",
        "check": "statistical",
        "seed": 0,
        "budget": 0.5,
        "threshold": 27.0,
        "memory_limit": 1.0,
    }
    return Task(**values | changes)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("Hangs", "timeout", "no answer within 1 s"),
        ("Crashes", "crash", "signal SIGABRT"),
        ("Exits", "crash", "exit status 3"),
        ("Leaks", "memory", "memory grew to"),
        ("Raises", "raised", "RuntimeError: no such kernel"),
        ("WrongShape", "shape", "accepted_length has shape"),
        ("OutOfRange", "range", "next_token[0] is 99"),
        ("NotANumber", "nan", "next_token[0] is nan"),
        ("Quits", "raised", "SystemExit"),
        ("Chatty", "raised", "done talking"),
    ],
)
def test_every_way_to_break_has_its_message(
    folder: Path, name: str, kind: str, message: str
) -> None:
    changes = {"memory_limit": 0.6} if name == "Leaks" else {}
    result = CheckResult.from_json(run_task(task(name, **changes)))
    assert result.status == "error"
    assert result.details["kind"] == kind, result.message
    assert message in result.message


def test_a_child_that_died_between_calls_is_replaced() -> None:
    guard = Guard({})
    first = guard.ask("declaration", "reference", 8.0)
    assert guard._process is not None
    guard._process.kill()
    guard._process.wait()
    assert guard.ask("declaration", "reference", 8.0) == first
    guard.stop()


def test_a_crash_keeps_the_last_words(folder: Path) -> None:
    result = run_task(task("Crashes"))
    assert "about to crash" in result["message"]
    assert "about to crash" in result["details"]["output"]


def test_the_others_still_finish(folder: Path) -> None:
    tasks = [task("Hangs"), task("Crashes"), task("Fine"), task("Raises")]
    found = {t.subject: r.status for t, r in run_campaign(tasks, jobs=2)}
    assert found == {
        spec("Hangs"): "error",
        spec("Crashes"): "error",
        spec("Fine"): "passed",
        spec("Raises"): "error",
    }


@pytest.mark.parametrize(
    ("subject", "word", "message"),
    [
        (spec("no_declaration"), "error", "no attribute `declaration`"),
        (spec("bad_factory"), "error", "ValueError: no licence"),
        (spec("missing"), "error", "has no function 'missing'"),
        ("python:no_such_module_here:f", "error", "cannot import no_such_module_here"),
    ],
)
def test_subjects_that_cannot_be_loaded(
    folder: Path, subject: str, word: str, message: str
) -> None:
    asked = ask_declaration(subject)
    assert asked.verdict is not None
    assert asked.verdict.verdict == word
    assert message in asked.verdict.reason


def test_a_run_goes_on_from_its_results_and_drops_a_torn_line(folder: Path) -> None:
    results = folder / "results.jsonl"
    tasks = [task("Fine", seed=seed, budget=0.1) for seed in range(3)]
    first = run_campaign(tasks, jobs=1, results=results)
    next(first)
    first.close()  # interrupted after one result
    assert len(read_results(results)) >= 1
    kept = results.read_bytes().splitlines(keepends=True)[0]
    results.write_bytes(kept + b'{"key": "torn')
    assert len(read_results(results)) == 1
    assert results.read_bytes() == kept
    ran = []
    done = list(
        run_campaign(tasks, jobs=1, results=results, progress=lambda *a: ran.append(a[2].seed))
    )
    assert len(done) == len(ran) == 3
    assert results.read_bytes().startswith(kept)
    assert len(results.read_bytes().splitlines()) == 3
    before = results.read_bytes()
    assert len(list(run_campaign(tasks, results=results))) == 3  # nothing is run again
    assert results.read_bytes() == before


def test_a_foreign_line_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text('{"something": 1}\n{"key": "a", "result": {}}\n')
    with pytest.raises(ValueError, match="line 1 is not a result"):
        read_results(results)


@pytest.mark.parametrize("backend", ["sequential", "loky"])
def test_backends_give_the_same_results(folder: Path, backend: str) -> None:
    tasks = [task("Fine", check="edges", budget=0.1), task("Raises", budget=0.1)]
    found = {t.subject: r.status for t, r in run_campaign(tasks, jobs=2, backend=backend)}
    assert found == {spec("Fine"): "passed", spec("Raises"): "error"}


def test_a_plan_shares_the_time() -> None:
    declaration = Declaration.parse({"name": "x", "schemes": ["block"]})
    tasks = plan("x", declaration, ["block"], ["exact sweep", "edges"], seeds=[1, 2], budget=3.0)
    assert [t.budget for t in tasks] == [2.0, 1.0, 2.0, 1.0]
    assert len({t.key for t in tasks}) == 4


def result(status: Any, check: str = "exact sweep", **values: Any) -> CheckResult:
    return CheckResult(check, status, **values)


def test_verdicts_follow_from_checks() -> None:
    def word(*checks: CheckResult, lossless: bool = True) -> str:
        return judge("s", "block", checks, lossless=lossless).verdict

    assert word(result("passed"), result("skipped")) == "lossless"
    assert word(result("passed"), result("failed"), result("error")) == "biased"
    assert word(result("passed"), result("error")) == "error"
    assert word(result("skipped")) == "skipped"
    assert word() == "skipped"
    assert word(result("measured", "acceptance"), result("passed")) == "lossless"
    assert word(result("measured", total_variation=0.1), lossless=False) == "lossy by design"


def test_exit_codes() -> None:
    def verdicts(*words: Any) -> list[Verdict]:
        return [Verdict("s", "block", word) for word in words]

    assert exit_code(verdicts("lossless", "skipped", "lossy by design")) == 0
    assert exit_code(verdicts("lossless", "biased", "error")) == 1
    assert exit_code(verdicts("lossless", "error")) == 2


def command(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "draftproof.conformance.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "Missing argument"),
        (["check", "nothing"], "unknown subject 'nothing'"),
        (["check", "python:"], "needs an argument: python:package.module:factory"),
        (["check", "reference", "--scheme", "nope"], "unknown scheme 'nope'"),
        (["check", "reference", "--checks", "nope"], "unknown check 'nope'"),
        (["check", "reference", "--budget", "x"], "'x' is not a valid float"),
        (["check", "reference", "--instance", "none.json"], "none.json"),
        (["check", "reference", "--json", "no/where.json"], "lies in no existing folder"),
        (["check", "control:nope"], "unknown scheme 'nope'"),
        (["exam", "--fault", "nope"], "unknown fault 'nope'"),
        (["nope"], "No such command 'nope'"),
    ],
)
def test_wrong_usage_exits_2_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert isinstance(done.exception, SystemExit)  # not a traceback


def test_a_missing_extra_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("draftproof.conformance.cli.importlib.import_module", missing)
    done = CliRunner().invoke(main, ["generate", "--prompt", "x"])
    assert done.exit_code == 2
    assert "needs torch" in done.output
    assert "pip install 'draftproof[fast]'" in done.output


def test_the_command_line_end_to_end(folder: Path) -> None:
    done = command(
        "check", spec("Raises"), spec("Fine"), "mutant:residual-is-target", "--budget", "2",
        "--checks", "exact_sweep,statistical", "--json", "out.json", "--jobs", "2",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((folder / "out.json").read_text())
    words = {v["subject"]: v["verdict"] for v in report["verdicts"]}
    assert words == {
        spec("Raises"): "error",
        spec("Fine"): "lossless",
        "mutant:residual-is-target": "biased",
    }
    assert report["format"] == 1
    assert all(len(line) <= 100 for line in done.stdout.splitlines() if "│" in line or "─" in line)
    found = next(v for v in report["verdicts"] if v["verdict"] == "biased")["counterexample"]
    (folder / "found.json").write_text(json.dumps(found["instance"]))
    again = command(
        "check", "mutant:residual-is-target", "--instance", "found.json", "--checks",
        "exact_sweep", "--json", "again.json", folder=folder,
    )  # fmt: skip
    assert again.returncode == 1
    verdict = json.loads((folder / "again.json").read_text())["verdicts"][0]
    assert verdict["counterexample"]["total_variation"] == found["total_variation"]
    assert verdict["counterexample"]["subject_law"] == found["subject_law"]
