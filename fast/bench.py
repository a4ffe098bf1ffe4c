"""The benchmark of the fast path: time, bandwidth and memory of each scheme, and what sets them.

    python -m draftproof.fast.bench [--full] [--device cuda] [--output docs/benchmarks]

Writes NAME.json, NAME.md and NAME.png (NAME is `cpu`, or the card). The default sizes take a few
minutes on two cores and fit into 8 GiB; `--full` runs the whole grid V in {32000, 151936}, B in
{1, 16, 64, 256}, L in {4, 8, 16}, K in {1, 3, 8}, and skips, by name, what does not fit.

*Bytes to read* are those of the distinct rows that the scheme reads for these inputs; *bandwidth*
is these bytes over the median time; *of copy* compares it with the bandwidth of copying the rows
(bytes read and written over time) in the same run, with the same number of threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import platform
import re
import statistics
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from draftproof.fast import Batch, Uniforms, clip, verify
from draftproof.fast.baselines import BASELINES, transformers_sampler
from draftproof.fast.clip import Rows
from draftproof.fast.rows import rows_from_logits
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["main"]

SINGLE = ("token_by_token", "block", "greedy_block")
MULTIPLE = (
    "spectr",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "tree_match",
    "traversal",
    "multipath",
    "kseq_block",
    "ranked_block",
    "spectr_gbv",
    "spectr_gbv kseq",
)
ENGINES = ("vllm", "sglang", "flashinfer")
AIM = (151_936, 16, 8, 1)
"""V, B, L, K of the aims."""


@dataclass(frozen=True)
class Size:
    """One point of the grid."""

    vocab: int
    blocks: int
    length: int
    drafts: int

    @property
    def nodes(self) -> int:
        return self.blocks * (1 + self.drafts * self.length)

    @property
    def bytes(self) -> int:
        """Bytes of both tables of rows in float32."""
        return 2 * self.nodes * self.vocab * 4

    def __str__(self) -> str:
        return f"V={self.vocab} B={self.blocks} L={self.length} K={self.drafts}"


def inputs(size: Size, device: torch.device, seed: int = 0) -> Batch:
    """Blocks whose target rows are the draft rows with noise; drafts drawn from the draft rows."""
    generator = torch.Generator(device=device).manual_seed(seed)
    draft = torch.empty(size.nodes, size.vocab, device=device)
    target = torch.empty(size.nodes, size.vocab, device=device)
    for low in range(0, size.nodes, 16):
        part = slice(low, low + 16)
        shape = draft[part].shape
        scores = 2.5 * torch.randn(shape, generator=generator, device=device)
        draft[part] = scores.softmax(1)
        noise = torch.randn(shape, generator=generator, device=device)
        target[part] = (scores + 0.5 * noise).softmax(1)
    tokens = torch.zeros(size.blocks, size.drafts, size.length, dtype=torch.int64)
    nodes = torch.zeros(size.blocks, size.drafts, size.length + 1, dtype=torch.int64)
    known: dict[tuple[int, ...], int] = {}
    for b, k in itertools.product(range(size.blocks), range(size.drafts)):
        prefix: tuple[int, ...] = (b,)
        for i in range(size.length + 1):
            node = known.setdefault(prefix, len(known))
            nodes[b, k, i] = node
            if i < size.length:
                token = int(torch.multinomial(draft[node], 1, generator=generator))
                tokens[b, k, i] = token
                prefix = (*prefix, token)
    return Batch(tokens.to(device), nodes.to(device), draft, target)


def seconds(call: Callable[[], Any], device: torch.device, repeats: int) -> list[float]:
    """Wall times of `repeats` calls after one that warms up."""
    times = []
    for number in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if number:
            times.append(time.perf_counter() - start)
    return times


def summary(times: list[float]) -> dict[str, float]:
    """Median and quartiles in milliseconds."""
    ordered = sorted(1e3 * t for t in times)
    return {
        "median_ms": statistics.median(ordered),
        "low_ms": ordered[len(ordered) // 4],
        "high_ms": ordered[-1 - len(ordered) // 4],
    }


def copy_bandwidth(rows: Tensor, repeats: int) -> float:
    """Bytes read and written per second when `rows` are copied."""
    to = torch.empty_like(rows)
    times = seconds(lambda: to.copy_(rows), rows.device, repeats)
    return 2 * rows.numel() * rows.element_size() / statistics.median(times)


@contextmanager
def observed() -> Iterator[dict[str, Any]]:
    """Collect which rows are read while the block runs (through the torch path)."""
    seen: dict[str, Any] = {"draft": set(), "target": set(), "passes": 0}

    def see(rows: Rows) -> None:
        needed = rows.target_index >= 0
        seen["target"].update(rows.target_index[needed].tolist())
        drafted = needed & (rows.draft_index >= 0)
        seen["draft"].update(rows.draft_index[drafted].tolist())
        seen["passes"] += int(needed.sum()) + int(drafted.sum())

    clip.observer = see
    try:
        yield seen
    finally:
        clip.observer = None


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that operations make, while they live."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {x.untyped_storage().data_ptr() for x in given}
        self._views: dict[int, int] = {}
        self._held = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor):
                self._add(x)
        return out

    def _add(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place == 0 or place in self._known:
            return
        self._views[place] = self._views.get(place, 0) + 1
        if self._views[place] == 1:
            self._held += size
            self.peak = max(self.peak, self._held)
        weakref.finalize(x, self._drop, place, size)

    def _drop(self, place: int, size: int) -> None:
        self._views[place] -= 1
        if self._views[place] == 0:
            self._held -= size


def extra_memory(call: Callable[[], Any], batch: Batch) -> int:
    """Peak bytes that a call holds beside its batch."""
    if batch.device.type == "cuda":
        torch.cuda.synchronize(batch.device)
        before = torch.cuda.memory_allocated(batch.device)
        torch.cuda.reset_peak_memory_stats(batch.device)
        call()
        torch.cuda.synchronize(batch.device)
        return int(torch.cuda.max_memory_allocated(batch.device) - before)
    with _Live([batch.draft_rows, batch.target_rows]) as live:
        call()
    return int(live.peak)


def runner(scheme: str, batch: Batch) -> Callable[[], Any]:
    """A call of the scheme on the batch, with new uniforms each time."""
    name, _, option = scheme.partition(" ")
    options = {"scale": option} if option else {}
    count = itertools.count()
    seeds = torch.arange(batch.blocks, device=batch.device)
    made = [Uniforms.from_seeds(seeds, seeds * 0 + n, batch.drafts, batch.length) for n in range(8)]
    return lambda: verify(name, batch, made[next(count) % 8], validate=False, **options)


def measure(scheme: str, size: Size, batch: Batch, repeats: int, copy: float) -> dict[str, Any]:
    """One line of the table."""
    call = runner(scheme, batch)
    distinct, read = bytes_read(scheme, size, batch)
    times = summary(seconds(call, batch.device, repeats))
    memory = extra_memory(call, batch)
    bandwidth = distinct / times["median_ms"] * 1e3
    return {
        "scheme": scheme,
        **vars(size),
        **times,
        "bytes_to_read": distinct,
        "bytes_of_all_passes": read,
        "bandwidth_gb_s": bandwidth / 1e9,
        "of_copy": bandwidth / copy,
        "extra_bytes": memory,
        "extra_of_rows": memory / size.bytes,
        "mean_accepted": statistics.fmean(
            float(call().accepted_length.double().mean()) for _ in range(3)
        ),
    }


def bytes_read(scheme: str, size: Size, batch: Batch) -> tuple[float, float]:
    """Bytes of the distinct rows that a call reads, and of all its passes: means over four calls.

    The passes of a root search over one row count once, as it is read from the cache.
    """
    call, distinct, passes = runner(scheme, batch), 0, 0
    for _ in range(4):
        with observed() as seen:
            call()
        distinct += len(seen["draft"]) + len(seen["target"])
        passes += seen["passes"]
    return distinct * size.vocab, passes * size.vocab  # four bytes an entry, over four calls


def baseline(scheme: str, batch: Batch, repeats: int) -> dict[str, float] | None:
    """The straightforward version on the same rows, given path by path."""
    written = BASELINES.get(scheme)
    if written is None:
        return None
    draft = batch.draft_rows[batch.nodes[:, :, : batch.length]]
    target = batch.target_rows[batch.nodes]
    return summary(seconds(lambda: written(batch.tokens, draft, target), batch.device, repeats))


def sampler_of_transformers(batch: Batch, repeats: int) -> dict[str, float] | None:
    """transformers' function on the same blocks, one call a block, logits in."""
    call = transformers_sampler()
    if call is None:
        return None
    draft = batch.draft_rows[batch.nodes[:, 0, : batch.length]].log()
    target = batch.target_rows[batch.nodes[:, 0]].log()
    return summary(seconds(lambda: call(batch.tokens[:, 0], draft, target), batch.device, repeats))


def from_logits(batch: Batch, repeats: int) -> dict[str, float]:
    """Block verification with the rows made from logits in the same call."""
    draft, target = batch.draft_rows.log(), batch.target_rows.log()
    seeds = torch.arange(batch.blocks, device=batch.device)
    uniforms = Uniforms.from_seeds(seeds, seeds, batch.drafts, batch.length)

    def call() -> Any:
        rows = Batch(batch.tokens, batch.nodes, rows_from_logits(draft), rows_from_logits(target))
        return verify("block", rows, uniforms, validate=False)

    return summary(seconds(call, batch.device, repeats))


def grid(full: bool) -> list[Size]:
    """The sizes of the main table."""
    if full:
        return [
            Size(*point)
            for point in itertools.product(
                (32_000, 151_936), (1, 16, 64, 256), (4, 8, 16), (1, 3, 8)
            )
        ]
    return [
        Size(32_000, 16, 8, 1),
        Size(*AIM),
        Size(32_000, 1, 4, 3),
        Size(32_000, 16, 8, 3),
        Size(151_936, 4, 4, 3),
    ]


def scaling(full: bool) -> dict[str, list[Size]]:
    """Sizes along each axis for the cost of the schemes."""
    return {
        "vocab": [Size(v, 4, 4, 3) for v in (8_000, 32_000, 128_000)],
        "drafts": [Size(32_000, 4, 4, k) for k in (1, 2, 4, 8)],
        "length": [Size(32_000, 4, n, 3) for n in ((2, 4, 8, 16) if full else (2, 4, 8))],
    }


def run(device: torch.device, full: bool, repeats: int, limit: int) -> dict[str, Any]:
    """All measurements."""
    report: dict[str, Any] = {
        "format": 1,
        "device": device_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "engines": {name: bool(importlib.util.find_spec(name)) for name in ENGINES},
        "table": [],
        "skipped": [],
        "scaling": {},
    }
    sample = torch.rand(256, 151_936, device=device)
    copy = report["copy_bandwidth"] = copy_bandwidth(sample, 15)
    del sample
    for size in grid(full):
        if 3 * size.bytes > limit:
            report["skipped"].append(f"{size}: {3 * size.bytes / 2**30:.1f} GiB needed")
            continue
        batch = inputs(size, device)
        for scheme in SINGLE if size.drafts == 1 else MULTIPLE:
            line = measure(scheme, size, batch, repeats, copy)
            line["straightforward"] = baseline(scheme, batch, max(3, repeats // 3))
            report["table"].append(line)
            progress(f"{size} {scheme}: {line['median_ms']:.2f} ms")
        if size.drafts == 1:
            line = {"sampler": sampler_of_transformers(batch, max(3, repeats // 3))}
            line["block_from_logits"] = from_logits(batch, max(3, repeats // 3))
            report.setdefault("transformers", []).append({**vars(size), **line})
    for axis, sizes in scaling(full).items():
        lines = report["scaling"][axis] = []
        for size in sizes:
            batch = inputs(size, device)
            for scheme in MULTIPLE:
                times = summary(seconds(runner(scheme, batch), device, max(3, repeats // 2)))
                lines.append({"scheme": scheme, **vars(size), **times})
            progress(f"cost by {axis}: {size}")
    report["load_after"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return report


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


def aims(report: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """The aims that this run can judge: (what, measured, reached)."""
    lines = {
        line["scheme"]: line
        for line in report["table"]
        if (line["vocab"], line["blocks"], line["length"], line["drafts"]) == AIM
    }
    made = []
    block = lines.get("block")
    if block is None:
        return []
    made.append(
        (
            "block verification at 60 % of the copy bandwidth or more",
            f"{100 * block['of_copy']:.0f} % ({block['bandwidth_gb_s']:.1f} of "
            f"{report['copy_bandwidth'] / 1e9:.1f} GB/s)",
            block["of_copy"] >= 0.6,
        )
    )
    beside = [
        t
        for t in report.get("transformers", [])
        if (t["vocab"], t["blocks"], t["length"], t["drafts"]) == AIM
    ]
    if beside and beside[0]["sampler"]:
        factor = beside[0]["sampler"]["median_ms"] / block["median_ms"]
        logits = beside[0]["sampler"]["median_ms"] / beside[0]["block_from_logits"]["median_ms"]
        made.append(
            (
                "at least 5 times faster than transformers' function called per block",
                f"{factor:.1f} times from probabilities, {logits:.1f} times from logits",
                factor >= 5,
            )
        )
    made.append(
        (
            "peak extra memory at most 10 % of the rows",
            f"{100 * block['extra_of_rows']:.1f} %",
            0 <= block["extra_of_rows"] <= 0.1,
        )
    )
    plain = lines["token_by_token"]["median_ms"]
    made.append(
        (
            "block within 1.3 times of token by token (an aim for a GPU)",
            f"{block['median_ms'] / plain:.2f} times",
            block["median_ms"] <= 1.3 * plain,
        )
    )
    return made


def page(report: dict[str, Any], command: str, name: str) -> str:
    """The Markdown page of a run."""
    lines = [
        f"# Benchmark: {report['device']}",
        "",
        f"`{command}`: torch {report['torch']}, {report['threads']} thread(s), float32 rows, copy",
        f"bandwidth {report['copy_bandwidth'] / 1e9:.1f} GB/s (read and written), load average",
        f"{report['load_before']:.1f} before and {report['load_after']:.1f} after the run.",
        "Engines importable here: "
        + (", ".join(n for n, there in report["engines"].items() if there) or "none")
        + f" of {', '.join(report['engines'])}.",
        "",
        *busy(report),
        "## Aims",
        "",
        "| aim (B = 16, L = 8, V = 151,936) | measured | reached |",
        "|---|---|---|",
    ]
    for what, measured, reached in aims(report):
        lines.append(f"| {what} | {measured} | {'yes' if reached else 'no'} |")
    lines += ["", "@LIMITS@", "", "## Time of one call", ""]
    lines += [
        "Bytes are of the distinct rows that the scheme reads; passes are how often it reads them.",
        "The straightforward version is whole-tensor torch (a Python loop over blocks for SpecTr).",
        "",
        "| V | B | L | K | scheme | ms (quartiles) | MB to read | passes | GB/s | of copy "
        "| extra memory, % of rows | straightforward, ms |",
        "|--:|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for line in report["table"]:
        other = line["straightforward"]
        passes = line["bytes_of_all_passes"] / max(line["bytes_to_read"], 1)
        lines.append(
            f"| {line['vocab']:,} | {line['blocks']} | {line['length']} | {line['drafts']} "
            f"| {line['scheme']} | {line['median_ms']:.2f} ({line['low_ms']:.2f} to "
            f"{line['high_ms']:.2f}) | {line['bytes_to_read'] / 1e6:.1f} | {passes:.1f} "
            f"| {line['bandwidth_gb_s']:.2f} | {line['of_copy']:.2f} "
            f"| {100 * line['extra_of_rows']:.1f} "
            f"| {'' if other is None else format(other['median_ms'], '.2f')} |"
        )
    for skipped in report["skipped"]:
        lines.append(f"\nSkipped {skipped}.")
    lines += [
        "",
        "transformers' `_speculative_sampling` takes logits and one block at a time:",
        "",
        "| V | B | L | transformers, ms | block from logits, ms |",
        "|--:|--:|--:|--:|--:|",
    ]
    for t in report.get("transformers", []):
        sampler = t["sampler"]["median_ms"] if t["sampler"] else float("nan")
        lines.append(
            f"| {t['vocab']:,} | {t['blocks']} | {t['length']} | {sampler:.2f} "
            f"| {t['block_from_logits']['median_ms']:.2f} |"
        )
    lines += ["", "## Cost of the schemes at equal sizes", ""]
    for axis, entries in report["scaling"].items():
        values = sorted({entry[axis] for entry in entries})
        lines += [
            f"Milliseconds by {axis}"
            + {
                "vocab": " (B = 4, L = 4, K = 3)",
                "drafts": " (B = 4, L = 4, V = 32,000)",
                "length": " (B = 4, K = 3, V = 32,000)",
            }[axis]
            + ":",
            "",
            "| scheme | " + " | ".join(f"{value:,}" for value in values) + " |",
            "|---|" + "--:|" * len(values),
        ]
        for scheme in MULTIPLE:
            row = {e[axis]: e["median_ms"] for e in entries if e["scheme"] == scheme}
            lines.append(
                f"| {scheme} | " + " | ".join(f"{row[value]:.2f}" for value in values) + " |"
            )
        lines.append("")
    lines += [f"![Time of the schemes by vocabulary, drafts and length]({name}.png)", ""]
    return "\n".join(lines)


def busy(report: dict[str, Any]) -> list[str]:
    """A warning when other work was running."""
    load = max(report["load_before"] or 0.0, (report["load_after"] or 0.0) - report["threads"])
    if load < 1:
        return []
    return [
        f"**Other work was running (load {load:.1f} without this run): the times are too long and",
        "the bandwidths too low. Run it again on a quiet machine.**",
        "",
    ]


LIMITS = """What limits the figures: a pass is three elementwise operations (a q, - b p, the
positive part) and one more that adds the lanes, each of which reads and writes a buffer in the
cache, where a copy does one; torch has no fused operation for it that has the same bits on every
processor. SpecTr, K-SEQ block and `spectr_gbv` with the K-SEQ scale read their rows about ten times
in the root search, `ranked_block` evaluates 16 intervals a token, `multipath` sorts each row of the
selected draft: after the first pass their rows come from the cache, and arithmetic binds them."""


def plot(report: dict[str, Any], file: Path) -> None:
    """Time of each scheme along the three axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4), sharey=True, layout="constrained")
    for ax, (axis, entries) in zip(axes, report["scaling"].items(), strict=True):
        for scheme in MULTIPLE:
            points = [(e[axis], e["median_ms"]) for e in entries if e["scheme"] == scheme]
            ax.plot(*zip(*points, strict=True), marker="o", label=scheme)
        ax.set(xscale="log", yscale="log", xlabel=axis)
        ax.grid(True, which="both", alpha=0.3)
        values = sorted({e[axis] for e in entries})
        ax.set_xticks(values, [f"{value:,}" for value in values])
        ax.minorticks_off()
    axes[0].set_ylabel("ms a call")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    partial = file.with_suffix(".partial.png")
    figure.savefig(partial, dpi=110)
    plt.close(figure)
    os.replace(partial, file)


def progress(message: str) -> None:
    """Show progress on a terminal's error stream."""
    print(message, file=sys.stderr, flush=True)


def write(file: Path, text: str) -> None:
    """Replace a file at once, so that an interruption leaves no half of it."""
    partial = file.with_suffix(".partial")
    partial.write_text(text)
    os.replace(partial, file)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and write its three files."""
    parser = argparse.ArgumentParser(
        prog="python -m draftproof.fast.bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--full", action="store_true", help="the whole grid")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    parser.add_argument("--repeats", type=int, default=15, help="timed calls of each line")
    parser.add_argument("--memory", type=float, help="GiB for the inputs (default: 8)")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--from-json", type=Path, help="only write the page of an earlier run")
    options = parser.parse_args(arguments)
    if options.repeats < 3:
        parser.error(f"--repeats is {options.repeats}; at least 3 are needed for quartiles")
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device is {options.device}, but there is no CUDA device here")
    torch.set_num_threads(options.threads or os.cpu_count() or 1)
    limit = options.memory or 8.0
    if options.memory is None and device.type == "cuda":
        limit = torch.cuda.get_device_properties(device).total_memory * 0.8 / 2**30
    if options.from_json is not None:
        report = json.loads(options.from_json.read_text())
        name = options.from_json.stem
    else:
        report = run(device, options.full, options.repeats, int(limit * 2**30))
        card = re.sub(r"[^a-z0-9]+", "_", device_name(device).lower()).strip("_")
        name = card if device.type == "cuda" else "cpu"
    options.output.mkdir(parents=True, exist_ok=True)
    command = "make bench" if not options.full else "python -m draftproof.fast.bench --full"
    text = page(report, command, name).replace("@LIMITS@", LIMITS)
    write(options.output / f"{name}.json", json.dumps(report, indent=1) + "\n")
    write(options.output / f"{name}.md", text)
    if importlib.util.find_spec("matplotlib"):
        plot(report, options.output / f"{name}.png")
    for what, measured, reached in aims(report):
        print(f"{'reached' if reached else 'not reached':12} {what}: {measured}")
    print(f"wrote {options.output / name}.md, .json and .png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
