"""A node whose drafted children are tested and taken away one by one, without replacement.

After a child x has been rejected with weight w at the node (w = 1 in a chain of rejections),

    q ← (w q - p)+ normalised, S the mass before,    p(x) ← 0 renormalised,

so that after any number of them the draft row is p/rest except for zeros at the removed children,
and the target row (a q - β p)+ except for its value `left` there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from draftproof.fast.clip import Overrides, Owed, Rows, owed_mass
from draftproof.fast.paths import divide
from torch import Tensor

__all__ = ["OpenNode"]


class OpenNode(NamedTuple):
    """One open node of each block."""

    a: Tensor
    """float64 [B], as β and rest"""
    beta: Tensor
    rest: Tensor
    removed: Tensor
    """int64 [B, K], -1 where none"""
    left: Tensor
    """float64 [B, K]"""

    @classmethod
    def fresh(cls, like: Tensor, drafts: int) -> OpenNode:
        """A node none of whose children is removed; `like` float64 [B]."""
        one, none = torch.ones_like(like), like.new_zeros(len(like), drafts)
        return cls(one, 0 * one, one, torch.full_like(none, -1, dtype=torch.int64), none)

    def where(self, chosen: Tensor, other: OpenNode) -> OpenNode:
        """This state where `chosen` [B], the other elsewhere."""
        return OpenNode(
            *(
                torch.where(chosen if mine.dim() == 1 else chosen[:, None], mine, theirs)
                for mine, theirs in zip(self, other, strict=True)
            )
        )

    def entries(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """The draft and the target row now, from the entries p, q [B] of a child still there."""
        return divide(p, self.rest), (self.a * q - self.beta * p).clamp(min=0)

    def owed(self) -> tuple[Owed, Overrides]:
        """The target row now, as weights to draw from."""
        return Owed(self.a, self.beta), Overrides(self.removed, self.left)

    def without(
        self, rows: Rows, child: tuple[Tensor, Tensor, Tensor], column: int, weight: Tensor
    ) -> tuple[OpenNode, Tensor]:
        """The node after its `child` (token, p, q) was rejected at weight w [B], and S [B].

        `rows` are those of the node, needed where a child is taken away; `column` is a free one of
        `removed`. Where S = 0 the target row stays (that is reached with probability 0).
        """
        token, p, q = child
        a, beta = weight * self.a, weight * self.beta + divide(torch.ones_like(p), self.rest)
        left = weight[:, None] * self.left
        mass = owed_mass(rows, a, beta, Overrides(self.removed, left))
        some = mass > 0
        owed = torch.where(some, a * q - beta * p, self.a * q - self.beta * p).clamp(min=0)
        scale = torch.where(some, mass, 1.0)
        removed, left = self.removed.clone(), torch.where(some[:, None], left, self.left)
        removed[:, column], left[:, column] = token, owed
        node = OpenNode(
            torch.where(some, a / scale, self.a),
            torch.where(some, beta / scale, self.beta),
            _rest(rows, self.rest - p, removed),
            removed,
            left / scale[:, None],
        )
        return node, mass


def _rest(rows: Rows, difference: Tensor, removed: Tensor) -> Tensor:
    """float64 [B]: the draft mass of the children that are still there.

    A difference is wrong by what the row's sum is off from 1, which is too much of a small rest:
    that is summed.
    """
    small = difference < 0.5
    swapped = replace(
        rows.only(small),
        draft_rows=rows.target_rows,
        target_rows=rows.draft_rows,
        draft_index=torch.full_like(rows.draft_index, -1),
        target_index=torch.where(small & (rows.target_index >= 0), rows.draft_index, -1),
    )
    one = torch.ones_like(difference)
    gone = Overrides(removed, torch.zeros_like(removed, dtype=torch.float64))
    return torch.where(small, owed_mass(swapped, one, 0 * one, gone), difference)
