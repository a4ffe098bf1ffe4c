"""The optima, each by at least two roads, as equalities of fractions with checked certificates."""

from __future__ import annotations

import builtins
import random
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pytest
import sympy
from draftproof.conformance.comparison import dirichlet_instance
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.instance import Instance, random_instance
from draftproof.reference.linear_program import (
    CertificateError,
    Optimum,
    Program,
    check_certificate,
    solve,
)
from draftproof.reference.models import block_law
from draftproof.reference.numbers import ONE, ZERO, rational, total
from draftproof.reference.optima import (
    acceptance_by_program,
    acceptance_by_sorted_prefix,
    acceptance_by_subsets,
    conditional_independence_value,
    draft_sets,
    full_optimum,
    full_selection_optimum,
    full_selection_optimum_by_subsets,
    independent_draft_sets,
    stateless_optimum,
    stateless_selection_optimum,
)
from draftproof.reference.oracle import expected_accepted_length

SIZES = ((2, 2, 2), (3, 1, 2), (3, 2, 1), (2, 3, 1), (2, 2, 3), (3, 2, 2), (2, 3, 2))


def instances(seed: str, sizes: Any = SIZES, count: int = 2) -> list[Instance]:
    generator = random.Random(seed)
    return [
        random_instance(generator, V, L, K, kind=kind)
        for V, L, K in sizes
        for kind in ("generic", "mixed")
        for _ in range(count)
    ]


def test_one_token_optimum_three_ways() -> None:
    generator = random.Random(0)
    for _ in range(150):
        V, K = generator.randint(1, 4), generator.randint(0, 3)
        instance = random_instance(generator, V, 1, K, kind="mixed")
        p, q = instance.draft_model(()), instance.target_model(())
        value = acceptance_by_sorted_prefix(p, q, K)
        if K == 0:
            assert value == 0
            continue
        sets = independent_draft_sets(p, K)
        assert value == acceptance_by_subsets(sets, q) == acceptance_by_program(sets, q).value
        assert value == full_optimum(instance).value == stateless_optimum(instance).value


def test_one_token_optimum_of_any_draft_law() -> None:
    """Drafts without replacement, and one fixed set."""
    generator = random.Random(1)
    for _ in range(40):
        instance = random_instance(generator, 4, 1, 2)
        p, q = instance.draft_model(()), instance.target_model(())
        pairs: dict[frozenset[int], Any] = {}
        for x in range(4):
            for y in range(4):
                if x != y and p[x] != 1:
                    key = frozenset({x, y})
                    pairs[key] = pairs.get(key, ZERO) + p[x] * p[y] / (1 - p[x])
        pairs = {key: chance for key, chance in pairs.items() if chance != 0}
        if sum(pairs.values()) == 1:
            assert acceptance_by_subsets(pairs, q) == acceptance_by_program(pairs, q).value
        assert acceptance_by_subsets({frozenset({0, 2}): ONE}, q) == q[0] + q[2]


def test_one_draft_optimum_is_the_maximal_coupling() -> None:
    p = (rational("1/2"), rational("1/2"))
    q = (rational("3/4"), rational("1/4"))
    assert acceptance_by_sorted_prefix(p, q, 1) == rational("3/4")
    assert acceptance_by_sorted_prefix(p, q, 2) == 1  # 1 + min(0, q(1) - 1/4, 1 - 1)


def test_draft_sets_are_multisets_with_multinomial_weights() -> None:
    instance = random_instance(random.Random(2), 2, 2, 3, denominator=97)
    sets = draft_sets(instance.draft_model, 2, 3)
    by_order: dict[frozenset[Any], Any] = {}
    law = block_law(instance.draft_model, 2)
    for x, a in law.items():
        for y, b in law.items():
            for z, c in law.items():
                key = frozenset({x, y, z})
                by_order[key] = by_order.get(key, ZERO) + a * b * c
    assert sets == by_order
    assert len(list(combinations_with_replacement(law, 3))) > len(sets)


@pytest.mark.parametrize("instance", instances("selection"))
def test_selection_form_equals_the_programs(instance: Instance) -> None:
    stateless, full = stateless_optimum(instance).value, full_optimum(instance).value
    assert stateless_selection_optimum(instance).value == stateless
    assert full_selection_optimum(instance).value == full
    if instance.vocab**instance.length <= 4:
        assert full_selection_optimum_by_subsets(instance).value == full
    assert stateless <= full <= instance.length


@pytest.mark.parametrize("instance", instances("one draft", ((2, 2, 1), (3, 2, 1), (2, 3, 1)), 5))
def test_block_and_greedy_block_are_optimal(instance: Instance) -> None:
    assert expected_accepted_length("block", instance) == stateless_optimum(instance).value
    assert expected_accepted_length("greedy_block", instance) == full_optimum(instance).value
    # With one draft, independence given the target restricts nothing.
    assert conditional_independence_value(instance) == full_optimum(instance).value


@pytest.mark.parametrize("instance", instances("bounds", ((2, 2, 2), (3, 1, 3)), 2))
def test_no_lossless_scheme_exceeds_its_optimum(instance: Instance) -> None:
    stateless, full = stateless_optimum(instance).value, full_optimum(instance).value
    for name, scheme in SCHEMES.items():
        if not scheme.lossless or scheme.draft_law not in ("iid", "independent", "any"):
            continue
        if scheme.kind == "coupling" and instance.length > 1:
            continue
        least, most = scheme.drafts
        drafts = instance.drafts if most is None else min(most, instance.drafts)
        if drafts >= least:
            value = expected_accepted_length(name, replace(instance, drafts=drafts))
            assert value <= (full if scheme.stateful else stateless), name


def test_the_published_value_is_not_an_optimum() -> None:
    """L = 1, K = 2, p = (1/2, 1/2), q = (3/4, 1/4): it says 11/12, the true optimum is 1."""
    rows = {(): (rational("1/2"), rational("1/2"))}
    q = (rational("3/4"), rational("1/4"))
    instance = Instance(2, 2, 1, rows, {(): q, (0,): q, (1,): q})
    assert conditional_independence_value(instance) == rational("11/12")
    assert full_optimum(instance).value == stateless_optimum(instance).value == 1


def test_optima_without_drafts_are_zero() -> None:
    instance = random_instance(random.Random(4), 2, 2, 0)
    assert stateless_optimum(instance).value == full_optimum(instance).value == 0
    fixed = random_instance(random.Random(4), 2, 2, 1, draft_law="fixed")
    with pytest.raises(ValueError, match="the optima are of"):
        full_optimum(fixed)


# The solver itself.


def small_program() -> Program:
    """maximise x + 2y, x + y <= 4, y <= 3, x - y >= -2, x + z = 3: 2 + 2·2 ... see the test."""
    program = Program({"x": ONE, "y": 2 * ONE})
    program.require({"x": ONE, "y": ONE}, "<=", rational(4))
    program.require({"y": ONE}, "<=", rational(3))
    program.require({"x": ONE, "y": -ONE}, ">=", rational(-2))
    program.require({"x": ONE, "z": ONE}, "=", rational(3))
    return program


@pytest.mark.parametrize("method", ["highs", "exact"])
def test_known_program(method: Any) -> None:
    optimum = solve(small_program(), method)
    assert optimum.value == 7  # x = 1, y = 3, z = 2
    assert optimum.primal == {"x": 1, "y": 3, "z": 2}


def test_both_proposers_agree_on_random_programs() -> None:
    generator = random.Random(7)
    for _ in range(40):
        instance = random_instance(generator, 2, 1, generator.randint(1, 3), kind="mixed")
        sets = independent_draft_sets(instance.draft_model(()), instance.drafts)
        program = Program()
        for drafts, chance in sets.items():
            for v in range(2):
                program.gain[drafts, v] = ONE if v in drafts else ZERO
            program.require({(drafts, v): ONE for v in range(2)}, "=", chance)
        for v in range(2):
            program.require({(d, v): ONE for d in sets}, "=", instance.target_model(())[v])
        assert solve(program, "highs").value == solve(program, "exact").value


def test_drafts_that_are_less_likely_than_the_tolerance_of_the_float_solver() -> None:
    """Some sets of drafts have probability 4e-18: HiGHS ignores them, and its point is infeasible
    in truth. Exact dual simplex steps put it right."""
    instance = dirichlet_instance(0, 3, 2, 3)
    assert min(draft_sets(instance.draft_model, 2, 3).values()) < rational("1e-17")
    assert full_optimum(instance).value == full_selection_optimum(instance).value
    assert stateless_optimum(instance).value == stateless_selection_optimum(instance).value


def test_the_infeasible_basis_of_the_float_solver_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same instance without the exact steps."""
    from draftproof.reference import linear_program, optima

    monkeypatch.setattr(linear_program, "_made_feasible", lambda standard, basis: basis)
    monkeypatch.setattr(optima, "solve", partial(solve, method="highs"))
    with pytest.raises(CertificateError, match="primal"):
        full_optimum(dirichlet_instance(0, 3, 2, 3))


def test_sparse_elimination() -> None:
    from draftproof.reference.linear_program import _eliminate

    generator = random.Random(3)
    solved = 0
    for _ in range(60):
        n = generator.randint(1, 7)
        rows = [
            {k: rational(generator.randint(-3, 3)) / 2 for k in generator.sample(range(n), 3)}
            if n > 2
            else {k: rational(generator.randint(1, 5)) for k in range(n)}
            for _ in range(n)
        ]
        rows = [{k: a for k, a in row.items() if a != 0} for row in rows]
        right = [rational(generator.randint(-9, 9)) for _ in range(n)]
        try:
            found = _eliminate([dict(row) for row in rows], right)
        except CertificateError:
            dense = sympy.Matrix(n, n, lambda i, k: sympy.Rational(str(rows[i].get(k, 0))))  # noqa: B023
            assert dense.det() == 0
            continue
        solved += 1
        for row, value in zip(rows, right, strict=True):
            assert total(a * found[k] for k, a in row.items()) == value
    assert solved > 20


def test_without_accelerators_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_instance(random.Random(9), 2, 2, 2)
    expected = stateless_optimum(instance).value
    real_import = builtins.__import__

    def no_accelerator(name: str, *args: Any) -> Any:
        if name == "highspy":
            raise ImportError(name)
        return real_import(name, *args)

    from draftproof.reference import linear_program

    linear_program._highs.cache_clear()
    monkeypatch.setattr(builtins, "__import__", no_accelerator)
    assert stateless_optimum(instance).value == expected


def test_infeasible_and_unbounded_programs_are_errors() -> None:
    infeasible = Program({"x": ONE})
    infeasible.require({"x": ONE}, "=", ONE)
    infeasible.require({"x": ONE}, "<=", ZERO)
    unbounded = Program({"x": ONE})
    unbounded.require({"x": ONE}, ">=", ONE)
    for method in ("highs", "exact"):
        with pytest.raises(ValueError, match="no feasible point"):
            solve(infeasible, method)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no finite optimum"):
            solve(unbounded, method)  # type: ignore[arg-type]


def corrupted(optimum: Optimum) -> list[tuple[str, Optimum]]:
    dual = list(optimum.dual)
    raised = [dual[0] + 1, *dual[1:]]
    lowered = [dual[0] - 1, *dual[1:]]
    return [
        ("not equal", replace(optimum, value=optimum.value + rational("1/1000000"))),
        ("not equal", replace(optimum, dual=tuple(raised))),
        ("dual", replace(optimum, dual=tuple(lowered))),
        ("primal: constraint", replace(optimum, primal={**optimum.primal, "y": rational("31/10")})),
        ("primal: 'x' is negative", replace(optimum, primal={**optimum.primal, "x": -ONE})),
    ]


def test_a_corrupted_certificate_is_refused() -> None:
    program = small_program()
    optimum = solve(program)
    check_certificate(program, optimum)
    for message, wrong in corrupted(optimum):
        with pytest.raises(CertificateError, match=message):
            check_certificate(program, wrong)


def test_a_wrong_basis_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: the float solver stops at a vertex that is not optimal."""
    from draftproof.reference import linear_program

    program = small_program()
    # The slack basis with z basic in the last row: feasible, value 0.
    monkeypatch.setattr(linear_program, "_propose_by_highs", lambda standard: [3, 4, 5, 2])
    with pytest.raises(CertificateError, match="dual"):
        solve(program, "highs")
    assert solve(program).value == 7  # "auto" falls back on the exact simplex method
