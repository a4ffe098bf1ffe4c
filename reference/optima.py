"""Optima: the most that any scheme of a class can accept, with exact certificates.

One token: α*, three ways. Blocks: the full-coupling optimum (any joint law of drafts and block),
the stateless optimum (continue from the unmodified target), each as a linear program over what may
be emitted and again in the selection form "select one draft, then verify it alone", and the
conditional-independence value of 2604.25925, a yardstick that is not an optimum.

Drafts are K i.i.d. paths. Only the *set* of distinct paths matters to a coupling, and i.i.d. drafts
are exchangeable, so the programs have one block of variables for each set, weighted by the
probability that the drafts form it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, combinations_with_replacement, product
from math import factorial, prod
from typing import Any

from draftproof.reference.instance import Instance
from draftproof.reference.law import Law
from draftproof.reference.linear_program import Optimum, Program, solve
from draftproof.reference.models import Model, Prefix, block_law, joint
from draftproof.reference.numbers import ONE, ZERO, Number, total
from draftproof.reference.rows import Row

__all__ = [
    "acceptance_by_program",
    "acceptance_by_sorted_prefix",
    "acceptance_by_subsets",
    "conditional_independence_value",
    "draft_sets",
    "full_optimum",
    "full_selection_optimum",
    "full_selection_optimum_by_subsets",
    "independent_draft_sets",
    "stateless_optimum",
    "stateless_selection_optimum",
]

Paths = frozenset[Prefix]


def draft_sets(draft: Model, length: int, drafts: int) -> dict[Paths, Number]:
    """P(the K i.i.d. drafts form this set of paths): multisets with multinomial weights."""
    paths = list(block_law(draft, length).items())
    sets: dict[Paths, Number] = {}
    for multiset in combinations_with_replacement(paths, drafts):
        names = [path for path, _ in multiset]
        orders = factorial(drafts) // prod(factorial(names.count(path)) for path in set(names))
        chance = orders * prod((weight for _, weight in multiset), start=ONE)
        key = frozenset(names)
        sets[key] = sets.get(key, ZERO) + chance
    return sets


def independent_draft_sets(draft_row: Row, drafts: int) -> Law[frozenset[int]]:
    """The law of the set of K i.i.d. one-token drafts."""
    model = Model(len(draft_row), lambda prefix: draft_row)
    return Law(
        (frozenset(path[0] for path in paths), chance)
        for paths, chance in draft_sets(model, 1, drafts).items()
    )


# One token.


def acceptance_by_sorted_prefix(draft_row: Row, target_row: Row, drafts: int) -> Number:
    """α* = 1 + min_H [q(H) - p(H)^K] for i.i.d. drafts, in O(V log V).

    A minimiser is a prefix of the tokens sorted by q/p ascending, since for a given p(H) the set
    with the least q(H) takes the tokens of least ratio.
    """
    with_draft = [v for v, p in enumerate(draft_row) if p != 0]
    with_draft.sort(key=lambda v: target_row[v] / draft_row[v])
    best, p_mass, q_mass = ONE, ZERO, ZERO
    if drafts == 0:
        return ZERO
    for v in with_draft:
        p_mass, q_mass = p_mass + draft_row[v], q_mass + target_row[v]
        best = min(best, ONE + q_mass - p_mass**drafts)
    return best


def acceptance_by_subsets(sets: Mapping[frozenset[int], Number], target_row: Row) -> Number:
    """α* = 1 + min_H [q(H) - P(all drafts ∈ H)] over all 2^V sets H, for any draft law."""
    tokens = range(len(target_row))
    return min(
        ONE
        + total(target_row[v] for v in H)
        - total(chance for drafts, chance in sets.items() if drafts <= frozenset(H))
        for size in range(len(target_row) + 1)
        for H in combinations(tokens, size)
    )


def acceptance_by_program(sets: Mapping[frozenset[int], Number], target_row: Row) -> Optimum:
    """α* as optimal transport with membership cost, for any draft law: a certified optimum.

    Variables are joint probabilities of (set of drafts, emitted token).
    """
    program = Program()
    tokens = range(len(target_row))
    for drafts, chance in sets.items():
        for v in tokens:
            program.gain[drafts, v] = ONE if v in drafts else ZERO
        program.require({(drafts, v): ONE for v in tokens}, "=", chance)
    for v in tokens:
        program.require({(drafts, v): ONE for drafts in sets}, "=", target_row[v])
    return solve(program)


# Blocks.


def _is_iid(instance: Instance) -> None:
    if instance.draft_law != "iid":
        raise ValueError(f"the optima are of i.i.d. drafts, not of {instance.draft_law!r} ones")


def _nodes(paths: Iterable[Prefix]) -> set[Prefix]:
    return {path[:depth] for path in paths for depth in range(len(path) + 1)}


def _sets(instance: Instance) -> dict[Paths, Number]:
    _is_iid(instance)
    if instance.drafts == 0:
        return {frozenset({()}): ONE}  # the tree of no drafts has a root all the same
    return draft_sets(instance.draft_model, instance.length, instance.drafts)


def conditional_independence_value(instance: Instance) -> Number:
    """Σ_i Σ_{x^i} q(x^i) [1 - (1 - min(1, p(x^i)/q(x^i)))^K], the E[τ] stated in 2604.25925.

    The optimum over couplings in which the drafts are independent given the target; real drafts are
    independent unconditionally, so it bounds nothing.
    """
    _is_iid(instance)
    value = ZERO
    for depth in range(1, instance.length + 1):
        for x, q in block_law(instance.target_model, depth).items():
            covered = min(ONE, joint(instance.draft_model, x) / q)
            value += q * (1 - (1 - covered) ** instance.drafts)
    return value


def full_optimum(instance: Instance) -> Optimum:
    """max E[τ] over all joint laws of the drafts and the block Y ~ q^L: carries are allowed.

    Variables: joint probabilities of (set of drafts, Y). The accepted length is the longest prefix
    of Y in the draft tree.
    """
    program = Program()
    sets = _sets(instance)
    truth = block_law(instance.target_model, instance.length)
    for paths, chance in sets.items():
        nodes = _nodes(paths)
        for y in truth:
            depth = 0
            while depth < len(y) and y[: depth + 1] in nodes:
                depth += 1
            program.gain[paths, y] = ONE * depth
        program.require({(paths, y): ONE for y in truth}, "=", chance)
    for y, chance in truth.items():
        program.require({(paths, y): ONE for paths in sets}, "=", chance)
    return solve(program)


def stateless_optimum(instance: Instance) -> Optimum:
    """max E[τ] over all schemes that go on from the unmodified target.

    Variables f(T, u, x): the drafts form the tree T, the node u of it is accepted, x is the next
    token. For every y of L + 1 tokens, Σ f(T, u, x) q(y | u x) over the prefixes u x of y is q(y).
    """
    program = Program()
    target = instance.target_model
    emitted: dict[Prefix, dict[tuple[Paths, Prefix, int], Any]] = {}
    for paths, chance in _sets(instance).items():
        terms = {}
        for u in _nodes(paths):
            for x in range(instance.vocab):
                if joint(target, (*u, x)) != 0:  # otherwise f must be 0
                    program.gain[paths, u, x] = ONE * len(u)
                    terms[paths, u, x] = ONE
                    emitted.setdefault((*u, x), {})[paths, u, x] = ONE
        program.require(terms, "=", chance)
    for y, chance in block_law(target, instance.length + 1).items():
        ends = {}
        for depth in range(1, len(y) + 1):
            tail = joint(target.after(y[:depth]), y[depth:])
            ends.update(dict.fromkeys(emitted.get(y[:depth], {}), tail))
        program.require(ends, "=", chance)
    return solve(program)


# The selection form. One draft is selected; R is the law of its path. Given R, block verification
# with R's rows reaches Σ E_R[w_i], greedy block verification Σ min(R, q). Both are concave in R.


def _selection(instance: Instance) -> tuple[Program, dict[Prefix, dict[Any, Number]]]:
    """The selections as variables, and R(x) as a sum of them for every node x but the root."""
    program = Program()
    selected: dict[Prefix, dict[Any, Number]] = {}
    for paths, chance in _sets(instance).items():
        program.require({("select", paths, path): ONE for path in paths}, "=", chance)
        for path in paths:
            for depth in range(1, len(path) + 1):
                selected.setdefault(path[:depth], {})["select", paths, path] = ONE
    return program, selected


def full_selection_optimum(instance: Instance) -> Optimum:
    """max_R Σ_i Σ_{x^i} min(R(x^i), q(x^i)); equals `full_optimum`."""
    program, selected = _selection(instance)
    for x, terms in selected.items():
        program.gain["kept", x] = ONE
        program.require({("kept", x): ONE, **{t: -c for t, c in terms.items()}}, "<=", ZERO)
        program.require({("kept", x): ONE}, "<=", joint(instance.target_model, x))
    return solve(program)


def stateless_selection_optimum(instance: Instance) -> Optimum:
    """max_R Σ_i E_R[w_i], with R(x^i) w_i = min(R(x^i), R(x^{i-1}) w_{i-1} q(x_i | x^{i-1})).

    Equals `stateless_optimum`.
    """
    program, selected = _selection(instance)
    for x, terms in selected.items():
        program.gain["kept", x] = ONE
        program.require({("kept", x): ONE, **{t: -c for t, c in terms.items()}}, "<=", ZERO)
        step = instance.target_model(x[:-1])[x[-1]]
        if len(x) == 1:
            program.require({("kept", x): ONE}, "<=", step)
        else:
            program.require({("kept", x): ONE, ("kept", x[:-1]): -step}, "<=", ZERO)
    return solve(program)


def full_selection_optimum_by_subsets(instance: Instance) -> Optimum:
    """The same with R ranging over {R : R(H) ≥ p(H)^K for every set H of paths}.

    One constraint for each of the 2^(V^L) sets: for very small instances.
    """
    _is_iid(instance)
    program = Program()
    target, p = instance.target_model, block_law(instance.draft_model, instance.length)
    leaves = list(product(range(instance.vocab), repeat=instance.length))
    program.require({("R", x): ONE for x in leaves}, "=", ONE)
    for size in range(1, len(leaves)):
        for H in combinations(leaves, size):
            mass = total(p.probability(x) for x in H)
            program.require({("R", x): ONE for x in H}, ">=", mass**instance.drafts)
    for x in _nodes(leaves) - {()}:
        below = {("R", leaf): -ONE for leaf in leaves if leaf[: len(x)] == x}
        program.gain["kept", x] = ONE
        program.require({("kept", x): ONE, **below}, "<=", ZERO)
        program.require({("kept", x): ONE}, "<=", joint(target, x))
    return solve(program)
