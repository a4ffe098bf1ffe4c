"""The clip: covered mass, residual and the smallest valid scale, the one primitive of every scheme.

On a draft row p, a target row T, a scale ρ ≥ 1 and a cover factor c (algorithm notation):

    covered(v)  = min(p(v), T(v)/ρ)        the part of the draft that is kept
    β           = Σ_v covered(v)           kept mass
    residual(v) = T(v) - c · covered(v)    what is still owed to the target

For n i.i.d. drafts tested in order, c(β, n) = (1 - (1-β)^n)/β, so that P(some draft is kept) = c β.
Source: K-SEQ of SpecTr (arXiv 2310.15141, section 4); n = 1 and ρ = 1 is the maximal coupling.
"""

from __future__ import annotations

from functools import lru_cache

from draftproof.reference.numbers import ONE, ZERO, Number, divide, rational, total, whole
from draftproof.reference.rows import Row, normalise

__all__ = [
    "DEFAULT_GRID",
    "check_scale",
    "cover_factor",
    "covered",
    "excess",
    "is_valid_scale",
    "kept_mass",
    "residual",
    "row_or_plain",
    "smallest_scale",
    "without",
]

DEFAULT_GRID = 2**20
"""Smallest valid scales are rounded up to a multiple of 1/DEFAULT_GRID."""


def covered(draft_row: Row, target_row: Row, scale: Number = ONE) -> Row:
    """min(p, T/ρ), entry by entry."""
    return tuple(min(p, t / scale) for p, t in zip(draft_row, target_row, strict=True))


def kept_mass(draft_row: Row, target_row: Row, scale: Number = ONE) -> Number:
    """β = Σ_v min(p(v), T(v)/ρ), in [0, 1]."""
    return total(covered(draft_row, target_row, scale))


def excess(draft_row: Row, target_row: Row, weight: Number = ONE) -> Row:
    """(w T - p)+, entry by entry: the unnormalised residual of a maximal coupling."""
    return tuple(max(weight * t - p, ZERO) for p, t in zip(draft_row, target_row, strict=True))


def cover_factor(kept: Number, drafts: int) -> Number:
    """c(β, n) = (1 - (1-β)^n)/β, and its limit n at β = 0."""
    return divide(1 - (1 - kept) ** drafts, kept, rational(drafts))


def residual(draft_row: Row, target_row: Row, scale: Number, drafts: int) -> Row:
    """T - c(β, n) · min(p, T/ρ): unnormalised, of mass 1 - c β for a normalised target row.

    Raises:
        ValueError: the scale is too small, which would make an entry negative.
    """
    kept = covered(draft_row, target_row, scale)
    cover = cover_factor(total(kept), drafts)
    owed = tuple(t - cover * k for t, k in zip(target_row, kept, strict=True))
    for token, entry in enumerate(owed):
        if entry < 0:
            raise ValueError(
                f"scale {scale} is below the smallest valid scale for {drafts} drafts: "
                f"the residual of token {token} is {entry}"
            )
    return owed


def is_valid_scale(draft_row: Row, target_row: Row, scale: Number, drafts: int) -> bool:
    """Whether c(β(ρ), n) ≤ ρ, which makes every residual non-negative.

    Multiplied by β, the left side falls and the right side rises with ρ, so validity is upward
    closed; where nothing is covered every scale is valid.
    """
    kept = kept_mass(draft_row, target_row, scale)
    return bool(1 - (1 - kept) ** drafts <= scale * kept)


def check_scale(draft_row: Row, target_row: Row, scale: Number, drafts: int) -> None:
    """Refuse a scale below the smallest valid one.

    Raises:
        ValueError: naming the scale, the cover factor and the number of drafts.
    """
    if scale < 1:
        raise ValueError(f"scale {scale} is not valid for {drafts} drafts: it must be at least 1")
    if not is_valid_scale(draft_row, target_row, scale, drafts):
        cover = cover_factor(kept_mass(draft_row, target_row, scale), drafts)
        raise ValueError(
            f"scale {scale} is not valid for {drafts} drafts: it must be at least its own "
            f"cover factor, here {cover}"
        )


@lru_cache(maxsize=1 << 16)  # an enumeration asks for the same nodes over and over
def smallest_scale(
    draft_row: Row, target_row: Row, drafts: int, grid: int = DEFAULT_GRID
) -> Number:
    """The smallest valid multiple of 1/grid: ρ* of K-SEQ, rounded up.

    ρ* itself is in general irrational. Rounding up keeps the scheme exactly lossless; rounding down
    would not.

    Raises:
        ValueError: a grid that is not a positive integer.
    """
    whole(grid, "grid", 1)
    low, high = grid, max(drafts, 1) * grid  # ρ = n is always valid
    while low < high:
        middle = (low + high) // 2
        if is_valid_scale(draft_row, target_row, rational(middle) / grid, drafts):
            high = middle
        else:
            low = middle + 1
    return rational(low) / grid


def row_or_plain(weights: Row, plain: Row) -> Row:
    """Weights normalised; the plain row where their mass is 0 (reached with probability 0)."""
    return plain if total(weights) == 0 else normalise(weights)


def without(weights: Row, token: int) -> Row:
    """The weights with that of `token` set to 0."""
    return (*weights[:token], ZERO, *weights[token + 1 :])
