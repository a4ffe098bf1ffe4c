"""Lossless verifiers, batched over blocks: verify(batch, uniforms, **options) -> Result."""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["HOST_PLANNED", "ONE_LENGTH", "STATEFUL", "VERIFIERS"]

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

ONE_LENGTH: frozenset[str] = frozenset({"multipath", "ranked_block", "ranked_block:stateful"})
"""Schemes that need the drafts of a block to have one length (as the K-SEQ scale of SpecTr-GBV)."""

HOST_PLANNED: frozenset[str] = frozenset({"spectr:canonical", "spectr:transport"})
"""Schemes whose plan is made on the host: off the CPU they synchronise at each depth, and cannot be
captured in a CUDA graph."""
