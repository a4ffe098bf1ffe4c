"""Symbolic proofs about the reference functions themselves.

    python proofs/symbolic/prove.py [NAME ..]

Each proof runs the verifier of `draftproof.reference`, unchanged, on rows whose entries are real
variables, in every cell that its comparisons tell apart, and shows in each cell that the law of the
emitted tokens, continued as the scheme prescribes, is the target's identically. It holds for all
real rows of that size, not only for rational ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from typing import Any

from cells import Cell, Quantity, Space, explore
from draftproof.reference.chance import Chance, Draft, Place
from draftproof.reference.controls import independent_trials
from draftproof.reference.couplings import kseq, maximal
from draftproof.reference.models import Model, Prefix
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import FixedDrafts
from draftproof.reference.verifiers import block, greedy_block

__all__ = ["PROOFS", "Proof", "Refuted", "gap_of", "prove"]


class Impossible(Exception):  # noqa: N818
    """The branch has probability 0 in this cell."""


class Refuted(AssertionError):  # noqa: N818
    """A cell in which the claim fails."""


class Symbolic:
    """Chance on symbolic probabilities: follows every branch that is not known to be impossible.

    Every probability that is asked for is shown to lie in [0, 1], every weight to be at least 0.
    """

    def __init__(self, script: list[list[Any]]) -> None:
        self._script, self._asked = script, 0
        self.probability: Any = 1

    def _answer(self, answers: Sequence[tuple[int, Any]]) -> int:
        if self._asked == len(self._script):
            possible = [(a, self.probability * w) for a, w in answers]
            possible = [(a, w) for a, w in possible if not _vanishes(w)]
            if not possible:
                raise Impossible
            self._script.append([possible, 0])
        possible, chosen = self._script[self._asked]
        self._asked += 1
        answer, self.probability = possible[chosen]
        return int(answer)

    def flip(self, probability: Any, place: Place) -> bool:
        if not 0 <= probability <= 1:
            raise Refuted(f"flip at {place}: {probability} is not a probability")
        return bool(self._answer([(1, probability), (0, 1 - probability)]))

    def draw(self, weights: Sequence[Any], place: Place) -> int:
        for token, weight in enumerate(weights):
            if weight < 0:
                raise Refuted(f"draw at {place}: weight {token} is negative: {weight}")
        mass = sum(weights)
        if mass == 0:
            if _vanishes(self.probability):
                raise Impossible
            raise Refuted(f"draw at {place}: all weights are 0")
        return self._answer([(token, weight / mass) for token, weight in enumerate(weights)])


def _vanishes(weight: Any) -> bool:
    return weight.vanishes() if isinstance(weight, Quantity) else bool(weight == 0)


def symbolic_law(program: Callable[[Chance], Hashable]) -> dict[Any, Any]:
    """Outcome → probability in the current cell."""
    law: dict[Any, Any] = {}
    script: list[list[Any]] = []
    while True:
        chance = Symbolic(script)
        try:
            outcome = program(chance)
            law[outcome] = law.get(outcome, 0) + chance.probability
        except Impossible:
            pass
        while script and script[-1][1] == len(script[-1][0]) - 1:
            script.pop()
        if not script:
            return law
        script[-1][1] += 1


@dataclass(frozen=True)
class Proof:
    """A claim about one reference function at one size."""

    verify: Callable[..., Outcome]
    vocab: int
    length: int
    drafts: int
    refused: str = ""
    """Part of the message with which the function refuses inputs, when it may."""
    variables: tuple[str, ...] = ()
    options: Callable[[Space], dict[str, Any]] = lambda space: {}


def _nodes(vocab: int, longest: int) -> list[Prefix]:
    return [x for n in range(longest + 1) for x in product(range(vocab), repeat=n)]


def _name(letter: str, prefix: Prefix) -> str:
    return letter + "".join(map(str, prefix)) + "_"


def _models(proof: Proof) -> tuple[Space, Model, Model]:
    """Independent symbolic rows after every prefix."""
    V, L = proof.vocab, proof.length
    rows = [("p", x) for x in _nodes(V, L - 1)] + [("q", x) for x in _nodes(V, L)]
    names = [f"{_name(letter, x)}{v}" for letter, x in rows for v in range(V - 1)]
    space = Space([*names, *proof.variables])
    table = {(letter, x): space.row(_name(letter, x), V) for letter, x in rows}
    draft = Model(V, lambda x: table["p", x])
    target = Model(V, lambda x: table["q", x])
    return space, draft, target


def prove(proof: Proof) -> tuple[int, int]:
    """Prove the claim; returns how many cells run to the end, and how many are refused.

    Raises:
        Refuted: naming the cell, the emitted tokens and the gap.
    """
    cells = refused = 0
    for cell, gaps in _gaps(proof):
        if gaps is None:
            refused += 1
            continue
        cells += 1
        for emitted, gap in gaps.items():
            if not cell.vanishes(gap.value.numer):
                raise Refuted(f"where {cell}: P({emitted}) is off by {gap}")
    return cells, refused


def gap_of(proof: Proof) -> tuple[Cell, Prefix, Quantity]:
    """A cell, emitted tokens and the gap between their probability and the target's, not 0.

    Raises:
        LookupError: there is no gap in any cell.
    """
    for cell, gaps in _gaps(proof):
        for emitted, gap in (gaps or {}).items():
            if not cell.vanishes(gap.value.numer):
                return cell, emitted, gap
    raise LookupError("no gap: the function is lossless at this size")


def _gaps(proof: Proof) -> Any:
    """For every cell, emitted tokens → probability minus the target's (None where refused)."""
    V, L, K = proof.vocab, proof.length, proof.drafts
    space, draft, target = _models(proof)
    options = proof.options(space)

    def program(chance: Chance) -> Prefix:
        paths: list[Prefix] = []
        for k in range(K):
            path: Prefix = ()
            for depth in range(1, L + 1):
                path = (*path, chance.draw(draft(path), Draft(k, depth)))
            paths.append(path)
        outcome = proof.verify(chance, FixedDrafts(paths, L), draft, target, **options)
        emitted = (*outcome.accepted, outcome.next)
        rest = outcome.carry or target.after(emitted)
        tail: Prefix = ()
        # The last position follows the plain target row whatever happened, so L tokens decide.
        while len(emitted) + len(tail) < L:
            tail = (*tail, chance.draw(rest(tail), Draft(0, 0)))
        return (emitted + tail)[: L + 1]

    def gaps() -> dict[Prefix, Quantity] | None:
        try:
            law = symbolic_law(program)
        except ValueError as error:
            if proof.refused and proof.refused in str(error):
                return None
            raise
        # Strings of L tokens (a round that ends early) and of L + 1 (a bonus) are compared with the
        # target's row by row: first L tokens, then the bonus given all of them.
        found: dict[Prefix, Quantity] = {}
        for y in product(range(V), repeat=L):
            mass = sum((w for z, w in law.items() if z[:L] == y), space.constant(0))
            truth = space.constant(1)
            for depth, token in enumerate(y):
                truth = truth * target(y[:depth])[token]
            found[y] = mass - truth
            bonus = sum((w for z, w in law.items() if len(z) > L and z[:L] == y), space.constant(0))
            for token in range(V):
                drawn = law.get((*y, token), space.constant(0))
                found[*y, token] = drawn - bonus * target(y)[token]
        return found

    return explore(space, gaps)


def _scale(space: Space) -> dict[str, Any]:
    return {"scale": space.variable("rho")}


PROOFS: dict[str, Proof] = {
    "maximal, V = 2": Proof(maximal.verify, 2, 1, 1),
    "maximal, V = 3": Proof(maximal.verify, 3, 1, 1),
    "kseq, V = 2, K = 2, any ρ": Proof(
        kseq.verify, 2, 1, 2, "is not valid for 2 drafts", ("rho",), _scale
    ),
    "block, V = 2, L = 2": Proof(block.verify, 2, 2, 1),
    "greedy_block, V = 2, L = 2": Proof(greedy_block.verify, 2, 2, 1),
}
REFUTED: dict[str, Proof] = {
    "independent_trials, V = 2, K = 2": Proof(independent_trials.verify, 2, 1, 2),
}


def report(name: str) -> str:
    """Prove or refute the claim called `name`, and say so in one line."""
    started = time.perf_counter()
    if name in REFUTED:
        cell, emitted, gap = gap_of(REFUTED[name])
        polynomial = cell.reduce(gap.value.numer).as_expr() / gap.value.denom.as_expr()
        return f"refuted   {name}: where {cell}, P{emitted} - target = {polynomial}"
    cells, refused = prove(PROOFS[name])
    note = f", refused in {refused}" if refused else ""
    took = time.perf_counter() - started
    return f"proved    {name}: lossless in {cells} cells{note} ({took:.0f} s)"


def main(wanted: Sequence[str]) -> int:
    """Run the claims whose name contains one of `wanted` (all of them when there are none)."""
    names = [
        name for name in [*PROOFS, *REFUTED] if not wanted or any(part in name for part in wanted)
    ]
    if not names:
        print(f"no claim is called {' or '.join(wanted)}; known: {', '.join([*PROOFS, *REFUTED])}")
        return 2
    with ProcessPoolExecutor() as pool:
        futures = [pool.submit(report, name) for name in reversed(names)]  # the longest first
        for future in as_completed(futures):
            print(future.result(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
