"""Faulty programs: verifiers of the reference with one fault each.

Each is a program for a `Chance`, like the scheme that it spoils, so that its exact law can be
enumerated. What it does wrong is its docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from draftproof.reference.chance import TOKEN, Accept, Chance, Place
from draftproof.reference.clip import (
    cover_factor,
    covered,
    excess,
    row_or_plain,
    smallest_scale,
)
from draftproof.reference.couplings.candidates import Candidates, Choice
from draftproof.reference.couplings.maximal import acceptance
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, rational, total
from draftproof.reference.rows import Row, normalise
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers import token_by_token as chain
from draftproof.reference.verifiers.block import block_scan
from draftproof.reference.verifiers.spectr import spectr


def path_of(drafts: Drafts, draft: int = 0) -> Prefix:
    """The whole path of a draft."""
    return tuple(drafts.token(draft, depth) for depth in range(1, drafts.length + 1))


def residual_of(p: Row, q: Row) -> Row:
    """The right correction."""
    return row_or_plain(excess(p, q), q)


def token_by_token(
    chance: Chance,
    path: Prefix,
    draft: Model,
    target: Model,
    *,
    keep: Callable[[Number], Number] = lambda h: h,
    correct: Callable[[Row, Row, int], Row] = lambda p, q, x: residual_of(p, q),
    bonus: Callable[[Prefix], Prefix] = lambda prefix: prefix,
    number: int = 0,
) -> Outcome:
    """Standard speculative decoding with places to spoil."""
    for depth, token in enumerate(path):
        node = path[:depth]
        p, q = draft(node), target(node)
        h = keep(acceptance(p, q, token))
        if not chance.flip(h, Accept(number, depth + 1)):
            return Outcome(node, chance.draw(correct(p, q, token), TOKEN), number if node else 0)
    return Outcome(path, chance.draw(target(bonus(path)), TOKEN), number)


def _chain(**spoilt: Any) -> Callable[..., Outcome]:
    def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
        if drafts.count == 0:
            return Outcome((), chance.draw(target(()), TOKEN))
        return token_by_token(chance, path_of(drafts), draft, target, **spoilt)

    return verify


def _softmaxed(p: Row, q: Row, token: int) -> Row:
    grid = 10**6
    weights = [round(math.exp(float(w)) * grid) for w in residual_of(p, q)]
    return normalise(tuple(rational(w) for w in weights))


def _one_hot(p: Row, q: Row, token: int) -> Row:
    spoilt = tuple(max(v - p[x], ZERO) if x == token else v for x, v in enumerate(q))
    return row_or_plain(spoilt, q)


def _floored(p: Row, q: Row, token: int) -> Row:
    floor = rational(1) / 100_000
    return normalise(tuple(max(w, floor) for w in excess(p, q)))


residual_is_target = _chain(correct=lambda p, q, x: q)
residual_softmaxed = _chain(correct=_softmaxed)
residual_one_hot = _chain(correct=_one_hot)
residual_floor = _chain(correct=_floored)
stale_bonus_row = _chain(bonus=lambda path: path[:-1])
accept_scaled_by_1_1 = _chain(keep=lambda h: min(ONE, h * rational("11/10")))
accept_scaled_by_1_01 = _chain(keep=lambda h: min(ONE, h * rational("101/100")))
lossy_threshold = _chain(keep=lambda h: min(ONE, h * 2))


def off_by_one_rows(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Position i is verified with the target row of position i - 1."""
    late = Model(target.vocab, lambda prefix: target(prefix[:-1]))
    return chain.verify(chance, drafts, draft, late)


def block_unscaled_residual(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Block verification whose residual is (q - p)+, not scaled by the prefix weight."""
    return _block(chance, drafts, draft, target, lambda weights, depth: ONE)


def block_wrong_prefix_weight(
    chance: Chance, drafts: Drafts, draft: Model, target: Model
) -> Outcome:
    """Block verification whose residual is scaled by the weight of one token earlier."""
    return _block(chance, drafts, draft, target, lambda weights, depth: weights[max(depth - 1, 0)])


def _block(
    chance: Chance,
    drafts: Drafts,
    draft: Model,
    target: Model,
    scale: Callable[[list[Number], int], Number],
) -> Outcome:
    if drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    path = path_of(drafts)
    depth, _ = block_scan(chance, path, 0, (), draft, target, target(()))
    accepted = path[:depth]
    if depth == len(path):
        return Outcome(accepted, chance.draw(target(accepted), TOKEN))
    weights: list[Number] = [ONE]
    for i, token in enumerate(path):
        p, q = draft(path[:i])[token], target(path[:i])[token]
        weights.append(min(ONE, weights[-1] * q / p) if p else ZERO)
    owed = excess(draft(accepted), target(accepted), scale(weights, depth))
    return Outcome(accepted, chance.draw(row_or_plain(owed, target(accepted)), TOKEN))


def sample_match(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """A draft is kept iff it equals the target's own sample: lossless, accepts Σ p q."""
    if drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    path = path_of(drafts)
    for depth, token in enumerate(path):
        q = target(path[:depth])
        if not chance.flip(q[token], Accept(0, depth + 1)):
            rest = tuple(ZERO if x == token else v for x, v in enumerate(q))
            return Outcome(path[:depth], chance.draw(rest, TOKEN))
    return Outcome(path, chance.draw(target(path), TOKEN))


def one_hot_draft_row(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """A sampled draft verified as if its row were one-hot at it: lossless, accepts less."""
    if drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    path = path_of(drafts)

    def hot(prefix: Prefix) -> Row:
        following = path[len(prefix)] if len(prefix) < len(path) else 0
        return tuple(ONE if v == following else ZERO for v in range(target.vocab))

    return token_by_token(chance, path, Model(target.vocab, hot), target)


def count_after_rejection(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """Every position is tested; the counter counts matches after the first rejection too."""
    if drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    path = path_of(drafts)
    passed = [
        chance.flip(acceptance(draft(path[:i]), target(path[:i]), t), Accept(0, i + 1))
        for i, t in enumerate(path)
    ]
    first = passed.index(False) if False in passed else len(path)
    node = path[:first]
    if first == len(path):
        return Outcome(path, chance.draw(target(path), TOKEN))
    following = chance.draw(residual_of(draft(node), target(node)), TOKEN)
    return Outcome(path[: sum(passed)], following)


def keep_longest(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """K chains verified one by one by the chain rule; the longest accepted one is kept."""
    if drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    best, longest = 0, -1
    for number in range(drafts.count):
        path = path_of(drafts, number)
        depth = 0
        while depth < len(path) and chance.flip(
            acceptance(draft(path[:depth]), target(path[:depth]), path[depth]),
            Accept(number, depth + 1),
        ):
            depth += 1
        if depth > longest:
            best, longest = number, depth
    path = path_of(drafts, best)
    node = path[:longest]
    if longest == len(path):
        return Outcome(path, chance.draw(target(path), TOKEN), best)
    following = chance.draw(residual_of(draft(node), target(node)), TOKEN)
    return Outcome(node, following, best if node else 0)


def _kseq_too_small(
    chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row
) -> Choice:
    n = len(candidates)
    # Half-way between 1 and the smallest valid scale; what becomes negative is clipped to 0.
    scale = (1 + smallest_scale(draft_row, target_row, n)) / 2
    for k in range(n):
        token = candidates[k]
        if chance.flip(acceptance(draft_row, target_row, token, scale), candidates.test(k)):
            return Choice(token, True)
    kept = covered(draft_row, target_row, scale)
    cover = cover_factor(total(kept), n)
    owed = tuple(max(t - cover * k, ZERO) for t, k in zip(target_row, kept, strict=True))
    return Choice(chance.draw(row_or_plain(owed, target_row), TOKEN), False)


def kseq_scale_too_small(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """SpecTr with K-SEQ at a scale below the smallest valid one."""
    return spectr(_kseq_too_small, chance, drafts, draft, target)


class _SharedUniform:
    """All positions of a draft are tested with the uniform of the first."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def flip(self, probability: Number, place: Place) -> bool:
        if isinstance(place, Accept):
            place = Accept(place.draft, 1)
        return self._chance.flip(probability, place)

    def draw(self, weights: Any, place: Place) -> int:
        return self._chance.draw(weights, place)


def shared_uniform(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """One uniform reused for all positions of a block."""
    return chain.verify(_SharedUniform(chance), drafts, draft, target)
