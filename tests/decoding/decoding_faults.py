"""Scorers with one planted fault each: what the tests must be able to see."""

import numpy as np
import torch
from draftproof.fast.decoding.scoring import TreeScorer


class SiblingsInARow(TreeScorer):
    """Fault: a node's position is its order of arrival, as if siblings followed one another."""

    def _add_nodes(self, parents):
        old = self._parents.shape[1]
        ancestors = super()._add_nodes(parents)
        arrival = np.arange(old, old + parents.shape[1])
        self._positions[:, old:] = self._lengths[:, None] + arrival
        return ancestors


class StaleSlot(TreeScorer):
    """Fault: kept nodes are not moved down, so a rejected sibling's slot is kept in their place."""

    def commit(self, nodes):
        arrival = torch.arange(nodes.shape[1]).expand(nodes.shape)
        super().commit(torch.where(nodes >= 0, arrival, -1))


class WindowForgotten(TreeScorer):
    """Fault: a node of a sliding-window model sees the whole context."""

    def _mask(self, ancestors, window):
        return super()._mask(ancestors, None)
