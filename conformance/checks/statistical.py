"""Statistical: the law of the emitted string, sampled, for every subject.

Drafts are drawn from the draft rows, the subject verifies them, and the string is continued from
the target to L + 1 tokens: for a lossless scheme it has exactly the target's law, whatever the
accepted length. A sequential test compares them (see `evidence`); it stops on a gross fault at once
and spends the rest of its time on near misses. Beside it, not graded here, the joint law of
accepted length and string is kept for every stopping length.
A stateful scheme owes the rest of the block to its carry; here it is graded by the first token, and
by whole strings in `rounds`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential, View
from draftproof.conformance.subject import Ints
from draftproof.conformance.tables import Table, Uniforms, string_law
from draftproof.conformance.verdict import CheckResult
from draftproof.reference.instance import instance_to_json
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import ONE
from draftproof.reference.oracle import examine

__all__ = [
    "ENOUGH",
    "NAME",
    "MostSamples",
    "begin",
    "run",
    "sample",
    "string_views",
    "test_instance",
]

NAME = "statistical"
ENOUGH = 0.01
"""An instance is sampled until this total variation would have shown, if time allows."""
MostSamples = 2_000_000


def string_views(vocab: int, length: int) -> tuple[View, ...]:
    """The whole string of `length` tokens, and its shorter prefixes and last token as marginals."""
    cells = np.arange(vocab**length)
    views = [View("string", cells, 0.5 if length > 1 else 1.0)]
    if length > 1:
        rest = 0.5 / length
        for depth in range(1, length):
            views.append(View(f"first {depth}", cells // vocab ** (length - depth), rest))
        views.append(View("last", cells % vocab, rest))
    return tuple(views)


def sample(
    context: Context, table: Table, generator: np.random.Generator, size: int, what: str
) -> tuple[Ints, Ints]:
    """Accepted lengths [N] and numbers of emitted strings [N] of one call of the subject."""
    tuples = table.draw(generator, size)
    uniforms = None
    if not context.declaration.draws:
        uniforms = Uniforms.random(generator, size, table.drafts, table.length)
    seed = int(generator.integers(2**31))
    batch = table.batch(context.scheme.name, tuples, uniforms, seed)
    # Seeds of requests must not overlap between calls: consecutive ones would repeat streams.
    batch.seeds[:] = generator.integers(2**62, size=size)  # type: ignore[index]
    result = context.ask(batch, what)
    return result.accepted_length, table.strings(generator, tuples, result)


def begin(context: Context, table: Table, threshold: float) -> tuple[Sequential, int]:
    """The test of an instance, and how many whole strings make up one of its cells."""
    instance = table.instance
    tokens = 1 if context.scheme.stateful else instance.length + 1
    shorter = instance.vocab ** (instance.length + 1 - tokens)
    null = table.as_array(table.target_law).reshape(-1, shorter).sum(axis=1)
    return Sequential(null, string_views(instance.vocab, tokens), threshold), shorter


def test_instance(
    context: Context, table: Table, seconds: float, label: str, first: bool
) -> tuple[Sequential, Ints]:
    """Sample one instance until it is rejected, well enough known, or out of time.

    Returns the test and the counts [L+1, cells] by accepted length.
    """
    instance = table.instance
    generator = context.generator(label)
    test, shorter = begin(context, table, context.threshold)
    strata = np.zeros((instance.length + 1, shorter * len(test.null)), dtype=np.int64)
    begun, size, call = context.elapsed, 64, 0
    while True:
        before = context.elapsed
        lengths, strings = sample(context, table, generator, size, f"{NAME}, call {call}")
        np.add.at(strata, (lengths, strings), 1)
        call += 1
        if test.see(strings // shorter):
            break
        now = context.elapsed
        enough = not first or test.samples >= 2000 or context.elapsed > 10 * context.budget
        late = now - begun > seconds and enough
        if late or test.samples >= MostSamples:
            break
        if test.detectable() <= ENOUGH:
            break
        per_block = (now - before) / size
        left = seconds - (now - begun)
        size = int(max(64, min(size * 2, 50_000, left / max(per_block, 1e-7))))
    return test, strata


def strata_of(context: Context, table: Table, counts: Ints) -> list[dict[str, Any]]:
    """For each accepted length: how often every string was seen, and how often the scheme's exact
    law, continued from the target, expects it (None for schemes that carry)."""
    expected: dict[tuple[int, Prefix], float] = {}
    if not context.scheme.stateful:
        own = examine(context.scheme, table.instance).law
        for stop, chance in own.items():
            for string, weight in string_law(table.instance, {stop: ONE}).items():
                key = (len(stop[0]), string)
                expected[key] = expected.get(key, 0.0) + float(chance * weight)
    strings = list(product(range(table.vocab), repeat=table.length + 1))
    return [
        {
            "accepted_length": length,
            "samples": int(row.sum()),
            "strings": [
                {
                    "tokens": list(string),
                    "count": int(row[i]),
                    "expected": expected.get((length, string), 0.0) if expected else None,
                }
                for i, string in enumerate(strings)
                if row[i] or (length, string) in expected
            ],
        }
        for length, row in enumerate(counts)
        if row.sum()
    ]


def run(context: Context) -> CheckResult:
    """The check."""
    tables = context.statistical_tables()
    if not tables:
        return context.result(NAME, "skipped", "no instance is within the declared ranges")
    tested: list[tuple[float, float]] = []
    details: dict[str, Any] = {}
    for number, table in enumerate(tables):
        instance = table.instance
        left = context.budget - context.elapsed
        if left <= 0 and tested:
            break
        # A slow subject spends most of its time on the first instances, to say something there.
        share = max(left, 0.0) / min(2, len(tables) - number)
        test, counts = test_instance(context, table, share, f"statistical {number}", number == 0)
        tested.append((test.evidence, test.detectable()))
        if number == 0 or test.rejected:
            details = {
                "instance": instance_to_json(instance),
                "strata": strata_of(context, table, counts),
                "evidence_by_view": {k: _finite(v) for k, v in test.by_view.items()},
            }
        if test.rejected:
            from draftproof.conformance import estimated  # it samples, too

            at_least = test.distance_at_least()
            found = estimated.counterexample(context, table, test)
            shape = (found.instance["vocab"], found.instance["drafts"], found.instance["length"])
            heat = "" if table.temperature is None else f", temperature {table.temperature:g}"
            return context.bias(
                NAME,
                f"total variation about {test.total_variation():.3g}"
                f"{f' (at least {at_least:.2g})' if at_least else ''} at "
                f"V={instance.vocab}, K={instance.drafts}, L={instance.length}{heat}, "
                f"{test.samples} samples; smallest found V={shape[0]}, K={shape[1]}, L={shape[2]}",
                total_variation=at_least,
                evidence=_finite(test.evidence),
                threshold=context.threshold,
                detectable=test.detectable(),
                details=details,
                counterexample=found,
            )
    best = min(d for _, d in tested)
    return context.result(
        NAME,
        "passed",
        f"{len(tested)} instances, a total variation of {best:.3g} would have shown",
        evidence=max(e for e, _ in tested),
        threshold=context.threshold,
        detectable=best,
        details=details,
    )


def _finite(value: float) -> float:
    return float(min(value, 1e300))
