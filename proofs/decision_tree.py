"""Decision trees: what a verifier of `draftproof.reference` asks of chance, coin by coin.

`decision_tree` answers a program's questions in every possible way and records them: every coin
with its bias, every draw with its row, every returned value. Branches of probability 0 are None.
The extracted Coq oracle prints the tree of the proved program for the same instance in the same
form (theories/oracle/trees.v), so the two can be compared node by node.

    {"flip": "1/3", "t": TREE, "f": TREE}      a coin: its bias, what follows heads and tails
    {"draw": ["1/2", "1/2"], "k": [TREE, ..]}  a draw: its row, normalised, what follows each token
    {"ret": [..]}                              the end: the emitted tokens

The drafts are drawn first, path by path, then verified as given drafts: the setting of the
randomness contract. For a stateful scheme the rest of the block is drawn from the carry, so that
the carried rows are in the tree, and the leaf starts with the number of tokens emitted before. It
may have a second round, which drafts after the tokens of the first and verifies against its carry;
the leaf then starts with the number of tokens after each round.
A label (place `Select`) is shown as the chain of coins that the proved program flips, the highest
label first: for the law of one draw see theorems on one-uniform labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftproof.reference.chance import (
    TOKEN,
    Chance,
    Draft,
    Place,
    Select,
    check_probability,
    check_weights,
)
from draftproof.reference.models import DraftModels, Model, Prefix
from draftproof.reference.numbers import ONE, ZERO, Number, total
from draftproof.reference.rows import normalise
from draftproof.reference.scheme import Outcome
from draftproof.reference.tree import FixedDrafts, distinct_drafts, hub_of, whole_path

__all__ = ["DrawDrafts", "Instance", "Tree", "decision_tree", "first_difference", "scheme_tree"]

Tree = dict[str, Any]
Verifier = Callable[..., Outcome]
DrawDrafts = Callable[[Chance, Sequence[Model], int], list[Prefix]]
"""draw(chance, the model of each draft, length) -> paths"""


def text(value: Number) -> str:
    """The rational as "a/b", also when b is 1: the form the oracle prints."""
    return f"{value.numerator}/{value.denominator}"


@dataclass
class _Node:
    """A question on the current path: its tree, its possible answers, the one being followed."""

    tree: Tree
    answers: list[tuple[Any, Callable[[Any], None]]]  # (answer, how to hang the subtree in)
    chosen: int = 0


class _Recorder:
    """A `Chance` that repeats the answers of a script, then extends it with new questions."""

    def __init__(self, script: list[_Node], hang: Callable[[Any], None]) -> None:
        self._script = script
        self._asked = 0
        self.hang = hang  # where the next new node, or the leaf, belongs

    def _answer(self, make: Callable[[], _Node]) -> Any:
        if self._asked == len(self._script):
            node = make()
            self.hang(node.tree)
            self._script.append(node)
        node = self._script[self._asked]
        self._asked += 1
        answer, self.hang = node.answers[node.chosen]
        return answer

    def flip(self, probability: Number, place: Place) -> bool:
        def make() -> _Node:
            check_probability(probability, place)
            tree: Tree = {"flip": text(probability), "t": None, "f": None}
            answers = []
            if probability != 0:
                answers.append((True, lambda subtree: tree.__setitem__("t", subtree)))
            if probability != 1:
                answers.append((False, lambda subtree: tree.__setitem__("f", subtree)))
            return _Node(tree, answers)

        return bool(self._answer(make))

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        if isinstance(place, Select):
            return self._label(weights, place)

        def make() -> _Node:
            check_weights(weights, place)
            row = normalise(weights)
            children: list[Tree | None] = [None] * len(row)
            tree: Tree = {"draw": [text(p) for p in row], "k": children}

            def hanger(index: int) -> Callable[[Any], None]:
                return lambda subtree: children.__setitem__(index, subtree)

            return _Node(tree, [(v, hanger(v)) for v, p in enumerate(row) if p != 0])

        return int(self._answer(make))

    def _label(self, weights: Sequence[Number], place: Select) -> int:
        for label in range(len(weights) - 1, -1, -1):
            mass = total(weights[: label + 1])
            if self.flip(weights[label] / mass if mass else ZERO, place):
                return label
        return 0


def decision_tree(program: Callable[[Chance], list[int]]) -> Tree:
    """The decision tree of `program`, which must ask the same questions after the same answers."""
    root: list[Tree] = []
    script: list[_Node] = []
    while True:
        chance = _Recorder(script, root.append)
        value = program(chance)
        chance.hang({"ret": value})
        while script and script[-1].chosen == len(script[-1].answers) - 1:
            script.pop()
        if not script:
            return root[0]
        script[-1].chosen += 1


@dataclass(frozen=True)
class Instance:
    """One small problem: rows of the models after every prefix of the block, or of two blocks."""

    vocab: int
    drafts: int
    length: int
    draft_rows: dict[Prefix, tuple[Number, ...]]
    target_rows: dict[Prefix, tuple[Number, ...]]
    other_draft_rows: tuple[dict[Prefix, tuple[Number, ...]], ...] = ()
    """A model for each draft: those of drafts 1, 2, ..; empty: `draft_rows` is for all drafts."""
    second: int | None = None
    """The length of the drafts of a second round, if there is one."""
    grid: int = 1
    label_edges: tuple[Number, ...] = ()
    """ranked_block: the label edges, the ratio edges, and a proposal of the coupling per prefix."""
    ratio_edges: tuple[Number, ...] = ()
    proposals: dict[Prefix, tuple[tuple[Number, ...], ...]] = field(default_factory=dict)


def draw_independent(chance: Chance, models: Sequence[Model], length: int) -> list[Prefix]:
    """Independent paths, one of each model, drawn path by path."""
    paths = []
    for k, model in enumerate(models):
        path: Prefix = ()
        for depth in range(1, length + 1):
            path = (*path, chance.draw(model(path), Draft(k, depth)))
        paths.append(path)
    return paths


def draw_distinct(chance: Chance, models: Sequence[Model], length: int) -> list[Prefix]:
    """Paths drawn without replacement, as the reference draws them."""
    drafts = distinct_drafts(chance, models[0], len(models), length) if models else FixedDrafts([])
    return [whole_path(drafts, k) for k in range(drafts.count)]


def draw_hub(chance: Chance, models: Sequence[Model], length: int) -> list[Prefix]:
    """The pair of SpecHub: one of the two is the hub, the likeliest token of the row."""
    row = models[0](())
    hub = hub_of(row)
    first = chance.draw(row, Draft(0, 1))
    others = [ZERO if v == hub else p for v, p in enumerate(row)]
    only_hub = [ONE if v == hub else ZERO for v in range(len(row))]
    free = first == hub and any(others)
    return [(first,), (chance.draw(others if free else only_hub, Draft(1, 1)),)]


def scheme_tree(
    verify: Verifier,
    instance: Instance,
    *,
    stateful: bool = False,
    draw_drafts: DrawDrafts = draw_independent,
    options: dict[str, Any] | None = None,
) -> Tree:
    """The decision tree of a scheme of the reference on an instance, drafting included.

    Raises:
        AssertionError: the outcome names a draft that does not begin with the accepted prefix.
    """
    tables = [instance.draft_rows, *instance.other_draft_rows]
    drafting = [Model(instance.vocab, rows.__getitem__) for rows in tables]
    plain = Model(instance.vocab, instance.target_rows.__getitem__)
    lengths = [instance.length] + ([] if instance.second is None else [instance.second])
    later: dict[Prefix, list[Model]] = {(): drafting}  # the draft models after some tokens

    def one_round(
        chance: Chance, start: Prefix, target: Model, length: int
    ) -> tuple[Prefix, Model]:
        """What is emitted after `start`, and the target of what follows."""
        if start not in later:
            later[start] = [model.after(start) for model in drafting]
        models = later[start]
        several: DraftModels = models if instance.other_draft_rows else models[0]
        each = models if instance.other_draft_rows else models * instance.drafts
        paths = draw_drafts(chance, each, length)
        drafts = FixedDrafts(paths, length)
        outcome = verify(chance, drafts, several, target, **(options or {}))
        accepted = outcome.accepted
        if accepted and paths[outcome.path][: len(accepted)] != accepted:
            raise AssertionError(f"draft {outcome.path} of {paths} does not begin with {accepted}")
        if not stateful and outcome.carry is not None:
            raise AssertionError("a stateless scheme returned a carry")
        emitted = (*accepted, outcome.next)
        return emitted, outcome.carry or plain.after((*start, *emitted))

    def program(chance: Chance) -> list[int]:
        tokens: Prefix = ()
        carried, ends = plain, []
        for length in lengths:
            end = len(tokens) + length + 1  # of the block and its bonus
            emitted, carried = one_round(chance, tokens, carried, length)
            tokens = (*tokens, *emitted)
            ends.append(len(tokens))
        if not stateful:
            return list(tokens)
        rest: Prefix = ()
        while len(tokens) + len(rest) < end:
            rest = (*rest, chance.draw(carried(rest), TOKEN))
        return [*ends, *tokens, *rest]

    return decision_tree(program)


def first_difference(a: Any, b: Any, where: str = "root") -> str:
    """A sentence about the first node at which two trees differ; "" if they are equal."""
    if a == b:
        return ""
    if not isinstance(a, dict) or not isinstance(b, dict) or a.keys() != b.keys():
        return f"at {where}: {_short(a)} against {_short(b)}"
    for key in ("ret", "flip", "draw"):
        if a.get(key) != b.get(key):
            return f"at {where}: {_short(a)} against {_short(b)}"
    branches = (
        [("heads", a["t"], b["t"]), ("tails", a["f"], b["f"])]
        if "flip" in a
        else [(str(v), x, y) for v, (x, y) in enumerate(zip(a["k"], b["k"]))]
    )
    return next(
        found for name, x, y in branches if (found := first_difference(x, y, f"{where}/{name}"))
    )


def count_nodes(tree: Tree | None) -> int:
    """The number of nodes of a tree, leaves included."""
    if tree is None:
        return 0
    below = tree["k"] if "draw" in tree else [tree.get("t"), tree.get("f")]
    return 1 + sum(map(count_nodes, below))


def _short(tree: Any) -> str:
    if not isinstance(tree, dict):
        return "an unreachable branch" if tree is None else repr(tree)
    for key, name in (("ret", "the end"), ("flip", "a coin of bias"), ("draw", "a draw from")):
        if key in tree:
            return f"{name} {tree[key]}"
    return repr(tree)
