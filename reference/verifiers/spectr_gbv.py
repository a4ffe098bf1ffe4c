"""SpecTr-GBV in a lossless form: greedy block verification of several drafts, with a carry.

The same walk as K-SEQ block verification with the greedy rule: below the current node the whole
chain of target rows is kept and updated, and what remains of it is carried to the next round.
Source: this project (lossless, proved in `proofs`), after SpecTr-GBV (2604.25925), which is not
lossless as published: see `controls.spectr_gbv_published`. K = 1 is greedy block verification.
"""

from __future__ import annotations

from typing import Literal

from draftproof.reference.carry import emit, owed_chain
from draftproof.reference.chance import TOKEN, Chance, meet
from draftproof.reference.clip import DEFAULT_GRID, cover_factor, kept_mass, smallest_scale
from draftproof.reference.models import DraftModels, Model, Prefix, model_of_each
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, alive, whole_path
from draftproof.reference.verifiers.greedy_block import greedy_scan

__all__ = ["SCHEME", "verify"]


def verify(
    chance: Chance,
    drafts: Drafts,
    draft: DraftModels,
    target: Model,
    *,
    scale: Literal["unit", "kseq"] = "unit",
    grid: int = DEFAULT_GRID,
) -> Outcome:
    """Verify the drafts in order; `target` may carry layers of earlier rounds.

    `scale`: ``"unit"`` takes one draft at a time (ρ = c = 1) and updates the chain after each
    rejection; it allows a different model for each draft. ``"kseq"`` clips for all drafts through
    the node at once, with the smallest valid multiple of 1/`grid`, and updates after the last one.

    Raises:
        ValueError: an unknown scale, or different models with ``scale="kseq"``.
    """
    if scale == "unit":
        return _one_at_a_time(chance, drafts, draft, target)
    if scale != "kseq":
        raise ValueError(f"scale must be 'unit' or 'kseq', not {scale!r}")
    if not isinstance(draft, Model):
        raise ValueError("scale='kseq' takes one draft model for all drafts")
    return _clipped(chance, drafts, draft, target, grid)


def _one_at_a_time(chance: Chance, drafts: Drafts, draft: DraftModels, target: Model) -> Outcome:
    models = model_of_each(draft, drafts.count)
    node: Prefix = ()
    chain, path = target, 0
    layers: tuple[tuple[Prefix, Model], ...] = ()  # all that the chain depends on
    waiting = list(range(drafts.count)) if drafts.length else []
    while waiting:
        k, *waiting = waiting
        tokens = whole_path(drafts, k)
        depth = greedy_scan(chance, tokens, k, node, models[k], chain)
        chain = owed_chain(models[k], chain, node, drafts.length)
        layers = (*layers, (node, models[k]))
        if depth > len(node):
            node, path = tokens[:depth], k
            waiting = alive(drafts, waiting, node) if depth < drafts.length else []
        meet(chance, "tested", node, layers, drafts.known(waiting))
    return emit(node, chance.draw(chain(node), TOKEN), path, chain)


def _clipped(chance: Chance, drafts: Drafts, draft: Model, target: Model, grid: int) -> Outcome:
    node: Prefix = ()
    chain, path = target, 0
    layers: tuple[tuple[Prefix, int], ...] = ()  # all that the chain depends on
    waiting = list(range(drafts.count)) if drafts.length else []
    while waiting:
        n = len(waiting)
        p, t = draft(node), chain(node)
        rho = smallest_scale(p, t, n, grid)
        cover = cover_factor(kept_mass(p, t, rho), n)
        rest = owed_chain(draft, chain, node, drafts.length, rho, cover)
        layers = (*layers, (node, n))
        for k in waiting:
            tokens = whole_path(drafts, k)
            depth = greedy_scan(chance, tokens, k, node, draft, chain, rho)
            later = [j for j in waiting if j > k]
            if depth > len(node):
                node, path = tokens[:depth], k
                waiting = alive(drafts, later, node) if depth < drafts.length else []
                break
            meet(chance, "rejected", node, layers, drafts.known(later))
        else:
            waiting = []
        chain = rest
        meet(chance, "clipped", node, layers, drafts.known(waiting))
    return emit(node, chance.draw(chain(node), TOKEN), path, chain)


SCHEME = Scheme(
    name="spectr_gbv",
    kind="verifier",
    summary="greedy block verification of each draft in turn; modifies the target that follows",
    paper="this project, after arXiv 2604.25925",
    verify=verify,
    stateful=True,
    draft_law="independent",
    options={"scale": "unit", "grid": DEFAULT_GRID},
)
