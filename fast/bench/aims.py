"""The aims for each kind of device, judged from a report."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from draftproof.fast.bench.cells import cell_at, line_of, sizes
from draftproof.fast.bench.measure import Size
from draftproof.fast.bench.run import AIM, Report

__all__ = ["Aim", "aims"]


class Aim(NamedTuple):
    """What was aimed at, and what a run measured."""

    what: str
    measured: str
    reached: bool
    gap: str
    """By how much it is missed, empty if it is not."""


def aims(report: Report) -> list[Aim]:
    """The aims for the kind of device of this run."""
    return _gpu_aims(report) if report["kind"] == "cuda" else _cpu_aims(report)


def _cpu_aims(report: Report) -> list[Aim]:
    cell = cell_at(report, AIM)
    block = cell and line_of(cell, "block")
    if cell is None or block is None:
        return []
    made = [
        _at_least(
            "block verification reads its rows at 60 % of the copy bandwidth or more",
            block["of_copy"],
            0.6,
            f" ({block['bandwidth'] / 1e9:.1f} of {report['copy_bandwidth'] / 1e9:.1f} GB/s)",
        )
    ]
    if "transformers" in cell:
        factor = cell["transformers"]["median_ms"] / block["median_ms"]
        logits = cell["transformers"]["median_ms"] / cell["block_from_logits"]["median_ms"]
        made.append(
            Aim(
                "at least 5 times faster than transformers' function called per block",
                f"{factor:.1f} times from probabilities, {logits:.1f} times from logits",
                factor >= 5,
                "" if factor >= 5 else f"{5 / factor:.2f} times too slow",
            )
        )
    share = block["extra_of_rows"]
    gap = "" if share <= 0.1 else f"{100 * (share - 0.1):.1f} points too much"
    what = "peak extra memory at most 10 % of the rows"
    made.append(Aim(what, f"{100 * share:.1f} %", 0 <= share <= 0.1, gap))
    return made


def _gpu_aims(report: Report) -> list[Aim]:
    made = []
    passes = {
        size: cell["row_pass"]["bandwidth"] / report["copy_bandwidth"]
        for size, cell in sizes(report)
        if size.blocks >= 64 and "row_pass" in cell
    }
    if passes:
        worst = min(passes, key=lambda size: passes[size])
        middle = 100 * statistics.median(passes.values())
        made.append(
            _at_least(
                "the row pass at 80 % of the copy bandwidth or more, at all B ≥ 64",
                passes[worst],
                0.8,
                f" in the worst cell ({worst}), {middle:.0f} % in the median one",
            )
        )
    for way in ("as called from Python", "in a CUDA graph"):
        factors = dict(_block_over_plain(report, way == "in a CUDA graph"))
        if not factors:
            continue
        worst = max(factors, key=lambda size: factors[size])
        middle = statistics.median(factors.values())
        factor = factors[worst]
        made.append(
            Aim(
                f"block within 1.3 times of token by token, at all B ≥ 64, {way}",
                f"{factor:.2f} times in the worst cell ({worst}), {middle:.2f} in the median one",
                factor <= 1.3,
                "" if factor <= 1.3 else f"{factor / 1.3:.2f} times too slow",
            )
        )
    return made


def _at_least(what: str, share: float, aim: float, more: str) -> Aim:
    gap = "" if share >= aim else f"{100 * (aim - share):.0f} points short"
    return Aim(what, f"{100 * share:.0f} %{more}", share >= aim, gap)


def _block_over_plain(report: Report, graph: bool) -> Iterator[tuple[Size, float]]:
    """(size, time of block over time of token by token) where B ≥ 64."""
    for size, cell in sizes(report):
        block, plain = line_of(cell, "block"), line_of(cell, "token_by_token")
        if size.blocks < 64 or block is None or plain is None:
            continue
        one, two = (line.get("graph", {}) if graph else line for line in (block, plain))
        if "median_ms" in one and "median_ms" in two:
            yield size, one["median_ms"] / two["median_ms"]
