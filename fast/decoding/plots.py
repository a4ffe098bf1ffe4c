"""The figures of docs/experiments.md."""

from pathlib import Path
from typing import Any

from draftproof.fast.decoding.analysis import (
    Estimate,
    Found,
    forward_growth,
    forward_models,
    get,
    node_results,
    per_call,
    speed_up,
)
from draftproof.fast.decoding.experiments import CURVES, LENGTHS, NODE_COUNTS, cell
from draftproof.fast.decoding.tables import SERIES, SPEED_CURVES

COLOURS = {
    "block": "#555555",
    "spectr": "#1f77b4",
    "spectr:transport": "#17becf",
    "traversal": "#2ca02c",
    "multipath": "#9467bd",
    "kseq_block": "#ff7f0e",
    "spectr_gbv": "#8c564b",
    "ranked_block": "#d62728",
}


def plot(found: Found, folder: Path) -> list[Path]:
    """Draw the figures of docs/experiments.md into a folder; return the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = []

    def save(figure: Any, name: str) -> None:
        figure.tight_layout()
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=110)
        pyplot.close(figure)
        files.append(path)

    def legend(axes: Any) -> None:
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=8)

    def curve(axes: Any, scheme: str, points: list[tuple[float, Estimate]]) -> None:
        if points:
            x, y, half = zip(*((v, e.value, e.half) for v, e in points))
            axes.errorbar(
                x, y, yerr=half, marker="o", ms=4, capsize=2, color=COLOURS[scheme], label=scheme
            )

    def dots(axes: Any, scheme: str, points: list[tuple[float, Estimate]]) -> None:
        if points:
            x, y, half = zip(*((v, e.value, e.half) for v, e in points))
            colour = COLOURS[scheme]
            axes.errorbar(x, y, yerr=half, fmt="o", ms=4, capsize=2, color=colour, label=scheme)

    for name, series in SERIES.items():
        figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
        for scheme in series.schemes:
            have = [(v, r) for v in series.values if (r := get(found, series.at(scheme, v)))]
            curve(axes, scheme, [(v, per_call(r)) for v, r in have])
        axes.set(xlabel=series.label, ylabel="tokens per target call")
        if name == "drafts":
            axes.set_xscale("log", base=2)
            axes.set_xticks(series.values, [str(v) for v in series.values])
        legend(axes)
        save(figure, name)

    figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
    for scheme in SPEED_CURVES:
        gains = [(n, speed_up(found, "speed_lengths", cell(scheme, 4, n))) for n in LENGTHS]
        curve(axes, scheme, [(n, gain) for n, gain in gains if gain is not None])
    axes.axhline(1, color="black", lw=0.6, ls=":")
    axes.set(xlabel=SERIES["lengths"].label, ylabel="speed-up over autoregressive decoding")
    legend(axes)
    save(figure, "speed")

    figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
    for scheme in CURVES:
        own = node_results(found, scheme)
        points = sorted((per_call(r, "nodes").value, per_call(r)) for r in own)
        dots(axes, scheme, points)
    axes.set(xlabel="distinct nodes per target call", ylabel="tokens per target call", xscale="log")
    legend(axes)
    save(figure, "nodes")

    models = forward_models(found)
    if models:
        figure, grid = pyplot.subplots(
            1, len(models), figsize=(4.5 * len(models), 3.6), squeeze=False
        )
        for axes, model in zip(grid[0], models):
            for axis, style in (("batch", "s--"), ("time", "o-")):
                grown = [(n, forward_growth(found, model, axis, n)) for n in NODE_COUNTS]
                measured = [(n, e.value, e.half) for n, e in grown if e is not None]
                x, y, half = zip(*measured)
                axes.errorbar(x, y, yerr=half, fmt=style, ms=4, capsize=2, label=f"{axis} axis")
            axes.axhline(1, color="black", lw=0.6, ls=":")
            axes.set(
                title=model,
                xlabel="nodes in a target call",
                ylabel="time, against one node",
                xscale="log",
                yscale="log",
            )
            axes.set_xticks(NODE_COUNTS, [str(n) for n in NODE_COUNTS])
            axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
            axes.minorticks_off()
            axes.legend(fontsize=8)
        save(figure, "forward")
    return files
