"""Metamorphic: changes of the input that must not change the answer.

The same block alone and in a batch, blocks in another order, the vocabulary relabelled, the same
buffers twice, the same request under the same seed. Answers of subjects that take uniforms must be
equal; of subjects with a seed per request equal too; others are only asked what does not depend on
their generator (whether they spoil their inputs).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from draftproof.conformance.cases.fixtures import draft_counts, draft_laws, longest
from draftproof.conformance.context import Context
from draftproof.conformance.subject import Batch, Result, call
from draftproof.conformance.tables import Table, Uniforms
from draftproof.conformance.verdict import CheckResult
from draftproof.reference.instance import random_instance

__all__ = ["NAME", "run"]

NAME = "metamorphic"


class _Keeps:
    """A subject that remembers the buffers it was given."""

    def __init__(self, subject: object) -> None:
        self._subject = subject
        self.given: Batch | None = None
        if not callable(getattr(subject, "verify", None)):
            self.verify_one = subject.verify_one  # type: ignore[attr-defined]

    def verify(self, batch: Batch) -> object:
        self.given = batch
        if callable(getattr(self._subject, "verify", None)):
            return self._subject.verify(batch)  # type: ignore[attr-defined]
        from draftproof.conformance.subject import one_by_one

        return one_by_one(self._subject, batch)


def _batch(context: Context, size: int) -> Batch | None:
    """Blocks of several instances in one batch, so that rows of requests differ."""
    import random

    counts = draft_counts(context.scheme, context.declaration, 2)
    most = longest(context.scheme)
    law = draft_laws(context.scheme, context.declaration)[0]
    generator = context.generator("metamorphic")
    for v, length in ((7, 3), (5, 2), (5, 1)):
        for k in reversed(counts):
            if (most and length > most) or not context.declaration.allows(k, length, v):
                continue
            if law != "iid" and k > 1:
                # Drafts of other laws: distinct first tokens are possible under each of them.
                pass
            parts = []
            for part in range(4):
                source = random.Random(f"{context.seed} {part}")
                instance = random_instance(source, v, length, k, denominator=60)
                n = size // 4
                tokens = np.empty((n, k, length), dtype=np.int64)
                for b in range(n):
                    for j in range(k):
                        path: tuple[int, ...] = ()
                        for depth in range(length):
                            row = [float(x) for x in instance.draft_model(path)]
                            if law != "iid" and depth == 0:
                                for other in range(j):
                                    row[tokens[b, other, 0]] = 0.0
                            if sum(row) == 0:
                                row = [1.0] * v
                            cumulative = np.cumsum(row)
                            u = generator.random() * cumulative[-1]
                            path = (*path, int((cumulative <= u).sum()))
                        tokens[b, j] = path
                table = _Chosen(instance, tokens)
                uniforms = Uniforms.random(generator, n, k, length)
                asked = uniforms if context.declaration.uniforms else None
                parts.append(table.batch(context.scheme.name, np.arange(n), asked))
            seeds = generator.integers(2**31, size=4 * (size // 4))
            joined = _concatenate(parts)
            return replace(joined, seeds=seeds, seed=int(seeds[0]))
    return None


class _Chosen(Table):
    """A table of given drafts."""

    def __init__(self, instance: object, tokens: object) -> None:
        super().__init__(instance)  # type: ignore[arg-type]
        self._given = [
            (tuple(tuple(int(t) for t in path) for path in block), 1)
            for block in tokens  # type: ignore[attr-defined]
        ]

    @property
    def _tuples(self) -> list[tuple[tuple[tuple[int, ...], ...], int]]:  # type: ignore[override]
        return self._given


def _concatenate(parts: list[Batch]) -> Batch:
    changes = {}
    for name in (
        "drafts",
        "draft_rows",
        "target_rows",
        "root_rows",
        "accept_uniforms",
        "select_uniforms",
        "token_uniform",
        "position",
    ):
        arrays = [getattr(part, name) for part in parts]
        if arrays[0] is not None:
            changes[name] = np.concatenate(arrays)
    return replace(parts[0], **changes)


def _differs(first: Result, second: Result) -> np.ndarray:  # type: ignore[type-arg]
    return np.flatnonzero(
        (first.accepted_length != second.accepted_length) | (first.next_token != second.next_token)
    )


def _same(name: str, expected: Result, found: Result, wrong: list[str]) -> None:
    where = _differs(expected, found)
    if len(where):
        b = int(where[0])
        wrong.append(
            f"{name}: block {b} gives (accepted {found.accepted_length[b]}, next "
            f"{found.next_token[b]}) instead of ({expected.accepted_length[b]}, "
            f"{expected.next_token[b]}); {len(where)} of {len(expected.next_token)} differ"
        )


def _rows(result: Result, order: np.ndarray) -> Result:  # type: ignore[type-arg]
    return Result(result.accepted_length[order], result.path[order], result.next_token[order])


def run(context: Context) -> CheckResult:
    """The check."""
    declaration = context.declaration
    repeatable = declaration.uniforms or declaration.request_seeds
    batch = _batch(context, 64)
    if batch is None:
        return context.result(NAME, "skipped", "no batch is within the declared ranges")
    wrong: list[str] = []
    done: list[str] = []
    keeper = _Keeps(context.subject)
    context.watch("metamorphic: inputs left alone")
    first = call(keeper, batch, declaration)
    context.watch("")
    context.asked += batch.size
    given = keeper.given
    if given is not None:
        clean = _as_given(batch, declaration.rows)
        for name in ("drafts", "draft_rows", "target_rows", "accept_uniforms", "token_uniform"):
            before, after = getattr(clean, name), getattr(given, name)
            if before is not None and not np.array_equal(before, after, equal_nan=True):
                wrong.append(f"inputs left alone: {name} was changed in place")
        done.append("inputs left alone")
    if repeatable:
        again = context.ask(batch, "metamorphic: again")
        _same("the same call twice", first, again, wrong)
        done.append("same call twice")
        if given is not None and not wrong:
            # The buffers that the subject has seen once, as an engine would use them again.
            second = call(context.subject, replace(batch), declaration)
            _same("the same buffers twice", first, second, wrong)
        order = context.generator("order").permutation(batch.size)
        permuted = context.ask(batch.take(order), "metamorphic: permuted")
        _same("blocks in another order", _rows(first, order), permuted, wrong)
        done.append("blocks in another order")
        alone = [
            context.ask(batch.take([b]), "metamorphic: alone") for b in range(0, batch.size, 5)
        ]
        chosen = np.arange(0, batch.size, 5)
        single = Result(
            np.concatenate([r.accepted_length for r in alone]),
            np.concatenate([r.path for r in alone]),
            np.concatenate([r.next_token for r in alone]),
        )
        _same("alone and in a batch", _rows(first, chosen), single, wrong)
        done.append("alone and in a batch")
    else:
        done.append("the rest needs uniforms or a seed per request")
    details = {"done": done, "wrong": wrong}
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return context.bias(NAME, wrong[0] + more, details=details)
    return context.result(NAME, "passed", ", ".join(done), details=details)


def _as_given(batch: Batch, rows: str) -> Batch:
    """The batch as the subject sees it."""
    if rows == "probabilities":
        return batch
    with np.errstate(divide="ignore"):
        return replace(
            batch, draft_rows=np.log(batch.draft_rows), target_rows=np.log(batch.target_rows)
        )
