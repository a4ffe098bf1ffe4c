"""Candidates: next tokens of the alive drafts at one depth; one-token couplings as blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from draftproof.reference.chance import TOKEN, Accept, Chance, meet
from draftproof.reference.models import DraftModels, Model, Prefix, model_of_each
from draftproof.reference.numbers import ZERO, Number, divide, total
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import Drafts, alive, look

__all__ = ["Candidates", "Choice", "Coupling", "answer", "candidates_at", "one_token_block"]


class Candidates(Sequence[int]):
    """The tokens of some drafts at one depth, looked at one by one, duplicates counted.

    `rows` are the draft rows of the candidates, one for each.
    """

    def __init__(
        self, drafts: Drafts, among: Sequence[int], depth: int, rows: Sequence[Row]
    ) -> None:
        self._drafts = drafts
        self._among = among
        self._depth = depth
        self.rows = rows

    def __len__(self) -> int:
        return len(self._among)

    def __getitem__(self, index: Any) -> Any:
        return self._drafts.token(self._among[index], self._depth)

    def test(self, index: int) -> Accept:
        """The place of the acceptance test of a candidate."""
        return Accept(self._among[index], self._depth)

    def draft(self, index: int) -> int:
        """The number of the draft that a candidate comes from."""
        return self._among[index]

    def look(self, chance: Chance) -> list[int]:
        """All tokens, for a coupling that treats them as a multiset."""
        return look(chance, self._drafts, self._among, self._depth)

    def rejected(self, chance: Chance, tested: int, *held: Hashable) -> None:
        """The first `tested` candidates have been rejected: from now on they are a multiset.

        `held` is what the coupling holds that does not follow from it. (One candidate has no order
        to forget.)
        """
        if tested > 1:
            waiting, done = self._among[tested:], self._among[:tested]
            meet(chance, "rejected", self._depth, self._drafts.known(waiting, done), held)

    def require_one_row(self, coupling: str) -> None:
        """Refuse candidates of different draft rows, for a coupling that assumes one.

        Raises:
            ValueError: naming the coupling and the first draft whose row differs.
        """
        for index, row in enumerate(self.rows):
            if row is not self.rows[0] and row != self.rows[0]:
                raise ValueError(
                    f"{coupling} takes one draft model for all drafts; "
                    f"draft {self._among[index]} has another row than draft {self._among[0]}"
                )


class Choice(NamedTuple):
    """The token that a coupling decides on."""

    token: int
    kept: bool
    """Whether a test kept it from a candidate. If not it was drawn, and ends the block, also in the
    rare case that a candidate has it (K-SEQ with its scale rounded up): the block's one token
    uniform is used up."""


Coupling = Callable[[Chance, Candidates, Row, Row], Choice]
"""coupling(chance, candidates, draft_row, target_row) -> Choice. `draft_row` is the row of the
first candidate, which is that of all of them unless the coupling reads `candidates.rows`."""


def candidates_at(
    drafts: Drafts, among: Sequence[int], draft: DraftModels, prefix: Prefix
) -> Candidates:
    """The next tokens of the drafts `among`, which all pass through `prefix`."""
    models = model_of_each(draft, drafts.count)
    return Candidates(drafts, among, len(prefix) + 1, [models[k](prefix) for k in among])


def answer(chance: Chance, candidates: Candidates, law: Sequence[Number]) -> Choice:
    """A token of the given law, decided by one test of each candidate in order.

    A candidate is kept with its probability given that no earlier one was; if none is kept the
    token is drawn from what remains. It is how a coupling that knows the law of its token given the
    candidates follows the randomness contract: one uniform for each draft, one for the token.
    """
    rest = list(law)
    for k in range(len(candidates)):
        token = candidates[k]
        if chance.flip(divide(rest[token], total(rest), ZERO), candidates.test(k)):
            return Choice(token, True)
        rest[token] = ZERO
        candidates.rejected(chance, k + 1, tuple(rest))
    return Choice(chance.draw(rest, TOKEN), False)


def one_token_block(
    coupling: Coupling, chance: Chance, drafts: Drafts, draft: DraftModels, target: Model
) -> Outcome:
    """A coupling as a block scheme of length 1: a kept token, then the bonus, or a drawn token.

    Raises:
        ValueError: drafts longer than one token.
    """
    if drafts.length > 1:
        raise ValueError(f"a one-token coupling verifies length 1, not {drafts.length}")
    everyone = range(drafts.count)
    if drafts.length == 0 or drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    candidates = candidates_at(drafts, everyone, draft, ())
    token, kept = coupling(chance, candidates, candidates.rows[0], target(()))
    if not kept:
        return Outcome((), token)
    path = alive(drafts, everyone, (token,))[0]
    return Outcome((token,), chance.draw(target((token,)), TOKEN), path)
