"""Fixtures: the instances of every check, from small to large, chosen so that faults show.

Rows differ at every node (with equal rows an off-by-one row, a stale bonus row or swapped requests
are invisible), V ≥ 3 with residuals of two tokens, context-dependent rows, zero probabilities,
one-hot rows at distinct ids, p = q, disjoint supports, no drafts at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from draftproof.conformance.subject import Declaration
from draftproof.reference.instance import DraftLaw, Instance, random_instance
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import rational
from draftproof.reference.rows import Row, normalise
from draftproof.reference.scheme import Scheme

__all__ = [
    "draft_counts",
    "draft_laws",
    "large_instances",
    "small_instance",
    "soft_instance",
    "statistical_instances",
    "sweep_instances",
    "tempered",
]

_KINDS = ("soft", "generic", "mixed", "equal", "disjoint", "one_hot")


def draft_counts(scheme: Scheme, declaration: Declaration, most: int = 3) -> list[int]:
    """Numbers of drafts K ≥ 1 that both the scheme and the subject take."""
    low, high = scheme.drafts
    return [
        k
        for k in range(1, most + 1)
        if low <= k and (high is None or k <= high)
        if declaration.drafts[0] <= k
        and (declaration.drafts[1] is None or k <= declaration.drafts[1])
    ]


def draft_laws(scheme: Scheme, declaration: Declaration) -> list[DraftLaw]:
    """The draft laws that the scheme, or the subject where it says so, is made for."""
    law = declaration.draft_law or scheme.draft_law
    table: dict[str, list[DraftLaw]] = {
        "without_replacement": ["without_replacement"],
        "deterministic": ["fixed"],
        "any": ["iid", "fixed"],
        "hub": [],  # a pair that no instance describes
    }
    return table.get(law, ["iid"])


def longest(scheme: Scheme) -> int | None:
    """Couplings decide one token."""
    return 1 if scheme.kind == "coupling" else None


def _allowed(scheme: Scheme, declaration: Declaration, v: int, length: int, k: int) -> bool:
    most = longest(scheme)
    return declaration.allows(k, length, v) and (most is None or length <= most)


def _soft_rows(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    """A draft and a target row without zeros, at least a quarter apart; with three tokens or more
    the residual has one token in one row out of two and several in the other."""

    def one() -> list[int]:
        cuts = sorted(generator.sample(range(1, denominator), vocab - 1))
        return [b - a for a, b in pairwise([0, *cuts, denominator])]

    several = vocab >= 3 and generator.random() < 0.5
    while True:
        p, q = one(), one()
        apart = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / (2 * denominator)
        above = sum(b > a for a, b in zip(p, q, strict=True))
        if vocab == 1 or (apart >= 0.25 and (above >= 2) == several):
            return (
                tuple(rational(a) / denominator for a in p),
                tuple(rational(b) / denominator for b in q),
            )


def _steep_rows(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    """A draft row that is mostly one token, and a target row that spreads over the others: the
    residual keeps two tokens even when a prefix weight of 1/3 scales the target down."""
    p = [1] * vocab
    q = [(denominator - 2) // (vocab - 1)] * vocab
    often = generator.randrange(vocab)
    p[often] += denominator - sum(p)
    q[often] = 0
    q[(often + 1) % vocab] += 1
    q[often] = denominator - sum(q)
    return (
        tuple(rational(a) / denominator for a in p),
        tuple(rational(b) / denominator for b in q),
    )


def soft_instance(generator: random.Random, v: int, length: int, k: int) -> Instance:
    """Rows of multiples of 1/12 (1/24 from V = 5 on) without zeros, different at every node."""
    denominator = 12 if v <= 4 else 24
    draft_rows: dict[Prefix, Row] = {}
    target_rows: dict[Prefix, Row] = {}
    for depth in range(length + 1):
        for prefix in product(range(v), repeat=depth):
            steep = v >= 3 and depth > 0 and generator.random() < 0.5
            rows = _steep_rows if steep else _soft_rows
            p, target_rows[prefix] = rows(generator, v, denominator)
            if depth < length:
                draft_rows[prefix] = p
    return Instance(v, k, length, draft_rows, target_rows)


def small_instance(
    seed: int, v: int, length: int, k: int, kind: str = "soft", law: DraftLaw = "iid"
) -> Instance | None:
    """An instance of small denominators, or None where the draft law cannot draw it."""
    if law == "without_replacement" and (length > 1 or k > v):
        return None
    generator = random.Random(f"{seed} {v} {length} {k} {kind} {law}")
    if kind == "soft":
        instance = replace(soft_instance(generator, v, length, k), draft_law=law)
        if law == "fixed":
            instance = replace(instance, paths=((0,) * length,) * k)
    else:
        instance = random_instance(
            generator, v, length, k, denominator=6 if v <= 3 else 12, kind=kind, draft_law=law
        )
    if law == "without_replacement" and sum(1 for p in instance.draft_rows[()] if p) < k:
        return None
    if law == "fixed" and len(set(instance.paths)) < len(instance.paths):
        # Distinct paths: a deterministic draft tree has no duplicate siblings.
        paths = list(product(range(v), repeat=length))
        if len(paths) < k:
            return None
        chosen = tuple(generator.sample(paths, k))
        return Instance(v, k, length, instance.draft_rows, instance.target_rows, "fixed", chosen)
    return instance


def sweep_instances(scheme: Scheme, declaration: Declaration, seed: int) -> Iterator[Instance]:
    """Instances whose drafts can all be enumerated: small before large, plain before special."""
    counts = draft_counts(scheme, declaration)
    plan: list[tuple[int, int, int, str, int]] = []
    for k, (v, length) in product(counts, ((2, 1), (3, 1), (2, 2), (3, 2), (2, 3), (4, 1))):
        if v ** (length * k) > 729:
            continue
        copies = 3 if v ** (length * k) <= 27 else 2 if v ** (length * k) <= 81 else 1
        plan += [(v, length, k, "soft", c) for c in range(copies)]
        if v == 3 and v ** (length * k) <= 81:
            plan += [(v, length, k, kind, 0) for kind in _KINDS[1:]]
    # One plain instance of every size first: the whole range is seen also where time is short.
    plan.sort(key=lambda p: (p[4] > 0 or p[3] != "soft", p[0] ** (p[1] * p[2]), p[1], p[2]))
    if _allowed(scheme, declaration, 3, 0, counts[0] if counts else 1):
        plan.insert(0, (3, 0, counts[0] if counts else 1, "soft", 0))
    low = scheme.drafts[0]
    if low == 0 and _allowed(scheme, declaration, 3, 1, 0):
        plan.insert(0, (3, 1, 0, "soft", 0))
    for law in draft_laws(scheme, declaration):
        for v, length, k, kind, copy in plan:
            if not _allowed(scheme, declaration, v, length, k):
                continue
            if law == "without_replacement" and (length == 0 or k == 0):
                continue
            instance = small_instance(seed + copy, v, length, k, kind, law)
            if instance is not None:
                yield instance


def tempered(instance: Instance, temperature: Fraction) -> tuple[Instance, Instance]:
    """(at the temperature, at temperature 1): rows of both exact, for T = 1/2 and T = 2.

    The numerators a of each row stand for a² at temperature 1: at T = 2 the row is ∝ a, at T = 1/2
    it is ∝ a⁴.
    """
    power = {Fraction(1, 2): 4, Fraction(2): 1}[temperature]

    def at(exponent: int) -> Instance:
        def rows(given: Mapping[Prefix, Row]) -> dict[Prefix, Row]:
            return {
                prefix: normalise(tuple(v**exponent for v in row)) for prefix, row in given.items()
            }

        return replace(
            instance, draft_rows=rows(instance.draft_rows), target_rows=rows(instance.target_rows)
        )

    return at(power), at(2)


def large_instances(scheme: Scheme, declaration: Declaration, seed: int) -> Iterator[Instance]:
    """Instances with too many drafts to enumerate, independent drafts only."""
    if "iid" not in draft_laws(scheme, declaration):
        return
    for k in reversed(draft_counts(scheme, declaration)):
        for v, length in ((4, 3), (5, 2), (6, 1)):
            if _allowed(scheme, declaration, v, length, k):
                yield soft_instance(random.Random(f"large {seed} {v} {length} {k}"), v, length, k)
                break


def statistical_instances(scheme: Scheme, declaration: Declaration, seed: int) -> list[Instance]:
    """Instances for sampling: context-dependent rows, p and q far apart, and a sparse one."""
    counts = draft_counts(scheme, declaration)
    chosen: list[Instance] = []
    sizes = [(3, 2), (3, 1), (2, 3), (3, 3)]
    for law in draft_laws(scheme, declaration):
        for v, length in sizes:
            for k in sorted({counts[0], counts[min(1, len(counts) - 1)]}) if counts else []:
                if not _allowed(scheme, declaration, v, length, k):
                    continue
                if v ** (length * k) > 729:
                    continue
                instance = small_instance(seed + 100, v, length, k, "soft", law)
                if instance is not None:
                    chosen.append(instance)
        for k in counts[-1:]:
            for v, length in ((3, 2), (3, 1)):
                if _allowed(scheme, declaration, v, length, k):
                    if v ** (length * k) <= 729:
                        sparse = small_instance(seed + 200, v, length, k, "mixed", law)
                        if sparse is not None:
                            chosen.append(sparse)
                    break
    return chosen
