"""Turn results into numbers with intervals, and into paired tests of every claim.

Intervals are 95 %, from the spread over prompts (Student's t).  A difference between two methods is
tested on the same prompts: the two ratio estimates are linearised, subtracted prompt by prompt, and
their mean is compared with 0 by a t-test; Holm's correction covers all claims made together.

A speed-up is tokens per target call (of many prompts, `per_call`) over the break-even (of a few
prompts, timed one at a time): the seconds of a call over those of an autoregressive token.
"""

import dataclasses
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from draftproof.fast.decoding.experiments import (
    CURVES,
    DRAFTS,
    FORWARD,
    LAW_SCHEMES,
    LENGTHS,
    MULTI_DRAFT,
    NODE_LENGTHS,
    NODE_SHAPES,
    SHAPES,
    STATEFUL_RANKED,
    TIMED,
    Configuration,
    cell,
)
from draftproof.fast.decoding.methods import AUTOREGRESSIVE
from draftproof.fast.decoding.rounds import STAGES
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.05
"""Of every test on the page, after Holm's correction within its table."""

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


def linearised(result: dict[str, Any], numerator: str) -> tuple[float, NDArray[np.float64]]:
    """(ratio of totals per target call, each prompt's share of its deviation)."""
    y = np.asarray(result["per_prompt"][numerator], float)
    x = np.asarray(result["per_prompt"]["rounds"], float)
    ratio = float(y.sum() / x.sum())
    return ratio, (y - ratio * x) / x.mean()


def per_call(result: dict[str, Any], numerator: str = "tokens") -> Estimate:
    """Tokens (or "nodes") per target call, over the rounds that nothing could cut short."""
    ratio, deviations = linearised(result, numerator)
    return Estimate(ratio, mean_interval(deviations).half)


def paired_difference(first: dict[str, Any], second: dict[str, Any]) -> tuple[Estimate, float]:
    """(block efficiency of the first minus the second, two-sided p-value), paired by prompt."""
    a, b = linearised(first, "tokens"), linearised(second, "tokens")
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


class Timing(NamedTuple):
    """One method of a timed group, prompt by prompt, each entry the median of its repetitions."""

    stages: dict[str, NDArray[np.float64]]
    """Seconds per target call of each stage."""
    call: NDArray[np.float64]
    """Seconds per target call."""
    token: NDArray[np.float64]
    """Seconds per token of autoregressive decoding of the same prompt."""

    @property
    def log_break_even(self) -> NDArray[np.float64]:
        """ln of the tokens per call at which the method is as fast as autoregressive decoding."""
        break_even: NDArray[np.float64] = np.log(self.call / self.token)
        return break_even


def timing(found: Found, group: str, configuration: Configuration) -> Timing | None:
    """The timing of a method in a group; None where fewer than two prompts are done."""
    lines = [r for r in found.values() if r.get("speed", {}).get("group") == group]
    if len(lines) < 2 or configuration.key not in {m["key"] for m in lines[0]["methods"]}:
        return None

    def medians(key: str, seconds: Callable[[dict[str, float]], float]) -> NDArray[np.float64]:
        values = []
        for line in lines:
            (method,) = (m for m in line["methods"] if m["key"] == key)
            runs = [seconds(run) for run in method["seconds"]]
            values.append(float(np.median(runs)) / method["calls"])
        return np.asarray(values)

    key, plain = configuration.key, TIMED[group][0].key
    return Timing(
        {stage: medians(key, operator.itemgetter(stage)) for stage in STAGES},
        medians(key, lambda run: sum(run.values())),
        medians(plain, lambda run: sum(run.values())),
    )


def efficiency_of(found: Found, configuration: Configuration) -> dict[str, Any] | None:
    """The result that says how many tokens a timed method emits per call; a random pair has none
    of its own and takes the shipped pair's."""
    if configuration.pair == "random":
        configuration = dataclasses.replace(configuration, pair="shipped")
    return found.get(configuration.key)


def speed_up(found: Found, group: str, configuration: Configuration) -> Estimate | None:
    """Tokens per target call over the break-even, errors of both added."""
    times, result = timing(found, group, configuration), efficiency_of(found, configuration)
    if times is None or result is None:
        return None
    tokens, cost = per_call(result), mean_interval(times.log_break_even)
    value = tokens.value / math.exp(cost.value)
    return Estimate(value, value * math.hypot(tokens.half / tokens.value, cost.half))


def speed_difference(
    found: Found, group: str, first: Configuration, second: Configuration
) -> tuple[Estimate, float] | None:
    """(how many times faster the first is, two-sided p-value), both parts paired by prompt.

    The degrees of freedom are those of the fewer prompts, the timed ones.
    """
    times = [timing(found, group, c) for c in (first, second)]
    results = [efficiency_of(found, c) for c in (first, second)]
    if times[0] is None or times[1] is None or results[0] is None or results[1] is None:
        return None
    (a, x), (b, y) = (linearised(r, "tokens") for r in results if r is not None)
    tokens = x / a - y / b
    cost = times[1].log_break_even - times[0].log_break_even
    logarithm = math.log(a / b) + float(cost.mean())
    error = math.hypot(*(float(v.std(ddof=1)) / math.sqrt(len(v)) for v in (tokens, cost)))
    if not error:
        return Estimate(math.exp(logarithm), 0.0), 1.0 if logarithm == 0 else 0.0
    freedom = len(cost) - 1
    half = error * float(stats.t.ppf(0.975, freedom))
    p = 2 * float(stats.t.sf(abs(logarithm) / error, freedom))
    return Estimate(math.exp(logarithm), math.exp(logarithm) * half), p


def get(found: Found, configuration: Configuration) -> dict[str, Any] | None:
    """The result of a configuration, if it is there."""
    return found.get(configuration.key)


NODE_BUDGETS = (8, 16, 32)


def node_results(found: Found, scheme: str) -> list[dict[str, Any]]:
    """The measured trees of a method at temperature 1, on the shipped pair."""
    shapes = [(4, n) for n in LENGTHS] + [(k, 6) for k in DRAFTS] + list(NODE_SHAPES)
    if scheme == "block":
        shapes = [(1, n) for n in (*LENGTHS, *NODE_LENGTHS)]
    cells = {cell(scheme, *shape).key for shape in shapes}
    return [found[key] for key in sorted(cells) if key in found]


def best_tree(found: Found, scheme: str, budget: int) -> dict[str, Any] | None:
    """The tree of a method with the most tokens per call among those of about this many nodes."""
    fitting = [
        r
        for r in node_results(found, scheme)
        if 0.75 * budget <= per_call(r, "nodes").value <= 1.1 * budget
    ]
    return max(fitting, key=lambda r: per_call(r).value, default=None)


QUALITIES = ("log_likelihood", "excess", "word_length", "distinct")


def quality_gaps(
    found: Found, schemes: Sequence[str]
) -> dict[tuple[str, str], tuple[Estimate, float]]:
    """(method, measure) -> (difference from autoregressive decoding, p after Holm's correction over
    all of them), paired by prompt; for "excess" the mean itself, which should be 0."""
    plain = get(found, cell(AUTOREGRESSIVE, 4, 6))
    gaps: dict[tuple[str, str], NDArray[np.float64]] = {}
    for scheme in schemes:
        result = get(found, cell(scheme, 4, 6))
        if plain is None or result is None:
            continue
        for name in QUALITIES:
            gaps[scheme, name] = np.asarray(result["per_prompt"][name])
            if name != "excess":
                gaps[scheme, name] = gaps[scheme, name] - np.asarray(plain["per_prompt"][name])
    p_values = holm([float(stats.ttest_1samp(gap, 0.0).pvalue) for gap in gaps.values()])
    return {key: (mean_interval(gap), p) for (key, gap), p in zip(gaps.items(), p_values)}


def law_tests(found: Found) -> list[tuple[dict[str, Any], float]]:
    """(line, p after Holm's correction) of the test of the first two bytes, by scheme."""
    results = [found[key] for scheme in LAW_SCHEMES if (key := f"law/{scheme}") in found]
    return list(zip(results, holm([r["p_value"] for r in results])))


class Claim(NamedTuple):
    """The first configuration gives more tokens per target call than the second."""

    text: str
    first: Configuration
    second: Configuration

    @property
    def family(self) -> str:
        """What is compared with what, for claims made at several shapes; else "" (a curve)."""
        family, _, shape = self.text.partition(", ")
        return family if " over " in family and shape and ":" not in family else ""


def _claims() -> Iterator[Claim]:
    def over(text: str, first: str, second: str, shape: tuple[int, int, float]) -> Claim:
        return Claim(text, cell(first, *shape), cell(second, *shape))

    for shape in SHAPES:
        k, n, t = shape
        one, several = f"L={n} T={t:g}", f"K={k} L={n} T={t:g}"
        yield over(f"block over token by token, {one}", "block", "token_by_token", shape)
        yield over(f"greedy block over token by token, {one}", "greedy_block", *_plain(shape))
        yield over(f"SpecTr over token by token, {several}", "spectr", *_plain(shape))
        yield over(
            f"SpecTr with optimal transport over SpecTr with K-SEQ, {several}",
            "spectr:transport",
            "spectr",
            shape,
        )
        yield over(f"traversal over SpecTr, {several}", "traversal", "spectr", shape)
        yield over(f"K-SEQ block over SpecTr, {several}", "kseq_block", "spectr", shape)
        yield over(f"SpecTr-GBV (lossless) over SpecTr, {several}", "spectr_gbv", "spectr", shape)
        yield over(
            f"K-SEQ block over SpecTr-GBV (its carry), {several}",
            "kseq_block",
            "spectr_gbv",
            shape,
        )
        yield over(f"ranked block over K-SEQ block, {several}", "ranked_block", "kseq_block", shape)
    first = SHAPES[0]
    yield over("block over greedy block (its carry), L=6 T=1", "block", "greedy_block", first)
    yield over(
        "ranked block over its stateful form, K=4 L=6 T=1", "ranked_block", STATEFUL_RANKED, first
    )
    for scheme, name in NAMES.items():
        if scheme in MULTI_DRAFT:
            yield Claim(f"{name}: K=8 over K=4, L=6", cell(scheme, 8, 6), cell(scheme, 4, 6))
    yield Claim("multi-path: K=8 over K=2, L=6", cell("multipath", 8, 6), cell("multipath", 2, 6))
    for scheme in CURVES:
        name = NAMES[scheme]
        yield Claim(f"{name}: L=24 over L=12", cell(scheme, 4, 24), cell(scheme, 4, 12))
        yield Claim(f"{name}: T=0.4 over T=1", cell(scheme, 4, 6, 0.4), cell(scheme, 4, 6))
        yield Claim(
            f"{name}, T=0.4: drafts at 0.7 over drafts at 0.4",
            cell(scheme, 4, 6, 0.4, 0.7),
            cell(scheme, 4, 6, 0.4),
        )
        yield Claim(
            f"{name}, T=0.4: drafts at 1 over drafts at 0.4",
            cell(scheme, 4, 6, 0.4, 1.0),
            cell(scheme, 4, 6, 0.4),
        )


def _plain(shape: tuple[int, int, float]) -> tuple[str, tuple[int, int, float]]:
    return "token_by_token", shape


NAMES = {
    "token_by_token": "token by token",
    "block": "block",
    "greedy_block": "greedy block",
    "spectr": "SpecTr",
    "spectr:transport": "SpecTr with optimal transport",
    "traversal": "traversal",
    "multipath": "multi-path",
    "kseq_block": "K-SEQ block",
    "spectr_gbv": "SpecTr-GBV",
    "ranked_block": "ranked block",
}

CLAIMS = tuple(_claims())
"""What docs/experiments.md says about differences in tokens per call."""


class Verdict(NamedTuple):
    """A difference (or a factor, whose neutral value is 1), and its p-value after Holm's
    correction."""

    estimate: Estimate
    p: float
    neutral: float = 0.0

    @property
    def sign(self) -> int:
        """1: the first is more; -1: the second is; 0: no difference was seen."""
        return 0 if self.p >= LEVEL else 1 if self.estimate.value > self.neutral else -1


def together(gaps: dict[str, tuple[Estimate, float]]) -> dict[str, Verdict]:
    """Verdicts of differences that are claimed together."""
    adjusted = holm([p for _, p in gaps.values()])
    return {key: Verdict(e, p) for (key, (e, _)), p in zip(gaps.items(), adjusted)}


def verdicts(found: Found) -> dict[str, Verdict]:
    """Claim text -> what the results say, for every claim that has them.

    Corrected for all claims about methods together, and for all about points of a curve together.
    """
    methods: dict[str, tuple[Estimate, float]] = {}
    curves: dict[str, tuple[Estimate, float]] = {}
    for claim in CLAIMS:
        first, second = get(found, claim.first), get(found, claim.second)
        if first is not None and second is not None:
            section = methods if claim.family else curves
            section[claim.text] = paired_difference(first, second)
    return together(methods) | together(curves)


def forward_growth(found: Found, model: str, axis: str, nodes: int) -> Estimate | None:
    """How many times the time of one node a call with so many nodes takes, paired by repetition."""
    one, many = (found.get(f"forward/{model}/{axis}/{n}") for n in (1, nodes))
    if one is None or many is None:
        return None
    logs = mean_interval(np.log(np.asarray(many["seconds"]) / np.asarray(one["seconds"])))
    return Estimate(math.exp(logs.value), math.exp(logs.value) * logs.half)


def forward_models(found: Found) -> list[str]:
    """The models whose calls were timed, the shipped one (or the one given) first."""
    names = dict.fromkeys(r[FORWARD]["model"] for r in found.values() if FORWARD in r)
    return sorted(names, key=lambda name: name.startswith("random"))
