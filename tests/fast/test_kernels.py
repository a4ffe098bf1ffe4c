"""The Triton kernels without a GPU: in the interpreter, and compiled ahead of time.

Both need a process of their own: the interpreter is chosen before Python starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

HERE = Path(__file__).parent


def _run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=HERE,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_kernels_have_the_bits_of_the_torch_path_in_the_interpreter() -> None:
    done = _run(["interpret_kernels.py"], TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) > 50
    assert all(line.startswith("same bits") for line in lines)


def test_a_fused_multiply_add_is_told_apart_in_the_interpreter() -> None:
    """The comparison sees a single rounding: with the one planted it must fail."""
    done = _run(["interpret_kernels.py", "--plant"], TRITON_INTERPRET="1")
    assert done.returncode == 1
    assert "DIFFERENT owed mass" in done.stdout


def test_kernels_compile_without_spills(tmp_path: Path) -> None:
    report = tmp_path / "kernels.json"
    done = _run(
        ["-m", "draftproof.fast.kernels.compile", "--json", str(report)],
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    table = json.loads(report.read_text())["kernels"]
    assert {entry["architecture"] for entry in table} == {"sm_80", "sm_90", "sm_100"}
    assert len({entry["kernel"] for entry in table}) == 14
    for entry in table:
        assert not entry["spills"], entry
        assert 0 < entry["registers"] <= 128, entry
        assert entry["shared_bytes"] <= 48 * 1024, entry
        assert entry["fused_multiply_add"] == 0, entry
        assert entry["flushed_to_zero"] == 0, entry


def test_a_spill_fails_the_gate(tmp_path: Path) -> None:
    """A tile far too large for the registers is reported as spilling, and the command fails."""
    script = (
        "import sys; from draftproof.fast.kernels import compile as c\n"
        "small = next(c.variants())\n"
        "c.variants = lambda: [(small[0], small[1], small[2] | {'ROWS': 32})]\n"
        "c.ARCHITECTURES, c.POINTERS = (90,), {'fp32': '*fp32'}\n"
        "sys.exit(c.main([]))"
    )
    done = _run(["-c", script], TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 1, done.stdout + done.stderr[-2000:]
    assert "yes" in done.stdout
