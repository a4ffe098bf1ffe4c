"""The benchmark of the fast path: time, bandwidth and memory of each scheme, and what sets them.

    python -m draftproof.fast.bench [--full] [--device cuda] [--output docs/benchmarks]

Writes NAME.json, NAME.md, NAME_grid.md and plots (NAME is `cpu`, or the card). `--full`, which is
what `make bench` runs, has the grid V in {32000, 151936}, B in {1, 16, 64, 256}, L in {4, 8, 16}, K
in {1, 3, 8}, in about `--minutes`: large cells get fewer calls, and what does not fit into the time
or the memory is left out by name. Without it there are five sizes. After each cell
NAME.partial.json is replaced; `--resume` goes on from there.

*Bytes to read* are those of the distinct rows that the scheme reads for these inputs; *bandwidth*
is these bytes over the median time; *of copy* compares it with the bandwidth of copying rows (bytes
read and written over time) in the same run, with the same number of threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import torch
from draftproof.fast.bench import page, plots
from draftproof.fast.bench.aims import aims
from draftproof.fast.bench.cells import has_grid
from draftproof.fast.bench.run import Report, device_name, memory_limit, run, write

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and write its files."""
    parser = argparse.ArgumentParser(
        prog="python -m draftproof.fast.bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--full", action="store_true", help="the whole grid")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    parser.add_argument("--repeats", type=int, default=15, help="most timed calls of each line")
    parser.add_argument(
        "--minutes", type=float, help="about how long it may take (default: 4; --full: 15)"
    )
    parser.add_argument("--memory", type=float, help="GiB to use (default: 90 %% of what is free)")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--from-json", type=Path, help="only write the pages of an earlier run")
    options = parser.parse_args(arguments)
    if options.repeats < 3:
        parser.error(f"--repeats is {options.repeats}; at least 3 are needed for quartiles")
    for name in ("minutes", "memory", "threads"):
        value = getattr(options, name)
        if value is not None and value <= 0:
            parser.error(f"--{name} is {value}; it must be above 0")
    if options.from_json is not None:
        report = json.loads(options.from_json.read_text())
        if report.get("format") != 2:
            parser.error(f"{options.from_json} has format {report.get('format')}, not 2")
        options.output.mkdir(parents=True, exist_ok=True)
        return _finish(report, options.output, options.from_json.stem)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device is {options.device}, but there is no CUDA device here")
    torch.set_num_threads(options.threads or os.cpu_count() or 1)
    name = "cpu"
    if device.type == "cuda":
        name = re.sub(r"[^a-z0-9]+", "_", device_name(device).lower()).strip("_")
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / f"{name}.partial.json"
    done = None
    if options.resume:
        if not partial.exists():
            parser.error(f"--resume: there is no {partial}")
        done = json.loads(partial.read_text())
        settings = {
            "device": device_name(device),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "full": options.full,
        }
        for key, value in settings.items():
            if done.get(key) != value:
                parser.error(f"--resume: {partial} has {key} {done.get(key)!r}, not {value!r}")
    limit = memory_limit(device) if options.memory is None else int(options.memory * 2**30)
    seconds = 60 * (options.minutes or (15 if options.full else 4))
    try:
        report = run(device, options.full, options.repeats, seconds, limit, partial, done)
    except KeyboardInterrupt:
        print(f"\ninterrupted; --resume goes on from {partial}", file=sys.stderr)
        return 130
    status = _finish(report, options.output, name)
    partial.unlink(missing_ok=True)
    return status


def _finish(report: Report, output: Path, name: str) -> int:
    """Write the files of a report, and print what became of the aims."""
    write(output / f"{name}.json", page.compact(report))
    write(output / f"{name}.md", page.page(report, name))
    write(output / f"{name}_grid.md", page.grid_page(report, name))
    if importlib.util.find_spec("matplotlib"):
        plots.plot_scaling(report, output / f"{name}.png")
        if has_grid(report):
            plots.plot_grid(report, output / f"{name}_grid.png")
    for aim in aims(report):
        print(f"{'reached' if aim.reached else 'not reached':12} {aim.what}: {aim.measured}")
    print(f"wrote {name}.json, .md and _grid.md to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
