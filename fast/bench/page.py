"""The pages of a report; every number and comparison in them is computed from it."""

from __future__ import annotations

import json
import statistics
import textwrap
from math import log
from typing import Any

from draftproof.fast.bench.aims import aims
from draftproof.fast.bench.cells import cell_at, has_grid, line_of, sizes
from draftproof.fast.bench.measure import Size
from draftproof.fast.bench.run import AIM, AXES, FIXED_VOCAB, MULTIPLE, SINGLE, Report, gib
from draftproof.fast.verifiers import HOST_PLANNED

__all__ = ["compact", "grid_page", "page"]

BUSY = 0.25
"""Cores used by other processes, above which a run or a cell is marked."""


def page(report: Report, name: str) -> str:
    """The main page of a run."""
    engines = [n for n, there in report["engines"].items() if there]
    where = str(AIM) if report["kind"] == "cpu" else "one draft (K = 1)"
    rows = [(a, "yes" if a.reached else f"no: {a.gap}") for a in aims(report)]
    lines = [
        f"# Benchmark: {report['device']}",
        "",
        *_paragraph(
            f"`{_command(report)}`: torch {report['torch']}, {report['threads']} CPU threads,",
            f"float32 rows, copy bandwidth {report['copy_bandwidth'] / 1e9:.1f} GB/s (bytes read",
            f"and written; {report['copy_bandwidth_after'] / 1e9:.1f} GB/s at the end), load",
            f"average {_number(report['load_before'])} before and {_number(report['load_after'])}",
            f"after the run, {_number(_others(report))} cores used by other processes during it.",
            f"Engines importable here: {', '.join(engines) or 'none'} of",
            f"{', '.join(report['engines'])}.",
        ),
        *_busy(report),
        "## Aims",
        "",
        f"With {where}, from probabilities:",
        "",
        "| aim | measured | reached |",
        "|---|---|---|",
        *(f"| {a.what} | {a.measured} | {reached} |" for a, reached in rows),
        "",
        *_limits(report),
        *_summary(report, name),
        *_transformers(report),
        *_costs(report, name),
    ]
    return "\n".join(lines)


def _paragraph(*text: str) -> list[str]:
    """The lines of a paragraph, and an empty one."""
    wrap = textwrap.TextWrapper(98, break_long_words=False, break_on_hyphens=False)
    return [*wrap.wrap(" ".join(text)), ""]


def _command(report: Report) -> str:
    if report["kind"] == "cuda":
        return "make gpu"
    return "make bench" if report["full"] else "python -m draftproof.fast.bench"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


def _others(report: Report) -> float | None:
    known = [x for x in report["other_cores"] if x is not None]
    return max(known) if known else None


def _busy(report: Report) -> list[str]:
    """A warning when other work was running."""
    others, before = _others(report), report["load_before"] or 0.0
    if (others or 0.0) < BUSY and before < 1:
        return []
    return _paragraph(
        f"**Other work was running (load {before:.1f} before the run, {_number(others)} cores in",
        "use by others during it): the times are too long and the bandwidths uncertain. Run it",
        "again on a quiet machine.**",
    )


def _limits(report: Report) -> list[str]:
    """What a block call at the size of the aims spends its time on."""
    cell = cell_at(report, AIM)
    block = cell and line_of(cell, "block")
    fixed = report["fixed"].get("block")
    if cell is None or block is None or fixed is None:
        return []
    copy, alone = report["copy_bandwidth"], cell["row_pass"]["bandwidth"]
    rest = max(block["median_ms"] - fixed["median_ms"], 1e-9)
    reading = 1e3 * block["bytes_of_all_passes"] / rest
    text = [
        f"What sets them, at {AIM}: of the {_ms(block['median_ms'])} ms of a block call,",
        f"{_ms(fixed['median_ms'])} ms are there with a vocabulary of {FIXED_VOCAB} too",
        f"({block['operations']:.0f} torch operations, most of them on small tensors). In the",
        f"other {_ms(rest)} ms the passes read {block['bytes_of_all_passes'] / 1e6:.0f} MB:",
        f"{reading / 1e9:.1f} GB/s, {100 * reading / copy:.0f} % of the copy bandwidth. One pass",
        f"over all rows of the batch by itself reads {alone / 1e9:.1f} GB/s,",
        f"{100 * alone / copy:.0f} %.",
    ]
    plain = line_of(cell, "token_by_token")
    if plain is not None:
        text += [
            f"Block verification takes {block['median_ms'] / plain['median_ms']:.2f} times as long",
            f"as token by token, which reads the {plain['bytes_to_read'] / 1e6:.0f} MB of the one",
            "node where each block stops; block reads the rows of the depths that it tests,",
            f"{block['bytes_to_read'] / 1e6:.0f} MB.",
        ]
    if "transformers" in cell and "block_from_logits" in cell:
        logits, theirs = (cell[x]["median_ms"] for x in ("block_from_logits", "transformers"))
        text += [
            f"From logits a block call takes {_ms(logits)} ms, {_ms(block['median_ms'])} ms of it",
            f"after the softmax of the rows; transformers' function, {_ms(theirs)} ms, has it too.",
        ]
    return _paragraph(*text)


def _summary(report: Report, name: str) -> list[str]:
    """One line a scheme: at a large cell, and against the straightforward versions in all."""
    lines = [
        "## Summary",
        "",
        *_paragraph(
            "Bytes are of the distinct rows that the scheme reads; passes are how often it reads",
            "them. The speed-up is over the straightforward version (whole-tensor torch, Python",
            "where the rule branches: `draftproof.fast.baselines`), median and range over the",
            "cells where both ran. Spread, all cells, and what was left out are on",
            f"[a page of their own]({name}_grid.md).",
            f"{_listed(sorted(HOST_PLANNED))} make a plan for each node on the host, in numpy:",
            "that is the straightforward version, and the bytes it reads are not counted.",
        ),
        "| scheme | V, B, L, K | ms | MB to read | passes | GB/s | of copy "
        "| extra memory, % of rows | speed-up: median (range) | cells |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    slower = {}
    for scheme in (*SINGLE, *MULTIPLE):
        shown = _shown(report, scheme)
        if shown is None:
            continue
        size, line = shown
        factors = _speedups(report, scheme)
        slower[scheme] = [blocks for blocks, factor in factors if factor < 1]
        gain = ""
        if factors:
            low, middle, high = (
                _digits(f(x for _, x in factors)) for f in (min, statistics.median, max)
            )
            gain = f"{middle} ({low} to {high})"
        lines.append(
            f"| {scheme} | {size.vocab:,}, {size.blocks}, {size.length}, {size.drafts} "
            f"| {_ms(line['median_ms'])} | {_reading(line)} "
            f"| {100 * line['extra_of_rows']:.1f} | {gain} | {len(factors)} |"
        )
    lines.append("")
    among = [blocks for found in slower.values() for blocks in found]
    if not among:
        return lines + _paragraph("In no cell is a straightforward version faster.")
    counts = ", ".join(f"{scheme} {len(found)}" for scheme, found in slower.items() if found)
    return lines + _paragraph(
        f"In {len(among)} cells the straightforward version is the faster one ({counts}),",
        f"{among.count(1)} of them with one block: there the operations on small tensors, which a",
        "batch shares, weigh more than the rows.",
    )


def _shown(report: Report, scheme: str) -> tuple[Size, Report] | None:
    """The largest cell that is not beyond the size of the aims and K = 3, with its line."""
    found = None
    for size, cell in sizes(report):
        line = line_of(cell, scheme)
        small = size.blocks <= AIM.blocks and size.length <= AIM.length and size.drafts <= 3
        if line is None or not (small or found is None):
            continue
        if found is None or size.bytes >= found[0].bytes:
            found = size, line
    return found


def _reading(line: Report) -> str:
    """Four columns: MB to read, passes, GB/s, and their share of the copy bandwidth."""
    if line["bytes_to_read"] is None:
        return " | | | "
    passes = line["bytes_of_all_passes"] / max(line["bytes_to_read"], 1)
    return (
        f"{line['bytes_to_read'] / 1e6:.1f} | {passes:.1f} | {line['bandwidth'] / 1e9:.2f} "
        f"| {100 * line['of_copy']:.0f} %"
    )


def _listed(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _speedups(report: Report, scheme: str) -> list[tuple[int, float]]:
    """(blocks, time of the straightforward version over that of the fast path) in each cell."""
    return [
        (size.blocks, line["straightforward"]["median_ms"] / line["median_ms"])
        for size, cell in sizes(report)
        if (line := line_of(cell, scheme)) is not None and "straightforward" in line
    ]


def _digits(factor: float) -> str:
    return f"{factor:.2f}" if factor < 1 else f"{factor:.1f}" if factor < 10 else f"{factor:.0f}"


def _ms(value: float) -> str:
    """Milliseconds in three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _transformers(report: Report) -> list[str]:
    rows = [(size, cell) for size, cell in sizes(report) if "transformers" in cell]
    if not rows:
        return []
    lines = [
        "## Beside transformers",
        "",
        *_paragraph(
            "`_speculative_sampling` takes the logits of one block at a time and verifies token by",
            "token.",
        ),
        "| V | B | L | transformers, ms | block, ms | times | block from logits, ms | times |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for size, cell in rows:
        theirs, block = cell["transformers"]["median_ms"], line_of(cell, "block")
        logits = cell.get("block_from_logits")
        ours = ("", "") if block is None else (block["median_ms"], theirs / block["median_ms"])
        whole = ("", "") if logits is None else (logits["median_ms"], theirs / logits["median_ms"])
        cells = [_ms(theirs), *(x if x == "" else _ms(float(x)) for x in (*ours, *whole))]
        lines.append(f"| {size.vocab:,} | {size.blocks} | {size.length} | {' | '.join(cells)} |")
    return [*lines, "", *_engines(report)]


def _engines(report: Report) -> list[str]:
    """The samplers of the engines that are importable here, in the cells of one draft."""
    cells = [(size, cell["engines"]) for size, cell in sizes(report) if cell.get("engines")]
    names = list(dict.fromkeys(name for _, times in cells for name in times))
    if not names:
        return []
    lines = [
        "## Beside the engines",
        "",
        *_paragraph(
            "Milliseconds of their samplers on the same blocks, one call for all (vLLM from target",
            "logits, with the draw of the bonus that it is given; the others from probabilities):",
        ),
        "| V | B | L | block | token_by_token | " + " | ".join(names) + " |",
        "|--:|--:|--:|--:|--:|" + "--:|" * len(names),
    ]
    for size, times in cells:
        cell = cell_at(report, size) or {"lines": []}
        ours = [line_of(cell, scheme) for scheme in ("block", "token_by_token")]
        shown = [_ms(line["median_ms"]) if line else "" for line in ours]
        shown += [_time_or_error(times.get(name, {})) for name in names]
        lines.append(f"| {size.vocab:,} | {size.blocks} | {size.length} | {' | '.join(shown)} |")
    return [*lines, ""]


def _time_or_error(times: Report) -> str:
    """A median, or why there is none."""
    return _ms(times["median_ms"]) if "median_ms" in times else str(times.get("error", ""))


def _costs(report: Report, name: str) -> list[str]:
    """What the schemes cost at equal sizes, and how that grows."""
    if not report["scaling"]:
        return []
    lines = ["## Cost of the schemes at equal sizes", "", *_scales(report)]
    for axis, entries in report["scaling"].items():
        values = sorted({entry[axis] for entry in entries})
        lines += [
            *_paragraph(
                f"Milliseconds by {AXES[axis]}, and the exponent of the growth between the last",
                "two columns:",
            ),
            "| scheme | " + " | ".join(f"{value:,}" for value in values) + " | exponent |",
            "|---|" + "--:|" * (len(values) + 1),
        ]
        for scheme in MULTIPLE:
            row = {e[axis]: e["median_ms"] for e in entries if e["scheme"] == scheme}
            cells = " | ".join(_ms(row[value]) if value in row else "–" for value in values)
            growth = f"{_exponent(row, values):.2f}" if row.keys() >= set(values[-2:]) else ""
            lines.append(f"| {scheme} | {cells} | {growth} |")
        lines.append("")
    lines += [
        f"![Time of the schemes by vocabulary, drafts and length]({name}.png)",
        "",
    ]
    return lines


def _exponent(row: dict[int, float], values: list[int]) -> float:
    """x in time ∝ size^x between the last two sizes."""
    low, high = values[-2:]
    return log(row[high] / row[low]) / log(high / low)


def _scales(report: Report) -> list[str]:
    """Whether the scale "unit" of SpecTr-GBV is linear in V and cheaper than "kseq"."""
    entries = report["scaling"].get("vocab", [])
    unit = {e["vocab"]: e["median_ms"] for e in entries if e["scheme"] == "spectr_gbv"}
    kseq = {e["vocab"]: e["median_ms"] for e in entries if e["scheme"] == "spectr_gbv kseq"}
    both = [
        two["median_ms"] / one["median_ms"]
        for _, cell in sizes(report)
        if (one := line_of(cell, "spectr_gbv")) and (two := line_of(cell, "spectr_gbv kseq"))
    ]
    if not unit or not both:
        return []
    values = sorted(unit)
    ratios = ", ".join(f"{kseq[v] / unit[v]:.1f} at V = {v:,}" for v in values)
    fixed = report["fixed"].get("spectr_gbv")
    text = [
        f'`spectr_gbv` with `scale="unit"` has no root search: `"kseq"` takes {ratios} times as',
        f"long along V, and {statistics.median(both):.1f} times in the median of {len(both)} cells",
        f"of the grid ({min(both):.1f} to {max(both):.1f}). Linear in V is an exponent of 1; below",
        "it the work that does not depend on V still weighs",
    ]
    if fixed is None:
        return _paragraph(*text, "in these sizes.")
    size = f"B = {AIM.blocks}, L = {AIM.length}, K = 3"
    return _paragraph(*text, f"({_ms(fixed['median_ms'])} ms of a unit call with {size}).")


def grid_page(report: Report, name: str) -> str:
    """The page of all cells: matrices of medians, then all columns."""
    cells = list(sizes(report))
    lines = [
        f"# All cells: {report['device']}",
        "",
        *_paragraph(
            f"`{_command(report)}`, a budget of {report['minutes']:.0f} minutes, up to",
            f"{report['repeats']} timed calls of a line, fewer where a call is long. At most",
            f"{gib(report['memory_limit'])} GiB of memory. Rows are distinct by node and by block:",
            f"none are shared. A star marks cells during which others used more than {BUSY} cores.",
            f"[Summary]({name}.md).",
        ),
        *([f"![Time by number of blocks]({name}_grid.png)", ""] if has_grid(report) else []),
        "## Milliseconds a call",
        "",
    ]
    for vocab in sorted({size.vocab for size, _ in cells}):
        for drafts in sorted({size.drafts for size, _ in cells if size.vocab == vocab}):
            chosen = [x for x in cells if x[0].vocab == vocab and x[0].drafts == drafts]
            lines += _matrices(vocab, drafts, chosen)
    lines += ["## All columns", ""]
    for vocab in sorted({size.vocab for size, _ in cells}):
        for drafts in sorted({size.drafts for size, _ in cells if size.vocab == vocab}):
            chosen = [x for x in cells if x[0].vocab == vocab and x[0].drafts == drafts]
            lines += _long_table(vocab, drafts, chosen)
    lines += _left_out(report)
    return "\n".join(lines)


def _matrices(vocab: int, drafts: int, cells: list[tuple[Size, Report]]) -> list[str]:
    """Median times of all schemes at one V and K: a column for each B and L."""
    cells = sorted(cells, key=lambda x: (x[0].blocks, x[0].length))
    heads = [f"{s.blocks}, {s.length}{_star(cell)}" for s, cell in cells]
    lines = [
        f"V = {vocab:,}, K = {drafts}, by B, L (in brackets the straightforward version):",
        "",
        "| scheme | " + " | ".join(heads) + " |",
        "|---|" + "--:|" * len(heads),
    ]
    for scheme in SINGLE if drafts == 1 else MULTIPLE:
        row = []
        for _, cell in cells:
            line = line_of(cell, scheme)
            if line is None:
                row.append("–")
                continue
            plain = line.get("straightforward")
            row.append(
                _ms(line["median_ms"]) + ("" if plain is None else f" ({_ms(plain['median_ms'])})")
            )
        lines.append(f"| {scheme} | " + " | ".join(row) + " |")
    return [*lines, ""]


def _star(cell: Report) -> str:
    return "\\*" if (cell.get("other_cores") or 0.0) > BUSY else ""


def _long_table(vocab: int, drafts: int, cells: list[tuple[Size, Report]]) -> list[str]:
    """All columns of all schemes at one V and K."""
    graphs = any("graph" in line for _, cell in cells for line in cell["lines"])
    lines = [
        "<details>",
        f"<summary>V = {vocab:,}, K = {drafts}</summary>",
        "",
        "| B | L | scheme | ms (quartiles) | calls | MB to read | passes | GB/s | of copy "
        "| extra memory, % of rows | accepted | straightforward, ms (calls) |"
        + (" in a CUDA graph, ms |" if graphs else ""),
        "|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|" + ("--:|" if graphs else ""),
    ]
    for size, cell in sorted(cells, key=lambda x: (x[0].blocks, x[0].length)):
        for line in cell["lines"]:
            plain = line.get("straightforward")
            beside = "" if plain is None else f"{_ms(plain['median_ms'])} ({plain['calls']})"
            lines.append(
                f"| {size.blocks}{_star(cell)} | {size.length} | {line['scheme']} "
                f"| {_ms(line['median_ms'])} ({_ms(line['low_ms'])} to {_ms(line['high_ms'])}) "
                f"| {line['calls']} | {_reading(line)} "
                f"| {100 * line['extra_of_rows']:.1f} | {line['mean_accepted']:.2f} "
                f"| {beside} |" + (f" {_time_or_error(line.get('graph', {}))} |" if graphs else "")
            )
    return [*lines, "", "</details>", ""]


def _left_out(report: Report) -> list[str]:
    """What was not measured, and why."""
    lines = ["## Left out", ""]
    for entry in report["left_out"]:
        lines.append(f"* {Size(**entry['size'])}: {entry['reason']}.")
    counts: dict[tuple[str, str], dict[str, list[str]]] = {}
    for _, cell in sizes(report):
        for entry in cell["left_out"]:
            kind = "memory" if "GiB" in entry["reason"] else "time"
            of = counts.setdefault((entry["scheme"], entry["what"]), {"time": [], "memory": []})
            of[kind].append(entry["reason"])
    if counts:
        lines += [
            "",
            *_paragraph(
                "In cells that were measured (a dash, or no number in brackets, above), for the",
                "time or the memory that they would take; the first and the last reason, in the",
                "order of size. All are in the JSON.",
            ),
            "| | what | cells | time | cells | memory |",
            "|---|---|--:|---|--:|---|",
        ]
    for (scheme, what), of in sorted(counts.items()):
        both = (f"{len(reasons) or ''} | {_ends(reasons)}" for reasons in of.values())
        lines.append(f"| {scheme} | {what} | {' | '.join(both)} |")
    if len(lines) == 2:
        lines.append("Nothing.")
    return [*lines, ""]


def _ends(reasons: list[str]) -> str:
    """The first and the last of some reasons."""
    return " … ".join(dict.fromkeys([*reasons[:1], *reasons[-1:]]))


def compact(report: Report) -> str:
    """The report as JSON: five digits, a line for each line of the tables."""
    text = json.dumps(_rounded(report), indent=1)
    return text + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(x) for key, x in value.items()}
    return [_rounded(x) for x in value] if isinstance(value, (list, tuple)) else value
