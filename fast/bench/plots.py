"""The plots of a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from draftproof.fast.bench.cells import line_of, sizes
from draftproof.fast.bench.run import AIM, AXES, MULTIPLE, SINGLE, Report

__all__ = ["plot_grid", "plot_scaling"]


def plot_scaling(report: Report, file: Path) -> None:
    """Time of each scheme along the three axes."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 5.5), sharey=True, layout="constrained")
    for ax, (axis, entries) in zip(axes, report["scaling"].items(), strict=False):
        for number, scheme in enumerate(MULTIPLE):
            points = [(e[axis], e["median_ms"]) for e in entries if e["scheme"] == scheme]
            if points:
                ax.plot(*zip(*points, strict=True), label=scheme, **_style(number))
        ax.set(xscale="log", yscale="log", title=AXES[axis])
        ax.grid(True, which="both", alpha=0.3)
        values = sorted({e[axis] for e in entries})
        ax.set_xticks(values, [f"{value:,}" for value in values])
        ax.xaxis.minorticks_off()
    axes[0].set_ylabel("ms a call")
    _save(figure, axes[0], file)


def plot_grid(report: Report, file: Path) -> None:
    """Time of each scheme by the number of blocks at L = 8, for each V and K."""
    plt = _pyplot()
    cells = [(size, cell) for size, cell in sizes(report) if size.length == AIM.length]
    vocabs = sorted({size.vocab for size, _ in cells})
    drafts = sorted({size.drafts for size, _ in cells})
    shape = (max(len(vocabs), 1), max(len(drafts), 1))
    size_ = (5 * shape[1] + 2, 4 * shape[0])
    figure, axes = plt.subplots(
        *shape, figsize=size_, sharey=True, squeeze=False, layout="constrained"
    )
    for i, vocab in enumerate(vocabs):
        for j, k in enumerate(drafts):
            ax = axes[i][j]
            for number, scheme in enumerate((*SINGLE, *MULTIPLE)):
                points = sorted(
                    (size.blocks, line["median_ms"])
                    for size, cell in cells
                    if (size.vocab, size.drafts) == (vocab, k) and (line := line_of(cell, scheme))
                )
                if points:
                    ax.plot(*zip(*points, strict=True), label=scheme, **_style(number))
            ax.set(xscale="log", yscale="log", title=f"V = {vocab:,}, K = {k}, L = {AIM.length}")
            ax.grid(True, which="both", alpha=0.3)
            blocks = sorted({size.blocks for size, _ in cells})
            ax.set_xticks(blocks, [str(b) for b in blocks])
            ax.xaxis.minorticks_off()
            ax.set_xlabel("blocks B")
        axes[i][0].set_ylabel("ms a call")
    _save(figure, axes, file)


def _style(number: int) -> dict[str, Any]:
    """A colour and a marker of its own for each scheme."""
    return {
        "color": f"C{number % 10}",
        "marker": "osD^v<>Pp*"[number % 10],
        "linestyle": "-" if number < 10 else "--",
        "markersize": 5,
    }


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, axes: Any, file: Path) -> None:
    """One legend for all axes, then the file in one go."""
    import matplotlib.pyplot as plt

    labels: dict[str, Any] = {}
    for ax in getattr(axes, "flat", [axes]):
        labels |= {label: line for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if labels:
        figure.legend(labels.values(), labels.keys(), loc="outside right upper", fontsize=9)
    partial = file.with_suffix(".part.png")
    figure.savefig(partial, dpi=100)
    plt.close(figure)
    os.replace(partial, file)
