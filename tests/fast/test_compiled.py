"""The compiled passes on the CPU: the bits of the torch path, from any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

HERE = Path(__file__).parent


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "interpret_kernels.py", *arguments],
        cwd=HERE,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.parametrize("threads", ["1", "3"])
def test_compiled_passes_have_the_bits_of_the_torch_path(threads: str) -> None:
    done = _run(OMP_NUM_THREADS=threads)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith("same bits")]) > 40
    assert all(line.startswith(("same bits", "torch alone")) for line in lines)


def test_a_fused_multiply_add_is_told_apart() -> None:
    done = _run("--plant")
    assert done.returncode == 1
    assert "DIFFERENT owed mass" in done.stdout
