"""What docs/experiments.md says about its tables: sentences made from the results and their tests.

A sentence that claims a difference stands on a test whose p-value, after Holm's correction, is
below `LEVEL`; otherwise it says that no difference was seen.  Nothing about the results is typed by
hand, so that the page is right again after every run.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from draftproof.fast.decoding.analysis import (
    CLAIMS,
    LEVEL,
    NAMES,
    NODE_BUDGETS,
    Estimate,
    Found,
    Verdict,
    best_tree,
    forward_growth,
    forward_models,
    get,
    law_tests,
    linearised,
    mean_interval,
    paired_difference,
    per_call,
    quality_gaps,
    speed_difference,
    speed_up,
    timing,
    together,
    verdicts,
)
from draftproof.fast.decoding.controls import CONTROLS
from draftproof.fast.decoding.experiments import (
    CURVES,
    LAW,
    LENGTHS,
    METHODS,
    NGRAM,
    NODE_COUNTS,
    REPETITIONS,
    SHAPES,
    TIMED,
    Configuration,
    cell,
    ngram_cell,
)
from draftproof.fast.decoding.tables import SPEED_CURVES

PUBLISHED_GAINS = (
    ("SpecTr over token by token, K=8 L=8 T=1", 4.0 / 2.9, "SpecTr paper, K = 8, L = 8"),
    ("SpecTr over token by token, K=3 L=12 T=0.4", 8.39 / 7.64, "SpecTr-GBV paper"),
    ("greedy block over token by token, L=12 T=0.4", 7.83 / 7.64, "SpecTr-GBV paper"),
    ("SpecTr-GBV (lossless) over SpecTr, K=3 L=12 T=0.4", 8.59 / 8.39, "SpecTr-GBV paper"),
)
"""(claim, published ratio of block efficiencies, where)."""


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list."""
    return "".join(f"* {line}\n" for line in lines)


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"; "none" for nothing."""
    if len(names) < 2:
        return names[0] if names else "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def outcome(verdict: Verdict) -> str:
    """ "more (+0.50 ± 0.18)", "fewer (..)" or "no difference seen (..)"."""
    value = f"{verdict.estimate.value:+.2f} ± {verdict.estimate.half:.2f}"
    return f"{('no difference seen', 'more', 'fewer')[verdict.sign]} ({value})"


def methods_text(found: Found) -> str:
    """Which claims hold in how many columns, and what leads each."""
    leaders = []
    for k, n, t in SHAPES:
        done = {s: r for s in METHODS if (r := get(found, cell(s, k, n, t))) is not None}
        if done:
            best = max(done, key=lambda s: per_call(done[s]).value)
            leaders.append(f"{NAMES[best]} at K={k} L={n} T={t:g}")
    families: dict[str, list[tuple[str, Verdict]]] = {}
    known = verdicts(found)
    for claim in CLAIMS:
        if claim.family and claim.text in known:
            where = claim.text.removeprefix(f"{claim.family}, ")
            families.setdefault(claim.family, []).append((where, known[claim.text]))
    lines = [f"Most tokens per call: {listed(leaders)}."] if leaders else []
    for family, results in families.items():
        parts = []
        for sign, name in ((1, "more"), (-1, "fewer"), (0, "no difference seen")):
            places = [f"{w} ({v.estimate.value:+.2f})" for w, v in results if v.sign == sign]
            if places:
                parts.append(f"{name} at {listed(places)}")
        lines.append(f"{family}: {'; '.join(parts)}.")
    return bullets(lines)


def published_text(found: Found) -> str:
    """Ratios of block efficiencies beside the published ones, and the highest speed-up."""
    known, claims = verdicts(found), {claim.text: claim for claim in CLAIMS}
    lines = []
    for text, published, source in PUBLISHED_GAINS:
        if text in known:
            claim, verdict = claims[text], known[text]
            ours = ratio(found, claim.first, claim.second)
            judged = {1: "the direction agrees", -1: "the opposite direction", 0: "not seen here"}
            lines.append(
                f"**{text}**: published {published:.2f} ({source}), here {ours}: "
                f"{judged[verdict.sign]}."
            )
    gains = {
        f"{NAMES[c.scheme]}, K={c.drafts} L={c.length} T={c.temperature:g}": gain
        for group in ("speed", "speed_long", "speed_lengths")
        for c in TIMED[group][1:]
        if (gain := speed_up(found, group, c)) is not None
    }
    if gains:
        best = max(gains, key=lambda name: gains[name].value)
        lines.append(
            f"**Speed-ups** of 1.6 to 2.1 are published; the highest of the shipped pair is "
            f"{gains[best]} ({best})."
        )
    return bullets(lines)


def ratio(found: Found, first: Configuration, second: Configuration) -> Estimate:
    """Ratio of two block efficiencies, paired by prompt."""
    a, b = (linearised(found[c.key], "tokens") for c in (first, second))
    value = a[0] / b[0]
    return Estimate(value, value * mean_interval(a[1] / a[0] - b[1] / b[0]).half)


def lengths_text(found: Found) -> str:
    """Does the speed-up peak while block efficiency still grows?"""
    known = verdicts(found)
    lines = [
        f"{NAMES[s]}, tokens per call at L = 24 against L = 12: {outcome(known[text])}."
        for s in CURVES
        if (text := f"{NAMES[s]}: L=24 over L=12") in known
    ]
    slower: dict[str, tuple[Estimate, float]] = {}
    grown: dict[str, tuple[Estimate, float]] = {}
    peaks: dict[str, tuple[int, Estimate]] = {}
    for scheme in SPEED_CURVES:
        gains = {n: speed_up(found, "speed_lengths", cell(scheme, 4, n)) for n in LENGTHS}
        measured = {n: gain for n, gain in gains.items() if gain is not None}
        if len(measured) < len(LENGTHS):
            return bullets(lines)
        peak = max(measured, key=lambda n: measured[n].value)
        peaks[scheme] = peak, measured[peak]
        ahead = [f"L = {n}" for n, gain in measured.items() if gain.value - gain.half > 1]
        lines.append(
            f"{NAMES[scheme]} is faster than autoregressive decoding (its interval is above 1) at: "
            f"{listed(ahead)}."
        )
        ends = cell(scheme, 4, LENGTHS[-1]), cell(scheme, 4, peak)
        fall = speed_difference(found, "speed_lengths", *ends)
        if peak != LENGTHS[-1] and fall is not None:
            slower[scheme] = fall
            grown[scheme] = paired_difference(found[ends[0].key], found[ends[1].key])
    falls = together(slower | {f"{s} tokens": v for s, v in grown.items()})
    for scheme, (peak, gain) in peaks.items():
        if scheme not in falls:
            lines.append(f"{NAMES[scheme]}: the speed-up is highest at the longest draft, {gain}.")
            continue
        slowing, growth = falls[scheme]._replace(neutral=1.0), falls[f"{scheme} tokens"]
        verb = "peaks" if slowing.sign < 0 < growth.sign else "is not shown to peak"
        lines.append(
            f"{NAMES[scheme]}: the speed-up is highest at L = {peak} ({gain}); at "
            f"L = {LENGTHS[-1]} it is {slowing.estimate} times that (p = {slowing.p:.1e}), tokens "
            f"per call {outcome(growth)}. The speed-up {verb} while block efficiency still grows."
        )
    return bullets(lines)


def series_text(found: Found, marks: Sequence[str]) -> str:
    """The outcomes of the claims whose text has one of the marks."""
    return bullets(
        f"{text}: {outcome(verdict)}."
        for text, verdict in verdicts(found).items()
        if any(mark in text for mark in marks)
    )


def nodes_text(found: Found) -> str:
    """Trees against single drafts of about as many nodes."""
    gaps: dict[str, tuple[Estimate, float]] = {}
    for budget in NODE_BUDGETS:
        trees = {scheme: best_tree(found, scheme, budget) for scheme in CURVES}
        single = trees.pop("block")
        for scheme, tree in trees.items():
            if tree is not None and single is not None:
                text = f"about {budget} nodes, {NAMES[scheme]} against one draft with block"
                gaps[text] = paired_difference(tree, single)
    return bullets(f"{text}: {outcome(v)}." for text, v in together(gaps).items())


def timing_text(found: Found) -> str:
    """How the seconds were measured, and whether the machine was quiet."""
    lines = [r for r in found.values() if "speed" in r and r["device"] == "cpu"]
    others = sorted({r["device"] for r in found.values() if "speed" in r} - {"cpu"})
    words = ""
    if others:
        words += f"Device: {listed(others)}.\n"
    if lines:
        prompts = len({r["speed"]["prompt"] for r in lines})
        busy = [r["busy"] for r in lines]
        threads = listed(sorted({str(r["threads"]) for r in lines}))
        quiet = "quiet" if min(busy) > 0.95 else "busy: read these seconds with doubt"
        words += (
            f"{prompts} prompts, {REPETITIONS} repetitions of every method in turn, torch threads: "
            f"{threads}. The measuring thread had its core for {100 * float(np.median(busy)):.0f} "
            f"% of the time (at worst {100 * min(busy):.0f} %): the machine was {quiet}.\n"
        )
    return words


def stages_text(found: Found, group: str) -> str:
    """Which methods beat autoregressive decoding, and which verification costs most and least."""
    times = {c.scheme: t for c in TIMED[group][1:] if (t := timing(found, group, c)) is not None}
    gains = {c.scheme: speed_up(found, group, c) for c in TIMED[group][1:]}
    if not times:
        return ""
    cost = {s: 1000 * float(t.stages["verification"].mean()) for s, t in times.items()}
    low, high = min(cost, key=cost.__getitem__), max(cost, key=cost.__getitem__)
    faster = [NAMES[s] for s, g in gains.items() if g is not None and g.value - g.half > 1]
    models = {
        s: 1000 * float((t.stages["draft"] + t.stages["target"]).mean()) for s, t in times.items()
    }
    above = [NAMES[s] for s in times if cost[s] > models[s]]
    lines = [
        f"Verification takes from {cost[low]:.1f} ms ({NAMES[low]}) to {cost[high]:.1f} ms "
        f"({NAMES[high]}) a call; longer than draft and target together: {listed(above)}.",
    ]
    if any(gain is not None for gain in gains.values()):
        lines.append(f"Faster than autoregressive decoding (interval above 1): {listed(faster)}.")
    return bullets(lines)


def forward_text(found: Found) -> str:
    """Up to how many nodes a target call costs what one node costs."""
    lines = []
    for model in forward_models(found):
        for axis in ("batch", "time"):
            grown = {n: forward_growth(found, model, axis, n) for n in NODE_COUNTS}
            have = {n: e for n, e in grown.items() if e is not None}
            free = 1
            for n, e in have.items():
                if e.value + e.half > 1.25:
                    break
                free = n
            last = max(have)
            quarter = (
                f"up to {free} nodes take" if free > 1 else "not even 2 nodes are sure to take"
            )
            lines.append(
                f"{model}, {axis} axis: {last} nodes take {have[last]} times as long as one; "
                f"{quarter} at most a quarter longer."
            )
    return bullets(lines)


def ngram_text(found: Found) -> str:
    """Neighbours of the n-gram table, tested together."""
    done = [(s, r) for s in NGRAM if (r := get(found, ngram_cell(s))) is not None]
    done.sort(key=lambda pair: -per_call(pair[1]).value)
    gaps = {
        f"{NAMES[s]} against {NAMES[done[-1][0]]}": paired_difference(r, done[-1][1])
        for s, r in done[:-1]
    }
    return bullets(f"{text}: {outcome(v)}." for text, v in together(gaps).items())


def quality_text(found: Found) -> str:
    """Which lossless methods and which controls differ from autoregressive decoding."""
    words = []
    for schemes, kind in ((METHODS, "lossless methods"), (tuple(CONTROLS), "biased controls")):
        gaps = quality_gaps(found, schemes)
        seen = [
            f"{scheme} ({name.replace('_', '-')}, {gap.value:+.3f})"
            for (scheme, name), (gap, p) in gaps.items()
            if p < LEVEL
        ]
        if gaps:
            count = len({scheme for scheme, _ in gaps})
            words.append(
                f"Of {count} {kind}, in {len(gaps)} comparisons, these differ from autoregressive "
                f"decoding: {listed(seen)}."
            )
    return bullets(words)


def law_text(found: Found) -> str:
    """Which schemes the test of the law itself finds biased."""
    results = law_tests(found)
    biased = [f"{r[LAW]['scheme']} ({r['total_variation']:.2f})" for r, p in results if p < 0.01]
    if not results:
        return ""
    return bullets([f"Found biased (total variation): {listed(biased)}."])


STATEMENTS: dict[str, Callable[[Found], str]] = {
    "methods": methods_text,
    "published": published_text,
    "lengths": lengths_text,
    "drafts": lambda found: series_text(found, ("K=8 over K=",)),
    "temperatures": lambda found: series_text(found, (": T=0.4 over T=1", ": drafts at ")),
    "nodes": nodes_text,
    "timing": timing_text,
    "speed": lambda found: stages_text(found, "speed"),
    "speed_long": lambda found: stages_text(found, "speed_long"),
    "speed_random": lambda found: stages_text(found, "speed_random"),
    "speed_ngram": lambda found: stages_text(found, "speed_ngram"),
    "forward": forward_text,
    "ngram": ngram_text,
    "quality": quality_text,
    "law": law_text,
}
"""Name in the page -> sentences."""


def fill_page(page: str, found: Found, tables: dict[str, Callable[[Found], str]]) -> str:
    """The page with every block between ``<!-- table: NAME -->`` or ``<!-- text: NAME -->`` and
    ``<!-- end -->`` made anew.  Raises ``ValueError`` for a name that there is not."""
    makers = {"table": tables, "text": STATEMENTS}

    def fill(block: re.Match[str]) -> str:
        kind, name = block[1], block[2]
        if name not in makers[kind]:
            raise ValueError(f"the page has a {kind} {name!r}; there are {', '.join(makers[kind])}")
        return f"<!-- {kind}: {name} -->\n\n{makers[kind][name](found)}\n<!-- end -->"

    return re.sub(r"<!-- (table|text): (\S+) -->.*?<!-- end -->", fill, page, flags=re.DOTALL)
