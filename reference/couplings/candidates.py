"""Candidates: next tokens of the alive drafts at one depth; one-token couplings as blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from draftproof.reference.chance import TOKEN, Accept, Chance
from draftproof.reference.models import Model
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import Drafts, alive

__all__ = ["Candidates", "Coupling", "one_token_block"]


class Candidates(Sequence[int]):
    """The tokens of some drafts at one depth, looked at one by one, duplicates counted."""

    def __init__(self, drafts: Drafts, among: Sequence[int], depth: int) -> None:
        self._drafts = drafts
        self._among = among
        self._depth = depth

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


Coupling = Callable[[Chance, Candidates, Row, Row], int]


def one_token_block(
    coupling: Coupling, chance: Chance, drafts: Drafts, draft: Model, target: Model
) -> Outcome:
    """A coupling as a block scheme of length 1: its token if a draft has it, then the bonus.

    Raises:
        ValueError: drafts longer than one token.
    """
    if drafts.length > 1:
        raise ValueError(f"a one-token coupling verifies length 1, not {drafts.length}")
    everyone = range(drafts.count)
    if drafts.length == 0 or drafts.count == 0:
        return Outcome((), chance.draw(target(()), TOKEN))
    token = coupling(chance, Candidates(drafts, everyone, 1), draft(()), target(()))
    having = alive(drafts, everyone, (token,))
    if not having:
        return Outcome((), token)
    return Outcome((token,), chance.draw(target((token,)), TOKEN), having[0])
