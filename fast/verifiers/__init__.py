"""Lossless verifiers, batched over blocks: verify(batch, uniforms, **options) -> Result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from draftproof.fast.tree import Result
from draftproof.fast.verifiers import (
    block,
    greedy_block,
    kseq_block,
    multipath,
    ranked_block,
    spectr,
    spectr_gbv,
    token_by_token,
    traversal,
    tree_match,
)

__all__ = ["CLIPPED_CHAIN", "HOST_PLANNED", "ONE_LENGTH", "STATEFUL", "VERIFIERS"]

VERIFIERS: dict[str, Callable[..., Result]] = {
    "token_by_token": token_by_token.verify,
    "block": block.verify,
    "greedy_block": greedy_block.verify,
    "spectr": spectr.verify,
    **{
        f"spectr:{name}": partial(spectr.spectr, coupling)
        for name, coupling in spectr.COUPLINGS.items()
    },
    "traversal": traversal.verify,
    "multipath": multipath.verify,
    "kseq_block": kseq_block.verify,
    "ranked_block": ranked_block.verify,
    "ranked_block:stateful": ranked_block.verify_stateful,
    "spectr_gbv": spectr_gbv.verify,
    "tree_match": tree_match.verify,
}
"""Scheme name -> verifier."""

STATEFUL: frozenset[str] = frozenset({"greedy_block", "ranked_block:stateful", "spectr_gbv"})
"""Schemes whose result has a carry and that take one."""

_OF_THE_LARGEST = (
    "the law of the selected draft is that of one of several drafts of one law, which says nothing "
    "of its number; drafts of different lengths tell the numbers apart"
)

ONE_LENGTH: Mapping[str, str] = {
    "multipath": _OF_THE_LARGEST,
    "ranked_block": _OF_THE_LARGEST,
    "ranked_block:stateful": _OF_THE_LARGEST,
}
"""Schemes that need the drafts of a block to have one length, and why. (Blocks may differ.)"""

CLIPPED_CHAIN = (
    "scale='kseq' takes what all drafts through a node cover out of the target at once, down to "
    "one depth"
)
"""Why SpecTr-GBV with the K-SEQ scale needs one length too."""

HOST_PLANNED: frozenset[str] = frozenset({"spectr:canonical", "spectr:transport"})
"""Schemes whose plan is made on the host: off the CPU they synchronise at each depth, and cannot be
captured in a CUDA graph."""
