"""The exact reference as a subject, one block at a time; its controls by `control:NAME`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Floats, Result
from draftproof.conformance.tables import Uniforms
from draftproof.reference.catalogue import SCHEMES, find
from draftproof.reference.chance import Chance, Replay
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import Number, rational, total
from draftproof.reference.rows import Row, row_from_floats
from draftproof.reference.scheme import Scheme
from draftproof.reference.tree import FixedDrafts

__all__ = ["ReferenceSubject", "Request", "create", "exact_row", "uniforms_of"]

_ENTRIES: dict[float, Number] = {}


def _entry(value: float) -> Number:
    known = _ENTRIES.get(value)
    if known is None:
        if len(_ENTRIES) > 100_000:
            _ENTRIES.clear()
        exact = rational(value)
        known = rational(Fraction(value).limit_denominator(10**6)) if 0 < value < 1 else exact
        _ENTRIES[value] = known
    return known


def exact_row(row: Floats) -> Row:
    """The rationals with small denominators that the floats stand for, if they sum to 1; else the
    floats themselves, normalised."""
    exact = tuple(_entry(float(v)) for v in row)
    if total(exact) == 1 and np.allclose([float(v) for v in exact], row, rtol=0, atol=1e-15):
        return exact
    return row_from_floats([float(v) for v in row])


class _Rows(Model):
    """Rows known so far of one request, by prefix from its start; the uniform row elsewhere.

    Nothing is remembered of a look at an unknown row: a later round may bring it.
    """

    __slots__ = ("known", "start")

    def __init__(self, vocab: int, known: dict[Prefix, Row], start: Prefix) -> None:
        super().__init__(vocab, lambda prefix: ())
        self.known = known
        self.start = start

    def __call__(self, prefix: Prefix) -> Row:
        row = self.known.get(self.start + prefix)
        return (rational(1) / self.vocab,) * self.vocab if row is None else row


@dataclass
class Request:
    """What a stateful scheme keeps of a request between rounds."""

    draft: dict[Prefix, Row] = field(default_factory=dict)
    target: dict[Prefix, Row] = field(default_factory=dict)
    emitted: Prefix = ()
    carry: Model | None = None

    def read(self, batch: Batch, b: int, length: int) -> tuple[Model, Model]:
        """Take in the rows of block b; the draft and target models of what follows."""
        start, vocab = self.emitted, batch.shape[3]
        self.target[start] = exact_row(batch.root_rows[b])
        for k in range(batch.shape[1]):
            path = tuple(int(t) for t in batch.drafts[b, k, :length])
            for depth in range(length + 1):
                node = start + path[:depth]
                if depth < length and node not in self.draft:
                    self.draft[node] = exact_row(batch.draft_rows[b, k, depth])
                if node not in self.target:
                    self.target[node] = exact_row(batch.target_rows[b, k, depth])
        plain = _Rows(vocab, self.target, start)
        target: Model = plain
        carry = self.carry
        if carry is not None and carry.carried:
            reach = carry.carried
            target = Model(
                vocab, lambda prefix: carry(prefix) if len(prefix) < reach else plain(prefix), reach
            )
        return _Rows(vocab, self.draft, start), target


def uniforms_of(batch: Batch) -> Uniforms:
    """The uniforms of a batch, or those of one generator per request."""
    if batch.accept_uniforms is not None:
        assert batch.select_uniforms is not None
        assert batch.token_uniform is not None
        return Uniforms(batch.accept_uniforms, batch.select_uniforms, batch.token_uniform)
    size, count, length, _ = batch.shape
    drawn = np.empty((size, count * length + count + 1))
    for b in range(size):
        seed = batch.seed + b if batch.seeds is None else int(batch.seeds[b])
        position = 0 if batch.position is None else int(batch.position[b])
        drawn[b] = np.random.default_rng([seed, position]).random(drawn.shape[1])
    accept, select, token = np.split(drawn, [count * length, count * length + count], axis=1)
    return Uniforms(accept.reshape(size, count, length), select, token[:, 0])


class ReferenceSubject:
    """Schemes of the catalogue behind the interface of a subject, exact inside."""

    def __init__(self, schemes: list[Scheme], name: str) -> None:
        self._schemes = {scheme.name: scheme for scheme in schemes}
        self.declaration: dict[str, Any] = {
            "name": name,
            "schemes": list(self._schemes),
            "uniforms": True,
            "generator": True,
            "request_seeds": True,
            "ragged": True,
            "note": "exact rationals, one block at a time",
        }

    def chance(self, accept: Any, token: float, select: Any) -> Chance:
        """The interpreter of one block."""
        return Replay(accept, token, select)

    def verify(self, batch: Batch) -> Result:
        """Replay the scheme on every block."""
        scheme = self._schemes[batch.scheme]
        uniforms = uniforms_of(batch)
        lengths, paths, tokens, requests = [], [], [], []
        for b in range(batch.size):
            depths = [int(n) for n in batch.lengths[b]]
            length = depths[0] if depths else 0
            if any(n != length for n in depths):
                raise ValueError(f"drafts of block {b} have different lengths: {depths}")
            request = Request() if batch.carry is None else batch.carry[b]
            draft, target = request.read(batch, b, length)
            drafts = FixedDrafts([tuple(map(int, p[:length])) for p in batch.drafts[b]], length)
            chance = self.chance(
                uniforms.accept[b].tolist(), float(uniforms.token[b]), uniforms.select[b].tolist()
            )
            outcome = scheme.verify(chance, drafts, draft, target)
            lengths.append(len(outcome.accepted))
            paths.append(outcome.path)
            tokens.append(outcome.next)
            request.emitted = (*request.emitted, *outcome.accepted, outcome.next)
            request.carry = outcome.carry
            requests.append(request)
        carry = requests if scheme.stateful else None
        return Result(np.array(lengths), np.array(paths), np.array(tokens), carry)


def create(spec: str) -> ReferenceSubject:
    """`reference`: every lossless scheme; `control:NAME`: one scheme, claimed lossless.

    Raises:
        ValueError: an unknown scheme.
    """
    if spec.startswith("control:"):
        scheme = find(spec.removeprefix("control:"))
        return ReferenceSubject([scheme], spec)
    # SpecHub draws a pair of its own, which no instance describes.
    lossless = [
        s for s in SCHEMES.values() if s.lossless and not s.approximate and s.draft_law != "hub"
    ]
    return ReferenceSubject(lossless, "reference")
