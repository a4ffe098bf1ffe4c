"""Global Resolution: the optimal coupling of i.i.d. drafts by convex minimisation, up to its error.

The optimal selected law r (see `transport.pooled`) is reached by importance weights: of the drafted
tokens, those of the best pooled block are eligible, and one is chosen with probability proportional
to a weight of its own. The weights of a block minimise a convex function, whose gradient is the
difference of the chosen law R from r; they are found by iterative scaling in floats, on a truncated
vocabulary (the tokens of most draft mass; of the others the first draft is taken, and only where no
kept token is drafted). The chosen token is then coupled with the target as if its law were r.

It is *not* exactly lossless: the emitted law is off by at most the total variation between R and r
(`selection_error`), since r itself would give the target. The remedy is to couple with R.
Source: after Thomas and Pal (2511.15898).
"""

from __future__ import annotations

from functools import lru_cache, partial

from draftproof.reference.chance import Chance
from draftproof.reference.couplings.candidates import Candidates, Choice, answer, one_token_block
from draftproof.reference.couplings.transport import pooled, verified
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, Number, rational, total, whole
from draftproof.reference.optima import draft_sets
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts

__all__ = ["SCHEME", "global_resolution", "selection_error", "verify"]

VOCABULARY = 16
"""Tokens kept by default."""
TOLERANCE = 2**-20
"""Default largest error of an entry of the chosen law, truncation apart."""
MOST_STEPS = 2000


def _aim(draft_row: Row, target_row: Row, drafts: int) -> tuple[Row, tuple[int, ...]]:
    """The selected law r, and the number of the block of each token, from the best."""
    r = [ZERO] * len(draft_row)
    block_of = [len(draft_row)] * len(draft_row)
    for number, block in enumerate(pooled(draft_row, target_row, drafts)):
        for v in block.tokens:
            mass, whole = (target_row[v], block.q) if block.q != 0 else (draft_row[v], block.p)
            r[v] = mass * block.r / whole
            block_of[v] = number
    return tuple(r), tuple(block_of)


def _eligible(
    tokens: frozenset[int], kept: frozenset[int], block_of: tuple[int, ...]
) -> frozenset[int]:
    """The drafted tokens that a choice is made of: kept ones of the best block."""
    among = tokens & kept
    if not among:
        return among
    best = min(block_of[v] for v in among)
    return frozenset(v for v in among if block_of[v] == best)


@lru_cache(maxsize=1 << 10)
def _weights(
    draft_row: Row, target_row: Row, drafts: int, vocabulary: int, tolerance: float
) -> tuple[Row, frozenset[int]]:
    """The importance weight of every token, and the tokens that are kept."""
    whole(vocabulary, "vocabulary", 1)
    if tolerance <= 0:
        raise ValueError(f"tolerance must be positive, not {tolerance!r}")
    r, block_of = _aim(draft_row, target_row, drafts)
    by_mass = sorted(range(len(draft_row)), key=lambda v: (-draft_row[v], v))
    kept = frozenset(by_mass[:vocabulary])
    row = Model(len(draft_row), lambda prefix: draft_row)
    choices: dict[frozenset[int], float] = {}
    for paths, chance in draft_sets(row, 1, drafts).items():
        eligible = _eligible(frozenset(path[0] for path in paths), kept, block_of)
        choices[eligible] = choices.get(eligible, 0.0) + float(chance)
    weights = [1.0] * len(draft_row)
    wanted = [float(mass) for mass in r]
    for _ in range(MOST_STEPS):
        reached = [0.0] * len(draft_row)
        for eligible, chance in choices.items():
            together = sum(weights[v] for v in eligible)
            for v in eligible:
                reached[v] += chance * weights[v] / together
        if all(abs(wanted[v] - reached[v]) <= tolerance for v in kept):
            break
        for v in kept:
            if reached[v] > 0:
                # Bounded, since a truncated problem may have no solution.
                weights[v] = min(max(weights[v] * wanted[v] / reached[v], 2.0**-60), 2.0**60)
    return tuple(rational(weight) for weight in weights), kept


def _chosen(
    draft_row: Row,
    target_row: Row,
    tokens: tuple[int, ...],
    vocabulary: int,
    tolerance: float,
) -> dict[int, Number]:
    """P(the draft chosen has token x), given the tokens of all drafts in order."""
    weights, kept = _weights(draft_row, target_row, len(tokens), vocabulary, tolerance)
    _, block_of = _aim(draft_row, target_row, len(tokens))
    eligible = _eligible(frozenset(tokens), kept, block_of)
    if not eligible:
        return {tokens[0]: ONE}
    together = total(weights[v] for v in eligible)
    return {v: weights[v] / together for v in eligible}


def selection_error(
    draft_row: Row,
    target_row: Row,
    drafts: int,
    vocabulary: int = VOCABULARY,
    tolerance: float = TOLERANCE,
) -> Number:
    """The total variation between the law R of the chosen token and r, measured exactly.

    It bounds the total variation of the emitted token from the target.
    """
    r, _ = _aim(draft_row, target_row, drafts)
    reached: dict[tuple[int, ...], Number] = {(): ONE}
    for _ in range(drafts):
        reached = {
            (*tokens, v): chance * p
            for tokens, chance in reached.items()
            for v, p in enumerate(draft_row)
            if p != 0
        }
    R = [ZERO] * len(draft_row)
    for tokens, chance in reached.items():
        for v, share in _chosen(draft_row, target_row, tokens, vocabulary, tolerance).items():
            R[v] += chance * share
    return total(abs(a - b) for a, b in zip(R, r, strict=True)) / 2


def global_resolution(
    chance: Chance,
    candidates: Candidates,
    draft_row: Row,
    target_row: Row,
    *,
    vocabulary: int = VOCABULARY,
    tolerance: float = TOLERANCE,
) -> Choice:
    """The token chosen by importance weights, coupled with the target.

    Raises:
        ValueError: a vocabulary below 1, or a tolerance that is not positive.
    """
    candidates.require_one_row("global_resolution")
    tokens = tuple(candidates[k] for k in range(len(candidates)))
    r, _ = _aim(draft_row, target_row, len(tokens))
    chosen = _chosen(draft_row, target_row, tokens, vocabulary, tolerance)
    return answer(chance, candidates, verified(chosen, r, target_row))


def verify(
    chance: Chance,
    drafts: Drafts,
    draft: Model,
    target: Model,
    *,
    vocabulary: int = VOCABULARY,
    tolerance: float = TOLERANCE,
) -> Outcome:
    """The coupling as a block scheme of length 1."""
    coupling = partial(global_resolution, vocabulary=vocabulary, tolerance=tolerance)
    return one_token_block(coupling, chance, drafts, draft, target)


SCHEME = Scheme(
    name="global_resolution",
    kind="coupling",
    summary="the optimal selection by importance weights from a convex minimisation",
    paper="after Thomas and Pal 2025, arXiv 2511.15898",
    verify=verify,
    lossless=False,
    approximate=(
        "total variation at most that between the selected law reached and the one aimed at: "
        "tolerance 2^-20 an entry where nothing is truncated"
    ),
    options={"vocabulary": VOCABULARY, "tolerance": TOLERANCE},
)
