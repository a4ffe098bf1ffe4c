"""Tree match: draw each token from the target and follow it down the tree while a draft has it.

The verification of deterministic (top-k, beam) trees, and lossless on any tree, since the draft law
is never read. It is target match at each depth. Source: EAGLE-2 (2406.16858) uses such trees.
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.couplings.target_match import target_match
from draftproof.reference.models import DraftModels, Model
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts
from draftproof.reference.verifiers.spectr import spectr

__all__ = ["SCHEME", "verify"]


def verify(chance: Chance, drafts: Drafts, draft: DraftModels, target: Model) -> Outcome:
    """Verify the drafts as the paths of a tree."""
    return spectr(target_match, chance, drafts, draft, target)


SCHEME = Scheme(
    name="tree_match",
    kind="verifier",
    summary="draw each token from the target, follow it while a path of the tree has it",
    paper="Li et al. 2024 (EAGLE-2), arXiv 2406.16858",
    verify=verify,
    draft_law="any",
)
