"""Tables: an instance as arrays, all its possible drafts, and batches made of them.

Strings of tokens are numbers in base V (the first token the most significant), so that laws of
strings are arrays and continuing a block from the target is a look-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Floats, Ints, Result
from draftproof.reference.instance import Instance
from draftproof.reference.law import Law
from draftproof.reference.models import Model, Prefix, block_law
from draftproof.reference.numbers import ONE, Number, text
from numpy.typing import NDArray

__all__ = [
    "ChosenTable",
    "Paths",
    "Table",
    "Uniforms",
    "draft_tuples",
    "law_to_list",
    "sample_rows",
    "string_law",
]

Paths = tuple[Prefix, ...]


@dataclass(frozen=True)
class Uniforms:
    """The uniforms of N blocks: accept [N, K, L], select [N, K], token [N]."""

    accept: Floats
    select: Floats
    token: Floats

    @classmethod
    def random(
        cls, generator: np.random.Generator, size: int, drafts: int, length: int
    ) -> Uniforms:
        """Independent uniforms in [0, 1)."""
        return cls(
            generator.random((size, drafts, length)),
            generator.random((size, drafts)),
            generator.random(size),
        )


def draft_tuples(instance: Instance) -> list[tuple[Paths, Number]]:
    """Every tuple of K drafts that can be drawn, with its probability.

    Raises:
        ValueError: longer drafts drawn without replacement.
    """
    if instance.draft_law == "fixed":
        return [(instance.paths, ONE)]
    if instance.drafts == 0 or instance.length == 0:
        return [(((),) * instance.drafts, ONE)]
    if instance.draft_law == "without_replacement":
        if instance.length != 1:
            raise ValueError("drafts drawn without replacement have one token here")
        row = instance.draft_rows[()]
        drawn: list[tuple[tuple[int, ...], Number]] = [((), ONE)]
        for _ in range(instance.drafts):
            drawn = [
                ((*tokens, v), chance * row[v] / left)
                for tokens, chance in drawn
                for left in (ONE - sum(row[t] for t in tokens),)
                if left != 0
                for v in range(instance.vocab)
                if v not in tokens and row[v] != 0
            ]
        return [(tuple((t,) for t in tokens), chance) for tokens, chance in drawn]
    single = list(block_law(instance.draft_model, instance.length).items())
    tuples = []
    for chosen in product(single, repeat=instance.drafts):
        probability = ONE
        for _, chance in chosen:
            probability *= chance
        tuples.append((tuple(path for path, _ in chosen), probability))
    return tuples


class Table:
    """An instance as arrays; everything is computed when first needed.

    With a temperature, `shown` holds the rows that the subject is given, at temperature 1, and
    `instance` those at the temperature, which drafts and laws follow.
    """

    def __init__(
        self, instance: Instance, shown: Instance | None = None, temperature: float | None = None
    ) -> None:
        self.instance = instance
        self.shown = shown or instance
        self.temperature = temperature
        self.vocab, self.drafts, self.length = instance.vocab, instance.drafts, instance.length

    @cached_property
    def _tuples(self) -> list[tuple[Paths, Number]]:
        return self.every_tuple()

    def every_tuple(self) -> list[tuple[Paths, Number]]:
        """The tuples of drafts, with their probabilities."""
        return draft_tuples(self.instance)

    @property
    def paths(self) -> list[Paths]:
        """Every tuple of drafts."""
        return [paths for paths, _ in self._tuples]

    @property
    def chances(self) -> list[Number]:
        """The exact probability of each tuple."""
        return [chance for _, chance in self._tuples]

    @cached_property
    def tokens(self) -> Ints:
        """int64 [M, K, L], the tuples as an array."""
        shape = (len(self._tuples), self.drafts, self.length)
        return np.array(self.paths, dtype=np.int64).reshape(shape)

    @cached_property
    def cumulative(self) -> Floats:
        """[M]: cumulative probabilities of the tuples, the last one exactly 1."""
        edges = np.cumsum([float(chance) for chance in self.chances])
        edges[-1] = 1.0
        return edges

    def _rows(self, model: Model, depths: int) -> Floats:
        k = max(self.drafts, 1) if depths > self.length else self.drafts
        out = np.zeros((len(self._tuples), k, depths, self.vocab))
        known: dict[Prefix, Floats] = {}
        for m, paths in enumerate(self.paths):
            for j in range(k):
                path = paths[j] if paths else ()
                for depth in range(depths):
                    prefix = path[:depth]
                    if depth > len(path):
                        continue
                    if prefix not in known:
                        known[prefix] = np.array([float(v) for v in model(prefix)])
                    out[m, j, depth] = known[prefix]
        return out

    @cached_property
    def draft_rows(self) -> Floats:
        """[M, K, L, V]."""
        return self._rows(self.shown.draft_model, self.length)

    @cached_property
    def target_rows(self) -> Floats:
        """[M, max(K, 1), L+1, V]; with no draft only the root row is meaningful."""
        return self._rows(self.shown.target_model, self.length + 1)

    def draw(self, generator: np.random.Generator, size: int) -> Ints:
        """Indices of `size` independent tuples of drafts."""
        return np.searchsorted(self.cumulative, generator.random(size), side="right")

    def batch(
        self, scheme: str, tuples: Sequence[int] | Ints, uniforms: Uniforms | None, seed: int = 0
    ) -> Batch:
        """A batch of the tuples at these indices."""
        index = np.asarray(tuples, dtype=np.int64)
        target = self.target_rows[index]
        size = len(index)
        return Batch(
            scheme=scheme,
            drafts=self.tokens[index],
            draft_rows=self.draft_rows[index],
            target_rows=target[:, : self.drafts],
            root_rows=np.ascontiguousarray(target[:, 0, 0]),
            accept_uniforms=None if uniforms is None else uniforms.accept,
            select_uniforms=None if uniforms is None else uniforms.select,
            token_uniform=None if uniforms is None else uniforms.token,
            seed=seed,
            seeds=(seed + np.arange(size, dtype=np.int64)) % (2**31),
            position=np.zeros(size, dtype=np.int64),
            temperature=None if self.temperature is None else np.full(size, self.temperature),
        )

    @cached_property
    def target_by_depth(self) -> list[Floats]:
        """For depth d up to L: the target rows [V^d, V] after every prefix."""
        return [
            np.array(
                [
                    [float(v) for v in self.instance.target_model(prefix)]
                    for prefix in product(range(self.vocab), repeat=depth)
                ]
            ).reshape(self.vocab**depth, self.vocab)
            for depth in range(self.length + 1)
        ]

    @cached_property
    def target_law(self) -> Law[Prefix]:
        """The exact law of L + 1 tokens of the target."""
        return block_law(self.instance.target_model, self.length + 1)

    def as_array(self, law: Mapping[Prefix, Number]) -> Floats:
        """A law of strings of L + 1 tokens as [V^(L+1)]."""
        out = np.zeros(self.vocab ** (self.length + 1))
        for tokens, chance in law.items():
            out[self.number(tokens)] = float(chance)
        return out

    def number(self, tokens: Sequence[int]) -> int:
        """The number that stands for a string."""
        value = 0
        for token in tokens:
            value = value * self.vocab + token
        return value

    def accepted_tokens(self, tuples: Ints, result: Result) -> Ints:
        """[N, L]: the accepted tokens, -1 beyond the accepted length."""
        return result.accepted(self.tokens[tuples])

    def strings(self, generator: np.random.Generator, tuples: Ints, result: Result) -> Ints:
        """[N]: numbers of the emitted strings, continued from the target to L + 1 tokens."""
        accepted = self.accepted_tokens(tuples, result)
        number = np.zeros(len(tuples), dtype=np.int64)
        for depth in range(self.length + 1):
            tau = result.accepted_length
            here = np.where(tau == depth, result.next_token, -1)
            if depth < self.length:
                here = np.where(tau > depth, accepted[:, depth], here)
            free = np.flatnonzero(tau < depth)
            if len(free):
                rows = self.target_by_depth[depth][number[free]]
                here[free] = sample_rows(generator, rows)
            number = number * self.vocab + here
        return number


class ChosenTable(Table):
    """A table of chosen tuples of drafts instead of all, without their probabilities."""

    def __init__(self, instance: Instance, chosen: Sequence[Paths]) -> None:
        super().__init__(instance)
        self._chosen = [(paths, ONE) for paths in chosen]

    def every_tuple(self) -> list[tuple[Paths, Number]]:
        """The chosen ones."""
        return self._chosen


def sample_rows(generator: np.random.Generator, rows: Floats) -> NDArray[np.int64]:
    """One token from each row [N, V]; never a token of probability 0."""
    reached = np.cumsum(rows, axis=1)
    threshold = generator.random(len(rows)) * reached[:, -1]
    found: Ints = (reached <= threshold[:, None]).sum(axis=1)
    return found


def string_law(instance: Instance, stops: Mapping[tuple[Prefix, int], Number]) -> Law[Prefix]:
    """The law of L + 1 tokens: accepted tokens, next token, then the unmodified target."""
    target = instance.target_model

    def rest(stop: tuple[Prefix, int]) -> Law[Prefix]:
        emitted = (*stop[0], stop[1])
        tail = block_law(target, instance.length + 1 - len(emitted), emitted)
        return tail.map(lambda y: emitted + y)

    law: Law[tuple[Prefix, int]] = Law(stops)
    return law.bind(rest)


def law_to_list(law: Mapping[Prefix, Any]) -> list[dict[str, Any]]:
    """A law of strings as in a counterexample, sorted."""
    return [
        {"tokens": list(tokens), "probability": text(chance)}
        for tokens, chance in sorted(law.items())
    ]
