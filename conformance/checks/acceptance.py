"""Acceptance: the accepted length against the scheme's exact value.

Only this check sees rules that are lossless but slow, such as keeping a draft iff it equals the
target's own sample. A rule that accepts less than the scheme whose name it has is *measured*: it is
no bias, and the verdict stays what the other checks say.
"""

from __future__ import annotations

import numpy as np
from draftproof.conformance.checks.statistical import sample
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential, View
from draftproof.conformance.verdict import CheckResult
from draftproof.reference.oracle import examine

__all__ = ["NAME", "run"]

NAME = "acceptance"


def run(context: Context) -> CheckResult:
    """The check: the law of the accepted length on one instance, by a sequential test."""
    tables = context.statistical_tables()
    if not tables:
        return context.result(NAME, "skipped", "no instance is within the declared ranges")
    table = max(tables[:2], key=lambda t: t.drafts)
    instance = table.instance
    exact = examine(context.scheme, instance)
    law = exact.law.map(lambda stop: len(stop[0]))
    null = np.array([float(law.probability(n)) for n in range(instance.length + 1)])
    test = Sequential(null, (View("length", np.arange(len(null)), 1.0),), context.threshold)
    generator = context.generator(NAME)
    size, call = 256, 0
    while True:
        before = context.elapsed
        lengths, _ = sample(context, table, generator, size, f"{NAME}, call {call}")
        call += 1
        if test.see(lengths) or context.out_of_time(test.samples, 500):
            break
        if test.detectable() <= 0.005:
            break
        per_block = (context.elapsed - before) / size
        left = context.budget - context.elapsed
        size = int(max(64, min(size * 2, 50_000, left / max(per_block, 1e-7))))
    mean = float(test.counts @ np.arange(len(null)) / test.samples)
    expected = float(exact.expected_accepted_length)
    values = {
        "evidence": min(test.evidence, 1e300),
        "threshold": context.threshold,
        "detectable": test.detectable(),
        "details": {
            "expected_accepted_length": expected,
            "observed_accepted_length": mean,
            "counts": test.counts.tolist(),
        },
    }
    said = f"E[accepted length] {mean:.4f}, the scheme's is {expected:.4f}"
    where = f"V={instance.vocab}, K={instance.drafts}, L={instance.length}"
    if not test.rejected:
        return context.result(NAME, "passed", f"{said} ({where})", **values)
    word = "accepts less" if mean < expected else "accepts otherwise"
    return context.result(NAME, "measured", f"{word}: {said} ({where})", **values)
