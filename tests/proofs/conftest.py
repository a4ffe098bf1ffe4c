"""The modules of proofs/ are scripts beside the theories, not a package: imported by path."""

import fcntl
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
REQUIRE_COQ = os.environ.get("DRAFTPROOF_REQUIRE_COQ") == "1"


def _script(name: str) -> ModuleType:
    sys.path.insert(0, str(PROOFS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(PROOFS))


@pytest.fixture(scope="session")
def proofs() -> Path:
    return PROOFS


@pytest.fixture(scope="session")
def statements() -> ModuleType:
    return _script("statements")


@pytest.fixture(scope="session")
def compare_trees() -> ModuleType:
    _script("decision_tree")
    return _script("compare_trees")


@pytest.fixture(scope="session")
def built() -> Path:
    """proofs/ with the theories compiled and the oracle extracted; skips where Coq is absent.

    DRAFTPROOF_REQUIRE_COQ=1 (set in CI) turns the skip into a failure.
    """
    found = subprocess.run(
        ["sh", str(PROOFS / "check_tools.sh")], capture_output=True, text=True, check=False
    )
    if found.returncode or not shutil.which("make"):
        message = found.stderr.strip() or "make is missing"
        if REQUIRE_COQ:
            pytest.fail(message)
        pytest.skip(message)
    (PROOFS / "build").mkdir(exist_ok=True)
    with (PROOFS / "build" / "lock").open("w") as lock:  # one build at a time, also under xdist
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-C", str(PROOFS), "oracle", f"PYTHON={sys.executable}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return PROOFS
