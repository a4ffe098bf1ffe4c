"""Drafter: the law of the drafts that a subject draws itself, against the rows that it reports.

A subject with a drafter offers `draft(request) -> drafts, draft_rows`. Its drafts are compared with
the rows it reports (drafts drawn from top-k, tempered or rounded rows, or argmax drafts reported
with soft rows), and verified with those rows: the emitted strings have the target's law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from draftproof.conformance.checks.statistical import string_views
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential, View
from draftproof.conformance.subject import Floats, Ints, SubjectError
from draftproof.conformance.tables import ChosenTable, Table, Uniforms
from draftproof.conformance.verdict import CheckResult
from draftproof.reference.models import Prefix

__all__ = ["NAME", "DraftRequest", "run"]

NAME = "drafter"
ENOUGH = 0.02


@dataclass(frozen=True)
class DraftRequest:
    """What a subject's drafter is asked: B blocks in the same context."""

    size: int
    """B."""
    drafts: int
    """K."""
    length: int
    """L."""
    vocab: int
    model: Callable[[Prefix], Floats]
    """The draft model: prefix of the block → row [V]."""
    target: Callable[[Prefix], Floats]
    """The target model, for drafters that look at it."""
    seed: int


def _asked(context: Context, table: Table, size: int, seed: int) -> tuple[Ints, Floats]:
    def model(prefix: Prefix) -> Floats:
        return np.array([float(v) for v in table.instance.draft_model(tuple(prefix))])

    def target(prefix: Prefix) -> Floats:
        return np.array([float(v) for v in table.instance.target_model(tuple(prefix))])

    request = DraftRequest(size, table.drafts, table.length, table.vocab, model, target, seed)
    context.watch("drafting")
    try:
        answer = context.subject.draft(request)
    except Exception as error:
        message = f"draft raised {type(error).__name__}: {error}"
        raise SubjectError("raised", message) from error
    finally:
        context.watch("")
    drafts = np.asarray(answer[0], dtype=np.int64)
    rows = np.asarray(answer[1], dtype=np.float64)
    shape = (size, table.drafts, table.length)
    if drafts.shape != shape or rows.shape != (*shape, table.vocab):
        raise SubjectError(
            "shape",
            f"draft returned shapes {drafts.shape} and {rows.shape}, not {shape} and "
            f"{(*shape, table.vocab)}",
        )
    if drafts.min() < 0 or drafts.max() >= table.vocab:
        raise SubjectError("range", f"drafts have ids from {drafts.min()} to {drafts.max()}")
    return drafts, rows


def run(context: Context) -> CheckResult:
    """The check."""
    if not callable(getattr(context.subject, "draft", None)):
        return context.result(NAME, "skipped", "the subject has no drafter of its own")
    tables = context.statistical_tables()
    if not tables:
        return context.result(NAME, "skipped", "no instance is within the declared ranges")
    # A row of full support, so that a filtered one shows.
    table = max(tables, key=lambda t: min(t.instance.draft_model(())))
    generator = context.generator(NAME)
    v, length = table.vocab, table.length
    reported: dict[Prefix, Floats] = {}
    law: Sequential | None = None
    weight = context.threshold + np.log(2)
    strings = Sequential(
        table.as_array(table.target_law), string_views(v, length + 1), context.threshold
    )
    size = 256
    while True:
        before = context.elapsed
        drafts, rows = _asked(context, table, size, int(generator.integers(2**31)))
        for depth in range(length):
            prefixes, first = np.unique(drafts[:, 0, :depth], axis=0, return_index=True)
            for prefix, at in zip(prefixes, first, strict=True):
                reported.setdefault(tuple(int(t) for t in prefix), rows[at, 0, depth])
        null = _path_law(reported, v, length)
        cells = drafts[:, 0] @ (v ** np.arange(length - 1, -1, -1))
        if law is None:
            law = Sequential(null, (View("path", np.arange(v**length), 1.0),), float(weight))
        rejected = law.see(cells)
        if not rejected:
            batch = replace(
                _batch(context, table, drafts, generator),
                draft_rows=rows,
            )
            result = context.ask(batch, "drafter: verify")
            rejected = strings.see(_strings(table, generator, drafts, result))
        if rejected or context.out_of_time(law.samples):
            break
        if max(strings.detectable(), law.detectable()) <= ENOUGH:
            break
        per_block = (context.elapsed - before) / size
        left = context.budget - context.elapsed
        size = int(max(64, min(size * 2, 20_000, left / max(per_block, 1e-7))))
    where = f"V={v}, K={table.drafts}, L={length}"
    values: dict[str, Any] = {
        "evidence": min(max(law.evidence, strings.evidence), 1e300),
        "threshold": context.threshold,
        "detectable": max(law.detectable(), strings.detectable()),
        "details": {
            "drafts_observed": (law.counts / max(law.samples, 1)).tolist(),
            "drafts_reported": law.null.tolist(),
        },
    }
    if law.rejected:
        return context.bias(
            NAME,
            f"drafts are not drawn from the rows that are reported: total variation about "
            f"{law.total_variation():.3g} at {where}, {law.samples} drafts",
            total_variation=law.distance_at_least(),
            **values,
        )
    if strings.rejected:
        return context.bias(
            NAME,
            f"emitted strings with its own drafts: total variation about "
            f"{strings.total_variation():.3g} at {where}",
            total_variation=strings.distance_at_least(),
            **values,
        )
    return context.result(NAME, "passed", f"{where}, {law.samples} drafts", **values)


def _path_law(reported: dict[Prefix, Floats], vocab: int, length: int) -> Floats:
    """The law of a path by the reported rows; a prefix never seen has probability 0 or no row."""
    law = np.ones(1)
    prefixes: list[Prefix] = [()]
    for _ in range(length):
        rows = [reported.get(prefix, np.full(vocab, 1 / vocab)) for prefix in prefixes]
        law = (law[:, None] * np.array(rows)).reshape(-1)
        prefixes = [(*prefix, t) for prefix in prefixes for t in range(vocab)]
    out: Floats = law
    return out


def _given(table: Table, drafts: Ints) -> ChosenTable:
    """The table's rows along given drafts."""
    chosen = [tuple(tuple(int(t) for t in path) for path in block) for block in drafts]
    return ChosenTable(table.instance, chosen)


def _batch(context: Context, table: Table, drafts: Ints, generator: np.random.Generator) -> Any:
    given = _given(table, drafts)
    size = len(drafts)
    uniforms = None
    if not context.declaration.draws:
        uniforms = Uniforms.random(generator, size, table.drafts, table.length)
    batch = given.batch(
        context.scheme.name, np.arange(size), uniforms, int(generator.integers(2**31))
    )
    return replace(batch, seeds=generator.integers(2**62, size=size))


def _strings(table: Table, generator: np.random.Generator, drafts: Ints, result: Any) -> Ints:
    return _given(table, drafts).strings(generator, np.arange(len(drafts)), result)
