"""Turn results into tables with intervals, paired tests, and plots.

Intervals are 95 %, from the spread over prompts (Student's t).  A difference between two methods is
tested on the same prompts: the two ratio estimates are linearised, subtracted prompt by prompt, and
their mean is compared with 0 by a t-test; Holm's correction covers all claims made together.
"""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from draftproof.fast.decoding.experiments import (
    CURVES,
    DRAFTS,
    FORWARD,
    LAW,
    LAW_SCHEMES,
    LENGTHS,
    METHODS,
    MULTI_DRAFT,
    PUBLISHED,
    TEMPERATURES,
    WARMER,
    Configuration,
    cell,
    ngram_cell,
    series_cell,
    speed_cell,
)
from draftproof.fast.decoding.methods import AUTOREGRESSIVE
from draftproof.fast.decoding.rounds import STAGES
from numpy.typing import NDArray
from scipy import stats

Found = dict[str, dict[str, Any]]
"""Results by key."""


class Estimate(NamedTuple):
    """A number with half the width of its 95 % interval."""

    value: float
    half: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.half:.2f}"


def mean_interval(values: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """Mean of independent values."""
    x = np.asarray(values, float)
    if len(x) < 2:
        return Estimate(float(x.mean()), math.nan)
    half = float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)))
    return Estimate(float(x.mean()), half)


def _linearised(result: dict[str, Any], numerator: str) -> tuple[float, NDArray[np.float64]]:
    """(ratio of totals per target call, each prompt's share of its deviation)."""
    y = np.asarray(result["per_prompt"][numerator], float)
    x = np.asarray(result["per_prompt"]["rounds"], float)
    ratio = float(y.sum() / x.sum())
    return ratio, (y - ratio * x) / x.mean()


def per_call(result: dict[str, Any], numerator: str = "tokens") -> Estimate:
    """Tokens (or "nodes") per target call, over the rounds that nothing could cut short."""
    ratio, deviations = _linearised(result, numerator)
    return Estimate(ratio, mean_interval(deviations).half)


def paired_difference(first: dict[str, Any], second: dict[str, Any]) -> tuple[Estimate, float]:
    """(block efficiency of the first minus the second, two-sided p-value), paired by prompt."""
    a, b = _linearised(first, "tokens"), _linearised(second, "tokens")
    gap = a[1] - b[1] + (a[0] - b[0])
    estimate = mean_interval(gap)
    if not gap.std():
        return estimate, 1.0 if estimate.value == 0 else 0.0
    return estimate, float(stats.ttest_1samp(gap, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of claims made together (Holm 1979)."""
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    worst = 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = worst
    return [float(p) for p in adjusted]


def speed_up(result: dict[str, Any]) -> Estimate:
    """Seconds of autoregressive decoding over seconds of the method, geometric mean over
    prompts."""
    ratios = [
        math.log(sum(t["autoregressive"].values()) / sum(t["method"].values()))
        for t in result["timed"]
    ]
    estimate = mean_interval(ratios)
    middle = math.exp(estimate.value)
    return Estimate(middle, middle * estimate.half)


def stage_milliseconds(result: dict[str, Any], stage: str) -> float:
    """Milliseconds of a stage per target call, one request at a time."""
    seconds: float = sum(t["method"][stage] for t in result["timed"])
    calls: int = sum(t["calls"] for t in result["timed"])
    return 1000 * seconds / calls


def _get(found: Found, configuration: Configuration) -> dict[str, Any] | None:
    return found.get(configuration.key)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def methods_table(found: Found) -> str:
    """Block efficiency and speed-up of every method at the settings of the published tables."""
    shapes = ((4, 6, 1.0), (8, 8, 1.0), (2, 4, 1.0), (3, 12, 0.4))
    head = ["method", *(f"K={k} L={n} T={t:g}" for k, n, t in shapes)]
    rows = []
    for scheme in METHODS:
        row = [scheme]
        for k, n, t in shapes:
            result = _get(found, cell(scheme, k, n, t))
            row.append("" if result is None else str(per_call(result)))
        rows.append(row)
    return _markdown(head, rows)


class Series(NamedTuple):
    """Block efficiency along one axis: L, K or the temperature."""

    label: str
    values: Sequence[float]
    schemes: Sequence[str]
    at: Callable[[str, float], Configuration]


SERIES = {
    "lengths": Series(
        "draft length L (K = 4; block: K = 1)",
        LENGTHS,
        CURVES,
        lambda scheme, value: series_cell(scheme, 4, int(value)),
    ),
    "drafts": Series(
        "drafts K (L = 6)",
        DRAFTS,
        MULTI_DRAFT,
        lambda scheme, value: series_cell(scheme, int(value), 6),
    ),
    "temperatures": Series(
        "temperature (K = 4, L = 6; block: K = 1)",
        TEMPERATURES,
        CURVES,
        lambda scheme, value: series_cell(scheme, 4, 6, value),
    ),
}


def series_table(found: Found, name: str) -> str:
    """Block efficiency along a series."""
    series = SERIES[name]
    rows = []
    for scheme in series.schemes:
        results = [_get(found, series.at(scheme, value)) for value in series.values]
        rows.append([scheme, *("" if r is None else str(per_call(r)) for r in results)])
    return _markdown(["method", *(f"{value:g}" for value in series.values)], rows)


def speed_table(found: Found) -> str:
    """Speed-up over autoregressive decoding along L, one request at a time."""
    rows = []
    for scheme in ("block", "ranked_block"):
        results = [_get(found, speed_cell(scheme, 4, length)) for length in LENGTHS]
        rows.append([scheme, *("" if r is None else str(speed_up(r)) for r in results)])
    return _markdown(["method", *(f"L = {length}" for length in LENGTHS)], rows)


def projected_table(found: Found) -> str:
    """Speed-ups that the measured parts would add up to with a target as slow as the random model.

    tokens per call × t(1) / (t(nodes + 1) + draft + verification), t being that model's time along
    the time axis, interpolated; empty where the tree is larger than what was timed.
    """
    times = sorted(
        (r["forward"]["nodes"], 1000 * r["seconds"])
        for r in found.values()
        if FORWARD in r and r["forward"]["axis"] == "time" and "random" in r["forward"]["model"]
    )
    rows = []
    for scheme in ("block", "ranked_block"):
        row = [scheme]
        for length in LENGTHS:
            series = _get(found, series_cell(scheme, 4, length))
            speed = _get(found, speed_cell(scheme, 4, length))
            nodes = 0.0 if series is None else per_call(series, "nodes").value
            if series is None or speed is None or not times or nodes + 1 > times[-1][0]:
                row.append("")
                continue
            call = float(np.interp(nodes + 1, [n for n, _ in times], [t for _, t in times]))
            other = sum(stage_milliseconds(speed, stage) for stage in ("draft", "verification"))
            row.append(f"{per_call(series).value * times[0][1] / (call + other):.2f}")
        rows.append(row)
    return _markdown(["method", *(f"L = {length}" for length in LENGTHS)], rows)


def warmer_table(found: Found) -> str:
    """Drafts sampled hotter than a target at temperature 0.4."""
    warmths = (None, *WARMER)
    rows = []
    for scheme in CURVES:
        results = [
            _get(found, series_cell(scheme, 4, 6, 0.4, draft_temperature=warmth))
            for warmth in warmths
        ]
        rows.append([scheme, *("" if r is None else str(per_call(r)) for r in results)])
    return _markdown(["method", *(f"draft T = {w or 0.4:g}" for w in warmths)], rows)


def nodes_table(found: Found, targets: Sequence[int] = (8, 16, 32)) -> str:
    """The best tree of each method with about as many distinct nodes as the budget, or fewer."""
    results = [r for r in found.values() if "configuration" in r and _plain_cell(r)]
    rows = []
    for scheme in CURVES:
        row = [scheme]
        for target in targets:
            fitting = [
                r
                for r in results
                if r["configuration"]["scheme"] == scheme
                and 0.75 * target <= per_call(r, "nodes").value <= 1.1 * target
            ]
            if not fitting:
                row.append("")
                continue
            best = max(fitting, key=lambda r: per_call(r).value)
            shape = f"K={best['configuration']['drafts']} L={best['configuration']['length']}"
            row.append(f"{per_call(best)} ({shape}, {per_call(best, 'nodes').value:.1f} nodes)")
        rows.append(row)
    return _markdown(["method", *(f"about {t} nodes" for t in targets)], rows)


def _plain_cell(result: dict[str, Any]) -> bool:
    configuration = result["configuration"]
    return (
        configuration["pair"] == "shipped"
        and configuration["temperature"] == 1.0
        and configuration["draft_temperature"] is None
        and configuration["prompts"] in (32, 48)
    )


def _wide(scheme: str) -> Configuration:
    return cell(scheme, 4, 6, 1.0, prompts=128, tokens=64)


def quality_table(found: Found, schemes: Sequence[str]) -> str:
    """Differences from autoregressive decoding in log-likelihood and text statistics, by prompt.

    Bold: the difference (for "excess", the mean itself) is not 0, p < 0.05 by a t-test after Holm's
    correction over all entries of the table.
    """
    plain = _get(found, _wide(AUTOREGRESSIVE))
    if plain is None:
        return ""
    names = ("log_likelihood", "excess", "word_length", "distinct")
    done = [(s, r) for s in schemes if (r := _get(found, _wide(s))) is not None]
    estimates, p_values = [], []
    for _, result in done:
        for name in names:
            gap = np.asarray(result["per_prompt"][name])
            if name != "excess":
                gap = gap - np.asarray(plain["per_prompt"][name])
            estimates.append(mean_interval(gap))
            p_values.append(float(stats.ttest_1samp(gap, 0.0).pvalue))
    entries = [
        f"{'**' if p < 0.05 else ''}{e.value:+.3f} ± {e.half:.3f}{'**' if p < 0.05 else ''}"
        for e, p in zip(estimates, holm(p_values))
    ]
    levels = [mean_interval(plain["per_prompt"][name]) for name in names]
    rows = [["autoregressive (level)", *(f"{e.value:.3f} ± {e.half:.3f}" for e in levels)]]
    for i, (scheme, _) in enumerate(done):
        rows.append([scheme, *entries[4 * i : 4 * i + 4]])
    head = ["method", "log-likelihood", "excess (absolute)", "word length", "distinct words"]
    return _markdown(head, rows)


def law_table(found: Found) -> str:
    """The test of the first two bytes of many texts, by scheme."""
    results = [found[key] for scheme in LAW_SCHEMES if (key := f"law/{scheme}") in found]
    adjusted = holm([r["p_value"] for r in results])
    rows = [
        [
            r[LAW]["scheme"],
            f"{r['total_variation']:.3f}",
            f"{r['noise']:.3f}",
            f"{r['p_value']:.1e}",
            "**biased**" if p < 0.01 else "no difference seen",
        ]
        for r, p in zip(results, adjusted)
    ]
    head = ["method", "total variation seen", "of which noise", "p", "verdict (Holm, 1 %)"]
    return _markdown(head, rows)


def stages_table(found: Found, drafts: int, length: int, temperature: float, pair: str) -> str:
    """Milliseconds per target call of each stage and the speed-up, one request at a time."""
    rows = []
    for scheme in METHODS:
        result = _get(found, speed_cell(scheme, drafts, length, temperature, pair))
        if result is not None:
            values = [f"{stage_milliseconds(result, stage):.2f}" for stage in STAGES]
            rows.append([scheme, *values, str(speed_up(result))])
    return _markdown(["method", *STAGES, "speed-up"], rows)


def ngram_table(found: Found) -> str:
    """Block efficiency and distinct nodes on the n-gram pair."""
    rows = []
    for scheme in PUBLISHED:
        result = _get(found, ngram_cell(scheme))
        if result is not None:
            rows.append([scheme, str(per_call(result)), f"{per_call(result, 'nodes').value:.1f}"])
    return _markdown(["method", "block efficiency", "distinct nodes"], rows)


class Claim(NamedTuple):
    """The first configuration gives more tokens per target call than the second."""

    text: str
    first: Configuration
    second: Configuration


CLAIMS = (
    Claim("block over token by token, K=1 L=6", _wide("block"), _wide("token_by_token")),
    Claim("block over greedy block (carry), K=1 L=6", _wide("block"), _wide("greedy_block")),
    Claim("SpecTr over block, K=4 L=6", _wide("spectr"), _wide("block")),
    Claim("traversal over SpecTr, K=4 L=6", _wide("traversal"), _wide("spectr")),
    Claim("K-SEQ block over SpecTr, K=4 L=6", _wide("kseq_block"), _wide("spectr")),
    Claim("K-SEQ block over traversal, K=4 L=6", _wide("kseq_block"), _wide("traversal")),
    Claim("K-SEQ block over SpecTr-GBV (carry), K=4 L=6", _wide("kseq_block"), _wide("spectr_gbv")),
    Claim("ranked block over K-SEQ block, K=4 L=6", _wide("ranked_block"), _wide("kseq_block")),
    Claim(
        "SpecTr over token by token, K=8 L=8", cell("spectr", 8, 8), cell("token_by_token", 8, 8)
    ),
    Claim(
        "ranked block over K-SEQ block, K=8 L=8",
        cell("ranked_block", 8, 8),
        cell("kseq_block", 8, 8),
    ),
    Claim(
        "SpecTr over token by token, K=3 L=12 T=0.4",
        cell("spectr", 3, 12, 0.4),
        cell("token_by_token", 3, 12, 0.4),
    ),
    Claim(
        "greedy block over token by token, L=12 T=0.4",
        cell("greedy_block", 3, 12, 0.4),
        cell("token_by_token", 3, 12, 0.4),
    ),
    Claim(
        "SpecTr-GBV (lossless) over SpecTr, K=3 L=12 T=0.4",
        cell("spectr_gbv", 3, 12, 0.4),
        cell("spectr", 3, 12, 0.4),
    ),
    Claim(
        "ranked block over SpecTr, K=3 L=12 T=0.4",
        cell("ranked_block", 3, 12, 0.4),
        cell("spectr", 3, 12, 0.4),
    ),
    Claim(
        "ranked block, K=4 L=6 T=0.4: drafts at 0.7 over drafts at 0.4",
        series_cell("ranked_block", 4, 6, 0.4, draft_temperature=0.7),
        series_cell("ranked_block", 4, 6, 0.4),
    ),
)
"""What docs/experiments.md says about differences."""


def claims_table(found: Found) -> str:
    """Each claim's difference in block efficiency and its corrected p-value."""
    rows, p_values = [], []
    for claim in CLAIMS:
        first, second = _get(found, claim.first), _get(found, claim.second)
        if first is None or second is None:
            continue
        estimate, p = paired_difference(first, second)
        rows.append([claim.text, f"{estimate.value:+.2f} ± {estimate.half:.2f}"])
        p_values.append(p)
    for row, p in zip(rows, holm(p_values)):
        row += [f"{p:.1e}", "yes" if p < 0.05 and row[1].startswith("+") else "no"]
    return _markdown(["claim", "difference", "p (Holm)", "holds at 5 %"], rows)


def forward_table(found: Found) -> str:
    """Milliseconds of a target call against the nodes it scores, along both axes."""
    results = [r for r in found.values() if FORWARD in r]
    counts = sorted({r["forward"]["nodes"] for r in results})
    rows = []
    for model in sorted({r["forward"]["model"] for r in results}):
        for axis in ("batch", "time"):
            by_count = {
                r["forward"]["nodes"]: 1000 * r["seconds"]
                for r in results
                if (r["forward"]["model"], r["forward"]["axis"]) == (model, axis)
            }
            rows.append(
                [
                    f"{Path(model).name}, {axis}",
                    *(f"{by_count.get(c, math.nan):.1f}" for c in counts),
                ]
            )
    return _markdown(["model, axis", *(f"n = {c}" for c in counts)], rows)


TABLES: dict[str, Callable[[Found], str]] = {
    "methods": methods_table,
    "claims": claims_table,
    **{name: functools.partial(series_table, name=name) for name in SERIES},
    "speed": speed_table,
    "projected": projected_table,
    "warmer": warmer_table,
    "nodes": nodes_table,
    "stages": lambda found: stages_table(found, 4, 6, 1.0, "shipped"),
    "stages_long": lambda found: stages_table(found, 3, 12, 0.4, "shipped"),
    "stages_ngram": lambda found: stages_table(found, 4, 4, 1.0, "ngram"),
    "ngram": ngram_table,
    "quality": lambda found: quality_table(found, METHODS),
    "law": law_table,
    "controls": lambda found: quality_table(found, _controls()),
    "forward": forward_table,
}


def _controls() -> list[str]:
    from draftproof.fast.decoding.controls import CONTROLS

    return list(CONTROLS)


def fill_page(page: str, found: Found) -> str:
    """The page with every block between ``<!-- table: NAME -->`` and ``<!-- end -->`` made anew."""
    for name, build in TABLES.items():
        mark, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        if mark in page:
            head, rest = page.split(mark, 1)
            _, tail = rest.split(end, 1)
            page = f"{head}{mark}\n{build(found)}\n{end}{tail}"
    return page


COLOURS = {
    "block": "#555555",
    "spectr": "#1f77b4",
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

    for name, series in SERIES.items():
        figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
        for scheme in series.schemes:
            have = [(v, r) for v in series.values if (r := _get(found, series.at(scheme, v)))]
            curve(axes, scheme, [(v, per_call(r)) for v, r in have])
        axes.set(xlabel=series.label, ylabel="tokens per target call")
        if name == "drafts":
            axes.set_xscale("log", base=2)
            axes.set_xticks(series.values, [str(v) for v in series.values])
        legend(axes)
        save(figure, name)

    figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
    for scheme in ("block", "ranked_block"):
        have = [(v, r) for v in LENGTHS if (r := _get(found, speed_cell(scheme, 4, v)))]
        curve(axes, scheme, [(v, speed_up(r)) for v, r in have])
    axes.axhline(1, color="black", lw=0.6, ls=":")
    axes.set(xlabel=SERIES["lengths"].label, ylabel="speed-up over autoregressive decoding")
    legend(axes)
    save(figure, "speed")

    figure, axes = pyplot.subplots(figsize=(5.5, 3.8))
    results = [r for r in found.values() if "configuration" in r and _plain_cell(r)]
    for scheme in CURVES:
        own = [r for r in results if r["configuration"]["scheme"] == scheme]
        points = sorted((per_call(r, "nodes").value, per_call(r).value) for r in own)
        axes.plot(*zip(*points), "o", ms=4, color=COLOURS[scheme], label=scheme) if points else None
    axes.set(xlabel="distinct nodes per target call", ylabel="tokens per target call", xscale="log")
    legend(axes)
    save(figure, "nodes")

    times = [r for r in found.values() if FORWARD in r]
    models = sorted({r["forward"]["model"] for r in times})
    if models:
        figure, grid = pyplot.subplots(
            1, len(models), figsize=(4.5 * len(models), 3.6), squeeze=False
        )
        for axes, model in zip(grid[0], models):
            for axis, style in (("batch", "s--"), ("time", "o-")):
                own = [
                    r
                    for r in times
                    if r["forward"]["model"] == model and r["forward"]["axis"] == axis
                ]
                own.sort(key=lambda r: r["forward"]["nodes"])
                axes.plot(
                    [r["forward"]["nodes"] for r in own],
                    [r["seconds"] / own[0]["seconds"] for r in own],
                    style,
                    ms=4,
                    label=f"{axis} axis",
                )
            axes.axhline(1, color="black", lw=0.6, ls=":")
            axes.set(
                title=Path(model).name,
                xlabel="nodes in a target call",
                ylabel="time, against one node",
                xscale="log",
                yscale="log",
            )
            axes.legend(fontsize=8)
        save(figure, "forward")
    return files
