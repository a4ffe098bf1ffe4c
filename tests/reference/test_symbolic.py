"""The symbolic proofs: what they prove, that they see planted faults, that no cell is lost.

`make symbolic` runs all proofs, block and greedy block at V = 2, L = 2 among them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from draftproof.reference.chance import TOKEN, Accept
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.scheme import Outcome
from draftproof.reference.verifiers import block, greedy_block

SYMBOLIC = Path(__file__).parents[2] / "proofs" / "symbolic"


@pytest.fixture(scope="module")
def prove() -> Iterator[Any]:
    sys.path.insert(0, str(SYMBOLIC))
    try:
        import prove

        yield prove
    finally:
        sys.path.remove(str(SYMBOLIC))


@pytest.fixture(scope="module")
def cells(prove: Any) -> Any:
    return sys.modules["cells"]


@pytest.mark.parametrize("name", ["maximal, V = 2", "maximal, V = 3"])
def test_maximal_is_lossless_on_all_real_rows(prove: Any, name: str) -> None:
    count, refused = prove.prove(prove.PROOFS[name])
    assert count > 5
    assert refused == 0


def test_kseq_is_lossless_for_every_scale_that_it_takes(prove: Any) -> None:
    count, refused = prove.prove(prove.PROOFS["kseq, V = 2, K = 2, any ρ"])
    assert count > 5
    assert refused > 0  # the cells of scales that are not valid


@pytest.mark.parametrize("verify", [block.verify, greedy_block.verify])
def test_block_rules_at_length_one(prove: Any, verify: Any) -> None:
    assert prove.prove(prove.Proof(verify, 2, 1, 1))[0] > 5


def test_independent_trials_are_refuted_by_a_symbolic_gap(prove: Any) -> None:
    cell, emitted, gap = prove.gap_of(prove.REFUTED["independent_trials, V = 2, K = 2"])
    assert len(emitted) in (1, 2)
    assert not gap.value.numer.is_ground
    assert not cell.is_empty()


def test_the_published_gap_of_independent_trials(prove: Any, cells: Any) -> None:
    """With p(1) = 1 the gap is q(0)² - q(0): at q = (1/2, 1/2) token 1 has 3/4 instead of 1/2."""
    proof = prove.REFUTED["independent_trials, V = 2, K = 2"]
    seen = []
    for cell, gaps in prove._gaps(proof):
        gap = cell.reduce(gaps[(0,)].value.numer)
        at = {"p_0": Fraction(0), "q_0": Fraction(1, 2), "q0_0": Fraction(1), "q1_0": Fraction(1)}
        if all(
            ((value := float(atom.as_expr().subs(at))) > 0) - (value < 0) in signs
            for atom, signs in cell.signs.items()
        ):
            seen.append(gap.as_expr().subs(at) / gaps[(0,)].value.denom.as_expr().subs(at))
    assert [float(value) for value in seen] == [-0.25]


# Planted faults: every one must be refuted.


def one_draft(residual: Any, accepted: Any = None) -> Any:
    def verify(chance: Any, drafts: Any, draft: Any, target: Any) -> Outcome:
        token, p, q = drafts.token(0, 1), draft(()), target(())
        h = min(1, q[token] / p[token]) if p[token] != 0 else 0
        if chance.flip(accepted(h, p, q, token) if accepted else h, Accept(0, 1)):
            return Outcome((token,), chance.draw(target((token,)), TOKEN))
        return Outcome((), chance.draw(residual(p, q), TOKEN))

    return verify


def true_residual(p: Any, q: Any) -> Any:
    return row_or_plain(excess(p, q), q)


FAULTS = {
    "residual replaced by the target row": one_draft(lambda p, q: q),
    "always accepted": one_draft(true_residual, lambda h, p, q, token: 1),
    "accepted a little too often": one_draft(
        true_residual, lambda h, p, q, token: h + (1 - h) * h * Fraction(1, 1000)
    ),
    # Wrong on a set of measure zero alone: no random test would ever see it.
    "token 0 where p = q exactly": one_draft(
        true_residual,
        lambda h, p, q, token: h if p[0] != q[0] or token == 0 else h * Fraction(1, 2),
    ),
}


def test_the_planted_form_without_a_fault_is_proved(prove: Any) -> None:
    assert prove.prove(prove.Proof(one_draft(true_residual), 2, 1, 1))[0] > 5


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_refuted(prove: Any, name: str) -> None:
    with pytest.raises(prove.Refuted):
        prove.prove(prove.Proof(FAULTS[name], 2, 1, 1))


def test_a_test_that_is_no_probability_is_refuted(prove: Any) -> None:
    def ratio(h: Any, p: Any, q: Any, token: int) -> Any:
        return q[token] / p[token] if p[token] != 0 else 0

    with pytest.raises(prove.Refuted, match="is not a probability"):
        prove.prove(prove.Proof(one_draft(true_residual, ratio), 2, 1, 1))


# The cells: nothing that has a point is ever declared empty.


def test_a_cell_with_a_point_is_never_empty(cells: Any) -> None:
    generator = random.Random(0)
    for _ in range(150):
        space = cells.Space(["a0", "b0"])
        (a, _), (b, _) = space.row("a", 2), space.row("b", 2)
        point = [Fraction(generator.randint(0, 4), 4) for _ in range(2)]
        cell = cells.Cell(space, {}, ())  # without the help of sample points
        for _ in range(3):
            c = [generator.randint(-2, 2) for _ in range(5)]
            polynomial = (c[0] + c[1] * a + c[2] * b + c[3] * a * b + c[4] * a * a).value.numer
            if polynomial.is_ground:
                continue
            _, factors = polynomial.factor_list()
            for atom, _ in factors:
                atom, _ = cells._canonical(atom)
                value = atom.as_expr().subs(dict(zip(("a0", "b0"), point, strict=True)))
                sign = frozenset({int(bool(value > 0)) - int(bool(value < 0))})
                cell = cells.Cell(space, {**cell.signs, atom: sign}, ())
        assert not cell.is_empty()


def test_contradictions_are_found(cells: Any) -> None:
    space = cells.Space(["a0", "b0"])
    (a, _), (b, _) = space.row("a", 2), space.row("b", 2)

    def atom(quantity: Any) -> Any:
        return cells._canonical(quantity.value.numer)[0]

    positive, zero = frozenset({1}), frozenset({0})
    assert cells.Cell(space, {atom(a + b): frozenset({-1})}, ()).is_empty()
    # a b > 0 and a = 0
    assert cells.Cell(space, {atom(a * b): positive, atom(a): zero}, ()).is_empty()
    # (1 - a) b + a = 0 and a > 0: a product of two bounds is needed
    assert cells.Cell(space, {atom(a): positive, atom(b - a * b + a): zero}, ()).is_empty()


def test_quantities_compare_only_inside_a_cell(cells: Any) -> None:
    space = cells.Space(["a0"])
    a, rest = space.row("a", 2)
    outcomes = sorted(result for _, result in cells.explore(space, lambda: min(a, rest) == a))
    assert outcomes == [False, True]
    assert [r for _, r in cells.explore(space, lambda: a + rest == 1)] == [True]
    assert [r for _, r in cells.explore(space, lambda: a * rest <= Fraction(1, 4))] == [True]
    with pytest.raises(ZeroDivisionError):
        list(cells.explore(space, lambda: 1 / (a - a)))
