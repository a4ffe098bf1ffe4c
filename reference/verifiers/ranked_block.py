"""Ranked block verification: each draft gets a rank, the highest is selected and block-verified.

The rank of a draft is a label from J classes, independent over drafts, with the same law for all of
them, but coupled to the path: paths that the target prefers rank higher. The coupling is built row
by row along the path, so the law R of the selected path is known exactly there, and block
verification with the rows of R in place of those of p is lossless.

    π_x      law of the label of a draft that passes through x (the root: π0)
    u(c)     how much more often a draft of label c is selected than a draft in general
    T_x      Σ_c π_x(c) u(c) = R(x)/p(x)

At a prefix x every token is a mixture of two neighbouring *ratio types*, by its q/p. A coupling M
of the types (mass P) with the labels (mass π_x) gives each type its label law, each token the
mixture of two, and so the selected row and the states of the children. Any M with these two
marginals is lossless; its choice (`coupling_proposal`) decides how much is accepted. A proposal is
repaired in rationals, so that the marginals are exact.

Source: this project (proved in `proofs` for every coupling). J = 1 is block verification of the
first draft. With greedy block verification in place of the block rule it is stateful.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

from draftproof.reference.chance import Chance, Select, meet
from draftproof.reference.models import DraftModels, Model, Prefix, model_of_each
from draftproof.reference.numbers import ONE, ZERO, Number, divide, rational, total, whole
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, whole_path
from draftproof.reference.verifiers import block, greedy_block
from draftproof.reference.verifiers.ranked_coupling import Couple, coupling_proposal

__all__ = [
    "CLASSES",
    "RATIO_TYPES",
    "SCHEMES",
    "Design",
    "default_label_edges",
    "default_ratio_edges",
    "design",
    "design_for",
    "label_boost",
    "label_law",
    "own_boost",
    "repaired",
    "rises_above",
    "verify",
]

CLASSES = 8
"""J, the default number of labels."""
RATIO_TYPES = 17
"""NT, the default number of ratio types."""
LABEL_GRID = 2**16
"""Default label edges are multiples of 1/LABEL_GRID."""
RATIO_GRID = 2**10
"""Default ratio edges are multiples of 1/RATIO_GRID."""


def default_label_edges(drafts: int, classes: int = CLASSES) -> Row:
    """0 = s_0 < .. < s_J = 1 with (s_j + s_j^K)/2 = j/J, rounded up to the LABEL_GRID.

    Raises:
        ValueError: not a positive number of classes.
    """
    whole(classes, "classes", 1)

    def edge(j: int) -> Number:
        low, high = 0, LABEL_GRID
        while low < high:
            middle = (low + high) // 2
            s = rational(middle) / LABEL_GRID
            if (s + s**drafts) * classes >= 2 * j:
                high = middle
            else:
                low = middle + 1
        return rational(low) / LABEL_GRID

    return tuple(edge(j) for j in range(classes + 1))


def default_ratio_edges(types: int = RATIO_TYPES) -> Row:
    """0, then `types` - 2 log-spaced ratios from 1/16 to 16 (rounded to 1/RATIO_GRID), then 64.

    Raises:
        ValueError: fewer than 4 types.
    """
    whole(types, "types", 4)
    steps = types - 3
    inner = [round(16.0 ** (2 * i / steps - 1) * RATIO_GRID) for i in range(steps + 1)]
    return (ZERO, *(rational(edge) / RATIO_GRID for edge in inner), rational(64))


def label_law(edges: Row) -> Row:
    """π0(c) = s_{c+1} - s_c."""
    return tuple(high - low for low, high in pairwise(edges))


def label_boost(edges: Row, drafts: int) -> Row:
    """u(c) = (s_{c+1}^K - s_c^K)/π0(c): mean 1 under π0, increasing."""
    return tuple((high**drafts - low**drafts) / (high - low) for low, high in pairwise(edges))


def own_boost(edges: Row, drafts: int, number: int) -> Row:
    """u of one draft alone: P(draft `number` is selected | its label is c) / P(it is selected).

    The drafts before it have lower labels, those after it at most the same. 1 for a draft that is
    never selected.
    """
    wins = [low**number * high ** (drafts - 1 - number) for low, high in pairwise(edges)]
    mass = total(w * pi for w, pi in zip(wins, label_law(edges), strict=True))
    return tuple(divide(w, mass, ONE) for w in wins)


class State(NamedTuple):
    """What is known of the drafts that pass through a prefix x."""

    labels: Row
    """π_x."""
    tilt: Number
    """T_x = R(x)/p(x)."""
    weight: Number
    """The weight of x in the verification of the selected path."""
    ratio: Number
    """q(x)/R(x)."""


class Design(NamedTuple):
    """The label laws along all paths, and what follows from them."""

    labels: Callable[[Prefix], Row]
    """π_x."""
    selected: Model
    """R: the rows of the selected path."""
    weight: Callable[[Prefix], Number]
    """w_x of the selected path: E[τ] = Σ_x R(x) w_x over the prefixes of length 1 to L."""


def types_of(draft_row: Row, target_row: Row, ratio_edges: Row) -> list[tuple[int, Number]]:
    """Every token as (b, f): type b with probability 1-f, type b+1 with probability f."""
    mixtures = []
    for p, q in zip(draft_row, target_row, strict=True):
        ratio = min(divide(q, p, ZERO), ratio_edges[-1])
        b = max(b for b in range(len(ratio_edges) - 1) if ratio_edges[b] <= ratio)
        low, high = ratio_edges[b], ratio_edges[b + 1]
        mixtures.append((b, (ratio - low) / (high - low)))
    return mixtures


def repaired(proposal: Sequence[Sequence[object]], rows: Row, columns: Row) -> list[Row]:
    """A proposed matrix, made non-negative with exactly these row and column sums.

    Columns that are too heavy are scaled down, then rows; what is missing is filled in by a
    rank-one term. `rows` and `columns` have the same sum.

    Raises:
        ValueError: a proposal of another shape, or an entry that is not a number.
    """
    if len(proposal) != len(rows):
        raise ValueError(f"couple gave {len(proposal)} rows for {len(rows)} ratio types")
    for b, line in enumerate(proposal):
        if len(line) != len(columns):
            raise ValueError(f"couple[{b}] has {len(line)} entries for {len(columns)} labels")
    M = [
        [max(rational(entry, f"couple[{b}][{c}]"), ZERO) for c, entry in enumerate(line)]
        for b, line in enumerate(proposal)
    ]
    for c, wanted in enumerate(columns):
        have = total(line[c] for line in M)
        if have > wanted:
            for line in M:
                line[c] *= wanted / have
    for b, wanted in enumerate(rows):
        have = total(M[b])
        if have > wanted:
            M[b] = [entry * (wanted / have) for entry in M[b]]
    row_gaps = [wanted - total(line) for wanted, line in zip(rows, M, strict=True)]
    column_gaps = [wanted - total(line[c] for line in M) for c, wanted in enumerate(columns)]
    missing = total(row_gaps)
    if missing == 0:
        return [tuple(line) for line in M]
    return [
        tuple(entry + gap * other / missing for entry, other in zip(line, column_gaps, strict=True))
        for line, gap in zip(M, row_gaps, strict=True)
    ]


def design(
    draft: Model,
    target: Model,
    label_edges: Row,
    boost: Row,
    ratio_edges: Row,
    couple: Couple = coupling_proposal,
    stateful: bool = False,
) -> Design:
    """The label laws of a block, built prefix by prefix when they are first asked for.

    `boost` is u; `stateful` takes the joint ratio min(1, q(x)/R(x)) for the weight that the
    coupling aims at, in place of the block weight.
    """
    root = State(label_law(label_edges), ONE, ONE, ONE)
    steps: dict[Prefix, tuple[Row, list[State]]] = {}

    def state(prefix: Prefix) -> State:
        return step(prefix[:-1])[1][prefix[-1]] if prefix else root

    def step(prefix: Prefix) -> tuple[Row, list[State]]:
        """The selected row after a prefix, and the states of the children."""
        if prefix in steps:
            return steps[prefix]
        here = state(prefix)
        p, q = draft(prefix), target(prefix)
        mixtures = types_of(p, q, ratio_edges)
        mass = [ZERO] * len(ratio_edges)
        for v, (b, f) in enumerate(mixtures):
            mass[b] += p[v] * (1 - f)
            mass[b + 1] += p[v] * f
        tilted = tuple(divide(u, here.tilt, ZERO) for u in boost)
        proposal = couple(prefix, tuple(mass), ratio_edges, here.labels, tilted, here.weight)
        M = repaired(proposal, tuple(mass), here.labels)
        # The label law of each type that occurs.
        posterior = [
            tuple(divide(entry, P, ZERO) for entry in line) for line, P in zip(M, mass, strict=True)
        ]
        selected: list[Number] = []
        children: list[State] = []
        for v, (b, f) in enumerate(mixtures):
            if p[v] == 0:
                # Reached by no draft: what is said of it has no effect.
                selected.append(ZERO)
                children.append(here)
                continue
            labels = tuple(
                (1 - f) * low + f * high
                for low, high in zip(posterior[b], posterior[b + 1], strict=True)
            )
            rise = total(pi * u for pi, u in zip(labels, tilted, strict=True))
            r = p[v] * rise
            ratio = divide(here.ratio * q[v], r, ZERO)
            weight = min(ONE, ratio if stateful else divide(here.weight * q[v], r, ZERO))
            children.append(State(labels, here.tilt * rise, weight, ratio))
            selected.append(r)
        steps[prefix] = tuple(selected), children
        return steps[prefix]

    rows = Model(draft.vocab, lambda prefix: step(prefix)[0])
    return Design(lambda prefix: state(prefix).labels, rows, lambda prefix: state(prefix).weight)


def rises_above(chance: Chance, labels: Row, best: int, k: int, last: bool) -> int:
    """Draw the label of draft k against the best label so far (-1 for none): by how much it rises
    above it, 0 if it does not.

    Labels that would give the same winner are drawn as one: those that do not beat the best draft
    so far, and, for the last draft, those that do. It is the same decision for every uniform.
    """
    beaten, better = total(labels[: best + 1]), labels[best + 1 :]
    return chance.draw((beaten, total(better)) if last else (beaten, *better), Select(k))


def verify(
    chance: Chance, drafts: Drafts, draft: DraftModels, target: Model, **options: Any
) -> Outcome:
    """Select the first draft of the highest label and verify its path with the law that it has.

    With a model for each draft the law is that of the draft given that it is the one selected: its
    own model is enough for that, at the price of a little acceptance. The options are those of
    `design_for`; `stateful` verifies with the greedy block rule, and leaves a carry.
    """
    K = drafts.count if drafts.length else 0
    path: Prefix = ()
    number, best = 0, -1
    for k in range(K):
        meet(chance, "best", k, path, best, None if isinstance(draft, Model) else number)
        challenger = whole_path(drafts, k)
        labels = _design_of(draft, target, K, k, options).labels(challenger)
        rise = rises_above(chance, labels, best, k, k == K - 1)
        if rise > 0:
            path, number, best = challenger, k, best + rise
    meet(chance, "selected", path, None if isinstance(draft, Model) else number)
    selected = _design_of(draft, target, K, number, options).selected if path else target
    verify_path = greedy_block.verify_path if options.get("stateful") else block.verify_path
    return verify_path(chance, path, number, selected, target)


def _design_of(
    draft: DraftModels, target: Model, count: int, number: int, options: Mapping[str, Any]
) -> Design:
    if isinstance(draft, Model):
        return design_for(draft, target, count, **options)
    return design_for(model_of_each(draft, count)[number], target, count, number=number, **options)


def design_for(
    draft: Model,
    target: Model,
    count: int,
    *,
    number: int | None = None,
    classes: int = CLASSES,
    types: int = RATIO_TYPES,
    label_edges: Sequence[object] | None = None,
    ratio_edges: Sequence[object] | None = None,
    couple: Couple = coupling_proposal,
    stateful: bool = False,
) -> Design:
    """The design of a block of `count` drafts.

    `number` gives the law of that draft given that it is selected, in place of the law of the
    selected draft, whichever it is (they differ by the order in which equal labels win).

    `couple(prefix, types, ratio_edges, labels, boost, weight)` proposes the coupling of the types
    (masses P) with the labels (masses π_x), given u/T_x and w_x: a matrix [NT][J] of rationals or
    floats, repaired in rationals. `label_edges` and `ratio_edges` replace the default constants of
    `classes` labels and `types` ratio types. `stateful` aims at the greedy block weights.

    Raises:
        ValueError: edges that are not increasing from 0 (labels: to 1).
    """
    labels = None if label_edges is None else tuple(label_edges)
    ratios = None if ratio_edges is None else tuple(ratio_edges)
    return _design_for(
        draft, target, count, number, classes, types, labels, ratios, couple, stateful
    )


@lru_cache(maxsize=32)  # an enumeration verifies the same models over and over
def _design_for(
    draft: Model,
    target: Model,
    count: int,
    number: int | None,
    classes: int,
    types: int,
    label_edges: tuple[object, ...] | None,
    ratio_edges: tuple[object, ...] | None,
    couple: Couple,
    stateful: bool,
) -> Design:
    labels = (
        default_label_edges(count, classes)
        if label_edges is None
        else _edges(label_edges, "label_edges")
    )
    ratios = (
        default_ratio_edges(types) if ratio_edges is None else _edges(ratio_edges, "ratio_edges")
    )
    if labels[-1] != 1:
        raise ValueError(f"label_edges end at {labels[-1]}, not 1")
    boost = label_boost(labels, count) if number is None else own_boost(labels, count, number)
    return design(draft, target, labels, boost, ratios, couple, stateful)


def _edges(edges: Sequence[object], where: str) -> Row:
    exact = tuple(rational(edge, f"{where}[{j}]") for j, edge in enumerate(edges))
    if len(exact) < 2 or exact[0] != 0 or any(a >= b for a, b in pairwise(exact)):
        raise ValueError(f"{where} must increase from 0, not {[str(edge) for edge in exact]}")
    return exact


SCHEMES = (
    Scheme(
        name="ranked_block",
        kind="verifier",
        summary="rank the drafts by labels coupled to their paths, block-verify the highest",
        paper="this project",
        verify=verify,
        draft_law="independent",
        selects=True,
        options={"classes": CLASSES, "types": RATIO_TYPES},
    ),
    Scheme(
        name="ranked_block:stateful",
        kind="verifier",
        summary="ranked block with the greedy block rule; modifies the target that follows",
        paper="this project",
        verify=partial(verify, stateful=True),
        stateful=True,
        draft_law="independent",
        selects=True,
        options={"classes": CLASSES, "types": RATIO_TYPES},
    ),
)
