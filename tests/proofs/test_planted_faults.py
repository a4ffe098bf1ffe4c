"""Faults planted in the reference are seen by the vectors of the proved programs.

Each fault is one change of one line of a module of the reference, as a program with the fault would
have it. The changed module takes the place of the right one for the test.
"""

import importlib
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import pytest
from draftproof.reference.scheme import Outcome, Scheme

VERIFIERS = "draftproof.reference.verifiers."
COUPLINGS = "draftproof.reference.couplings."
CLIP = "draftproof.reference.clip"
CARRY = "draftproof.reference.carry"
TREE = "draftproof.reference.tree"


class Fault(NamedTuple):
    name: str
    wiring: str
    module: str
    old: str
    new: str


FAULTS = [
    Fault(
        "the maximal coupling accepts a little less",
        "maximal",
        COUPLINGS + "maximal",
        "divide(target_row[token], scale * draft_row[token], 0 * ONE)",
        "divide(target_row[token], 2 * scale * draft_row[token], 0 * ONE)",
    ),
    Fault(
        "the correction is drawn from the target, not from the residual",
        "token_by_token",
        VERIFIERS + "token_by_token",
        "row_or_plain(excess(p, q), q)",
        "q",
    ),
    Fault(
        "the scale is rounded down",
        "kseq",
        CLIP,
        "return rational(low) / grid",
        "return rational(max(low - 1, grid)) / grid",
    ),
    Fault(
        "the scale is one grid point above the smallest",
        "kseq",
        CLIP,
        "return rational(low) / grid",
        "return rational(low + 1) / grid",
    ),
    Fault(
        "the cover factor counts one draft too few",
        "spectr",
        CLIP,
        "divide(1 - (1 - kept) ** drafts, kept, rational(drafts))",
        "divide(1 - (1 - kept) ** max(drafts - 1, 1), kept, rational(drafts))",
    ),
    Fault(
        "no update of the residual after a rejection",
        "recursive_rejection",
        COUPLINGS + "recursive_rejection",
        "        owed = row_or_plain(excess(p, owed), owed)\n",
        "",
    ),
    Fault(
        "a rejected token stays in the draft row",
        "without_replacement",
        COUPLINGS + "without_replacement",
        "p = row_or_plain(rest, rest)",
        "p = draft_row",
    ),
    Fault(
        "a candidate that was refused may still be drawn",
        "target_match",
        COUPLINGS + "candidates",
        "        rest[token] = ZERO\n",
        "",
    ),
    Fault(
        "the unplaced mass goes to one token of the set",
        "canonical",
        COUPLINGS + "transport",
        "kept = weight * acceptance(selected, target_row, x)",
        "kept = weight * acceptance(target_row, selected, x)",
    ),
    Fault(
        "the hub takes all that is offered",
        "spechub",
        COUPLINGS + "spechub",
        "to_hub = divide(min(offered, target_row[hub]), offered, ZERO)",
        "to_hub = ONE",
    ),
    Fault(
        "the dead drafts are not dropped",
        "spectr",
        VERIFIERS + "spectr",
        "following = alive(drafts, following, accepted)",
        "following = [*following]",
    ),
    Fault(
        "the block weight is not capped at 1",
        "block",
        VERIFIERS + "block",
        "weights.append(min(ONE, weights[-1] * divide(q, p, ZERO)))",
        "weights.append(weights[-1] * divide(q, p, ZERO))",
    ),
    Fault(
        "the whole block is always accepted",
        "block",
        VERIFIERS + "block",
        "            h = w\n",
        "            h = ONE\n",
    ),
    Fault(
        "the correction forgets the weight",
        "block",
        VERIFIERS + "block",
        "excess(draft_row, target_row, weight), target_row)",
        "excess(draft_row, target_row), target_row)",
    ),
    Fault(
        "tests from the first token down",
        "block",
        VERIFIERS + "block",
        "for depth in range(length, top, -1):",
        "for depth in range(top + 1, length + 1):",
    ),
    Fault(
        "the greedy ratio is capped as it goes",
        "greedy_block",
        VERIFIERS + "greedy_block",
        "ratios.append(ratios[-1] * divide(t, p, ZERO))",
        "ratios.append(min(ONE, ratios[-1] * divide(t, p, ZERO)))",
    ),
    Fault(
        "the carry is dropped",
        "greedy_block",
        CARRY,
        "return Outcome(accepted, token, path, rest if rest.carried else None)",
        "return Outcome(accepted, token, path, None)",
    ),
    Fault(
        "an infinite ratio is taken for 1 in the carry",
        "greedy_block",
        CARRY,
        "ratios[prefix] = None if infinite else before * target(parent)[token] / p",
        "ratios[prefix] = before if infinite else before * target(parent)[token] / p",
    ),
    Fault(
        "the first weight is not divided by the scale",
        "kseq_block",
        VERIFIERS + "kseq_block",
        "chance, tokens, k, node, draft, target, owed, ONE / scale",
        "chance, tokens, k, node, draft, target, owed, ONE",
    ),
    Fault(
        "after an accepted prefix the target starts afresh",
        "kseq_block",
        VERIFIERS + "kseq_block",
        "owed = block_residual(draft(node), target(node), weight)",
        "owed = target(node)",
    ),
    Fault(
        "no extension by later drafts",
        "kseq_block",
        VERIFIERS + "kseq_block",
        "waiting = alive(drafts, later, node)",
        "waiting = []",
    ),
    Fault(
        "the chain is not updated after a rejection",
        "spectr_gbv:unit",
        VERIFIERS + "spectr_gbv",
        "        chain = owed_chain(models[k], chain, node, drafts.length)\n",
        "        before = node\n",
    ),
    Fault(
        "the carried chain uses cover factor 1",
        "spectr_gbv:kseq",
        VERIFIERS + "spectr_gbv",
        "cover = cover_factor(kept_mass(p, t, rho), n)",
        "cover = cover_factor(kept_mass(p, t, rho), 1)",
    ),
    Fault(
        "the parent's weight stays when a child is cut off",
        "traversal",
        VERIFIERS + "traversal",
        "q, weight = row_or_plain(owed, q), divide(mass, mass + 1 - weight, ZERO)",
        "q, weight = row_or_plain(owed, q), weight",
    ),
    Fault(
        "a cut child stays in the draft row",
        "traversal",
        VERIFIERS + "traversal",
        "            p = row_or_plain(rest, rest)\n",
        "",
    ),
    Fault(
        "ties broken the other way in the law than in the selection",
        "multipath",
        VERIFIERS + "multipath",
        "for v in order(prefix):",
        "for v in sorted(order(prefix), key=lambda v: (draft(prefix)[v] == 0, -v)):",
    ),
    Fault(
        "the lexicographically smallest draft is selected",
        "multipath",
        VERIFIERS + "multipath",
        "largest = max(look(",
        "largest = min(look(",
    ),
    Fault(
        "the selected path is verified with the rows of the draft",
        "ranked_block",
        VERIFIERS + "ranked_block",
        "return verify_path(chance, path, number, selected, target)",
        "return verify_path(chance, path, number, draft, target)",
    ),
    Fault(
        "the last of the drafts with the highest label wins",
        "ranked_block",
        VERIFIERS + "ranked_block",
        "beaten, better = total(labels[: best + 1]), labels[best + 1 :]",
        "beaten, better = total(labels[: max(best, 0)]), labels[max(best, 0) :]",
    ),
    Fault(
        "columns that are too heavy are not scaled down",
        "ranked_block",
        VERIFIERS + "ranked_block",
        "        if have > wanted:\n            for line in M:",
        "        if have < 0:\n            for line in M:",
    ),
    Fault(
        "every token takes the nearest type only",
        "ranked_block",
        VERIFIERS + "ranked_block",
        "mixtures.append((b, (ratio - low) / (high - low)))",
        "mixtures.append((b, ZERO if ratio - low < high - ratio else ONE))",
    ),
    Fault(
        "the stateful form verifies with the block rule's label boost of K - 1 drafts",
        "ranked_block:stateful",
        VERIFIERS + "ranked_block",
        "boost = label_boost(labels, count)",
        "boost = label_boost(labels, max(count - 1, 1))",
    ),
]
FAULTS += [
    Fault(
        "the law of the chosen token takes all sets of drafts for equally likely",
        "spectr:canonical",
        COUPLINGS + "canonical",
        "chosen[v] += mass * weights[S][v]",
        "chosen[v] += weights[S][v] / len(sets)",
    ),
    Fault(
        "the chance of a set of distinct drafts forgets that the earlier ones are gone",
        "canonical/distinct",
        COUPLINGS + "canonical",
        "chance, left = chance * draft_row[v] / left, left - draft_row[v]",
        "chance, left = chance * draft_row[v], left - draft_row[v]",
    ),
    Fault(
        "the law of the chosen token is that of a single draft",
        "spectr:transport",
        COUPLINGS + "transport",
        "selected[piece.token] += piece.high**drafts - piece.low**drafts",
        "selected[piece.token] += piece.high - piece.low",
    ),
    Fault(
        "a repeated token changes the residual once more",
        "spectr:without_replacement",
        COUPLINGS + "without_replacement",
        "        rejected.add(token)\n",
        "",
    ),
    Fault(
        "a path may be drawn twice",
        "spectr:without_replacement/distinct",
        TREE,
        "weights[path[depth - 1]] -= joint(model, path) / inside",
        "weights[path[depth - 1]] -= 0 * inside",
    ),
    Fault(
        "the dead drafts of a fixed tree are not dropped",
        "tree_match",
        VERIFIERS + "spectr",
        "following = alive(drafts, following, accepted)",
        "following = [*following]",
    ),
    Fault(
        "every draft is tested with the row of the first",
        "recursive_rejection/models",
        COUPLINGS + "recursive_rejection",
        "for k, p in enumerate(candidates.rows):",
        "for k, p in enumerate([draft_row] * len(candidates)):",
    ),
    Fault(
        "every draft is tested with the row of the first alive one",
        "spectr:recursive_rejection/models",
        COUPLINGS + "recursive_rejection",
        "for k, p in enumerate(candidates.rows):",
        "for k, p in enumerate([draft_row] * len(candidates)):",
    ),
    Fault(
        "the chain is updated with the model of the first draft",
        "spectr_gbv:unit/models",
        VERIFIERS + "spectr_gbv",
        "chain = owed_chain(models[k], chain, node, drafts.length)",
        "chain = owed_chain(models[0], chain, node, drafts.length)",
    ),
    Fault(
        "the first of the drafts counts as the last",
        "ranked_block/models",
        VERIFIERS + "ranked_block",
        "wins = [low**number * high ** (drafts - 1 - number)",
        "wins = [low ** (drafts - 1 - number) * high**number",
    ),
    Fault(
        "the selected draft has the rows of the first",
        "ranked_block:stateful/models",
        VERIFIERS + "ranked_block",
        "model_of_each(draft, count)[number], target",
        "model_of_each(draft, count)[0], target",
    ),
    Fault(
        "the carry is a token behind",
        "spectr_gbv:kseq/rounds",
        CARRY,
        "rest = chain.after((*accepted, token))",
        "rest = chain.after(accepted)",
    ),
]
# A carry that outlives the next round is lost in it.
FAULTS += [
    Fault(
        "a carry of the round before is forgotten",
        wiring,
        CARRY,
        "return Model(target.vocab, source, max(length, target.carried))",
        "return Model(target.vocab, source, length)",
    )
    for wiring in (
        "greedy_block/rounds",
        "spectr_gbv:unit/rounds",
        "spectr_gbv:kseq/rounds",
        "ranked_block:stateful/rounds",
        "spectr_gbv:unit/models/rounds",
        "ranked_block:stateful/models/rounds",
    )
]


def clear_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("draftproof.reference"):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


def changed_module(fault: Fault) -> ModuleType:
    """The module of the fault with its one line changed."""
    right = importlib.import_module(fault.module)
    source = Path(right.__file__).read_text()
    assert source.count(fault.old) == 1, f"{fault.module} has changed: {fault.old!r}"
    wrong = ModuleType(fault.module)
    wrong.__file__ = right.__file__
    exec(compile(source.replace(fault.old, fault.new), right.__file__, "exec"), vars(wrong))
    return wrong


def plant(fault: Fault, monkeypatch: pytest.MonkeyPatch, scheme: Scheme) -> Callable[..., Outcome]:
    """Put the functions of the changed module in place of the right ones, wherever imported; what
    verifies the scheme then.
    """
    right, wrong = importlib.import_module(fault.module), changed_module(fault)
    replaced = {
        id(value): vars(wrong)[name]
        for name, value in vars(right).items()
        if isinstance(value, FunctionType) or hasattr(value, "cache_clear")
        if getattr(value, "__module__", None) == fault.module
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("draftproof.reference") or name == "decision_tree":
            for key, value in list(vars(module).items()):
                if id(value) in replaced:
                    monkeypatch.setattr(module, key, replaced[id(value)])
    clear_caches()
    entries = [
        *getattr(wrong, "SCHEMES", ()),
        *([wrong.SCHEME] if hasattr(wrong, "SCHEME") else []),
    ]
    verify = next((e.verify for e in entries if e.name == scheme.name), scheme.verify)
    if isinstance(verify, partial):  # it holds the functions themselves
        held = [replaced.get(id(part), part) for part in (verify.func, *verify.args)]
        verify = partial(*held, **verify.keywords)
    return verify


def differs(proofs: Path, compare_trees: ModuleType, wiring_name: str, verify=None) -> bool:
    wiring = compare_trees.WIRINGS[wiring_name]
    path = proofs / "vectors" / wiring.file
    for vector in json.loads(path.read_text())["vectors"]:
        try:
            if wiring.tree(compare_trees.from_json(vector), verify) != vector["tree"]:
                return True
        except (ValueError, AssertionError, ZeroDivisionError):
            return True  # the fault makes the scheme fail: it is seen too
    return False


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{f.wiring}: {f.name}" for f in FAULTS])
def test_the_fault_is_seen(proofs, compare_trees, monkeypatch, fault):
    scheme = compare_trees.SCHEMES[compare_trees.WIRINGS[fault.wiring].scheme]
    verify = plant(fault, monkeypatch, scheme)
    try:
        assert differs(proofs, compare_trees, fault.wiring, verify)
    finally:
        monkeypatch.undo()
        clear_caches()


def test_the_machinery_alone_changes_nothing(proofs, compare_trees, monkeypatch):
    """Planting a module that is not changed gives equal trees: what is seen is the fault."""
    for fault in {f.wiring: f for f in FAULTS}.values():
        scheme = compare_trees.SCHEMES[compare_trees.WIRINGS[fault.wiring].scheme]
        verify = plant(fault._replace(new=fault.old), monkeypatch, scheme)
        assert not differs(proofs, compare_trees, fault.wiring, verify), fault.wiring
        monkeypatch.undo()
        clear_caches()


def test_every_wired_scheme_has_a_planted_fault(compare_trees):
    through = {  # the code of another wiring
        "transport",
        "spectr:recursive_rejection",
        "spectr:target_match",
        "target_match/models",
        "spectr:target_match/models",
    }
    assert {f.wiring for f in FAULTS} | through == set(compare_trees.WIRINGS)
