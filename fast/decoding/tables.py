"""The tables of docs/experiments.md, from results by key; empty entries where one is missing."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from draftproof.fast.decoding.analysis import (
    LEVEL,
    NODE_BUDGETS,
    QUALITIES,
    Estimate,
    Found,
    best_tree,
    forward_models,
    get,
    law_tests,
    mean_interval,
    per_call,
    quality_gaps,
    speed_up,
    timing,
    verdicts,
)
from draftproof.fast.decoding.controls import CONTROLS
from draftproof.fast.decoding.experiments import (
    CURVES,
    DRAFTS,
    LAW,
    LENGTHS,
    METHODS,
    MULTI_DRAFT,
    NGRAM,
    NODE_COUNTS,
    SHAPES,
    STATEFUL_RANKED,
    TEMPERATURES,
    TIMED,
    WARMER,
    Configuration,
    cell,
    ngram_cell,
)
from draftproof.fast.decoding.methods import AUTOREGRESSIVE
from draftproof.fast.decoding.rounds import STAGES


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; ``rows`` hold the text of each entry."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def methods_table(found: Found) -> str:
    """Block efficiency of every method at the settings of the published tables."""
    head = ["method", *(f"K={k} L={n} T={t:g}" for k, n, t in SHAPES)]
    rows = []
    for scheme in (*METHODS, STATEFUL_RANKED):
        results = [get(found, cell(scheme, *shape)) for shape in SHAPES]
        rows.append([scheme, *("" if r is None else str(per_call(r)) for r in results)])
    return markdown(head, rows)


SPEED_CURVES = ("block", "ranked_block")


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
        lambda scheme, value: cell(scheme, 4, int(value)),
    ),
    "drafts": Series(
        "drafts K (L = 6)",
        DRAFTS,
        MULTI_DRAFT,
        lambda scheme, value: cell(scheme, int(value), 6),
    ),
    "temperatures": Series(
        "temperature (K = 4, L = 6; block: K = 1)",
        TEMPERATURES,
        CURVES,
        lambda scheme, value: cell(scheme, 4, 6, value),
    ),
}


def series_table(found: Found, name: str) -> str:
    """Block efficiency along a series."""
    series = SERIES[name]
    rows = []
    for scheme in series.schemes:
        results = [get(found, series.at(scheme, value)) for value in series.values]
        rows.append([scheme, *("" if r is None else str(per_call(r)) for r in results)])
    return markdown(["method", *(f"{value:g}" for value in series.values)], rows)


def speed_table(found: Found) -> str:
    """Speed-up over autoregressive decoding along L, one request at a time."""
    rows = []
    for scheme in SPEED_CURVES:
        values = [speed_up(found, "speed_lengths", cell(scheme, 4, n)) for n in LENGTHS]
        rows.append([scheme, *("" if v is None else str(v) for v in values)])
    return markdown(["method", *(f"L = {length}" for length in LENGTHS)], rows)


def warmer_table(found: Found) -> str:
    """Drafts sampled hotter than a target at temperature 0.4."""
    warmths = (None, *WARMER)
    rows = []
    for scheme in CURVES:
        results = [
            get(found, cell(scheme, 4, 6, 0.4, draft_temperature=warmth)) for warmth in warmths
        ]
        rows.append([scheme, *("" if r is None else str(per_call(r)) for r in results)])
    return markdown(["method", *(f"draft T = {w or 0.4:g}" for w in warmths)], rows)


def nodes_table(found: Found) -> str:
    """The best tree of each method with about as many distinct nodes as the budget, or fewer."""
    rows = []
    for scheme in CURVES:
        row = [scheme]
        for budget in NODE_BUDGETS:
            best = best_tree(found, scheme, budget)
            if best is None:
                row.append("")
                continue
            shape = f"K={best['configuration']['drafts']} L={best['configuration']['length']}"
            row.append(f"{per_call(best)} ({shape}, {per_call(best, 'nodes').value:.1f} nodes)")
        rows.append(row)
    return markdown(["method", *(f"about {t} nodes" for t in NODE_BUDGETS)], rows)


def quality_table(found: Found, schemes: Sequence[str]) -> str:
    """Differences from autoregressive decoding in log-likelihood and text statistics; bold where
    p < 0.05."""
    plain = get(found, cell(AUTOREGRESSIVE, 4, 6))
    if plain is None:
        return ""
    gaps = quality_gaps(found, schemes)
    levels = [mean_interval(plain["per_prompt"][name]) for name in QUALITIES]
    rows = [["autoregressive (level)", *(f"{e.value:.3f} ± {e.half:.3f}" for e in levels)]]
    for scheme in dict.fromkeys(scheme for scheme, _ in gaps):
        entries = []
        for name in QUALITIES:
            e, p = gaps[scheme, name]
            bold = "**" if p < LEVEL else ""
            entries.append(f"{bold}{e.value:+.3f} ± {e.half:.3f}{bold}")
        rows.append([scheme, *entries])
    head = ["method", "log-likelihood", "excess (absolute)", "word length", "distinct words"]
    return markdown(head, rows)


def law_table(found: Found) -> str:
    """The test of the first two bytes of many texts, by scheme."""
    rows = [
        [
            r[LAW]["scheme"],
            f"{r['total_variation']:.3f}",
            f"{r['noise']:.3f}",
            f"{r['p_value']:.1e}",
            "**biased**" if p < 0.01 else "no difference seen",
        ]
        for r, p in law_tests(found)
    ]
    head = ["method", "total variation seen", "of which noise", "p", "verdict (Holm, 1 %)"]
    return markdown(head, rows)


def stages_table(found: Found, group: str) -> str:
    """Milliseconds per target call of each stage, what must be emitted to break even, and the
    speed-up, one request at a time."""
    rows = []
    for configuration in TIMED[group][1:]:
        times = timing(found, group, configuration)
        if times is None:
            continue
        values = [f"{1000 * times.stages[stage].mean():.2f}" for stage in STAGES]
        cost = mean_interval(times.log_break_even)
        even = Estimate(math.exp(cost.value), math.exp(cost.value) * cost.half)
        gain = speed_up(found, group, configuration)
        rows.append([configuration.scheme, *values, str(even), "" if gain is None else str(gain)])
    return markdown(["method", *STAGES, "break-even tokens per call", "speed-up"], rows)


def ngram_table(found: Found) -> str:
    """Block efficiency and distinct nodes on the n-gram pair."""
    rows = []
    for scheme in NGRAM:
        result = get(found, ngram_cell(scheme))
        if result is not None:
            rows.append([scheme, str(per_call(result)), f"{per_call(result, 'nodes').value:.1f}"])
    return markdown(["method", "block efficiency", "distinct nodes"], rows)


def claims_table(found: Found) -> str:
    """Each claim's difference in block efficiency and its corrected p-value."""
    answers = {1: "yes", 0: "no difference seen", -1: "no, the opposite"}
    rows = [
        [text, f"{v.estimate.value:+.2f} ± {v.estimate.half:.2f}", f"{v.p:.1e}", answers[v.sign]]
        for text, v in verdicts(found).items()
    ]
    return markdown(["claim", "difference", "p (Holm)", "holds at 5 %"], rows)


def forward_table(found: Found) -> str:
    """Median milliseconds of a target call against the nodes it scores, along both axes."""
    rows = []
    for model in forward_models(found):
        for axis in ("batch", "time"):
            lines = [found.get(f"forward/{model}/{axis}/{n}") for n in NODE_COUNTS]
            times = ["" if r is None else f"{1000 * np.median(r['seconds']):.1f}" for r in lines]
            rows.append([f"{model}, {axis}", *times])
    return markdown(["model, axis", *(f"n = {n}" for n in NODE_COUNTS)], rows)


TABLES: dict[str, Callable[[Found], str]] = {
    "methods": methods_table,
    "claims": claims_table,
    **{name: functools.partial(series_table, name=name) for name in SERIES},
    "speed_lengths": speed_table,
    "warmer": warmer_table,
    "nodes": nodes_table,
    **{
        name: functools.partial(stages_table, group=name)
        for name in ("speed", "speed_long", "speed_random", "speed_ngram")
    },
    "ngram": ngram_table,
    "quality": functools.partial(quality_table, schemes=METHODS),
    "law": law_table,
    "controls": functools.partial(quality_table, schemes=tuple(CONTROLS)),
    "forward": forward_table,
}
"""Name in the page -> table."""
