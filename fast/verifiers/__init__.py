"""Lossless verifiers, batched over blocks: verify(batch, uniforms, **options) -> Result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from draftproof.fast.tree import Result
from draftproof.fast.verifiers import block, kseq_block, spectr, token_by_token, traversal, tree_match

__all__ = ["STATEFUL", "VERIFIERS"]

VERIFIERS: dict[str, Callable[..., Result]] = {
    "token_by_token": token_by_token.verify,
    "block": block.verify,
    "spectr": spectr.verify,
    **{
        f"spectr:{name}": partial(spectr.spectr, coupling)
        for name, coupling in spectr.COUPLINGS.items()
    },
    "traversal": traversal.verify,
    "kseq_block": kseq_block.verify,
    "tree_match": tree_match.verify,
}
"""Scheme name -> verifier."""

STATEFUL: frozenset[str] = frozenset()
"""Schemes whose result has a carry and that take one."""
