"""Shrinking: the smallest instance on which a subject is still biased, re-checked exactly.

Greedy: try every way of making the instance smaller or simpler (fewer drafts, a shorter block,
fewer tokens, rows that are equal, fewer and smaller numerators, more zeros), take the first on
which the rebuilt law is still biased, and start again; what is left is smallest in that none of
these steps can be taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from draftproof.reference.instance import Instance
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import ONE, ZERO, rational
from draftproof.reference.rows import Row, normalise

__all__ = ["measure", "shrink", "simpler"]

Rows = Mapping[Prefix, Row]


def shrink(
    instance: Instance, biased: Callable[[Instance], bool], seconds: float = 20.0
) -> tuple[Instance, bool]:
    """The instance made as small as `biased` allows, and whether nothing is left to try."""
    deadline = time.monotonic() + seconds
    seen = {_key(instance)}
    while True:
        size = measure(instance)
        for candidate in simpler(instance):
            if time.monotonic() > deadline:
                return instance, False
            key = _key(candidate)
            if key in seen or measure(candidate) >= size:
                continue
            seen.add(key)
            if biased(candidate):
                instance = candidate
                break
        else:
            return instance, True


def measure(instance: Instance) -> tuple[int, int, int, tuple[int, int, int]]:
    """What shrinking makes smaller: L, K, V, then denominators, positive entries, numerators."""
    each = [
        _complexity(row)
        for rows in (instance.draft_rows, instance.target_rows)
        for row in rows.values()
    ]
    sums = (sum(c[0] for c in each), sum(c[1] for c in each), sum(sum(c[2]) for c in each))
    return instance.length, instance.drafts, instance.vocab, sums


def _key(instance: Instance) -> str:
    return repr(
        (
            instance.vocab,
            instance.drafts,
            instance.length,
            sorted(instance.draft_rows.items()),
            sorted(instance.target_rows.items()),
            instance.paths,
        )
    )


def simpler(instance: Instance) -> Iterator[Instance]:
    """Instances that are one step smaller or simpler, the largest steps first."""
    v, k, length = instance.vocab, instance.drafts, instance.length
    if k > 1:
        yield replace(instance, drafts=k - 1, paths=instance.paths[: k - 1])
    if length > 1:
        yield _shorter(instance)
        for token in range(v):
            yield _after(instance, token)
    for token in range(v if v > 1 else 0):
        smaller = _without_token(instance, token)
        if smaller is not None:
            yield smaller
    yield from _equal_rows(instance)
    for kind in ("draft_rows", "target_rows"):
        rows: Rows = getattr(instance, kind)
        for prefix, row in rows.items():
            for simple in _simpler_rows(row):
                changed: dict[str, Any] = {kind: {**rows, prefix: simple}}
                yield replace(instance, **changed)


def _shorter(instance: Instance) -> Instance:
    length = instance.length - 1
    return replace(
        instance,
        length=length,
        draft_rows={p: r for p, r in instance.draft_rows.items() if len(p) < length},
        target_rows={p: r for p, r in instance.target_rows.items() if len(p) <= length},
        paths=tuple(path[:length] for path in instance.paths),
    )


def _after(instance: Instance, token: int) -> Instance:
    """The block that follows a first token."""

    def below(rows: Rows) -> dict[Prefix, Row]:
        return {p[1:]: r for p, r in rows.items() if p[:1] == (token,)}

    return replace(
        instance,
        length=instance.length - 1,
        draft_rows=below(instance.draft_rows),
        target_rows=below(instance.target_rows),
        paths=tuple(path[1:] for path in instance.paths),
    )


def _without_token(instance: Instance, token: int) -> Instance | None:
    """The vocabulary without a token: its probability is shared out."""
    if any(token in path for path in instance.paths):
        return None

    def lower(prefix: Prefix) -> Prefix:
        return tuple(t - (t > token) for t in prefix)

    def fewer(rows: Rows) -> dict[Prefix, Row] | None:
        kept: dict[Prefix, Row] = {}
        for prefix, row in rows.items():
            if token in prefix:
                continue
            left = row[:token] + row[token + 1 :]
            if sum(left) == 0:
                return None
            kept[lower(prefix)] = normalise(left)
        return kept

    draft, target = fewer(instance.draft_rows), fewer(instance.target_rows)
    if draft is None or target is None:
        return None
    return replace(
        instance,
        vocab=instance.vocab - 1,
        draft_rows=draft,
        target_rows=target,
        paths=tuple(lower(path) for path in instance.paths),
    )


def _equal_rows(instance: Instance) -> Iterator[Instance]:
    """All rows below the root one-hot or uniform; draft and target equal at a node."""
    v = instance.vocab
    hot: Row = (ONE,) + (ZERO,) * (v - 1)
    flat: Row = (ONE / v,) * v
    for row in (hot, flat):
        for deep in range(instance.length, -1, -1):
            target = {p: row if len(p) >= deep else r for p, r in instance.target_rows.items()}
            if target != dict(instance.target_rows):
                yield replace(instance, target_rows=target)
    for prefix, row in instance.draft_rows.items():
        if instance.target_rows.get(prefix) not in (None, row) and prefix in instance.target_rows:
            yield replace(instance, target_rows={**instance.target_rows, prefix: row})


def _simpler_rows(row: Row) -> Iterator[Row]:
    """Rows with a smaller denominator or more zeros, that are simpler than `row`."""
    exact = [Fraction(int(x.numerator), int(x.denominator)) for x in row]
    size = _complexity(row)
    v = len(row)
    candidates: list[Row] = []
    for token in range(v):
        candidates.append(tuple(ONE if t == token else ZERO for t in range(v)))
    for first, second in combinations(range(v), 2):
        half = [ZERO] * v
        half[first] = half[second] = rational("1/2")
        candidates.append(tuple(half))
    for denominator in (2, 3, 4, 5, 6, 8, 10):
        near = [round(x * denominator) for x in exact]
        off = denominator - sum(near)
        for token in sorted(range(v), key=lambda t: -exact[t]):
            moved = list(near)
            moved[token] += off
            if moved[token] >= 0:
                candidates.append(tuple(rational(n) / denominator for n in moved))
                break
    candidates.sort(key=_complexity)
    for candidate in dict.fromkeys(candidates):
        if _complexity(candidate) < size:
            yield candidate


def _complexity(row: Row) -> tuple[int, int, tuple[int, ...]]:
    """Large denominators and few zeros are complex; then mass on late tokens, for an order."""
    fractions = [Fraction(int(x.numerator), int(x.denominator)) for x in row]
    denominator = max(f.denominator for f in fractions)
    nonzero = sum(f != 0 for f in fractions)
    return denominator, nonzero, tuple(int(f * t * 1000) for t, f in enumerate(fractions))
