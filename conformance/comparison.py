"""Comparing schemes: exact expected accepted length and total variation beside the optima."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.instance import Instance
from draftproof.reference.numbers import ZERO, Number, text
from draftproof.reference.optima import (
    conditional_independence_value,
    full_optimum,
    stateless_optimum,
)
from draftproof.reference.oracle import examine
from draftproof.reference.rows import row_from_floats
from draftproof.reference.scheme import Scheme

__all__ = [
    "Comparison",
    "Entry",
    "compare",
    "comparison_to_json",
    "dirichlet_instance",
    "mean",
    "plot",
]

YARDSTICKS: dict[str, Callable[[Instance], Number]] = {
    "conditional-independence value": conditional_independence_value,
    "stateless optimum": lambda instance: stateless_optimum(instance).value,
    "full optimum": lambda instance: full_optimum(instance).value,
}


VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {"spectr_gbv": ({"scale": "kseq"},)}
"""Options under which a scheme is shown once more, as "NAME option=value"."""


@dataclass(frozen=True)
class Entry:
    """One scheme on one instance, or its mean over several."""

    drafts: int
    """How many of the drafts it uses: schemes of one draft verify the first."""
    expected_accepted_length: Number
    total_variation: Number


@dataclass(frozen=True)
class Comparison:
    """All schemes on one instance, or their means over several of the same size."""

    vocab: int
    drafts: int
    length: int
    instances: int
    entries: dict[str, Entry]
    left_out: dict[str, str]
    """Scheme → why it is not compared."""
    yardsticks: dict[str, Number]
    """The optima and the conditional-independence value, of i.i.d. drafts; empty for others."""


def _unsuitable(scheme: Scheme, instance: Instance) -> str:
    """Why a scheme is not compared on such an instance; empty when it is."""
    if scheme.kind == "coupling" and instance.length != 1:
        return "decides one token; compared at length 1"
    least, _ = scheme.drafts
    if instance.drafts < least:
        return f"needs at least {least} drafts"
    suits = {
        "iid": ("iid", "independent", "any"),
        "without_replacement": ("without_replacement", "any"),
        "fixed": ("deterministic", "any"),
    }[instance.draft_law]
    if scheme.draft_law not in suits:
        return f"made for other drafts: {scheme.draft_law}"
    return ""


def _shown() -> Iterator[tuple[str, Scheme, dict[str, Any]]]:
    for name, scheme in SCHEMES.items():
        yield name, scheme, {}
        for options in VARIANTS.get(name, ()):
            yield " ".join([name, *(f"{k}={v}" for k, v in options.items())]), scheme, options


_HIGHS = find_spec("highspy") is not None
MOST_ROWS = 2500 if _HIGHS else 250
"""Linear programs with more rows are not solved. Where HiGHS proposes the basis an exact optimum of
2300 rows takes about 10 seconds; the exact simplex method alone takes minutes from 250 rows on."""


def _program_rows(instance: Instance) -> int:
    """Rows of the larger program: one for each multiset of paths, one for each string."""
    paths: int = instance.vocab**instance.length
    multisets = comb(paths + instance.drafts - 1, instance.drafts)
    return multisets + paths * instance.vocab


def compare(instance: Instance) -> Comparison:
    """Every scheme of the catalogue that suits the instance, exactly."""
    entries: dict[str, Entry] = {}
    left_out: dict[str, str] = {}
    for name, scheme, options in _shown():
        reason = _unsuitable(scheme, instance)
        if not reason:
            most = scheme.drafts[1]
            drafts = instance.drafts if most is None else min(instance.drafts, most)
            try:
                shown = replace(instance, drafts=drafts, paths=instance.paths[:drafts])
                result = examine(scheme, shown, **options)
                length, distance = result.expected_accepted_length, result.total_variation
                entries[name] = Entry(drafts, length, distance)
            except (ValueError, ZeroDivisionError) as error:
                if scheme.lossless:
                    raise
                reason = f"not defined here: {error}"
        if reason:
            left_out[name] = reason
    yardsticks: dict[str, Number] = {}
    for label, function in YARDSTICKS.items() if instance.draft_law == "iid" else ():
        rows = _program_rows(instance)
        if "optimum" in label and rows > MOST_ROWS:
            limit = f"{MOST_ROWS}" if _HIGHS else f"{MOST_ROWS}, the most without highspy"
            left_out[label] = f"its linear program has {rows} rows, more than {limit}"
        else:
            yardsticks[label] = function(instance)
    return Comparison(
        instance.vocab, instance.drafts, instance.length, 1, entries, left_out, yardsticks
    )


def mean(comparisons: Sequence[Comparison]) -> Comparison:
    """The exact means; a scheme that is not defined on every instance is left out."""
    first, n = comparisons[0], len(comparisons)
    left_out = {name: why for c in comparisons for name, why in c.left_out.items()}
    entries = {
        name: Entry(
            entry.drafts,
            sum((c.entries[name].expected_accepted_length for c in comparisons), ZERO) / n,
            sum((c.entries[name].total_variation for c in comparisons), ZERO) / n,
        )
        for name, entry in first.entries.items()
        if name not in left_out
    }
    yardsticks = {
        name: sum((c.yardsticks[name] for c in comparisons), ZERO) / n for name in first.yardsticks
    }
    return Comparison(first.vocab, first.drafts, first.length, n, entries, left_out, yardsticks)


def dirichlet_instance(seed: int, vocab: int, length: int, drafts: int) -> Instance:
    """Rows drawn from Dirichlet(1) after every prefix; the floats are taken as the rationals they
    are and normalised exactly.

    All draft rows come first, then all target rows, both up to the depth length + 1, so that a seed
    means the same pair for every reader of the orientation tables in docs/optima.md.
    """
    generator = np.random.default_rng(seed)

    def rows() -> dict[tuple[int, ...], Any]:
        return {
            prefix: row_from_floats(generator.dirichlet(np.ones(vocab)).tolist())
            for depth in range(length + 2)
            for prefix in product(range(vocab), repeat=depth)
        }

    p, q = rows(), rows()
    return Instance(
        vocab,
        drafts,
        length,
        {prefix: row for prefix, row in p.items() if len(prefix) < length},
        {prefix: row for prefix, row in q.items() if len(prefix) <= length},
    )


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as data; exact values as text, the total variation is 0 iff lossless."""
    return {
        "format": 1,
        "vocab": comparison.vocab,
        "drafts": comparison.drafts,
        "length": comparison.length,
        "instances": comparison.instances,
        "schemes": {
            name: {
                "drafts": entry.drafts,
                "expected_accepted_length": text(entry.expected_accepted_length),
                "total_variation": text(entry.total_variation),
            }
            for name, entry in comparison.entries.items()
        },
        "yardsticks": {name: text(value) for name, value in comparison.yardsticks.items()},
        "left_out": comparison.left_out,
    }


def plot(comparison: Comparison, path: str | Path) -> None:
    """Draw the comparison: a bar for each scheme, a line for each yardstick."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'draftproof[plot]'") from None
    names = sorted(comparison.entries, key=lambda n: comparison.entries[n].expected_accepted_length)
    figure = Figure(figsize=(9, 1.9 + 0.3 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    styles = {
        "lossless, stateless": {"color": "#2b6ca3"},
        "lossless, with a carry": {"color": "#7fb3d8"},
        "lossless up to a stated error": {"color": "#8fae6b"},
        "biased here (total variation beside the bar)": {"color": "#d9a48f", "hatch": "///"},
    }
    seen: set[str] = set()
    for position, name in enumerate(names):
        entry, scheme = comparison.entries[name], SCHEMES[name.split()[0]]
        if entry.total_variation != 0:
            style = list(styles)[2 if scheme.approximate else 3]
        else:
            style = list(styles)[1 if scheme.stateful else 0]
        length = float(entry.expected_accepted_length)
        label = style if style not in seen else None
        seen.add(style)
        axes.barh(position, length, label=label, **styles[style])  # type: ignore[arg-type]
        note = f"{length:.4f}"
        if entry.total_variation != 0:
            note += f"   (TV {float(entry.total_variation):.2g})"
        axes.annotate(
            note,
            (length, position),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.9},
        )
    dashes = (":", "--", "-")
    for (name, value), dash in zip(comparison.yardsticks.items(), dashes, strict=False):
        axes.axvline(
            float(value),
            color="black",
            linestyle=dash,
            linewidth=1,
            label=f"{name} {float(value):.4f}",
        )
    shown = [
        name
        if comparison.entries[name].drafts == comparison.drafts
        else f"{name} (K = {comparison.entries[name].drafts})"
        for name in names
    ]
    axes.set_yticks(range(len(names)), shown)
    axes.set_ylabel("scheme")
    axes.set_xlabel("expected accepted length E[τ] of one block (tokens)")
    ends = [float(e.expected_accepted_length) for e in comparison.entries.values()]
    ends += [float(value) for value in comparison.yardsticks.values()]
    axes.set_xlim(0, 1.3 * max([*ends, 0.01]))
    count = (
        "one instance" if comparison.instances == 1 else f"mean of {comparison.instances} instances"
    )
    size = f"V = {comparison.vocab}, L = {comparison.length}, K = {comparison.drafts}"
    figure.suptitle(f"Exact comparison of the schemes, {size}, {count}")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    destination = Path(path)
    temporary = destination.with_name(f".{destination.name}.tmp{destination.suffix or '.png'}")
    try:
        figure.savefig(temporary, dpi=150)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)
