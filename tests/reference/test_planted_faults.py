"""Faults planted in the schemes, one line each: the exact tests must see every one of them.

A fault replaces one function that a scheme calls. On the instances here the scheme as it is has
total variation 0 (test_verifiers.py), and with the fault it must not, on at least one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from draftproof.reference.clip import excess
from draftproof.reference.couplings import (
    canonical,
    kseq,
    maximal,
    recursive_rejection,
    spechub,
    target_match,
    transport,
    without_replacement,
)
from draftproof.reference.couplings.candidates import Choice
from draftproof.reference.instance import Instance, random_instance
from draftproof.reference.numbers import ONE, Number, rational
from draftproof.reference.oracle import examine
from draftproof.reference.rows import Row
from draftproof.reference.verifiers import (
    block,
    greedy_block,
    kseq_block,
    multipath,
    ranked_block,
    spectr_gbv,
    token_by_token,
    traversal,
)


def rows_of_target(p: Row, q: Row, *_: Any) -> Row:
    return q


def unclipped(p: Row, q: Row, *_: Any) -> Row:
    return excess(p, q)


def plain_chain(draft: Any, target: Any, *_: Any) -> Any:
    return target


def half_kept(p: Row, q: Row, token: int, scale: Number = ONE) -> Number:
    return maximal.acceptance(p, q, token, scale) * rational("49/50")


def unnormalised(weights: Row, plain: Row) -> Row:
    return weights if any(weights) else plain


def left_in_the_row(p: Row, token: int) -> Row:
    return p


def unrepaired(proposal: Any, rows: Row, columns: Row) -> Any:
    """Half of the mass of the highest label moved to the lowest: the column sums drift."""
    M = [list(line) for line in ranked_block_repaired(proposal, rows, columns)]
    for line in M:
        line[0], line[-1] = line[0] + line[-1] / 2, line[-1] / 2
    return [tuple(line) for line in M]


ranked_block_repaired = ranked_block.repaired


def law_of_one_draft(draft: Any, count: int, order: Any) -> Any:
    return draft


def law_of_the_smallest(draft: Any, count: int, order: Any) -> Any:
    return multipath_law(draft, count, lambda prefix: list(reversed(order(prefix))))


multipath_law = multipath.law_of_largest


def the_rarest_token(row: Row) -> int:
    return min(range(len(row)), key=lambda v: row[v])


def as_if_selected_evenly(chosen: Any, selected: Row, target: Row) -> Row:
    uniform = tuple(ONE / len(selected) for _ in selected)
    return transport_verified(chosen, uniform, target)


transport_verified = transport.verified


def judged_alone(chance: Any, candidates: Any, law: Any) -> Choice:
    """Every candidate tested with its own probability, as if no other had been tested."""
    rest = list(law)
    for k in range(len(candidates)):
        if chance.flip(rest[candidates[k]], candidates.test(k)):
            return Choice(candidates[k], True)
    return target_match_answer(chance, candidates, law)


target_match_answer = target_match.answer


def unit_cover(kept: Number, drafts: int) -> Number:
    return ONE


def a_residual_of_one_draft(p: Row, q: Row, scale: Number, drafts: int) -> Row:
    return excess(p, q)


RANKED = {"classes": 3, "types": 5}
FAULTS: list[tuple[Any, str, Callable[..., Any], str, dict[str, Any]]] = [
    (maximal, "excess", rows_of_target, "maximal", {}),
    (token_by_token, "acceptance", half_kept, "token_by_token", {}),
    (token_by_token, "excess", rows_of_target, "token_by_token", {}),
    (block, "excess", unclipped, "block", {}),
    (block, "block_residual", rows_of_target, "block", {}),
    (greedy_block, "owed_chain", plain_chain, "greedy_block", {}),
    (kseq, "residual", a_residual_of_one_draft, "spectr", {}),
    (kseq, "acceptance", half_kept, "kseq", {}),
    (kseq_block, "block_residual", rows_of_target, "kseq_block", {}),
    (kseq_block, "residual", a_residual_of_one_draft, "kseq_block", {}),
    (spectr_gbv, "owed_chain", plain_chain, "spectr_gbv", {}),
    (spectr_gbv, "cover_factor", unit_cover, "spectr_gbv", {"scale": "kseq"}),
    (traversal, "without", left_in_the_row, "traversal", {}),
    (traversal, "excess", unclipped, "traversal", {}),
    (multipath, "law_of_largest", law_of_one_draft, "multipath", {}),
    (multipath, "law_of_largest", law_of_the_smallest, "multipath", {}),
    (ranked_block, "repaired", unrepaired, "ranked_block", RANKED),
    (ranked_block, "repaired", unrepaired, "ranked_block:stateful", RANKED),
    (recursive_rejection, "row_or_plain", unnormalised, "spectr:recursive_rejection", {}),
    (recursive_rejection, "excess", rows_of_target, "recursive_rejection", {}),
    (without_replacement, "without", left_in_the_row, "without_replacement", {}),
    (target_match, "answer", judged_alone, "target_match", {}),
    (transport, "verified", as_if_selected_evenly, "transport", {}),
    (canonical, "verified", as_if_selected_evenly, "canonical", {}),
    (spechub, "hub_of", the_rarest_token, "spechub", {}),
]
LAWS = {"without_replacement": "without_replacement"}


def instances(scheme: str) -> Iterator[Instance]:
    coupling = scheme in ("maximal", "kseq", "canonical", "transport", "spechub", *LAWS)
    for seed in range(12):
        one = scheme in ("maximal", "token_by_token", "block", "greedy_block")
        length = 1 if coupling or scheme.endswith(("recursive_rejection", "match")) else 2
        yield random_instance(
            random.Random(seed),
            3,
            length,
            1 if one else 2,
            denominator=12,
            draft_law=LAWS.get(scheme, "iid"),  # type: ignore[arg-type]
        )


def forget() -> None:
    """Nothing that was computed with another version of a function may be used."""
    for module in (multipath, ranked_block, transport, canonical):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.mark.parametrize(
    ("module", "name", "fault", "scheme", "options"),
    FAULTS,
    ids=[f"{scheme} {name} {fault.__name__}" for _, name, fault, scheme, _ in FAULTS],
)
def test_a_planted_fault_is_seen(
    module: Any,
    name: str,
    fault: Callable[..., Any],
    scheme: str,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget()
    assert all(examine(scheme, i, **options).total_variation == 0 for i in instances(scheme))
    forget()
    monkeypatch.setattr(module, name, fault)
    seen = 0
    for instance in instances(scheme):
        try:
            seen += examine(scheme, instance, **options).total_variation > 0
        except ValueError:  # a probability above 1, or a negative weight
            seen += 1
    monkeypatch.undo()
    forget()
    assert seen > 0


def test_a_scale_that_is_too_small_cannot_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that rounds down would make a residual negative: it is refused, not drawn from."""
    step = rational(1) / 8
    smallest = kseq_block.smallest_scale

    def rounded_down(p: Row, q: Row, drafts: int, grid: int) -> Number:
        return max(ONE, smallest(p, q, drafts, 8) - step)

    monkeypatch.setattr(kseq_block, "smallest_scale", rounded_down)
    refused = []
    for instance in instances("kseq_block"):
        try:
            examine("kseq_block", instance)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) >= 6
    assert all("below the smallest valid scale" in message for message in refused)
