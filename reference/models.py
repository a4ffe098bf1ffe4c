"""Models: a prefix of the block in, the exact row of the next token out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product

from draftproof.reference.law import Law
from draftproof.reference.numbers import ONE, Number, rational, whole
from draftproof.reference.rows import Row, row

__all__ = [
    "DraftModels",
    "Model",
    "Prefix",
    "block_law",
    "context_free",
    "joint",
    "model_of_each",
    "random_row",
    "random_table",
]

Prefix = tuple[int, ...]


class Model:
    """A model over tokens 0..vocab-1: `model(prefix)` is the row after `prefix`.

    Rows are computed once and kept. Prefixes are relative to the start of the block.

    `carried` is 0 for a plain model. For a target that a stateful scheme has modified it is the
    length of prefix from which on the rows are those of the plain model again.
    """

    __slots__ = ("_rows", "_source", "carried", "vocab")

    def __init__(self, vocab: int, source: Callable[[Prefix], Row], carried: int = 0) -> None:
        self.vocab = vocab
        self.carried = carried
        self._source = source
        self._rows: dict[Prefix, Row] = {}

    def __call__(self, prefix: Prefix) -> Row:
        known = self._rows.get(prefix)
        if known is None:
            known = self._rows[prefix] = self._source(prefix)
        return known

    @classmethod
    def table(cls, rows: Mapping[Prefix, Sequence[object]], where: str = "rows") -> Model:
        """A model given row by row.

        Raises:
            ValueError: an invalid row, rows of different lengths, or (when it is asked for) a
                missing row; the message names the prefix.
        """
        if not rows:
            raise ValueError(f"{where} is empty")
        exact = {tuple(prefix): row(r, f"{where}[{_name(prefix)}]") for prefix, r in rows.items()}
        first = next(iter(exact.values()))
        for prefix, r in exact.items():
            if len(r) != len(first):
                raise ValueError(
                    f"{where}[{_name(prefix)}] has {len(r)} entries, others have {len(first)}"
                )

        def source(prefix: Prefix) -> Row:
            try:
                return exact[prefix]
            except KeyError:
                raise ValueError(f"{where} has no row for the prefix {_name(prefix)}") from None

        return cls(len(first), source)

    def after(self, prefix: Prefix) -> Model:
        """The model of what follows `prefix`: prefixes are then relative to its end."""
        remaining = max(0, self.carried - len(prefix))
        return Model(self.vocab, lambda rest: self(prefix + rest), remaining)


DraftModels = Model | Sequence[Model]
"""One model for all drafts, or one for each (schemes whose draft law is `independent`)."""


def model_of_each(draft: DraftModels, count: int) -> Sequence[Model]:
    """The model of each of `count` drafts.

    Raises:
        ValueError: a sequence of another length.
    """
    if isinstance(draft, Model):
        return [draft] * count
    if len(draft) != count:
        raise ValueError(f"{len(draft)} draft models were given for {count} drafts")
    return draft


def _name(prefix: Sequence[int]) -> str:
    return '"' + ",".join(map(str, prefix)) + '"'


def context_free(entries: Sequence[object]) -> Model:
    """The model with the same row after every prefix."""
    fixed = row(entries)
    return Model(len(fixed), lambda prefix: fixed)


def joint(model: Model, prefix: Prefix) -> Number:
    """The joint probability of `prefix`: the product of its rows."""
    probability = ONE
    for depth, token in enumerate(prefix):
        probability *= model(prefix[:depth])[token]
    return probability


def block_law(model: Model, length: int, start: Prefix = ()) -> Law[Prefix]:
    """The law of the first `length` tokens after `start` (returned without `start`)."""
    weights: dict[Prefix, Number] = {(): ONE}
    for _ in range(length):
        weights = {
            (*prefix, token): weight * chance
            for prefix, weight in weights.items()
            for token, chance in enumerate(model(start + prefix))
            if chance != 0
        }
    return Law(weights)


def random_row(generator: random.Random, vocab: int, denominator: int = 12) -> Row:
    """A random row of multiples of 1/denominator; zeros and one-hot rows do occur.

    Raises:
        ValueError: an empty vocabulary.
    """
    whole(vocab, "vocab", 1)
    cuts = sorted(generator.randint(0, denominator) for _ in range(vocab - 1))
    edges = [0, *cuts, denominator]
    return tuple(rational(high - low) / denominator for low, high in pairwise(edges))


def random_table(generator: random.Random, vocab: int, depth: int, denominator: int = 12) -> Model:
    """A model with an independent random row after every prefix of up to `depth` tokens."""
    return Model.table(
        {
            prefix: random_row(generator, vocab, denominator)
            for length in range(depth + 1)
            for prefix in product(range(vocab), repeat=length)
        }
    )
