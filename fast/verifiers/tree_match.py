"""Tree match: draw each token from the target and follow it down the tree while a draft has it.

The verification of deterministic (top-k, beam) trees, and lossless on any tree, since the draft law
is never read. It is target match at each depth. Source: EAGLE-2 (2406.16858) uses such trees.
"""

from __future__ import annotations

from draftproof.fast.couplings import target_match
from draftproof.fast.tree import Batch, Result, Uniforms
from draftproof.fast.verifiers.spectr import spectr

__all__ = ["verify"]


def verify(batch: Batch, uniforms: Uniforms) -> Result:
    """Verify the drafts of each block as the paths of a tree."""
    return spectr(target_match, batch, uniforms)
