"""Campaigns on a local Dask cluster: the same results, a lost worker, Ctrl-C and a torn line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from draftproof.conformance.campaign import Task, read_results, run_campaign

distributed = pytest.importorskip("distributed")

SUBJECT = '''
import time
import numpy as np

class Steady:
    """Right for one-hot rows, and takes its time."""
    declaration = {"name": "steady", "schemes": ["token_by_token"], "drafts": [1, 1],
                   "length": [1, 1], "uniforms": True}

    def verify(self, batch):
        time.sleep(0.05)
        p, q = batch.draft_rows[:, 0, 0], batch.target_rows[:, 0, 0]
        every, token = np.arange(batch.size), batch.drafts[:, 0, 0]
        accepted = batch.accept_uniforms[:, 0, 0] * p[every, token] < q[every, token]
        residual = np.maximum(q - p, 0)
        residual = np.where(residual.sum(1, keepdims=True) > 0, residual, q)
        weights = np.where(accepted[:, None], batch.target_rows[:, 0, 1], residual)
        reached = weights.cumsum(1)
        drawn = (reached <= batch.token_uniform[:, None] * reached[:, -1:]).sum(1)
        return {"accepted_length": accepted.astype(int), "path": 0 * token, "next_token": drawn}

def factory():
    return Steady()
'''
SPEC = "python:steady_subject:factory"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "steady_subject.py").write_text(SUBJECT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # which the workers inherit
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tasks_of(count: int) -> list[Task]:
    return [Task(SPEC, "token_by_token", "metamorphic", seed, 0.3, 20.0) for seed in range(count)]


def test_a_local_cluster_gives_the_results_of_this_machine(folder: Path) -> None:
    def found(backend: str) -> dict[int, tuple[str, str]]:
        results = run_campaign(tasks_of(3), jobs=2, backend=backend)
        return {task.seed: (result.status, result.message) for task, result in results}

    cluster = found("dask")
    assert cluster == found("threading")
    assert {status for status, _ in cluster.values()} == {"passed"}


def test_a_lost_worker_loses_no_result(folder: Path) -> None:
    results = folder / "results.jsonl"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        running = run_campaign(
            tasks_of(6), jobs=2, backend=f"dask:{cluster.scheduler_address}", results=results
        )
        task, result = next(running)
        lost = next(iter(cluster.workers.values())).pid
        os.kill(lost, signal.SIGKILL)
        done = {task.seed: result.status, **{t.seed: r.status for t, r in running}}
    assert done == dict.fromkeys(range(6), "passed")
    assert len(read_results(results)) == 6


def test_ctrl_c_and_a_torn_line_and_on_from_there(folder: Path) -> None:
    """The command itself: interrupted on the cluster, its last line torn, then finished."""
    results = folder / "results.jsonl"
    command = [
        sys.executable, "-m", "draftproof.conformance.cli", "check", SPEC, "--checks",
        "metamorphic", "--repeat", "8", "--budget", "0.3", "--backend", "dask", "--jobs", "2",
        "--results", str(results),
    ]  # fmt: skip
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        if results.exists() and results.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert f"go on with --results {results}" in " ".join(said.split())
    kept = read_results(results)
    assert 2 <= len(kept) < 8
    with results.open("ab") as file:
        file.write(results.read_bytes().splitlines()[0][:40])  # as a machine that lost its power
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    again = read_results(results)
    assert len(again) == 8
    assert {key: again[key] for key in kept} == kept  # nothing is run twice
