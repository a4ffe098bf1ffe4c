"""The benchmark: its inputs and measures are what they say, its pages say what the report says."""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from draftproof.fast import Uniforms, validate
from draftproof.fast.bench import __main__ as command
from draftproof.fast.bench import aims as judged
from draftproof.fast.bench import cells, measure, page, run
from draftproof.fast.bench.measure import Runner, Size, timed

CPU = torch.device("cpu")


def test_the_full_grid_is_the_one_of_the_issue() -> None:
    sizes = run.grid(True)
    assert len(sizes) == len(set(sizes)) == 2 * 4 * 3 * 3
    assert {size.vocab for size in sizes} == {32_000, 151_936}
    assert {size.blocks for size in sizes} == {1, 16, 64, 256}
    assert {size.length for size in sizes} == {4, 8, 16}
    assert {size.drafts for size in sizes} == {1, 3, 8}
    assert run.AIM in sizes
    assert run.AIM in run.grid(False)


def test_copying_has_a_bandwidth() -> None:
    assert 1e8 < measure.copy_bandwidth(CPU) < 1e13


def test_inputs_are_valid_and_share_no_rows() -> None:
    size = Size(500, 6, 3, 3)
    batch = measure.inputs(size, CPU)
    validate(batch, Uniforms.from_generator(torch.Generator().manual_seed(0), batch))
    used = batch.nodes.unique()
    assert len(used) > 6 * 3  # most prefixes are distinct
    for b in range(6):
        mine, others = batch.nodes[b].unique(), batch.nodes[torch.arange(6) != b].unique()
        assert not set(mine.tolist()) & set(others.tolist())
    assert batch.draft_rows.numel() * 4 * 2 == size.bytes
    distance = (batch.draft_rows - batch.target_rows).abs().sum(1) / 2
    assert 0.05 < float(distance[used].mean()) < 0.5  # drafts are good, not perfect


def test_the_drafts_follow_the_draft_rows() -> None:
    """A token of the draft law is as likely as the row says: its mean probability is Σ p²."""
    batch = measure.inputs(Size(50, 256, 4, 3), CPU)
    node = batch.nodes[:, :, :4]
    at = batch.draft_rows[node].gather(3, batch.tokens[..., None])[..., 0]
    expected = batch.draft_rows[node].square().sum(-1)
    assert float(at.mean()) == pytest.approx(float(expected.mean()), rel=0.1)


@pytest.mark.parametrize(("length", "fewest", "most"), [(0.0, 5, 5), (0.02, 2, 4), (0.3, 1, 1)])
def test_timed_calls_fit_into_the_time(length: float, fewest: int, most: int) -> None:
    times = timed(lambda: time.sleep(length), CPU, 5, 0.1)
    assert fewest <= len(times) <= most


def test_extra_memory_sees_temporaries() -> None:
    """Those of a call that copies the rows, and hardly any of one that does not."""
    size = Size(40_000, 8, 4, 1)
    batch = measure.inputs(size, CPU)

    class Copies(Runner):
        def __call__(self) -> None:
            self.held = batch.draft_rows.clone()
            super().__call__()

    measure.instrumented(size, Runner("block", batch), batch)  # loads code, which is memory too
    frugal = measure.instrumented(size, Runner("block", batch), batch)["extra_bytes"]
    wasteful = measure.instrumented(size, Copies("block", batch), batch)["extra_bytes"]
    assert frugal < 0.3 * size.bytes
    assert wasteful >= size.bytes / 2


def test_bytes_to_read_are_those_of_the_rows_that_decide() -> None:
    """Token by token reads one target row a block, and a draft row unless it accepted all."""
    size = Size(3000, 32, 3, 1)
    batch = measure.inputs(size, CPU)
    call = Runner("token_by_token", batch)
    seen = measure.instrumented(size, call, batch)
    rejected = int((call.accepted < 3).sum())
    assert 0 < rejected < 32
    assert seen["bytes_to_read"] == 4 * 3000 * (32 + rejected)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[Size]:
    """A benchmark of two cells over tiny vocabularies, one of them the size of the aims."""
    sizes = [Size(900, 2, 2, 3), Size(500, 2, 3, 1)]
    monkeypatch.setattr(run, "grid", lambda full: list(sizes))
    axes = {"vocab": [Size(v, 2, 2, 3) for v in (100, 200)]}
    monkeypatch.setattr(run, "scaling", lambda: axes)
    monkeypatch.setattr(run, "WARM_VOCABS", (100,))
    monkeypatch.setattr(measure, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(run, "AIM", sizes[1])
    for module in (judged, page, cells):
        monkeypatch.setattr(module, "AIM", sizes[1])
    return sizes


@pytest.fixture
def few_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MULTIPLE", ("spectr", "tree_match"))
    monkeypatch.setattr(page, "MULTIPLE", ("spectr", "tree_match"))


def small_run(
    partial: Path, limit: int = 2**30, done: Any = None, device: torch.device = CPU
) -> Any:
    return run.run(device, False, 3, 3.0, limit, partial, done)


def test_a_run_measures_every_scheme_beside_its_baseline(small: list[Size], tmp_path: Path) -> None:
    report = small_run(tmp_path / "partial.json")
    several, single = report["cells"]
    assert [line["scheme"] for line in several["lines"]] == list(run.MULTIPLE)
    assert [line["scheme"] for line in single["lines"]] == list(run.SINGLE)
    for line in (*several["lines"], *single["lines"]):
        assert ("straightforward" in line) == (line["scheme"] not in run.HOST_PLANNED)
        assert line["median_ms"] > 0
        assert line["calls"] >= 1
    assert {"row_pass", "transformers", "block_from_logits"} <= single.keys()
    text = page.page(report, "cpu") + page.grid_page(report, "cpu")
    for scheme in (*run.SINGLE, *run.MULTIPLE):
        assert f"| {scheme} |" in text
    assert json.loads(page.compact(report))["format"] == 2


def test_engines_are_called_where_they_are_importable(
    small: list[Size], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stand-ins for the packages: one checks its arguments, one fails, one is not there."""
    size, seen = small[1], []

    def chain(draft: torch.Tensor, tokens: torch.Tensor, target: torch.Tensor) -> None:
        seen.append(1)
        assert draft.shape == (size.blocks, size.length, size.vocab)
        assert target.shape == (size.blocks, size.length + 1, size.vocab)
        assert tokens.shape == (size.blocks, size.length)
        assert tokens.dtype == torch.int32
        assert torch.allclose(draft.sum(-1), torch.ones(()))

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no GPU\nat all")

    for path, function in (
        ("flashinfer.sampling", chain),
        ("vllm.v1.sample.rejection_sampler", broken),
    ):
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            module = ModuleType(".".join(parts[:end]))
            monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(
            module,
            {chain: "chain_speculative_sampling"}.get(function, "rejection_sample"),
            function,
        )
    batch = measure.inputs(size, CPU)
    times = run._engines(batch, CPU, 3, 1.0)
    assert times.keys() == {"vllm", "flashinfer"}
    assert times["vllm"] == {"error": "RuntimeError: no GPU"}
    assert times["flashinfer"]["calls"] == 3
    assert len(seen) == 4
    report = made_up("cpu")
    report["cells"][0]["engines"] = times
    table = page.page(report, "cpu").split("## Beside the engines")[1]
    assert "| vllm | flashinfer |" in table
    assert "| RuntimeError: no GPU |" in table


@pytest.mark.gpu
@pytest.mark.usefixtures("small")
def test_a_run_on_a_gpu_has_graphs_and_its_aims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "grid", lambda full: [Size(40_000, 64, 2, 1), Size(40_000, 64, 2, 3)])
    report = small_run(tmp_path / "partial.json", 2**33, device=torch.device("cuda"))
    for cell in report["cells"]:
        for line in cell["lines"]:
            assert line["scheme"] in run.HOST_PLANNED or "median_ms" in line["graph"]
    assert len(judged.aims(report)) == 3
    assert page.page(report, "card")


@pytest.mark.usefixtures("few_schemes")
def test_what_does_not_fit_is_left_out_with_its_size(small: list[Size], tmp_path: Path) -> None:
    report = small_run(tmp_path / "partial.json", limit=int(1.2 * small[1].bytes))
    assert [entry["bytes"] for entry in report["left_out"]] == [small[0].bytes]
    skipped = report["cells"][0]["left_out"]
    assert {entry["scheme"] for entry in skipped} >= set(run.SINGLE)
    assert "GiB may be used" in page.grid_page(report, "cpu").split("## Left out")[1]


@pytest.mark.usefixtures("few_schemes")
def test_an_interrupted_run_goes_on(
    small: list[Size], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial, whole = tmp_path / "partial.json", run._cell
    calls = []

    def interrupted(size: Size, *rest: Any) -> Any:
        calls.append(size)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(size, *rest)

    monkeypatch.setattr(run, "_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small_run(partial)
    kept = json.loads(partial.read_text())
    assert [Size(**cell["size"]) for cell in kept["cells"]] == small[:1]
    report = small_run(partial, done=copy.deepcopy(kept))
    assert calls == [*small, small[1]]
    assert report["cells"][0] == kept["cells"][0]
    assert [Size(**cell["size"]) for cell in report["cells"]] == small


@pytest.mark.usefixtures("small", "few_schemes")
def test_the_command_leaves_no_half_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--device", "cpu", "--minutes", "0.05", "--repeats", "3", "--threads", "1"]
    output = ["--output", str(tmp_path)]
    whole = run._cell

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_cell", interrupted)
    assert command.main(arguments + output) == 130
    assert sorted(x.name for x in tmp_path.iterdir()) == ["cpu.partial.json"]
    monkeypatch.setattr(run, "_cell", whole)
    assert command.main([*arguments, *output, "--resume"]) == 0
    names = sorted(x.name for x in tmp_path.iterdir())
    assert names == ["cpu.json", "cpu.md", "cpu.png", "cpu_grid.md"]
    before = (tmp_path / "cpu.md").read_text()
    assert command.main(["--from-json", str(tmp_path / "cpu.json"), *output]) == 0
    assert len((tmp_path / "cpu.md").read_text()) == pytest.approx(len(before), abs=100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "2"], "at least 3"),
        (["--minutes", "0"], "--minutes is 0.0; it must be above 0"),
        (["--memory", "-1"], "--memory is -1.0; it must be above 0"),
        (["--resume", "--device", "cpu", "--output", "{}"], "there is no"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main([x.format(tmp_path) for x in arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def made_up(kind: str, factor: float = 1.0) -> Any:
    """A report with known numbers: block takes `factor` ms, the copy bandwidth is 100 GB/s."""

    def line(scheme: str, median: float) -> Any:
        return {
            "scheme": scheme,
            "median_ms": median,
            "low_ms": median,
            "high_ms": median,
            "calls": 5,
            "bytes_to_read": 70e6,
            "bytes_of_all_passes": 80e6,
            "bandwidth": 70e9 / median,
            "of_copy": 0.7 / median,
            "extra_bytes": 1e6,
            "extra_of_rows": 0.05 * factor,
            "operations": 10,
            "mean_accepted": 2.0,
            **({"graph": {"median_ms": median / 2, "calls": 5}} if kind == "cuda" else {}),
        }

    cells = [
        {
            "size": vars(size),
            "bytes": size.bytes,
            "lines": [line("token_by_token", 1.0), line("block", factor)],
            "left_out": [],
            "row_pass": {"median_ms": 1.0, "bandwidth": 85e9 / factor},
            "transformers": {"median_ms": 6.0},
            "block_from_logits": {"median_ms": 3.0},
            "other_cores": 0.0,
        }
        for size in (run.AIM, Size(32_000, 64, 4, 1))
    ]
    return {
        "format": 2,
        "device": "a device",
        "kind": kind,
        "torch": "2",
        "threads": 2,
        "full": True,
        "minutes": 15.0,
        "repeats": 5,
        "memory_limit": 2**30,
        "load_before": 0.0,
        "load_after": 2.0,
        "other_cores": [0.0],
        "engines": {"vllm": False},
        "copy_bandwidth": 100e9,
        "copy_bandwidth_after": 100e9,
        "cells": cells,
        "left_out": [],
        "scaling": {},
        "fixed": {"block": {"median_ms": 0.1}},
    }


def test_a_call_that_is_too_long_is_refused_with_the_reason() -> None:
    small, large = Size(1000, 1, 4, 1), Size(1000, 4, 4, 1)  # four times the rows
    late, early = (run._Shares(seconds, [small, large], {}) for seconds in (-1.0, 100.0))
    assert early.of(small) == pytest.approx(100 / 5 / 3, rel=0.01)  # a fifth, over three schemes
    assert early.of(large) == pytest.approx(100 / 3, rel=0.01)
    assert late.of(small) == run.CHEAP
    for shares in (late, early):
        assert shares.refuses("block", large, 0.1, 2.0) is None  # nothing is known of it
        shares.learn("block", small, 2.0)
        assert shares.refuses("block", large, 5.0, 2.0) is None
        refused = shares.refuses("block", large, 1.0, 2.0)
        assert refused == "about 8.0 s a call, 1.0 s allotted"
        shares.learn("block", small, 0.2)
    assert early.refuses("block", large, 0.1, 1.0) is None  # short
    assert late.refuses("block", large, 0.1, 2.0) is None
    assert late.refuses("block", large, 0.1, 1.0) == "about 0.8 s a call, 0.1 s allotted"
    # of 0.2 s, 0.1 s are there without rows (0.2 s at L = 8): the rest grows with the rows
    fixed = run._Shares(-1.0, [small, large], {"block": 0.2})
    fixed.learn("block", small, 0.2)
    assert fixed.predicted("block", large) == pytest.approx(0.1 + 0.4)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_aims_are_judged_from_the_numbers(kind: str) -> None:
    good, bad = judged.aims(made_up(kind)), judged.aims(made_up(kind, 3.0))
    assert len(good) == len(bad) == 3
    assert all(aim.reached and not aim.gap for aim in good)
    assert all(aim.gap and not aim.reached for aim in bad)
    gaps = " ".join(aim.gap for aim in bad)
    # 70/3 of 60 %; 6/3 of 5 times; 15 of 10 %.  85/3 of 80 %; 3 of 1.3 times, twice
    expected = {
        "cpu": "37 points short 2.50 times too slow 5.0 points too much",
        "cuda": "52 points short 2.31 times too slow 2.31 times too slow",
    }
    assert gaps == expected[kind]
    assert all(f"| no: {aim.gap} |" in page.page(made_up(kind, 3.0), "x") for aim in bad)


def test_a_page_of_a_gpu_has_the_times_in_graphs() -> None:
    report = made_up("cuda")
    report["cells"][0]["lines"][0]["graph"] = {"error": "not captured"}
    table = page.grid_page(report, "card").split("## All columns")[1]
    assert "| in a CUDA graph, ms |" in table
    assert "| not captured |" in table
    assert "| 0.50 |" in table  # half of the 1 ms of the call


def test_a_busy_machine_is_marked() -> None:
    quiet, busy = made_up("cpu"), made_up("cpu")
    busy["other_cores"] = [1.5]
    busy["cells"][0]["other_cores"] = 1.5
    assert "Other work was running" not in page.page(quiet, "cpu")
    assert "Other work was running" in page.page(busy, "cpu")
    assert "16, 8\\*" in page.grid_page(busy, "cpu")
    assert "\\*" not in page.grid_page(quiet, "cpu")


def test_usage_of_others_is_without_that_of_this_process() -> None:
    usage, start = measure.Usage(), time.perf_counter()
    own = time.process_time()
    while (wall := time.perf_counter() - start) < 1:
        random.random()
    own = (time.process_time() - own) / wall
    others, cores = usage.others(), os.cpu_count()
    assert cores is not None
    assert others is None or 0 <= others <= cores - own + 0.1
