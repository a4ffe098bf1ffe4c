"""Drafts: K paths of L tokens, given in advance or drawn when a verifier first looks at them.

Looking late costs nothing and changes no law, since unseen tokens are independent of everything
decided before. It is what makes exact enumeration affordable: a draft that nobody looks at does not
branch, and asking whether a draft passes through a prefix branches two ways instead of V ways.
Drafts of one model of which the same is known are exchangeable: of those it matters how many there
are, not which (`SampledDrafts.passing`, `known`, `look`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import groupby
from math import comb
from typing import Protocol

from draftproof.reference.chance import Chance, Draft, meet
from draftproof.reference.models import Model, Prefix, joint
from draftproof.reference.numbers import ONE, ZERO, integers, rational, total, whole
from draftproof.reference.rows import Row

__all__ = [
    "Drafts",
    "FixedDrafts",
    "SampledDrafts",
    "alive",
    "distinct_drafts",
    "distinct_prefixes",
    "hub_drafts",
    "hub_of",
    "look",
    "tree_drafts",
    "whole_path",
]


class Drafts(Protocol):
    """What a verifier may ask about its drafts; drafts count from 0, depths from 1."""

    @property
    def count(self) -> int:
        """K, the number of drafts."""
        ...

    @property
    def length(self) -> int:
        """L, the length of every draft."""
        ...

    def token(self, draft: int, depth: int) -> int:
        """The token of a draft at a depth."""
        ...

    def passes(self, draft: int, prefix: Prefix) -> bool:
        """Whether a draft begins with `prefix`."""
        ...

    def passing(self, among: Sequence[int], prefix: Prefix) -> list[int]:
        """Those of the drafts `among` that begin with `prefix`, in order."""
        ...

    def known(self, waiting: Sequence[int], tested: Sequence[int] = ()) -> Hashable:
        """All that can still matter of these drafts: of those `waiting` to be tested what is known
        of each, in order; of those `tested`, which are only counted from now on, the multiset.
        """
        ...


class FixedDrafts:
    """Drafts that are already drawn."""

    def __init__(self, paths: Sequence[Sequence[int]], length: int | None = None) -> None:
        """`paths` [K][L]; `length` is needed only when there are no paths.

        Raises:
            ValueError: paths of different lengths, or a token that is not an integer from 0 on.
        """
        self._paths = [tuple(path) for path in paths]
        self.count = len(self._paths)
        self.length = len(self._paths[0]) if self._paths else (length or 0)
        for draft, path in enumerate(self._paths):
            if len(path) != self.length:
                raise ValueError(
                    f"drafts[{draft}] has {len(path)} tokens, drafts[0] has {self.length}"
                )
            for depth, token in enumerate(path):
                whole(token, f"drafts[{draft}][{depth}]", 0)

    def token(self, draft: int, depth: int) -> int:
        return self._paths[draft][depth - 1]

    def passes(self, draft: int, prefix: Prefix) -> bool:
        return self._paths[draft][: len(prefix)] == prefix

    def passing(self, among: Sequence[int], prefix: Prefix) -> list[int]:
        return [draft for draft in among if self.passes(draft, prefix)]

    def known(self, waiting: Sequence[int], tested: Sequence[int] = ()) -> Hashable:
        return tuple(self._paths[k] for k in waiting), tuple(self._paths[k] for k in tested)


class SampledDrafts:
    """Independent drafts, draft k from `models[k]`, each token drawn when first looked at.

    Drafts of one model of which the same is known are exchangeable. Asked which of several such
    neighbours pass through a prefix, only their number is drawn (binomial) and the first ones are
    taken: a verifier sees drafts by their order alone, so that the law of what it emits is the
    same, and n + 1 branches stand for 2^n.
    """

    def __init__(self, chance: Chance, models: Sequence[Model], length: int) -> None:
        self._chance = chance
        self._models = models
        self.count = len(models)
        self.length = length
        self._seen: list[Prefix] = [()] * len(models)
        # Tokens already known not to come next, after the seen part of each draft.
        self._excluded: list[frozenset[int]] = [frozenset()] * len(models)

    def token(self, draft: int, depth: int) -> int:
        while len(self._seen[draft]) < depth:
            seen, excluded = self._seen[draft], self._excluded[draft]
            row = self._models[draft](seen)
            if excluded:
                row = tuple(ZERO if t in excluded else p for t, p in enumerate(row))
            token = self._chance.draw(row, Draft(draft, len(seen) + 1))
            self._seen[draft] = (*seen, token)
            self._excluded[draft] = frozenset()
        return self._seen[draft][depth - 1]

    def passes(self, draft: int, prefix: Prefix) -> bool:
        seen = self._seen[draft]
        known = min(len(seen), len(prefix))
        if seen[:known] != prefix[:known]:
            return False
        for depth in range(known + 1, len(prefix) + 1):
            token = prefix[depth - 1]
            excluded = self._excluded[draft]
            if token in excluded:
                return False
            row = self._models[draft](prefix[: depth - 1])
            possible = ONE - sum((row[t] for t in excluded), rational(0))
            if not self._chance.flip(row[token] / possible, Draft(draft, depth)):
                self._excluded[draft] = excluded | {token}
                return False
            self._seen[draft] = prefix[:depth]
            self._excluded[draft] = frozenset()
        return True

    def passing(self, among: Sequence[int], prefix: Prefix) -> list[int]:
        found: list[int] = []
        for (_, seen, excluded), group in groupby(among, key=self._knowledge):
            alike = list(group)
            known = min(len(seen), len(prefix))
            if seen[:known] != prefix[:known]:
                continue
            for depth in range(known + 1, len(prefix) + 1):
                token, row = prefix[depth - 1], self._models[alike[0]](prefix[: depth - 1])
                possible = ONE - total(row[t] for t in excluded)
                inside = ZERO if token in excluded else row[token]
                n = len(alike)
                a, b = integers((inside, possible - inside))
                binomial = [comb(n, m) * a**m * b ** (n - m) for m in range(n + 1)]
                m = self._chance.draw(binomial, Draft(alike[0], depth))
                for draft in alike[m:]:
                    self._excluded[draft] = excluded | {token}
                alike, excluded = alike[:m], frozenset()
                for draft in alike:
                    self._seen[draft], self._excluded[draft] = prefix[:depth], excluded
                if not alike:
                    break
            found += alike
        return found

    def known(self, waiting: Sequence[int], tested: Sequence[int] = ()) -> Hashable:
        of_tested = [self._knowledge(draft) for draft in tested]
        if len({model for model, _, _ in of_tested}) <= 1:
            return tuple(map(self._knowledge, waiting)), frozenset(Counter(of_tested).items())
        # The order of the models of those that go on together may matter.
        return tuple(map(self._knowledge, waiting)), tuple(of_tested)

    def _knowledge(self, draft: int) -> tuple[int, Prefix, frozenset[int]]:
        """All that is known of a draft."""
        return id(self._models[draft]), self._seen[draft], self._excluded[draft]


def distinct_drafts(chance: Chance, model: Model, count: int, length: int) -> FixedDrafts:
    """Paths drawn without replacement: each from the model given that it is a new path.

    When every path of positive probability has been drawn, the others are drawn as if for the
    first time.
    """
    paths: list[Prefix] = []
    for k in range(count):
        taken = dict.fromkeys(paths)  # distinct paths, in order
        left = ONE - sum((joint(model, path) for path in taken), ZERO)
        if left == 0:
            taken = {}
        prefix: Prefix = ()
        for depth in range(1, length + 1):
            inside = joint(model, prefix)
            weights = list(model(prefix))
            for path in taken:
                if path[: depth - 1] == prefix:
                    weights[path[depth - 1]] -= joint(model, path) / inside
            prefix = (*prefix, chance.draw(weights, Draft(k, depth)))
        paths.append(prefix)
    return FixedDrafts(paths, length)


def tree_drafts(chance: Chance, model: Model, widths: Sequence[int]) -> FixedDrafts:
    """The paths of a tree in which a node at depth i has `widths[i]` children, drawn one after the
    other without replacement from the row of the node (a static tree, as in Sequoia).

    Where the row has fewer tokens than that, the others repeat tokens.
    """
    paths: list[Prefix] = [()]
    for depth, width in enumerate(widths, start=1):
        longer: list[Prefix] = []
        for path in paths:
            weights = list(model(path))
            for _ in range(width):
                if not any(weights):
                    weights = list(model(path))
                token = chance.draw(weights, Draft(len(longer), depth))
                longer.append((*path, token))
                weights[token] = ZERO
        paths = longer
    return FixedDrafts(paths, len(widths))


def hub_of(row: Row) -> int:
    """The likeliest token of a row, the first among equals."""
    return max(range(len(row)), key=lambda v: row[v])


def hub_drafts(chance: Chance, model: Model) -> FixedDrafts:
    """The pair of one-token drafts of SpecHub: one is the hub, the likeliest token of the row.

    The first is drawn from the row. The second is the hub, unless the first is: then it is drawn
    from the row without the hub (and is the hub again where the row has no other token).
    """
    row = model(())
    hub = hub_of(row)
    first = chance.draw(row, Draft(0, 1))
    others = [ZERO if v == hub else p for v, p in enumerate(row)]
    second = chance.draw(others, Draft(1, 1)) if first == hub and any(others) else hub
    return FixedDrafts([(first,), (second,)])


def alive(drafts: Drafts, among: Sequence[int], prefix: Prefix) -> list[int]:
    """Those of the drafts `among` that begin with `prefix`, in order."""
    return drafts.passing(among, prefix)


def look(chance: Chance, drafts: Drafts, among: Sequence[int], depth: int) -> list[int]:
    """The tokens at a depth of the drafts `among`, which are all that the caller has in hand.

    For callers that treat them as a multiset: an enumeration then merges the orders they come in.
    """
    tokens: list[int] = []
    for count, draft in enumerate(among, start=1):
        tokens.append(drafts.token(draft, depth))
        if count > 1:
            meet(chance, "look", depth, drafts.known(among[count:], among[:count]))
    return tokens


def whole_path(drafts: Drafts, draft: int) -> Prefix:
    """All tokens of a draft."""
    return tuple(drafts.token(draft, depth) for depth in range(1, drafts.length + 1))


def distinct_prefixes(paths: Sequence[Sequence[int]]) -> list[Prefix]:
    """The nodes of the prefix tree of `paths`, root first, parents before children."""
    nodes: dict[Prefix, None] = {(): None}
    for path in paths:
        for depth in range(1, len(path) + 1):
            nodes.setdefault(tuple(path[:depth]))
    return sorted(nodes, key=lambda prefix: (len(prefix), prefix))
