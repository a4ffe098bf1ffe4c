"""Rounds: several successive rounds of each request; the law of the emitted string.

Sees what one block cannot: uniforms or seeds reused across rounds, carries dropped or applied to
the wrong rows, drafts correlated with the verification noise. Rows depend on the last two tokens
and on the position; the string of the first tokens, whichever rounds they come from, has the
target's law.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.boxes import Unbuildable, rebuild
from draftproof.conformance.cases.fixtures import (
    draft_counts,
    draft_laws,
    longest,
    soft_instance,
)
from draftproof.conformance.checks.exact_sweep import ExactLaw, precision_of, said
from draftproof.conformance.checks.statistical import string_views
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import Sequential
from draftproof.conformance.subject import Batch, Floats, Ints
from draftproof.conformance.tables import Paths, law_to_list, sample_rows
from draftproof.conformance.verdict import CheckResult, Counterexample
from draftproof.reference.instance import Instance, instance_to_json
from draftproof.reference.law import Law
from draftproof.reference.models import Model, Prefix, block_law
from draftproof.reference.numbers import ONE, ZERO, Number, rational, text
from draftproof.reference.rows import Row

__all__ = ["ENOUGH", "NAME", "Markov", "emit", "run"]

NAME = "rounds"
ENOUGH = 0.02
_PERIOD = 3
_PATIENCE = 10.0  # seconds that exact rounds of one draft may take, also on a small budget
_SEVERAL = 1.0  # seconds of budget from which on exact rounds of several drafts are tried
Stop = tuple[Prefix, int]


@dataclass(frozen=True)
class Markov:
    """Rows that depend on the position (modulo 3) and on the last two tokens."""

    vocab: int
    rows: Floats
    """[3, V+1, V+1, V]; token V stands for the start."""

    @classmethod
    def random(cls, generator: np.random.Generator, vocab: int) -> Markov:
        """Rows of multiples of 1/12, peaked enough that draft and target differ."""
        shape = (_PERIOD, vocab + 1, vocab + 1)
        weights = generator.dirichlet(np.full(vocab, 0.8), size=shape)
        counts = np.floor(weights * 12 + generator.random((*shape, 1)))
        counts[..., 0] += counts.sum(axis=-1) == 0
        return cls(vocab, counts / counts.sum(axis=-1, keepdims=True))

    def after(self, position: Ints, last: Ints, before: Ints) -> Floats:
        """Rows [.., V] after strings of `position` tokens that end in `before`, `last`."""
        return self.rows[position % _PERIOD, before, last]

    def law(self, tokens: int) -> Floats:
        """[V^tokens]: the law of the first tokens."""
        v = self.vocab
        law, strings = np.ones(1), np.full((1, 2), v)
        for position in range(tokens):
            rows = self.after(np.full(len(law), position), strings[:, -1], strings[:, -2])
            law = (law[:, None] * rows).reshape(-1)
            strings = np.concatenate(
                [np.repeat(strings, v, axis=0), np.tile(np.arange(v), len(strings))[:, None]],
                axis=1,
            )
        return law


def _draft(
    context: Context,
    generator: np.random.Generator,
    model: Markov,
    state: tuple[Ints, Ints, Ints],
    k: int,
    length: int,
    law: str,
) -> tuple[Ints, Floats]:
    """Drafts [B, K, L] and their rows [B, K, L, V]."""
    position, last, before = state
    size = len(position)
    tokens = np.zeros((size, k, length), dtype=np.int64)
    rows = np.zeros((size, k, length, model.vocab))
    for draft in range(k):
        here, tail, head = position, last, before
        for depth in range(length):
            row = model.after(here, tail, head)
            rows[:, draft, depth] = row
            if law == "iid":
                token = sample_rows(generator, row)
            elif depth:
                token = row.argmax(axis=1)
            else:
                left = row + 1e-9 if law == "fixed" else row.copy()
                for other in range(draft):
                    left[np.arange(size), tokens[:, other, 0]] = 0.0
                token = left.argmax(axis=1) if law == "fixed" else sample_rows(generator, left)
            tokens[:, draft, depth] = token
            here, head, tail = here + 1, tail, token
    return tokens, rows


def _target(model: Markov, state: tuple[Ints, Ints, Ints], tokens: Ints) -> Floats:
    """Target rows [B, K, L+1, V] along the drafts."""
    position, last, before = state
    size, k, length = tokens.shape
    rows = np.zeros((size, k, length + 1, model.vocab))
    for draft in range(k):
        here, tail, head = position, last, before
        for depth in range(length + 1):
            rows[:, draft, depth] = model.after(here, tail, head)
            if depth < length:
                here, head, tail = here + 1, tail, tokens[:, draft, depth]
    return rows


def emit(
    context: Context,
    generator: np.random.Generator,
    draft: Markov,
    target: Markov,
    *,
    size: int,
    drafts: int,
    length: int,
    tokens: int,
    law: str,
) -> Ints:
    """The first `tokens` tokens [B, tokens] of `size` requests, by as many rounds as they take."""
    v = target.vocab
    emitted = np.full((size, tokens + length + 3), v, dtype=np.int64)  # two start tokens in front
    count = np.zeros(size, dtype=np.int64)
    rows = np.arange(size)
    seeds = generator.integers(2**62, size=size)
    declaration = context.declaration
    carry: Any = None
    while count.min() < tokens:
        state = (count, emitted[rows, count + 1], emitted[rows, count])
        paths, draft_rows = _draft(context, generator, draft, state, drafts, length, law)
        target_rows = _target(target, state, paths)
        asks = not declaration.draws
        batch = Batch(
            scheme=context.scheme.name,
            drafts=paths,
            draft_rows=draft_rows,
            target_rows=target_rows,
            root_rows=np.ascontiguousarray(target_rows[:, 0, 0]),
            accept_uniforms=generator.random((size, drafts, length)) if asks else None,
            select_uniforms=generator.random((size, drafts)) if asks else None,
            token_uniform=generator.random(size) if asks else None,
            seed=int(generator.integers(2**31)),
            seeds=seeds,
            position=count.copy(),
            temperature=np.ones(size) if declaration.temperatures else None,
            carry=carry,
        )
        result = context.ask(batch, f"rounds, after {int(count.min())} tokens")
        carry = result.carry
        chosen = result.accepted(paths)
        for depth in range(length + 1):
            tau = result.accepted_length
            if depth < length:
                token = np.where(depth < tau, chosen[:, depth], result.next_token)
            else:
                token = result.next_token
            live = (depth <= tau) & (count + depth < tokens + length + 1)
            at = np.minimum(count + depth + 2, emitted.shape[1] - 1)
            emitted[rows[live], at[live]] = token[live]
        # Requests that have all their tokens go on (a batch keeps its rows) in the same place.
        count = np.minimum(count + result.accepted_length + 1, tokens)
    return emitted[:, 2 : tokens + 2]


def _suffix(rows: Mapping[Prefix, Row], longest: int) -> Callable[[Prefix], Row]:
    """Rows of an instance, continued: after a longer prefix, the row after its last tokens."""

    def after(prefix: Prefix) -> Row:
        return rows[prefix[len(prefix) - min(len(prefix), longest) :]]

    return after


def _tuples(draft: Model, drafts: int, length: int, start: Prefix) -> list[tuple[Paths, Number]]:
    """Every tuple of independent drafts that may follow `start`, with its probability."""
    single = list(block_law(draft, length, start).items())
    found = []
    for chosen in product(single, repeat=drafts):
        chance = ONE
        for _, each in chosen:
            chance *= each
        found.append((tuple(path for path, _ in chosen), chance))
    return found


def two_rounds(context: Context, instance: Instance, seconds: float = _PATIENCE) -> ExactLaw:
    """The exact law of the first two tokens over two rounds of K independent drafts, L ≥ 2.

    The first round is rebuilt; for each way in which it ends after one token, the second round is
    rebuilt from the carry that the subject returned. A carry is taken to depend on the drafts, on
    the path that the subject tells and on the token, not otherwise on the uniforms. Rows of longer
    prefixes than the instance has are those after their last tokens.

    Raises:
        Unbuildable: see `boxes.rebuild`; or it would take longer than `seconds`.
        SubjectError: the subject failed.
    """
    v, k, length = instance.vocab, instance.drafts, instance.length
    draft, target = (
        Model(v, _suffix(instance.draft_rows, length - 1)),
        Model(v, _suffix(instance.target_rows, length)),
    )
    selects = context.scheme.selects
    dimensions = k * length + (k if selects else 0) + 1

    rows: dict[tuple[int, Prefix], list[float]] = {}
    deadline = context.elapsed + seconds

    def known(model: Model, prefix: Prefix) -> list[float]:
        place = (id(model), prefix)
        if place not in rows:
            rows[place] = [float(x) for x in model(prefix)]
        return rows[place]

    def batch(tuples: list[Paths], start: list[Prefix], points: Floats, carry: Any) -> Batch:
        if context.elapsed > deadline:
            raise Unbuildable(f"two rounds take longer than {seconds:.0f} s")
        size = len(tuples)

        def along(model: Model, depths: int) -> Floats:
            return np.array(
                [
                    [
                        [[float(x) for x in model((*s, *p[:i]))] for i in range(depths)]
                        for p in paths
                    ]
                    for s, paths in zip(start, tuples, strict=True)
                ]
            )

        draft_rows, target_rows = along(draft, length), along(target, length + 1)
        return Batch(
            scheme=context.scheme.name,
            drafts=np.array(tuples, dtype=np.int64),
            draft_rows=draft_rows,
            target_rows=target_rows,
            root_rows=np.ascontiguousarray(target_rows[:, 0, 0]),
            accept_uniforms=points[:, : k * length].reshape(size, k, length),
            select_uniforms=np.ascontiguousarray(points[:, k * length : -1])
            if selects
            else np.full((size, k), 0.5),
            token_uniform=np.ascontiguousarray(points[:, -1]),
            seed=0,
            seeds=np.arange(size),
            position=np.array([len(s) for s in start]),
            carry=carry,
        )

    first = _tuples(draft, k, length, ())
    seen: dict[tuple[int, int, int], Floats] = {}

    def ask_first(index: Ints, points: Floats) -> list[Any]:
        tuples = [first[i][0] for i in index]
        asked = batch(tuples, [()] * len(tuples), points, None)
        result = context.ask(asked, "rounds: first")
        accepted = result.accepted(asked.drafts)
        stops: list[Any] = []
        for row, i in enumerate(index):
            n, token = int(result.accepted_length[row]), int(result.next_token[row])
            path = int(result.path[row])
            if n:
                stops.append(((*accepted[row, :n].tolist(), token)[:2], -1))
                continue
            stops.append(((token,), path))
            seen.setdefault((int(i), token, path), points[row])
        return stops

    precision = precision_of(context)
    one = rebuild(ask_first, len(first), dimensions, precision=precision)
    begun: list[tuple[Paths, Paths, int, Floats, Number]] = []
    two: dict[Prefix, Number] = {}
    for i, ((paths, chance), stops) in enumerate(zip(first, one.stops, strict=True)):
        for stop, volume in stops.items():
            emitted: Prefix = stop[0]
            weight = chance * rational(volume)
            if len(emitted) == 2:
                two[emitted] = two.get(emitted, ZERO) + weight
                continue
            point = seen[i, emitted[0], stop[1]]
            for following, again in _tuples(draft, k, length, emitted):
                begun.append((paths, following, emitted[0], point, weight * again))

    def ask_second(index: Ints, points: Floats) -> list[Stop]:
        chosen = [begun[i] for i in index]
        nothing: list[Prefix] = [()] * len(chosen)
        before = context.ask(
            batch([c[0] for c in chosen], nothing, np.array([c[3] for c in chosen]), None),
            "rounds: first again",
        )
        asked = batch([c[1] for c in chosen], [(c[2],) for c in chosen], points, before.carry)
        result = context.ask(asked, "rounds: second")
        head = result.accepted(asked.drafts)[:, 0]
        tokens = np.where(result.accepted_length > 0, head, result.next_token)
        return [((), int(token)) for token in tokens]

    exact, error = one.exact, one.error
    if begun:
        second = rebuild(
            ask_second, len(begun), dimensions, precision=precision, most_boxes=200_000
        )
        exact, error = exact and second.exact, error + second.error
        for (_, _, token, _, weight), stops in zip(begun, second.stops, strict=True):
            for (_, second_token), volume in stops.items():
                pair = (token, second_token)
                two[pair] = two.get(pair, ZERO) + weight * rational(volume)
    emitted_law: Law[Prefix] = Law(two)
    return ExactLaw(
        Law.point(((), 0)), emitted_law, block_law(target, 2), exact, error + 100 * precision
    )


def _few_paths(instance: Instance) -> Instance:
    """The instance with drafts that differ in their first tokens alone: few tuples of them."""
    hot = tuple(ONE if token == 0 else ZERO for token in range(instance.vocab))
    rows = {prefix: hot if prefix else row for prefix, row in instance.draft_rows.items()}
    return replace(instance, draft_rows=rows)


def _instances(context: Context) -> list[Instance]:
    """V = 2, L = 2: one draft, then several, which take longer, then one draft again."""
    if context.instance is not None:
        return [context.instance]
    generator = context.generator("two rounds")
    counts = draft_counts(context.scheme, context.declaration)
    found = []
    for k in (*counts, *(k for k in counts if k == 1), *(k for k in counts if k == 1)):
        instance = soft_instance(random.Random(int(generator.integers(2**31))), 2, 2, k)
        found.append(instance if k == 1 else _few_paths(instance))
    return found


def _exact(context: Context) -> tuple[CheckResult | None, list[str]]:
    """Two rounds without sampling error, for stateful schemes whose subjects take uniforms: a bias,
    and the sizes that have none."""
    done: list[str] = []
    if not context.declaration.uniforms or not context.scheme.stateful:
        return None, done
    for instance in _instances(context):
        if instance.drafts < 1 or instance.length < 2 or instance.draft_law != "iid":
            continue
        if not context.takes(instance):
            continue
        several = instance.drafts > 1 and context.instance is None
        if several and context.budget < _SEVERAL:
            continue
        seconds = 2 * context.budget if several else max(_PATIENCE, context.budget)
        try:
            law = two_rounds(context, instance, seconds)
        except Unbuildable:
            continue
        size = f"V={instance.vocab}, K={instance.drafts}, L={instance.length}"
        if law.biased:
            return context.bias(
                NAME,
                f"the first two tokens over two rounds have total variation "
                f"{said(law.total_variation, law.exact)} at {size}",
                total_variation=float(law.total_variation),
                detectable=0.0,
                counterexample=Counterexample(
                    instance=instance_to_json(instance),
                    target_law=law_to_list(law.truth),
                    subject_law=law_to_list(law.subject),
                    total_variation=text(law.total_variation),
                    exact=law.exact,
                    command=context.rerun(instance_to_json(instance)) + " --checks rounds",
                ),
            ), done
        done.append(size)
        if context.elapsed > context.budget:
            break
    return None, done


def run(context: Context) -> CheckResult:
    """The check."""
    found, exact = _exact(context)
    if found is not None:
        return found
    declaration = context.declaration
    counts = draft_counts(context.scheme, declaration, 2)
    most = longest(context.scheme)
    law = draft_laws(context.scheme, declaration)[0]
    if law == "without_replacement":
        most = 1
    vocab = 3
    sizes = [
        (k, length)
        for length in (2, 1)
        for k in reversed(counts)
        if declaration.allows(k, length, vocab) and (most is None or length <= most)
    ]
    if not sizes or context.instance is not None:
        if exact:
            return context.result(NAME, "passed", _exactly(exact), details={"exact": exact})
        return context.result(NAME, "skipped", "no size is within the declared ranges")
    k, length = sizes[0]
    tokens = 2 * (length + 1) if length == 1 else 4
    generator = context.generator(NAME)
    draft, target = Markov.random(generator, vocab), Markov.random(generator, vocab)
    if law == "without_replacement":
        # Every token can be drawn, so that K siblings exist.
        draft = Markov(vocab, (draft.rows + 0.1) / (1 + 0.1 * vocab))
    null = target.law(tokens)
    test = Sequential(null, string_views(vocab, tokens), context.threshold)
    powers = vocab ** np.arange(tokens - 1, -1, -1)
    size = 64
    while True:
        before = context.elapsed
        strings = emit(
            context, generator, draft, target, size=size, drafts=k, length=length, tokens=tokens,
            law=law,
        )  # fmt: skip
        if test.see(strings @ powers) or context.out_of_time(test.samples):
            break
        if test.detectable() <= ENOUGH or test.samples >= 1_000_000:
            break
        per_request = (context.elapsed - before) / size
        left = context.budget - context.elapsed
        size = int(max(64, min(size * 2, 20_000, left / max(per_request, 1e-7))))
    worst = _worst(test, vocab, tokens)
    values = {
        "evidence": min(test.evidence, 1e300),
        "threshold": context.threshold,
        "detectable": test.detectable(),
        "details": {
            "tokens": tokens,
            "requests": test.samples,
            "furthest_strings": worst,
            "exact": exact,
        },
    }
    where = f"V={vocab}, K={k}, L={length}, {tokens} tokens over rounds"
    if test.rejected:
        return context.bias(
            NAME,
            f"total variation about {test.total_variation():.3g} at {where}, "
            f"{test.samples} requests",
            total_variation=test.distance_at_least(),
            **values,
        )
    message = f"{where}: {test.detectable():.3g} would have shown"
    if exact:
        message += "; " + _exactly(exact)
    return context.result(NAME, "passed", message, **values)


def _exactly(sizes: list[str]) -> str:
    return f"two rounds are exact at {'; '.join(dict.fromkeys(sizes))}"


def _worst(test: Sequential, vocab: int, tokens: int) -> list[dict[str, Any]]:
    """The strings whose frequencies are furthest from the target's."""
    strings = list(product(range(vocab), repeat=tokens))
    n = max(test.samples, 1)
    off = np.argsort(-np.abs(test.counts / n - test.null))[:8]
    return [
        {
            "tokens": list(strings[i]),
            "target": float(test.null[i]),
            "observed": float(test.counts[i] / n),
        }
        for i in off
    ]
