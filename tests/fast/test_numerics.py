"""The rounding of the fast path against exact arithmetic on the same floats (docs/numerics.md).

The exact side reads every float as the rational it is. Measured values are printed (pytest -s).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from draftproof.fast import VERIFIERS, Batch, Uniforms, verify
from draftproof.fast.clip import Overrides, Owed, Rows, draw, owed_mass, ratio_masses
from draftproof.fast.numerics import law_bound, sum_bound, unit_roundoff
from draftproof.fast.sums import LANES, row_sums
from draftproof.reference.instance import Instance
from draftproof.reference.oracle import exact_law

Table = dict[tuple[int, ...], torch.Tensor]


def adversarial_rows(
    vocab: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Pairs of rows that are hard on rounding: p, q [n, V] and a name for each."""
    generator = torch.Generator().manual_seed(vocab)

    def normal() -> torch.Tensor:
        return torch.randn(vocab, generator=generator, dtype=torch.float64)

    flat = torch.ones(vocab, dtype=torch.float64)
    ramp = torch.linspace(0, 38 * math.log(10), vocab, dtype=torch.float64)
    scores = 3 * normal()
    pairs = {
        "near equal": (scores, scores + 1e-6 * normal()),
        "far apart": (4 * normal(), 4 * normal()),
        "38 orders of magnitude, reversed": (-ramp, -ramp.flip(0)),
        "uniform against one token": (0 * flat, -40 * (torch.arange(vocab) != 1).double()),
        "half the tokens impossible": (
            torch.where(torch.arange(vocab) % 2 == 0, normal(), -torch.inf),
            torch.where(torch.arange(vocab) % 3 != 0, normal(), -torch.inf),
        ),
        "equal": (scores, scores),
    }
    p = torch.stack([x.softmax(0) for x, _ in pairs.values()])
    q = torch.stack([x.softmax(0) for _, x in pairs.values()])
    return p.to(dtype), q.to(dtype), list(pairs)


def exact_owed(p: torch.Tensor, q: torch.Tensor, a: float, b: float) -> list[float]:
    """(a q - b p)+, each entry exact but for the last rounding to float64."""
    total = []
    for x, y in zip(p.tolist(), q.tolist(), strict=True):
        total.append(max(float(Fraction(a) * Fraction(y) - Fraction(b) * Fraction(x)), 0.0))
    return total


@pytest.mark.parametrize(
    ("vocab", "dtype"),
    [
        (7, torch.float64),
        (3000, torch.float64),
        (3000, torch.float32),
        (LANES + 9, torch.float32),
    ],
)
def test_masses_and_residual_rows(vocab: int, dtype: torch.dtype) -> None:
    """|S~ - S| and Σ|W~ - W| stay below the bound of their dtype and V."""
    p, q, names = adversarial_rows(vocab, dtype)
    index = torch.arange(len(names))
    rows = Rows(p, q, index, index)
    for a in (1.0, 0.37):
        masses = owed_mass(rows, torch.full((len(names),), a, dtype=torch.float64))
        for r, name in enumerate(names):
            exact = exact_owed(p[r], q[r], a, 1.0)
            got = (q[r] * a - p[r]).relu().double().tolist()
            error = abs(float(masses[r]) - math.fsum(exact))
            row_error = math.fsum(abs(x - y) for x, y in zip(got, exact, strict=True))
            bound = sum_bound(dtype, vocab)
            print(
                f"{dtype} V={vocab} a={a} {name}: S {error:.1e}, row {row_error:.1e}, {bound:.1e}"
            )
            assert error <= bound
            assert row_error <= bound


def test_sums_at_full_size() -> None:
    """V = 151,936 in float32: the sum against fsum, which is exact."""
    generator = torch.Generator().manual_seed(4)
    for spread in (0.0, 1.0, 12.0):
        x = (spread * torch.randn(2, 151_936, generator=generator)).softmax(1)
        for row, got in zip(x, row_sums(x), strict=True):
            exact = math.fsum(row.tolist())
            error = abs(float(got) - exact) / exact
            bound = (math.ceil(151_936 / LANES) + 3) * unit_roundoff(torch.float32) + 12 * 2.0**-53
            print(f"sum of 151,936, spread {spread}: relative error {error:.1e}, bound {bound:.1e}")
            assert error <= bound


def test_the_bound_is_not_vacuous() -> None:
    """A float32 running sum in one lane, the plain loop, breaks the bound of the sums."""
    x = torch.full((1, 151_936), 1.0 / 151_936)
    x[0, 0] = 1.0
    lane = torch.tensor(0.0)
    for value in x[0]:
        lane = lane + value
    error = abs(float(lane) - math.fsum(x[0].tolist())) / 2
    assert error > (math.ceil(151_936 / LANES) + 3) * unit_roundoff(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_type_masses_keep_their_precision(dtype: torch.dtype) -> None:
    vocab = 1500
    p, q, names = adversarial_rows(vocab, dtype)
    index = torch.arange(len(names))
    edges = torch.tensor([0.0, 0.0625, 0.5, 1.0, 2.0, 16.0, 64.0], dtype=torch.float64)
    got = ratio_masses(Rows(p, q, index, index), edges)
    e = [Fraction(x) for x in edges.tolist()]
    for r, name in enumerate(names):
        exact = [Fraction(0)] * len(e)
        for x, y in zip(p[r].tolist(), q[r].tolist(), strict=True):
            if x == 0:
                continue
            ratio = min(Fraction(y) / Fraction(x), e[-1])
            b = max(i for i in range(len(e) - 1) if e[i] <= ratio)
            f = (ratio - e[b]) / (e[b + 1] - e[b])
            exact[b] += Fraction(x) * (1 - f)
            exact[b + 1] += Fraction(x) * f
        drift = sum(abs(float(Fraction(float(g)) - x)) for g, x in zip(got[r], exact, strict=True))
        bound = 8 * unit_roundoff(dtype) + sum_bound(dtype, vocab)
        print(f"{dtype} types of {name}: drift {drift:.1e}, bound {bound:.1e}")
        assert drift <= bound


def _tables(vocab: int, length: int, dtype: torch.dtype, near: bool) -> tuple[Table, Table]:
    generator = torch.Generator().manual_seed(5)
    draft, target = {}, {}
    for depth in range(length + 1):
        for prefix in itertools.product(range(vocab), repeat=depth):
            x = 2 * torch.randn(vocab, generator=generator, dtype=torch.float64)
            y = x + 1e-4 * torch.randn(vocab, generator=generator, dtype=torch.float64)
            z = 2 * torch.randn(vocab, generator=generator, dtype=torch.float64)
            draft[prefix] = x.softmax(0).to(dtype)
            target[prefix] = (y if near else z).softmax(0).to(dtype)
    return draft, target


def _share(row: torch.Tensor, token: int) -> torch.Tensor:
    return row[token].double() / math.fsum(row.tolist())


def _implied_law(
    scheme: str, draft: Table, target: Table, vocab: int, length: int
) -> dict[tuple[int, ...], float]:
    """The law of (accepted, next) of a one-draft scheme, from the outside.

    The thresholds at which its decisions change are found by bisection on the uniforms, for all
    paths at once; the drafts have the law of the draft rows.
    """
    paths = list(itertools.product(range(vocab), repeat=length))
    tokens = torch.tensor(paths)[:, None]
    count = len(paths)
    rows = [torch.stack([draft[x[:i]] for i in range(length)]) for x in paths]
    targets = [torch.stack([target[x[:i]] for i in range(length + 1)]) for x in paths]
    batch = Batch.from_paths(tokens, torch.stack(rows)[:, None], torch.stack(targets)[:, None])
    top = 1 - 2.0**-53

    def run(accept: torch.Tensor, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = verify(scheme, batch, Uniforms(accept[:, None], None, token), validate=False)
        return result.accepted_length, result.next_token

    def bisect(reached: object) -> torch.Tensor:
        """The least uniform at which `reached` [paths] becomes true."""
        low, high = torch.zeros(count, dtype=torch.float64), torch.ones(count, dtype=torch.float64)
        for _ in range(54):
            middle = (low + high) / 2
            yes = reached(middle.clamp(max=top))  # type: ignore[operator]
            low, high = torch.where(yes, low, middle), torch.where(yes, middle, high)
        return high

    def with_test(depth: int, u: torch.Tensor) -> torch.Tensor:
        """Uniforms that reach the test at `depth` and no other decision before it."""
        scan = scheme != "token_by_token"
        base = torch.full((count, length), top if scan else 0.0, dtype=torch.float64)
        if not scan:
            base[:, depth:] = top
        base[:, depth - 1] = u
        return base

    half = torch.full((count,), 0.5, dtype=torch.float64)
    h = torch.zeros(count, length + 1, dtype=torch.float64)
    for depth in range(1, length + 1):
        h[:, depth] = bisect(lambda u, d=depth: run(with_test(d, u), half)[0] < d)
    law: dict[tuple[int, ...], float] = {}
    probability = torch.ones(count, dtype=torch.float64)
    for i in range(length):
        probability *= torch.stack([_share(draft[x[:i]], x[i]) for x in paths])
    for depth in range(length + 1):
        if scheme == "token_by_token":
            stop = h[:, 1 : depth + 1].prod(1) * (1 - h[:, depth + 1] if depth < length else 1)
        else:
            stop = (1 - h[:, depth + 1 :]).prod(1) * (h[:, depth] if depth else 1)
        forced = with_test(depth, torch.zeros(count, dtype=torch.float64))
        if depth == 0:
            forced = torch.full((count, length), top, dtype=torch.float64)
        if scheme == "token_by_token":
            forced[:, :depth], forced[:, depth:] = 0.0, top
        lower = torch.zeros(count, dtype=torch.float64)
        for v in range(vocab):
            upper = bisect(lambda u, f=forced, w=v: run(f, u)[1] > w)
            mass = probability * stop * (upper - lower)
            lower = upper
            for x, m in zip(paths, mass.tolist(), strict=True):
                key = (*x[:depth], v)
                law[key] = law.get(key, 0.0) + m
    return law


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scheme", ["token_by_token", "block"])
def test_implied_law(scheme: str, dtype: torch.dtype, near: bool) -> None:
    """The law that the thresholds imply, continued by the target, against the target's law."""
    vocab, length = 3, 2
    draft, target = _tables(vocab, length, dtype, near)
    law = _implied_law(scheme, draft, target, vocab, length)

    def exact(table: Table) -> dict[tuple[int, ...], list[Fraction]]:
        made = {}
        for prefix, row in table.items():
            entries = [Fraction(x) for x in row.tolist()]
            made[prefix] = [x / sum(entries) for x in entries]
        return made

    p, q = exact(draft), exact(target)
    instance = Instance(
        vocab,
        1,
        length,
        {x: tuple(r) for x, r in p.items() if len(x) < length},
        {x: tuple(r) for x, r in q.items()},
    )
    wanted = {(*x, v): m for (x, v), m in exact_law(scheme, instance).items()}
    keys = set(law) | set(wanted)
    distance = sum(abs(law.get(k, 0.0) - float(wanted.get(k, 0))) for k in keys) / 2
    defect = max(
        abs(float(sum(Fraction(x) for x in row.tolist())) - 1)
        for row in (*draft.values(), *target.values())
    )
    bound = law_bound(dtype, vocab, length, defect=defect)
    print(f"{scheme} {dtype} near={near}: total variation {distance:.1e}, bound {bound:.1e}")
    assert distance <= bound


def _ends(batch: Batch) -> list[Uniforms]:
    """All uniforms 0, all of them the largest, and both mixtures."""
    b, k, n = batch.tokens.shape
    made = []
    for accept, token in itertools.product((0.0, 1 - 2.0**-53), repeat=2):
        made.append(
            Uniforms(
                torch.full((b, k, n), accept, dtype=torch.float64),
                torch.full((b, k), accept, dtype=torch.float64),
                torch.full((b,), token, dtype=torch.float64),
            )
        )
    return made


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scheme", sorted(VERIFIERS))
def test_nothing_impossible_is_emitted(scheme: str, dtype: torch.dtype) -> None:
    """At u = 0 and at the largest u, on hard rows: tokens in range, of positive target mass."""
    vocab = 70
    p, q, names = adversarial_rows(vocab, dtype)
    drafts, length = (1 if scheme in ("token_by_token", "block", "greedy_block") else 3), 3
    count = len(names)
    generator = torch.Generator().manual_seed(1)
    size = (count, drafts, length)
    weights = p.double().clamp(min=1e-30)
    tokens = torch.multinomial(weights, drafts * length, True, generator=generator).view(size)
    draft = p[:, None, None].expand(count, drafts, length, vocab)
    target = q[:, None, None].expand(count, drafts, length + 1, vocab)
    batch = Batch.from_paths(tokens, draft, target)
    for uniforms in _ends(batch):
        result = verify(scheme, batch, uniforms, validate=False)
        assert (result.next_token >= 0).all()
        assert (result.next_token < vocab).all()
        chance = q[torch.arange(count), result.next_token]
        assert (chance > 0).all(), [names[i] for i in (chance <= 0).nonzero()[:, 0].tolist()]
        for b in range(count):
            for token in result.tokens[b, : result.accepted_length[b]].tolist():
                assert q[b, token] > 0
        if result.carry is not None:
            assert not result.carry.ratio.isnan().any()


@pytest.mark.parametrize("scheme", sorted(VERIFIERS))
def test_long_blocks_do_not_overflow(scheme: str) -> None:
    """L = 64 with ratios of 1e30 and 1e-30 at each position: no NaN, nothing out of range."""
    length, vocab = 64, 4
    drafts = 1 if scheme in ("token_by_token", "block", "greedy_block") else 2
    tiny = 1e-30
    up = torch.tensor([[tiny, 0.5, 0.25, 0.25], [0.5, tiny, 0.25, 0.25]])
    tokens = torch.zeros(2, drafts, length, dtype=torch.int64)
    tokens[:, :, ::2] = 1
    draft = torch.stack([up, up.flip(0)])[:, None, None].repeat(1, drafts, length // 2, 1, 1)
    draft = draft.flatten(2, 3)
    target = torch.cat([draft, draft[:, :, :1]], 2).roll(1, 2)
    batch = Batch.from_paths(tokens, draft, target)
    for uniforms in _ends(batch):
        result = verify(scheme, batch, uniforms)
        assert ((result.next_token >= 0) & (result.next_token < vocab)).all()
        if result.carry is not None:
            assert not result.carry.ratio.isnan().any()


def test_draws_avoid_weight_zero() -> None:
    vocab = 3 * LANES // 2
    p, q, names = adversarial_rows(vocab, torch.float32)
    index = torch.arange(len(names))
    rows = Rows(p, q, index, index)
    one = torch.ones(len(names), dtype=torch.float64)
    for u in (0.0, 1e-300, 0.5, 1 - 2.0**-53):
        token = draw(rows, u * one, Owed(one, one))
        weight = (q - p).relu()
        some = weight.sum(1) > 0
        chosen = torch.where(some, weight[index, token], q[index, token])
        assert (chosen > 0).all()
    gone = Overrides(torch.zeros(len(names), 1, dtype=torch.int64), torch.zeros(len(names), 1))
    assert (draw(rows, 0 * one, Owed(one, 0 * one), gone) > 0).all()
