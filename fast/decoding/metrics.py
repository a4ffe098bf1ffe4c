"""What a run reports: tokens, target calls, block efficiency, accepted lengths, nodes, seconds."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from draftproof.fast.decoding.methods import AUTOREGRESSIVE
from draftproof.fast.decoding.models import Pair
from draftproof.fast.decoding.rounds import STAGES, Decoded, Generation


def ratio_with_error(
    numerators: Sequence[float], denominators: Sequence[float]
) -> tuple[float, float]:
    """Σ numerators / Σ denominators and its standard error, the pairs being independent.

    The error is that of the linearised ratio (Cochran, Sampling Techniques, section 2.11); NaN from
    a single pair.
    """
    y, x = np.asarray(numerators, float), np.asarray(denominators, float)
    ratio = float(y.sum() / x.sum())
    n = len(y)
    if n < 2:
        return ratio, math.nan
    squares = float(((y - ratio * x) ** 2).sum())
    return ratio, math.sqrt(squares * n / (n - 1)) / float(x.sum())


def block_efficiency(generations: Sequence[Generation]) -> tuple[float, float]:
    """Tokens per target call and its standard error.

    Counted over the rounds that nothing could cut short: whether a round counts is known before it
    begins, so cutting texts at a fixed length does not bias the ratio.  Texts too short to have
    such a round count whole.  Requests are independent, so the error is that of a ratio over
    requests; for a single request it treats the rounds as independent.
    """
    whole = any(g.whole_rounds for g in generations)
    lengths = [g.accepted[: g.whole_rounds] if whole else g.accepted for g in generations]
    lengths = [own for own in lengths if own]
    if len(lengths) > 1:
        return ratio_with_error(
            [sum(own) + len(own) for own in lengths], [len(own) for own in lengths]
        )
    return ratio_with_error([tau + 1 for tau in lengths[0]], [1] * len(lengths[0]))


def summary(decoded: Decoded, pair: Pair, baseline: Decoded | None = None) -> dict[str, Any]:
    """The report of a run as plain data; ``baseline`` is autoregressive decoding of the same
    prompts.

    Units: seconds; tokens and nodes are counts; ``block_efficiency`` in tokens per target call.
    ``target_calls`` counts those after the prompt, each request's own.  ``target_batch_expansion``:
    token positions that a target call scores for a request, against one in autoregressive decoding.
    """
    settings, generations = decoded.settings, decoded.generations
    plain = settings.scheme_name == AUTOREGRESSIVE
    drafts, length = (0, 0) if plain else (settings.drafts, settings.length)
    calls = sum(g.rounds for g in generations)
    tokens = sum(len(g.tokens) for g in generations)
    distinct = sum(sum(g.nodes) for g in generations)
    total = sum(decoded.seconds.values())
    efficiency, error = block_efficiency(generations)
    histogram = Counter(tau for g in generations for tau in g.accepted)
    report: dict[str, Any] = {
        "format": 1,
        "draft": pair.draft.name,
        "target": pair.target.name,
        "scheme": settings.scheme_name,
        "drafts": drafts,
        "length": length,
        "temperature": settings.temperature,
        "draft_temperature": None if plain else list(settings.draft_temperatures),
        "prompts": len(generations),
        "tokens": tokens,
        "target_calls": calls,
        "block_efficiency": efficiency,
        "block_efficiency_error": None if math.isnan(error) else error,
        "accepted_lengths": {str(tau): histogram[tau] for tau in sorted(histogram)},
        "total_nodes": calls * drafts * length,
        "distinct_nodes": distinct,
        "tree_depth": length,
        "target_batch_expansion": (distinct + calls) / calls,
        "seconds": {stage: decoded.seconds[stage] for stage in STAGES},
        "tokens_per_second": tokens / total if total else None,
        "speed_up": None,
        "finish": dict(Counter(g.finish for g in generations)),
    }
    if baseline is not None:
        rate = sum(len(g.tokens) for g in baseline.generations) / sum(baseline.seconds.values())
        report["autoregressive_tokens_per_second"] = rate
        report["speed_up"] = tokens / total / rate
    return report


def table(report: dict[str, Any]) -> list[tuple[str, str]]:
    """The report's lines for a terminal: (what, value)."""
    error = report["block_efficiency_error"]
    seconds = report["seconds"]
    lines = [
        ("scheme", f"{report['scheme']}, K = {report['drafts']}, L = {report['length']}"),
        ("temperature", f"{report['temperature']:g}"),
        ("prompts", str(report["prompts"])),
        ("tokens", str(report["tokens"])),
        ("target calls", str(report["target_calls"])),
        (
            "block efficiency",
            f"{report['block_efficiency']:.3f}" + (f" ± {error:.3f}" if error is not None else ""),
        ),
        (
            "accepted lengths",
            "  ".join(f"{tau}: {count}" for tau, count in report["accepted_lengths"].items()),
        ),
        ("nodes, total / distinct", f"{report['total_nodes']} / {report['distinct_nodes']}"),
        ("tree depth", str(report["tree_depth"])),
        ("target batch expansion", f"{report['target_batch_expansion']:.2f}"),
        ("seconds", "  ".join(f"{stage} {seconds[stage]:.3f}" for stage in STAGES)),
        ("tokens per second", f"{report['tokens_per_second']:.1f}"),
    ]
    if report["speed_up"] is not None:
        lines.append(("speed-up over autoregressive", f"{report['speed_up']:.2f}"))
    return lines
