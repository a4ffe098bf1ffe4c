"""The bound of docs/numerics.md on whole laws of schemes with several drafts, from both sides.

The reference's decision tree says which question comes next (a test, a label, the last token) and
where its answers are cut. Where the fast path cuts is found by bisection on the uniform of that
question, the uniforms before it being put into the middle of their cells. The products of the
widths of its cells are the law that its decisions imply; it is compared with the exact law of
(accepted, next) on the same floats, and continued (by the carry, then by the target) with the
target's law. Measured values are printed (pytest -s).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from draftproof.fast import Batch, Result, Uniforms, verify
from draftproof.fast.numerics import law_bound
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import TOKEN, Accept, Place, Select
from draftproof.reference.models import Model, joint
from draftproof.reference.numbers import rational
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import FixedDrafts
from fast_blocks import same_coupling

Prefix = tuple[int, ...]
Table = dict[Prefix, torch.Tensor]
LENGTH, DRAFTS = 2, 2
SETTINGS = 24
"""Values tried for the uniforms after a question, until its two answers end differently."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("spectr", {}),
    ("spectr:canonical", {}),
    ("spectr:recursive_rejection", {}),
    ("spectr:target_match", {}),
    ("spectr:transport", {}),
    ("spectr:without_replacement", {}),
    ("traversal", {}),
    ("multipath", {}),
    ("kseq_block", {}),
    ("ranked_block", {"classes": 3, "types": 6}),
    ("ranked_block:stateful", {"classes": 3, "types": 6}),
    ("spectr_gbv", {}),
    ("spectr_gbv", {"scale": "kseq"}),
    ("tree_match", {}),
]


@dataclasses.dataclass
class Question:
    """One question on the way to an outcome: its cells of positive probability, from 0 to 1."""

    place: Place
    cells: list[tuple[int, Fraction, Fraction]]
    """(answer, low, high)"""
    chosen: int = 0

    @property
    def middle(self) -> float:
        _, low, high = self.cells[self.chosen]
        return float((low + high) / 2)


class _Explorer:
    """A `Chance` that follows a script of answers and notes every question."""

    def __init__(self, script: list[Question]) -> None:
        self.script, self.asked = script, 0

    def _ask(self, masses: Sequence[Any], place: Place) -> int:
        if self.asked == len(self.script):
            cells, low = [], Fraction(0)
            whole = sum(masses)
            for answer, mass in enumerate(masses):
                share = Fraction(int((mass / whole).numerator), int((mass / whole).denominator))
                if share:
                    cells.append((answer, low, low + share))
                low += share
            self.script.append(Question(place, cells))
        question = self.script[self.asked]
        self.asked += 1
        return question.cells[question.chosen][0]

    def flip(self, probability: Any, place: Place) -> bool:
        return self._ask([rational(probability), 1 - rational(probability)], place) == 0

    def draw(self, weights: Sequence[Any], place: Place) -> int:
        return self._ask([rational(w) for w in weights], place)


def _leaves(run: Callable[[Any], Outcome]) -> list[tuple[list[Question], Outcome]]:
    """Every way a block can end, with the questions on the way there."""
    script: list[Question] = []
    leaves = []
    while True:
        explorer = _Explorer(script)
        outcome = run(explorer)
        leaves.append(([dataclasses.replace(question) for question in script], outcome))
        while script and script[-1].chosen == len(script[-1].cells) - 1:
            script.pop()
        if not script:
            return leaves
        script[-1].chosen += 1


def tables(vocab: int, dtype: torch.dtype, whole: bool) -> tuple[Table, Table]:
    """Draft and target rows, hard on rounding: by turns far apart, nearly equal, equal, with
    entries of 1e-30 on either side, with impossible tokens, and one-hot.

    `whole`: of multiples of a power of two, so that their sums are exactly 1; else rounded.
    """
    generator = torch.Generator().manual_seed(6)
    grain = {torch.float64: 40, torch.float32: 20}.get(dtype)
    kinds = itertools.cycle(["apart", "near", "tiny p", "equal", "tiny q", "zeros", "one-hot"])
    draft, target = {}, {}

    def made(scores: torch.Tensor) -> torch.Tensor:
        row = scores.softmax(0)
        if not whole:
            return row
        assert grain is not None
        counts = (row * 2.0**grain).floor()
        counts[counts.argmax()] += 2.0**grain - counts.sum()
        return counts * 2.0**-grain

    for depth in range(LENGTH + 1):
        for prefix in itertools.product(range(vocab), repeat=depth):
            kind = next(kinds)
            x = 2 * torch.randn(vocab, generator=generator, dtype=torch.float64)
            y = 2 * torch.randn(vocab, generator=generator, dtype=torch.float64)
            y = x + 1e-4 * y if kind == "near" else x if kind == "equal" else y
            p, q = made(x), made(y)
            if kind.startswith("tiny"):
                row = p if kind == "tiny p" else q
                row[1] += row[0]
                row[0] = 1e-30  # the sum is right to 1e-30
            if kind == "zeros":
                p[0], p[1], q[1], q[0] = 0, p[1] + p[0], 0, q[0] + q[1]
            if kind == "one-hot":
                q = torch.zeros_like(q).index_fill_(0, torch.tensor([vocab - 1]), 1.0)
            draft[prefix], target[prefix] = p.to(dtype), q.to(dtype)
    return draft, target


def _exact(table: Table) -> Model:
    rows = {}
    for prefix, row in table.items():
        entries = [Fraction(x) for x in row.tolist()]
        rows[prefix] = [x / sum(entries) for x in entries]
    return Model.table(rows)


def _defect(table: Table) -> float:
    return max(abs(float(sum(map(Fraction, row.tolist())) - 1)) for row in table.values())


@dataclasses.dataclass
class Laws:
    """What the decisions of the fast path imply, and what they should."""

    implied: dict[tuple[Prefix, int], float]
    exact: dict[tuple[Prefix, int], float]
    string: dict[Prefix, float]
    target: dict[Prefix, float]
    unseen: float
    """The largest probability, at one depth of the decision trees, of questions whose two answers
    ended alike for all later uniforms tried: where they are cut makes (nearly) no difference."""
    defect: float
    """The largest |Σ row - 1|."""


def _key(result: Result, row: int) -> tuple[int, ...]:
    return (*result.tokens[row].tolist(), int(result.accepted_length[row]))


Skew = Callable[[Uniforms], Uniforms]


class _Fast:
    """The fast path on blocks of given drafts, at uniforms given by place."""

    def __init__(
        self, scheme: str, options: dict[str, Any], draft: Table, target: Table, skew: Skew
    ) -> None:
        self.scheme, self.options, self.skew = scheme, options, skew
        self.prefixes = {prefix: n for n, prefix in enumerate(target)}
        self.draft = torch.stack(list(draft.values()))
        self.target = torch.stack(list(target.values()))

    def __call__(self, paths: list[tuple[Prefix, ...]], points: torch.Tensor) -> Result:
        """Points [N, K·L + K + 1]: accept uniforms, labels, the token."""
        count = len(paths)
        tokens = torch.tensor(paths).view(count, DRAFTS, LENGTH)
        nodes = torch.tensor(
            [[[self.prefixes[x[:i]] for i in range(LENGTH + 1)] for x in own] for own in paths]
        )
        accept = points[:, : DRAFTS * LENGTH].view(count, DRAFTS, LENGTH)
        uniforms = Uniforms(accept, points[:, -DRAFTS - 1 : -1], points[:, -1])
        batch = Batch(tokens, nodes, self.draft, self.target)
        return verify(self.scheme, batch, self.skew(uniforms), validate=False, **self.options)

    def carried(self, emitted: list[Prefix], carry: Any, uniform: torch.Tensor) -> torch.Tensor:
        """The token after what was emitted, from an empty block that has the carry."""
        nodes = torch.tensor([self.prefixes[x] for x in emitted])[:, None, None]
        empty = torch.zeros(len(emitted), 0, 0)
        batch = Batch(empty.long(), nodes, self.draft, self.target)
        none = torch.zeros(len(emitted), 0, dtype=torch.float64)
        uniforms = Uniforms(empty.double(), none, uniform)
        own = {} if "scale" in self.options else self.options
        return verify(self.scheme, batch, uniforms, carry=carry, validate=False, **own).next_token


def _column(place: Place) -> int:
    match place:
        case Accept(draft, depth):
            return draft * LENGTH + depth - 1
        case Select(draft):
            return DRAFTS * LENGTH + draft
    assert place == TOKEN
    return DRAFTS * LENGTH + DRAFTS


def laws(
    scheme: str,
    options: dict[str, Any],
    rows: tuple[Table, Table],
    skew: Skew = lambda uniforms: uniforms,
) -> Laws:
    """The implied and the exact laws of a scheme on draft and target rows."""
    draft, target = rows
    vocab, dtype = len(target[()]), target[()].dtype
    p, q = _exact(draft), _exact(target)
    more = {"couple": same_coupling} if scheme.startswith("ranked") else {}
    verifier = SCHEMES[scheme].verify
    single = [x for x in itertools.product(range(vocab), repeat=LENGTH) if joint(p, x) != 0]
    fast = _Fast(scheme, options, draft, target, skew)

    leaves: list[tuple[tuple[Prefix, ...], Fraction, list[Question], Outcome]] = []
    for paths in itertools.product(single, repeat=DRAFTS):
        chance = joint(p, paths[0]) * joint(p, paths[1])
        drafts = FixedDrafts(paths, LENGTH)
        for questions, outcome in _leaves(
            lambda c, d=drafts: verifier(c, d, p, q, **options, **more)  # type: ignore[misc]
        ):
            leaves.append((paths, Fraction(str(chance)), questions, outcome))

    # Every edge between two cells, once: (drafts, the answers so far) and the number of the edge.
    edges: dict[tuple[Any, ...], tuple[tuple[Prefix, ...], list[Question], int]] = {}
    for paths, _, questions, _ in leaves:
        for at, question in enumerate(questions):
            history = (paths, *((x.place, x.chosen) for x in questions[:at]))
            for number in range(len(question.cells) - 1):
                edges.setdefault((history, number), (paths, questions[: at + 1], number))
    found, blind = _bisected(fast, list(edges.values()), 56 if dtype == torch.float64 else 34)
    place_of = dict(zip(edges, found, strict=True))
    missed = dict(zip(edges, blind, strict=True))

    result = Laws({}, {}, {}, {}, 0.0, max(_defect(draft), _defect(target)))
    unseen: dict[int, float] = {}
    endings: list[tuple[Prefix, float, Outcome, tuple[Prefix, ...], list[Question]]] = []
    for paths, chance, questions, outcome in leaves:
        implied, exact = float(chance), chance
        for at, question in enumerate(questions):
            history = (paths, *((x.place, x.chosen) for x in questions[:at]))
            cuts = [0.0, *(place_of[history, n] for n in range(len(question.cells) - 1)), 1.0]
            if question.chosen == 0 and len(cuts) > 2:
                cells_missed = [missed[history, n] for n in range(len(question.cells) - 1)]
                unseen[at] = unseen.get(at, 0.0) + implied * all(cells_missed)
            implied *= cuts[question.chosen + 1] - cuts[question.chosen]
            _, low, high = question.cells[question.chosen]
            exact *= high - low
        stop = (outcome.accepted, outcome.next)
        result.implied[stop] = result.implied.get(stop, 0.0) + implied
        result.exact[stop] = result.exact.get(stop, 0.0) + float(exact)
        endings.append(((*outcome.accepted, outcome.next), implied, outcome, paths, questions))
    _continue(fast, result, endings, q, vocab)
    result.unseen = max(unseen.values())
    return result


def _points(questions: list[Question], columns: int) -> torch.Tensor:
    point = torch.full((columns,), torch.nan, dtype=torch.float64)
    for question in questions:
        point[_column(question.place)] = question.middle
    return point


def _bisected(
    fast: _Fast, edges: list[tuple[tuple[Prefix, ...], list[Question], int]], steps: int
) -> tuple[list[float], list[bool]]:
    """Where the fast path cuts at each edge, and whether it could not be seen there."""
    columns = DRAFTS * LENGTH + DRAFTS + 1
    generator = torch.Generator().manual_seed(2)
    paths = [own for own, _, _ in edges]
    base = torch.stack([_points(questions[:-1], columns) for _, questions, _ in edges])
    column = torch.tensor([_column(questions[-1].place) for _, questions, _ in edges])
    cells = [(q[-1].cells[n], q[-1].cells[n + 1]) for _, q, n in edges]
    low = torch.tensor([float((a[1] + a[2]) / 2) for a, _ in cells], dtype=torch.float64)
    high = torch.tensor([float((b[1] + b[2]) / 2) for _, b in cells], dtype=torch.float64)
    exact = torch.tensor([float(a[2]) for a, _ in cells], dtype=torch.float64)
    every = torch.arange(len(edges))
    later = torch.zeros(len(edges), columns, dtype=torch.float64)
    seen = torch.zeros(len(edges), dtype=torch.bool)

    def run(which: torch.Tensor, rest: torch.Tensor, u: torch.Tensor) -> list[tuple[int, ...]]:
        points = torch.where(base[which].isnan(), rest, base[which])
        points[torch.arange(len(which)), column[which]] = u
        result = fast([paths[i] for i in which.tolist()], points)
        return [_key(result, row) for row in range(len(which))]

    for setting in range(SETTINGS):
        open_ = every[~seen]
        if len(open_) == 0:
            break
        fixed = {0: 0.0, 1: 1 - 2.0**-53}
        rest = torch.rand(len(open_), columns, generator=generator, dtype=torch.float64)
        rest = torch.full_like(rest, fixed[setting]) if setting in fixed else rest
        a, b = run(open_, rest, low[open_]), run(open_, rest, high[open_])
        differ = torch.tensor([x != y for x, y in zip(a, b, strict=True)])
        later[open_[differ]], seen[open_[differ]] = rest[differ], True
    which = every[seen]
    start = run(which, later[which], low[which])
    below, above = low[which].clone(), high[which].clone()
    for _ in range(steps):
        middle = (below + above) / 2
        same = run(which, later[which], middle)
        before = torch.tensor([x == y for x, y in zip(same, start, strict=True)])
        below, above = torch.where(before, middle, below), torch.where(before, above, middle)
    exact[which] = (below + above) / 2
    return exact.tolist(), (~seen).tolist()


def _continue(
    fast: _Fast,
    result: Laws,
    endings: list[tuple[Prefix, float, Outcome, tuple[Prefix, ...], list[Question]]],
    target: Model,
    vocab: int,
) -> None:
    """The law of L + 1 tokens: those of the block, one from the carry, then those of the target."""
    carried: list[tuple[Prefix, float, list[float]]] = []
    owing = [e for e in endings if e[2].carry is not None and len(e[0]) <= LENGTH]
    if owing:
        columns = DRAFTS * LENGTH + DRAFTS + 1
        points = torch.stack([_points(e[4], columns) for e in owing])
        points = torch.where(points.isnan(), 0.5, points)
        carry = fast([e[3] for e in owing], points).carry
        emitted = [e[0] for e in owing]
        cuts = [torch.zeros(len(owing), dtype=torch.float64)]
        for v in range(vocab):
            low, high = cuts[-1], torch.ones(len(owing), dtype=torch.float64)
            for _ in range(54):
                middle = (low + high) / 2
                token = fast.carried(emitted, carry, middle.clamp(max=1 - 2.0**-53))
                low, high = (
                    torch.where(token <= v, middle, low),
                    torch.where(token <= v, high, middle),
                )
            cuts.append(high)
        rows = (torch.stack(cuts[1:], 1) - torch.stack(cuts[:-1], 1)).tolist()
        carried = [(e[0], e[1], row) for e, row in zip(owing, rows, strict=True)]
    plain = [(e[0], e[1]) for e in endings if e[2].carry is None or len(e[0]) > LENGTH]
    plain += [((*x, v), mass * row[v]) for x, mass, row in carried for v in range(vocab)]
    for emitted, mass in plain:
        for rest in itertools.product(range(vocab), repeat=LENGTH + 1 - len(emitted)):
            share = float(joint(target.after(emitted), rest))
            key = (*emitted, *rest)
            result.string[key] = result.string.get(key, 0.0) + mass * share
    for string in itertools.product(range(vocab), repeat=LENGTH + 1):
        result.target[string] = float(joint(target, string))


def distance(one: dict[Any, float], other: dict[Any, float]) -> float:
    """Total variation."""
    return sum(abs(one.get(x, 0.0) - other.get(x, 0.0)) for x in {*one, *other}) / 2


@pytest.mark.parametrize(
    ("vocab", "dtype", "whole"),
    [
        (3, torch.float32, True),
        (2, torch.float64, True),
        (2, torch.float32, False),
        (2, torch.bfloat16, False),
    ],
)
@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_whole_laws(
    scheme: str, options: dict[str, Any], vocab: int, dtype: torch.dtype, whole: bool
) -> None:
    """`whole`: the sums of the rows are right, else the bound has their defect in it."""
    found = laws(scheme, options, tables(vocab, dtype, whole))
    bound = law_bound(dtype, vocab, LENGTH, DRAFTS, found.defect)
    own, lossless = distance(found.implied, found.exact), distance(found.string, found.target)
    print(f"{scheme} {options} {dtype}: {own:.1e}, {lossless:.1e} from the target, {bound:.1e}")
    assert own <= bound
    assert lossless <= bound
    assert found.unseen < 0.25


@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_a_larger_error_breaks_the_bound(scheme: str, options: dict[str, Any]) -> None:
    """The planted fault of thresholds that are 100 bounds too small, relatively."""
    bound = law_bound(torch.float64, 2, LENGTH, DRAFTS)

    def skewed(uniforms: Uniforms) -> Uniforms:
        accept = (uniforms.accept * (1 + 100 * bound)).clamp(max=1 - 2.0**-53)
        return dataclasses.replace(uniforms, accept=accept)

    found = laws(scheme, options, tables(2, torch.float64, True), skewed)
    off = distance(found.string, found.target)
    print(f"{scheme} {options} skewed: {off:.1e} from the target, {bound:.1e}")
    assert off > bound


def test_every_scheme_of_several_drafts_is_here() -> None:
    several = {
        s.name
        for s in SCHEMES.values()
        if s.kind == "verifier" and s.lossless and s.drafts[1] is None
    }
    assert several == {scheme for scheme, _ in CASES}
