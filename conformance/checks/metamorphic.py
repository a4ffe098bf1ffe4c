"""Metamorphic: changes of the input that must not change the answer.

The same block alone and in a batch, blocks in another order, the same buffers twice, the vocabulary
relabelled. Answers of subjects that take uniforms, or a seed per request, must be equal; others are
only asked what does not depend on their generator: whether they spoil their inputs.
Relabelling changes which uniform draws which token, so it is graded by the reference: a subject
that agrees with it under one labelling has to agree under another.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
from draftproof.conformance.adapters.reference import ReferenceSubject
from draftproof.conformance.cases.fixtures import draft_counts, draft_laws, longest
from draftproof.conformance.context import Context
from draftproof.conformance.subject import Batch, Ints, Result, call, one_by_one
from draftproof.conformance.tables import ChosenTable, Uniforms
from draftproof.conformance.verdict import CheckResult
from draftproof.reference.instance import Instance, random_instance

__all__ = ["NAME", "run"]

NAME = "metamorphic"
_BLOCKS = 64
_RELABELLED = 16


class _Keeps:
    """A subject that remembers the buffers it was given."""

    def __init__(self, subject: Any) -> None:
        self._subject = subject
        self.given: Batch | None = None

    def verify(self, batch: Batch) -> Any:
        self.given = batch
        if callable(getattr(self._subject, "verify", None)):
            return self._subject.verify(batch)
        return one_by_one(self._subject, batch)


def _drafts(
    generator: np.random.Generator, instance: Instance, distinct: bool
) -> tuple[tuple[int, ...], ...]:
    """One tuple of drafts; distinct first tokens suit every draft law."""
    paths: list[tuple[int, ...]] = []
    for _ in range(instance.drafts):
        path: tuple[int, ...] = ()
        while len(path) < instance.length:
            row = np.array([float(x) for x in instance.draft_model(path)])
            if distinct and not path:
                row[[other[0] for other in paths]] = 0.0
            if row.sum() == 0:
                row[:] = 1.0
            reached = np.cumsum(row)
            path = (*path, int((reached <= generator.random() * reached[-1]).sum()))
        paths.append(path)
    return tuple(paths)


def _batch(context: Context) -> Batch | None:
    """Blocks of several instances in one batch, so that the rows of requests differ."""
    most = longest(context.scheme)
    distinct = draft_laws(context.scheme, context.declaration)[0] != "iid"
    generator = context.generator(NAME)
    for v, length in ((7, 3), (5, 2), (5, 1)):
        for k in reversed(draft_counts(context.scheme, context.declaration, 2)):
            if (most and length > most) or not context.declaration.allows(k, length, v):
                continue
            parts = []
            for part in range(4):
                source = random.Random(f"{context.seed} {part}")
                instance = random_instance(source, v, length, k, denominator=60)
                n = _BLOCKS // 4
                chosen = [_drafts(generator, instance, distinct) for _ in range(n)]
                uniforms = Uniforms.random(generator, n, k, length)
                table = ChosenTable(instance, chosen)
                asked = uniforms if context.declaration.uniforms else None
                parts.append(table.batch(context.scheme.name, np.arange(n), asked))
            seeds = generator.integers(2**31, size=_BLOCKS)
            return replace(_concatenate(parts), seeds=seeds, seed=int(seeds[0]))
    return None


def _concatenate(parts: list[Batch]) -> Batch:
    changes: dict[str, Any] = {}
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


def _differ(first: Result, second: Result) -> Ints:
    """Indices of blocks with different answers."""
    return np.flatnonzero(
        (first.accepted_length != second.accepted_length) | (first.next_token != second.next_token)
    )


def _same(name: str, expected: Result, found: Result, wrong: list[str]) -> None:
    where = _differ(expected, found)
    if len(where):
        b = int(where[0])
        wrong.append(
            f"{name}: block {b} gives (accepted {found.accepted_length[b]}, next "
            f"{found.next_token[b]}) instead of ({expected.accepted_length[b]}, "
            f"{expected.next_token[b]}); {len(where)} of {len(expected.next_token)} differ"
        )


def _rows(result: Result, order: Ints) -> Result:
    return Result(result.accepted_length[order], result.path[order], result.next_token[order])


def _relabelled(batch: Batch, order: Ints) -> Batch:
    """Token v of the new labelling is token order[v] of the old one."""
    new = np.argsort(order)
    return replace(
        batch,
        drafts=np.where(batch.drafts >= 0, new[batch.drafts], -1),
        draft_rows=np.ascontiguousarray(batch.draft_rows[..., order]),
        target_rows=np.ascontiguousarray(batch.target_rows[..., order]),
        root_rows=np.ascontiguousarray(batch.root_rows[..., order]),
    )


def run(context: Context) -> CheckResult:
    """The check."""
    declaration = context.declaration
    batch = _batch(context)
    if batch is None:
        return context.result(NAME, "skipped", "no batch is within the declared ranges")
    wrong: list[str] = []
    done: list[str] = ["inputs left alone"]
    keeper = _Keeps(context.subject)
    context.watch("metamorphic: inputs left alone")
    first = call(keeper, batch, declaration)
    context.watch("")
    context.asked += batch.size
    assert keeper.given is not None
    clean = _as_given(batch, declaration.rows)
    for name in ("drafts", "draft_rows", "target_rows", "accept_uniforms", "token_uniform"):
        before, after = getattr(clean, name), getattr(keeper.given, name)
        if before is not None and not np.array_equal(before, after, equal_nan=True):
            wrong.append(f"inputs left alone: {name} was changed in place")
    if declaration.uniforms or declaration.request_seeds:
        _same("the same call twice", first, context.ask(batch, "metamorphic: again"), wrong)
        order = context.generator("order").permutation(batch.size)
        permuted = context.ask(batch.take(order), "metamorphic: permuted")
        _same("blocks in another order", _rows(first, order), permuted, wrong)
        chosen = np.arange(0, batch.size, 5)
        alone = [context.ask(batch.take([int(b)]), "metamorphic: alone") for b in chosen]
        single = Result(
            np.concatenate([r.accepted_length for r in alone]),
            np.concatenate([r.path for r in alone]),
            np.concatenate([r.next_token for r in alone]),
        )
        _same("alone and in a batch", _rows(first, chosen), single, wrong)
        done += ["same call twice", "blocks in another order", "alone and in a batch"]
    else:
        done.append("the rest needs uniforms or a seed per request")
    if declaration.uniforms:
        _relabel(context, batch, first, wrong, done)
    details = {"done": done, "wrong": wrong}
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return context.bias(NAME, wrong[0] + more, details=details)
    return context.result(NAME, "passed", ", ".join(done), details=details)


def _relabel(
    context: Context, batch: Batch, first: Result, wrong: list[str], done: list[str]
) -> None:
    some = np.arange(_RELABELLED)
    few = batch.take(some)
    reference = ReferenceSubject([context.scheme], "reference")
    if len(_differ(call(reference, few), _rows(first, some))):
        return  # it uses its uniforms in another way
    order = context.generator("labels").permutation(batch.shape[3])
    other = _relabelled(few, order)
    found = context.ask(other, "metamorphic: relabelled")
    expected = call(reference, other)
    if len(_differ(expected, found)) > 1:  # one may lie within rounding of a threshold
        _same("vocabulary relabelled", expected, found, wrong)
    done.append("vocabulary relabelled")


def _as_given(batch: Batch, rows: str) -> Batch:
    """The batch as the subject sees it."""
    if rows == "probabilities":
        return batch
    with np.errstate(divide="ignore"):
        return replace(
            batch, draft_rows=np.log(batch.draft_rows), target_rows=np.log(batch.target_rows)
        )
