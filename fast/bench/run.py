"""The grid of sizes, the time each may take, and the report of a run."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from draftproof.fast import VERIFIERS, Batch
from draftproof.fast.bench import measure
from draftproof.fast.bench.engines import ENGINES, engine_calls
from draftproof.fast.bench.measure import Runner, Size, Usage, summary, timed
from draftproof.fast.verifiers import HOST_PLANNED

__all__ = [
    "AIM",
    "AXES",
    "MULTIPLE",
    "SINGLE",
    "device_name",
    "grid",
    "memory_limit",
    "run",
    "write",
]

SINGLE = ("token_by_token", "block", "greedy_block")
MULTIPLE = tuple(
    scheme
    for name in VERIFIERS
    if name not in SINGLE and name != "spectr:kseq"  # another name of spectr
    for scheme in ((name, f"{name} kseq") if name == "spectr_gbv" else (name,))
)
AIM = Size(151_936, 16, 8, 1)
"""The size of the aims."""
AXES = {
    "vocab": "vocabulary (B = 4, L = 4, K = 3)",
    "drafts": "drafts K (B = 4, L = 4, V = 32,000)",
    "length": "length L (B = 4, K = 3, V = 32,000)",
}
"""What the sizes of `scaling` vary, and what they keep."""
FIXED_VOCAB = 64
"""A vocabulary so small that a call costs what it costs without its rows."""
WARM_VOCABS = (1000, 40_000, 151_936)

CHEAP = 0.25
"""Seconds that a line may always take."""
SHORT = 1.0
"""A call of a scheme that is shorter is always made; one of a straightforward version as long as
any time is left."""
PATIENCE = 2.0
"""A scheme of which one call takes more than this times its share is left out of a cell."""
BASELINE_SHARE = 0.4

Report = dict[str, Any]


def grid(full: bool) -> list[Size]:
    """The sizes of the main table, the small ones first."""
    if not full:
        points = [(32_000, 16, 8, 1), (32_000, 1, 4, 3), (32_000, 16, 8, 3), (151_936, 4, 4, 3)]
        sizes = [AIM, *(Size(*point) for point in points)]
    else:
        axes = ((32_000, 151_936), (1, 16, 64, 256), (4, 8, 16), (1, 3, 8))
        sizes = [Size(*point) for point in itertools.product(*axes)]
    return sorted(sizes, key=lambda size: size.bytes)


def scaling() -> dict[str, list[Size]]:
    """Sizes along each axis for the cost of the schemes."""
    return {
        "vocab": [Size(v, 4, 4, 3) for v in (8_000, 32_000, 151_936)],
        "drafts": [Size(32_000, 4, 4, k) for k in (1, 2, 4, 8)],
        "length": [Size(32_000, 4, n, 3) for n in (2, 4, 8, 16)],
    }


def schemes(size: Size) -> tuple[str, ...]:
    """Those that are measured at a size."""
    return SINGLE if size.drafts == 1 else MULTIPLE


def memory_limit(device: torch.device) -> int:
    """Bytes that the inputs and the calls may take: most of what is free."""
    if device.type == "cuda":
        return int(0.9 * torch.cuda.mem_get_info(device)[0])
    info = Path("/proc/meminfo")
    if info.exists():
        match = re.search(r"MemAvailable:\s*(\d+) kB", info.read_text())
        if match:
            return int(0.9 * 1024 * int(match.group(1)))
    return 8 * 2**30


class _Shares:
    """How the time is shared: by the bytes of the cells that are left, equally within a cell."""

    def __init__(self, seconds: float, sizes: list[Size], fixed: dict[str, float]) -> None:
        """`fixed`: the seconds that a call of a scheme takes without its rows, at `_tiny` size."""
        self._fixed = fixed
        self._end = time.perf_counter() + seconds
        self._left = sum(size.bytes for size in sizes)
        self._known: dict[str, dict[tuple[int, int], tuple[Size, float]]] = {}

    def of(self, size: Size) -> float:
        """Seconds for a line of this cell; called once a cell, in the order of the grid."""
        share = max(0.0, self._end - time.perf_counter()) * size.bytes / max(self._left, 1)
        self._left -= size.bytes
        return max(CHEAP, share / len(schemes(size)))

    def predicted(self, what: str, size: Size) -> float:
        """Seconds of a call, from the last cell of equal V and K, else the last one; 0 if none.

        The part without rows grows with L K, the rest with the bytes of the rows.
        """
        known = self._known.get(what)
        if not known:
            return 0.0
        before, seconds = known.get((size.vocab, size.drafts)) or list(known.values())[-1]
        own = self._fixed.get(what, 0.0) / _fixed_size(what).steps
        rest = max(seconds - own * before.steps, 0.1 * seconds)
        return own * size.steps + rest * size.bytes / before.bytes

    def learn(self, what: str, size: Size, seconds: float) -> None:
        """A call took so long."""
        self._known.setdefault(what, {})[size.vocab, size.drafts] = (size, seconds)

    def refuses(self, what: str, size: Size, share: float, patience: float) -> str | None:
        """Why a call is not made, or None."""
        expected = self.predicted(what, size)
        over = patience < PATIENCE and time.perf_counter() >= self._end
        short = CHEAP if over else SHORT
        if expected <= max(short, patience * share):
            return None
        return f"about {expected:.1f} s a call, {share:.1f} s allotted"


def run(
    device: torch.device,
    full: bool,
    repeats: int,
    seconds: float,
    limit: int,
    partial: Path,
    done: Report | None = None,
) -> Report:
    """All measurements; what is there so far is written to `partial` after each cell.

    Args:
        seconds: about how long it may take; large cells get fewer calls, or leave schemes out.
        limit: bytes that inputs and calls may take.
        done: the report of an interrupted run with the same settings, whose cells are kept.
    """
    usage = Usage()
    report = done or {
        "format": 2,
        "device": device_name(device),
        "kind": device.type,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "full": full,
        "minutes": seconds / 60,
        "repeats": repeats,
        "memory_limit": limit,
        "load_before": load(),
        "other_cores": [],
        "engines": {name: importlib.util.find_spec(name) is not None for name in ENGINES},
        "copy_bandwidth": measure.copy_bandwidth(device),
        "cells": [],
        "left_out": [],
        "scaling": {},
    }
    sizes = grid(full)
    start = time.perf_counter()
    _warm_up(device)
    if "fixed" not in report:
        report["fixed"] = _fixed_times(device, repeats)
    fixed = {scheme: times["median_ms"] / 1e3 for scheme, times in report["fixed"].items()}
    known = [Size(**cell["size"]) for cell in report["cells"]]
    report["left_out"] = [
        {
            "size": vars(size),
            "bytes": size.bytes,
            "reason": f"the rows take {gib(size.bytes)} GiB, {gib(limit)} GiB may be used",
        }
        for size in sizes
        if 1.1 * size.bytes > limit
    ]
    todo = [size for size in sizes if size not in known and 1.1 * size.bytes <= limit]
    along = {axis: points for axis, points in scaling().items() if axis not in report["scaling"]}
    bar = _Bar(len(todo) + len(along))
    for axis, points in along.items():
        bar.show(f"cost along {axis}")
        report["scaling"][axis] = _along(points, device, repeats, 0.05 * seconds, fixed)
        write(partial, json.dumps(report) + "\n")
    shares = _Shares(seconds - (time.perf_counter() - start), todo, fixed)
    for size in todo:
        bar.show(str(size))
        report["cells"].append(_cell(size, device, repeats, limit, shares, report))
        write(partial, json.dumps(report) + "\n")
    bar.close()
    report["copy_bandwidth_after"] = measure.copy_bandwidth(device)
    report["load_after"] = load()
    report["other_cores"].append(usage.others())
    return report


def _fixed_size(scheme: str) -> Size:
    """Blocks as those of the aims, for several drafts K = 3, over a tiny vocabulary."""
    drafts = 1 if scheme in SINGLE else 3
    return Size(FIXED_VOCAB, AIM.blocks, AIM.length, drafts)


def _fixed_times(device: torch.device, repeats: int) -> Report:
    """What a call of each scheme costs without its rows."""
    made = {}
    for scheme in (*SINGLE, *MULTIPLE):
        batch = measure.inputs(_fixed_size(scheme), device)
        made[scheme] = summary(timed(Runner(scheme, batch), device, repeats, 1.0))
    return made


def _warm_up(device: torch.device) -> None:
    """Compile and load everything once, for small and for large rows."""
    for vocab in WARM_VOCABS:
        for drafts, names in ((1, SINGLE), (3, MULTIPLE)):
            size = Size(vocab, 2, 3, drafts)
            batch = measure.inputs(size, device)
            for scheme in names:
                if scheme not in HOST_PLANNED or vocab == min(WARM_VOCABS):
                    measure.instrumented(size, Runner(scheme, batch), batch)


def _cell(
    size: Size,
    device: torch.device,
    repeats: int,
    limit: int,
    shares: _Shares,
    report: Report,
) -> Report:
    """All lines of one size."""
    usage = Usage()
    batch = measure.inputs(size, device)
    share = shares.of(size)
    cell: Report = {"size": vars(size), "bytes": size.bytes, "lines": [], "left_out": []}

    def left_out(scheme: str, what: str, reason: str) -> None:
        cell["left_out"].append({"scheme": scheme, "what": what, "reason": reason})

    for scheme in schemes(size):
        if reason := shares.refuses(scheme, size, share, PATIENCE):
            left_out(scheme, "the scheme", reason)
            continue
        call = Runner(scheme, batch)
        if 10 * shares.predicted(scheme, size) < share:
            call()  # warm
        line: Report = {"scheme": scheme, **measure.instrumented(size, call, batch)}
        line |= summary(timed(call, device, repeats, (1 - BASELINE_SHARE) * share))
        shares.learn(scheme, size, line["low_ms"] / 1e3)
        if scheme in HOST_PLANNED:  # reads its rows in numpy, unobserved
            line["bytes_to_read"] = line["bytes_of_all_passes"] = None
        else:
            line["bandwidth"] = 1e3 * line["bytes_to_read"] / line["median_ms"]
            line["of_copy"] = line["bandwidth"] / report["copy_bandwidth"]
        line["extra_of_rows"] = line["extra_bytes"] / size.bytes
        if device.type == "cuda" and scheme not in HOST_PLANNED:
            line["graph"] = _in_graph(call, device, repeats, share)
        cell["lines"].append(line)
        needed = size.bytes + 4 * size.path_bytes  # rows by path, and temporaries like them
        reason = f"{gib(needed)} GiB with temporaries, {gib(limit)} GiB may be used"
        slow = shares.refuses(f"plain {scheme}", size, share, 1.0)
        if needed > limit or slow:
            left_out(scheme, "the straightforward version", slow or reason)
            continue
        plain = measure.straightforward(scheme, batch)
        if plain is not None:
            line["straightforward"] = summary(timed(plain, device, repeats, BASELINE_SHARE * share))
            shares.learn(f"plain {scheme}", size, line["straightforward"]["low_ms"] / 1e3)
        del plain
    if size.drafts == 1:
        cell["row_pass"] = measure.row_pass(size, batch, repeats, share)
        for what, make, copies in (
            ("transformers", measure.transformers_calls, 2),
            ("block_from_logits", measure.from_logits, 4),
        ):
            if copies * size.bytes > limit:
                needs = f"{gib(copies * size.bytes)} GiB, {gib(limit)} GiB may be used"
                left_out(what, "beside it", needs)
                continue
            made: Callable[[], Any] | None = make(batch)
            if made is not None:
                cell[what] = summary(timed(made, device, repeats, share))
            del made
        if 3 * size.bytes <= limit:
            cell["engines"] = _engines(batch, device, repeats, share)
        elif any(report["engines"].values()):
            left_out(
                "engines", "beside it", f"{gib(3 * size.bytes)} GiB, {gib(limit)} GiB may be used"
            )
    cell["other_cores"] = usage.others()
    return cell


def _engines(batch: Batch, device: torch.device, repeats: int, seconds: float) -> Report:
    """The times of the engines' samplers, or what they raised."""
    made: Report = {}
    for name, call in engine_calls(batch):
        if isinstance(call, str):
            made[name] = {"error": call}
            continue
        try:
            made[name] = summary(timed(call, device, repeats, seconds))
        except Exception as error:  # whatever an engine raises, the others are still measured
            made[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return made


def _in_graph(call: Runner, device: torch.device, repeats: int, seconds: float) -> Report:
    """The times of a CUDA graph of the call, or why there is none."""
    try:
        replay = measure.graph_replay(call, device)
    except RuntimeError as error:
        return {"error": str(error).splitlines()[0]}
    return summary(timed(replay, device, repeats, seconds))


def _along(
    sizes: list[Size], device: torch.device, repeats: int, seconds: float, fixed: dict[str, float]
) -> list[Report]:
    """The times of all schemes for several drafts at these sizes, as far as the time allows."""
    lines = []
    share = seconds / len(sizes) / len(MULTIPLE)
    shares = _Shares(seconds, sizes, fixed)
    for size in sizes:
        batch = measure.inputs(size, device)
        for scheme in MULTIPLE:
            if shares.refuses(scheme, size, share, PATIENCE):
                continue
            times = summary(timed(Runner(scheme, batch), device, repeats, share))
            shares.learn(scheme, size, times["median_ms"] / 1e3)
            lines.append({"scheme": scheme, **vars(size), **times})
    return lines


def load() -> float | None:
    """The load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def gib(size: float) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.1f}"


def device_name(device: torch.device) -> str:
    """The card, or the processor and its number of cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        match = re.search(r"model name\s*:\s*(.+)", info.read_text())
        model = match.group(1) if match else model
    return f"{model}, {os.cpu_count()} cores"


class _Bar:
    """Progress on the error stream: a bar on a terminal, a line a step elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start = total, -1, time.perf_counter()

    def show(self, what: str) -> None:
        """Begin the next step."""
        self._done += 1
        taken = time.perf_counter() - self._start
        filled = 30 * self._done // self._total
        bar = "#" * filled + "." * (30 - filled)
        text = f"[{bar}] {self._done}/{self._total} {taken:4.0f} s  {what}"
        end = "" if sys.stderr.isatty() else "\n"
        start = "\r\033[K" if sys.stderr.isatty() else ""
        print(start + text, end=end, file=sys.stderr, flush=True)

    def close(self) -> None:
        """The last step is done."""
        self.show("done")
        if sys.stderr.isatty():
            print(file=sys.stderr)


def write(file: Path, text: str) -> None:
    """Replace a file at once, so that an interruption leaves no half of it."""
    partial = file.with_name(file.name + ".part")
    partial.write_text(text)
    os.replace(partial, file)
