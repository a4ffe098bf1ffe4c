"""Faulty subjects: what a program cannot get wrong by itself: batches, buffers, seeds, drafters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from draftproof.conformance.adapters.reference import ReferenceSubject, uniforms_of
from draftproof.conformance.checks.drafter import DraftRequest
from draftproof.conformance.subject import Batch, Floats, Ints, Result
from draftproof.conformance.tables import sample_rows
from draftproof.reference.catalogue import find
from draftproof.reference.chance import Chance, Place, Replay
from draftproof.reference.numbers import Number, rational, total
from draftproof.reference.scheme import Outcome

__all__ = [
    "Drafting",
    "FaultyReplay",
    "InputsMutated",
    "MutatesButRight",
    "NanRow",
    "NoCarry",
    "PaddingVerified",
    "PositionIgnored",
    "SeedIgnored",
    "Spoilt",
    "SwappedRequests",
    "Tempered",
    "ZeroResidual",
]

Verify = Callable[..., Outcome]


class Spoilt(ReferenceSubject):
    """One scheme of the reference with a fault."""

    def __init__(
        self, name: str, scheme: str, verify: Verify | None = None, **declared: Any
    ) -> None:
        entry = find(scheme)
        if verify is not None:
            entry = replace(entry, verify=verify)
        super().__init__([entry], name)
        self.scheme = entry
        self.declaration |= declared


class InputsMutated(Spoilt):
    """Target rows are turned into residuals in place before they are read again."""

    def verify(self, batch: Batch) -> Result:
        result = super().verify(batch)
        if batch.shape[1] and batch.shape[2]:
            batch.target_rows[:, :, :-1] -= batch.draft_rows
            np.maximum(batch.target_rows, 0, out=batch.target_rows)
            batch.root_rows[:] = batch.target_rows[:, 0, 0]
            sums = batch.target_rows.sum(axis=-1, keepdims=True)
            np.divide(batch.target_rows, sums, out=batch.target_rows, where=sums > 0)
        return result


class MutatesButRight(Spoilt):
    """Samples 'from the target row' that the test has turned into the residual, in a copy."""

    def verify(self, batch: Batch) -> Result:
        size = batch.size
        if np.isnan(batch.target_rows).any():
            raise ValueError("target_rows has a NaN")
        uniforms = uniforms_of(batch)
        accepted, tokens = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for b in range(size):
            rows = batch.target_rows[b, 0].copy()
            depth = 0
            while depth < int(batch.lengths[b, 0]):
                token = batch.drafts[b, 0, depth]
                p, q = batch.draft_rows[b, 0, depth], rows[depth]
                keep = p[token] > 0 and uniforms.accept[b, 0, depth] < q[token] / p[token]
                if not keep:
                    left = np.maximum(q - p, 0)
                    rows[depth] = left / left.sum() if left.sum() > 0 else q
                    break
                depth += 1
            reached = np.cumsum(rows[depth])
            accepted[b] = depth
            tokens[b] = np.searchsorted(reached, uniforms.token[b] * reached[-1], side="right")
        return Result(accepted, np.zeros(size, dtype=np.int64), tokens)


class _Faulty(Replay):
    """A replay that may test with <=, take uniforms as 0 or round them to float32."""

    def __init__(self, fault: str, *uniforms: Any) -> None:
        super().__init__(*uniforms)
        self._fault = fault

    def flip(self, probability: Number, place: Place) -> bool:
        uniform = self._look_up(place)
        if self._fault == "hard zero":
            return bool(probability >= 0)
        if self._fault == "not strict":
            return bool(uniform <= probability)
        if self._fault == "float32":
            return bool(float(np.float32(float(uniform))) < float(probability))
        return bool(uniform < probability)

    def draw(self, weights: Any, place: Place) -> int:
        if self._fault == "earlier bucket":
            threshold = self._look_up(place) * total(weights)
            reached = rational(0)
            for index, weight in enumerate(weights):
                reached += weight
                if reached >= threshold:
                    return index
        return super().draw(weights, place)


class FaultyReplay(Spoilt):
    """The right program on a faulty use of the uniforms."""

    def __init__(self, name: str, scheme: str, fault: str, **declared: Any) -> None:
        super().__init__(name, scheme, **declared)
        self._fault = fault

    def chance(self, accept: Any, token: float, select: Any) -> Chance:
        """The interpreter of one block."""
        return _Faulty(self._fault, accept, token, select)


class ZeroResidual(FaultyReplay):
    """The uniform is rounded to float32, may become 1, and the residual of mass 0 is divided by 0:
    the token is NaN."""

    def verify(self, batch: Batch) -> Any:
        result = super().verify(batch)
        tokens = result.next_token.astype(np.float64)
        for b in range(batch.size):
            n = int(result.accepted_length[b])
            if batch.shape[1] and n < batch.lengths[b, 0]:
                left = np.maximum(batch.target_rows[b, 0, n] - batch.draft_rows[b, 0, n], 0)
                if left.sum() == 0:
                    tokens[b] = np.nan
        return Result(result.accepted_length, result.path, tokens)  # type: ignore[arg-type]


class SeedIgnored(Spoilt):
    """Only the first request's seed is used, for a stream that runs through the batch."""

    def verify(self, batch: Batch) -> Result:
        assert batch.seeds is not None
        assert batch.position is not None
        size, count, length, _ = batch.shape
        stream = np.random.default_rng([int(batch.seeds[0]), int(batch.position[0])])
        return super().verify(
            replace(
                batch,
                accept_uniforms=stream.random((size, count, length)),
                select_uniforms=stream.random((size, count)),
                token_uniform=stream.random(size),
            )
        )


class PositionIgnored(Spoilt):
    """The stream of a request is made from its seed alone, so that rounds repeat their uniforms."""

    def verify(self, batch: Batch) -> Result:
        return super().verify(replace(batch, position=np.zeros(batch.size, dtype=np.int64)))


class SwappedRequests(Spoilt):
    """Blocks read the target rows of their neighbour in the batch."""

    def verify(self, batch: Batch) -> Result:
        if batch.size < 2:
            return super().verify(batch)
        return super().verify(
            replace(
                batch,
                target_rows=np.roll(batch.target_rows, 1, axis=0),
                root_rows=np.roll(batch.root_rows, 1, axis=0),
            )
        )


class NoCarry(Spoilt):
    """A stateful scheme whose carry is dropped."""

    def verify(self, batch: Batch) -> Result:
        return super().verify(replace(batch, carry=None))._replace(carry=None)


class PaddingVerified(Spoilt):
    """Padding -1 of a ragged batch is verified: it reads the last entry of a row."""

    def verify(self, batch: Batch) -> Result:
        _, count, length, vocab = batch.shape
        if not count or not length or (batch.drafts >= 0).all():
            return super().verify(batch)
        return super().verify(
            replace(batch, drafts=np.where(batch.drafts < 0, vocab - 1, batch.drafts))
        )


class NanRow(Spoilt):
    """A NaN target row yields the id V."""

    def verify(self, batch: Batch) -> Result:
        broken = np.isnan(batch.target_rows).any(axis=(1, 2, 3))
        if not broken.any():
            return super().verify(batch)
        size, vocab = batch.size, batch.shape[3]
        zeros = np.zeros(size, dtype=np.int64)
        return Result(zeros, zeros, np.full(size, vocab))


class Tempered(Spoilt):
    """The reference at each request's temperature; `fault` is one of "", "ignored", "greedy"."""

    def __init__(self, name: str, scheme: str, fault: str = "") -> None:
        super().__init__(name, scheme, temperatures=True)
        self._fault = fault

    def verify(self, batch: Batch) -> Result:
        if batch.temperature is None or self._fault == "ignored":
            return super().verify(batch)
        draft, target = batch.draft_rows.copy(), batch.target_rows.copy()
        for b, temperature in enumerate(batch.temperature):
            if temperature == 0 and self._fault == "greedy":
                temperature = 1.0
            draft[b], target[b] = _at(draft[b], temperature), _at(target[b], temperature)
        return super().verify(
            replace(
                batch,
                draft_rows=draft,
                target_rows=target,
                root_rows=np.ascontiguousarray(target[:, 0, 0])
                if batch.shape[1]
                else _at_each(batch),
            )
        )


def _at_each(batch: Batch) -> Floats:
    assert batch.temperature is not None
    return np.stack([_at(r, t) for r, t in zip(batch.root_rows, batch.temperature, strict=True)])


def _at(rows: Floats, temperature: float) -> Floats:
    if temperature == 0:
        return np.asarray(rows == rows.max(axis=-1, keepdims=True), dtype=np.float64)
    powered = rows ** (1 / temperature)
    return np.asarray(powered / powered.sum(axis=-1, keepdims=True))


class Drafting(Spoilt):
    """The reference with a drafter; `how` says from which rows it draws."""

    def __init__(self, name: str, scheme: str, how: str) -> None:
        super().__init__(name, scheme, uniforms=False, generator=None)
        self._how = how

    def draft(self, request: DraftRequest) -> tuple[Ints, Floats]:
        """Drafts, and the model's rows whatever they were drawn from."""
        generator = np.random.default_rng(request.seed)
        shape = (request.size, request.drafts, request.length)
        tokens = np.zeros(shape, dtype=np.int64)
        rows = np.zeros((*shape, request.vocab))
        for depth in range(request.length):
            before = tokens[:, :, :depth].reshape(request.size * request.drafts, depth)
            prefixes, of = np.unique(before, axis=0, return_inverse=True)
            told = np.stack([request.model(tuple(int(t) for t in prefix)) for prefix in prefixes])
            drawn = told.copy()
            if self._how == "argmax":
                drawn = np.asarray(told == told.max(axis=1, keepdims=True), dtype=np.float64)
            elif self._how == "top-k":
                np.put_along_axis(drawn, np.argsort(told, axis=1)[:, :-2], 0.0, axis=1)
            of = of.reshape(-1)
            rows[:, :, depth] = told[of].reshape(*shape[:2], -1)
            tokens[:, :, depth] = sample_rows(generator, drawn[of]).reshape(shape[:2])
        return tokens, rows
