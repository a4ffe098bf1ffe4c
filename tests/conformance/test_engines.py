"""Engines: what is missing is skipped with a reason; files run behind stubs that never answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from draftproof.conformance import engines
from draftproof.conformance.adapters import KNOWN, environment, load, unpacked
from draftproof.conformance.adapters.sglang import merged, single_precision
from draftproof.conformance.campaign import check_object
from draftproof.conformance.checks import exact_sweep
from draftproof.conformance.subject import Batch, Unavailable, call

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")

RESEARCH = (
    "eagle", "gpt_fast", "layerskip", "lucidrains", "recurrent_beams", "recurrent_drafter",
    "sequoia", "vllm_085", "vllm_085_typical", "vllm_ascend_block",
)  # fmt: skip


@pytest.fixture
def bare(monkeypatch):
    """No engine is unpacked anywhere."""
    for name in list(os.environ):
        if name.startswith("DRAFTPROOF_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("vllm", "set DRAFTPROOF_VLLM"),
        ("vllm:v1", "set DRAFTPROOF_VLLM"),
        ("sglang", "set DRAFTPROOF_SGLANG"),
        ("sglang:tree", "no GPU|not installed|no CUDA"),
        ("flashinfer", "not installed|no GPU"),
    ],
)
@needs_torch
def test_a_missing_engine_is_unavailable_with_a_reason(bare, subject, reason):
    with pytest.raises(Unavailable, match=reason):
        load(subject)


@pytest.mark.parametrize("name", RESEARCH)
@needs_torch
def test_a_missing_checkout_is_unavailable_with_a_reason(bare, name):
    with pytest.raises(Unavailable, match=r"set DRAFTPROOF_|not installed"):
        load(f"python:draftproof.conformance.adapters.research:{name}")


@pytest.mark.parametrize("subject", ["vllm:v2", "sglang:forest", "flashinfer:tree"])
def test_an_unknown_kind_of_an_engine_is_refused(subject):
    with pytest.raises(ValueError, match="known: "):
        load(subject)


def test_a_path_that_is_no_folder_is_said(monkeypatch):
    monkeypatch.setenv("DRAFTPROOF_VLLM", "/not/there")
    with pytest.raises(Unavailable, match="'/not/there', which is not a folder"):
        unpacked.engine_path("DRAFTPROOF_VLLM", "vLLM")


def test_triton_engines_ask_for_the_interpreter_before_python_starts():
    expected = {} if Path("/dev/nvidia0").exists() else {"TRITON_INTERPRET": "1"}
    assert environment("vllm") == environment("sglang:chain") == expected
    assert environment("flashinfer") == {}
    assert {"vllm", "sglang", "flashinfer", "program"} <= set(KNOWN)


def test_the_skip_is_a_verdict_of_its_own_on_the_command_line(bare):
    done = subprocess.run(
        [sys.executable, "-m", "draftproof.conformance.cli", "check", "vllm", "flashinfer"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert "2 skipped" in done.stdout
    assert "lossless" not in done.stdout


# ---- files behind stubs --------------------------------------------------------------------------

ENGINE = {
    "engine/__init__.py": "raise RuntimeError('the package itself is never executed')",
    "engine/rules.py": """
from __future__ import annotations
import engine.ops as ops
from engine.base import Base, register
from engine.config import LIMIT
from engine.kernels import fused
from engine.limits import half

@register("rules", priority=3)
class Rules(Base):
    def count(self, n: ops.Tensor | None) -> int:
        return half(min(n, LIMIT))

@register
def plain(n):
    return n + 1

def compiled(n):
    return fused(n)

def asks():
    return bool(ops.ENABLED)
""",
    "engine/limits.py": "def half(n):\n    return n // 2\n",
}


@pytest.fixture
def engine(tmp_path):
    for name, text in ENGINE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return unpacked.load(
        tmp_path,
        {"engine.limits": "engine/limits.py", "engine.rules": "engine/rules.py"},
        stubbed={"engine"},
        given={"engine.config": {"LIMIT": 10}},
    )["engine.rules"]


def test_a_file_runs_without_its_package(engine):
    assert engine.Rules().count(7) == 3
    assert engine.Rules().count(100) == 5  # the given LIMIT
    assert engine.plain(1) == 2  # a decorator that is a stub hands back its function


def test_a_stub_that_is_reached_is_an_error_not_an_answer(engine):
    with pytest.raises(unpacked.StubReachedError, match=r"engine\.kernels\.fused was called"):
        engine.compiled(1)
    with pytest.raises(unpacked.StubReachedError, match=r"engine\.ops\.ENABLED was tested"):
        engine.asks()


def test_nothing_of_the_engine_stays_in_the_interpreter(engine):
    assert not [name for name in sys.modules if name.partition(".")[0] == "engine"]
    assert not [f for f in sys.meta_path if type(f).__module__ == unpacked.__name__]


def test_a_file_of_another_version_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="another version"):
        unpacked.load(tmp_path, {"engine.gone": "engine/gone.py"}, stubbed={"engine"})


# ---- conversions ---------------------------------------------------------------------------------


def test_uniforms_are_rounded_down_and_stay_below_1():
    given = np.array([0, 0.25, 1 / 3, 0.1, 1 - 2.0**-53, 2.0**-60])
    rounded = single_precision(given)
    assert rounded.dtype == np.float32
    assert (rounded <= given).all()
    assert (np.nextafter(rounded, np.float32(1)) > given).all()
    assert rounded[-2] == np.float32(1 - 2.0**-24)


def test_paths_are_merged_into_a_tree_of_distinct_siblings():
    paths = np.array([[1, 2], [1, 2], [1, 0], [3, -1]])
    assert merged(paths) == [(), (1,), (3,), (1, 2), (1, 0)]


@needs_torch
def test_the_inverse_distribution_function_never_draws_weight_0():
    import torch
    from draftproof.conformance.adapters.research import _driven, _inverse

    weights = torch.tensor([0.0, 1.0, 0.0, 3.0, 0.0])
    uniforms = [0.0, 0.249, 0.25, 1 - 2.0**-53]
    assert [int(_inverse(weights, u)) for u in uniforms] == [1, 1, 3, 3]
    for bad in ([0.0, 0.0], [1.0, -1.0], [float("nan"), 1.0], [float("inf"), 1.0]):
        with pytest.raises(RuntimeError, match="invalid multinomial"):
            _inverse(torch.tensor(bad), 0.5)
    with _driven([0.125, 0.5, 0.75], 0.25):
        assert torch.rand(2).tolist() == [0.125, 0.5]
        assert torch.zeros(1).uniform_(0, 1).tolist() == [0.75]
        assert torch.multinomial(weights, 1).tolist() == [3]
        assert weights.multinomial(num_samples=1, replacement=True).tolist() == [3]
    assert len(set(torch.rand(50).tolist())) > 1


class Product:
    """Accepts the longest prefix whose product of ratios reaches the product of its uniforms, as
    one public port did: the sets of uniforms that it accepts are no boxes."""

    declaration: ClassVar = {
        "name": "product of uniforms", "schemes": ["block"], "uniforms": True,
        "drafts": [1, 1], "length": [2, 3],
    }  # fmt: skip

    def verify_one(self, block):
        drafts = block.drafts[0]
        places = np.arange(len(drafts))
        p, q = block.draft_rows[0], block.target_rows[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.minimum(q[places, drafts] / p[places, drafts], 1)
        passes = np.cumprod(ratio) >= np.cumprod(block.accept_uniforms[0])
        accepted = int(np.flatnonzero(passes).max() + 1) if passes.any() else 0
        weights = q[accepted]
        if accepted < len(drafts):
            weights = np.maximum(q[accepted] - p[accepted], 0)
            weights = weights if weights.sum() > 0 else q[accepted]
        reached = np.cumsum(weights)
        token = int((reached <= block.token_uniform * reached[-1]).sum())
        return {"accepted_length": accepted, "path": 0, "next_token": token}


def test_a_rule_whose_law_cannot_be_rebuilt_is_never_called_lossless(monkeypatch):
    monkeypatch.setattr(exact_sweep, "_PATIENCE", 4.0)
    report = check_object(Product(), checks=["exact sweep"], budget=1)
    assert report.verdicts[0].verdict != "lossless"


def test_sampling_finds_the_product_of_uniforms():
    report = check_object(Product(), checks=["statistical"], budget=6)
    assert report.verdicts[0].verdict == "biased"


# ---- the real thing, where it is unpacked --------------------------------------------------------


def real(variable: str, subject: str):
    return pytest.param(
        subject,
        marks=pytest.mark.skipif(not os.environ.get(variable), reason=f"needs {variable}"),
    )


@pytest.mark.parametrize(
    "subject",
    [
        real("DRAFTPROOF_VLLM", "vllm"),
        real("DRAFTPROOF_VLLM", "vllm:v1"),
        real("DRAFTPROOF_SGLANG", "sglang"),
        real("DRAFTPROOF_SGLANG", "sglang:blockwise-torch"),
    ],
)
@needs_torch
def test_an_unpacked_engine_decides_what_is_certain(subject, monkeypatch):
    """A block that is accepted with certainty, and one that is rejected with certainty."""
    if os.environ.get("TRITON_INTERPRET") != "1" and environment(subject):
        pytest.skip("TRITON_INTERPRET=1 must be set before Python starts")
    verifier = load(subject)
    one_hot = np.eye(3)
    draft = np.stack([one_hot[[0, 1]], one_hot[[0, 1]]])[:, None]
    target = np.stack([one_hot[[0, 1, 2]], one_hot[[1, 1, 2]]])[:, None]
    uniforms = {}
    if verifier.declaration.get("uniforms"):
        uniforms = {
            "accept_uniforms": np.full((2, 1, 2), 0.5),
            "select_uniforms": np.full((2, 1), 0.5),
            "token_uniform": np.full(2, 0.5),
        }
    for scheme in verifier.declaration["schemes"]:
        batch = Batch(
            scheme, np.array([[[0, 1]], [[0, 1]]]), draft, target, target[:, 0, 0],
            seed=3, seeds=np.array([5, 6]), position=np.zeros(2, np.int64), **uniforms,
        )  # fmt: skip
        result = call(verifier, batch)
        assert result.accepted_length.tolist() == [2, 0]
        assert result.next_token.tolist() == [2, 1]


# ---- the page ------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_what_the_run_found():
    data = json.loads((DOCS / "engines.json").read_text(encoding="utf-8"))
    page = (DOCS / "engines.md").read_text(encoding="utf-8")
    assert engines.with_table(page, engines.page_table(data)) == page
    data["entries"][0]["verdict"] = "biased"
    assert engines.with_table(page, engines.page_table(data)) != page
    with pytest.raises(ValueError, match="no <!-- engines:begin -->"):
        engines.with_table("nothing", "table")


def test_every_adapter_of_an_engine_is_in_the_run():
    data = json.loads((DOCS / "engines.json").read_text(encoding="utf-8"))
    assert {entry["subject"] for entry in data["entries"]} == {e.subject for e in engines.ENGINES}
    run = {e.subject.rpartition(":")[2] for e in engines.ENGINES if "research" in e.subject}
    assert run == set(RESEARCH)


def test_a_run_without_engines_skips_them_and_goes_on_where_it_stopped(bare, tmp_path):
    file = tmp_path / "found.json"
    arguments = ["--root", str(tmp_path), "--json", str(file), "--only", "flashinfer", "--only"]
    done = CliRunner().invoke(engines.main, [*arguments, "gpt_fast"])
    assert done.exit_code == 0, done.output
    found = json.loads(file.read_text())["entries"]
    assert [entry["verdict"] for entry in found] == ["skipped", "skipped"]
    assert all(entry["reason"] for entry in found)


def test_the_version_is_read_from_what_is_unpacked(tmp_path):
    assert unpacked.version_of(tmp_path, "abc1234") == "abc1234 (assumed)"
    (tmp_path / "vllm-0.33.0.dist-info").mkdir()
    assert unpacked.version_of(tmp_path, "0.1") == "0.33.0"


def test_emitted_tokens_of_sequoia_are_told_as_they_are():
    """Where it is unpacked: the bonus overwrites the accepted second child, on no draft at all."""
    if not os.environ.get("DRAFTPROOF_SEQUOIA"):
        pytest.skip("needs DRAFTPROOF_SEQUOIA")
    subject = load("python:draftproof.conformance.adapters.research:sequoia")
    draft = np.tile([0.5, 0.4, 0.1], (1, 2, 1, 1))
    target = np.zeros((1, 2, 2, 3))
    target[:, :, 0] = [0.0, 1.0, 0.0]
    target[:, :, 1] = [0.0, 0.0, 1.0]
    batch = Batch(
        "recursive_rejection", np.array([[[0], [1]]]), draft, target, target[:, 0, 0],
        accept_uniforms=np.full((1, 2, 1), 0.5), select_uniforms=np.full((1, 2), 0.5),
        token_uniform=np.full(1, 0.5),
    )  # fmt: skip
    result = call(subject, batch)
    assert (result.accepted_length.tolist(), result.path.tolist()) == ([1], [1])
    assert result.tokens is not None
    assert result.tokens.tolist() == [[2, 2]]
