"""Vectors: exact decisions, replays and laws of every scheme as JSON, for projects in any language.

One file a scheme. Its three parts go from the smallest claim to the largest:

    decisions   for given drafts, every question that the scheme asks: the probability of each
                acceptance test and the row that the correction or bonus is drawn from (the
                normalised residual), as a tree of the answers
    replays     for given drafts and uniforms, the result under the randomness contract
    laws        for drafts drawn by the draft law, the whole law of (accepted tokens, next token)

Every case names the faults it hunts. Rationals are text; the same version writes the same bytes.
`verify_file` derives each answer again from the case's own input, so files that others extended
are checked too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from draftproof.reference.catalogue import SCHEMES, find
from draftproof.reference.chance import (
    TOKEN,
    Accept,
    Chance,
    Place,
    Replay,
    Select,
    enumerate_law,
)
from draftproof.reference.instance import (
    Instance,
    instance_from_json,
    instance_to_json,
    prefix_key,
    random_instance,
    write_json,
)
from draftproof.reference.numbers import Number, rational, text
from draftproof.reference.oracle import draw_drafts, examine, freeze_carry, law_to_json
from draftproof.reference.rows import normalise
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import FixedDrafts

__all__ = [
    "FORMAT",
    "SCHEMA_NAME",
    "decisions",
    "file_name",
    "schema",
    "vectors",
    "verify_file",
    "write",
]

FORMAT = 1
SCHEMA_NAME = "vectors.schema.json"
_SEED = 20231
_LARGEST_TREE = 500
"""Questions in one decision tree; a scheme that asks more has no decisions in the file."""


@dataclass(frozen=True)
class _Case:
    name: str
    hunts: tuple[str, ...]
    """Ids of the fault list that a wrong answer here points at."""
    says: str
    vocab: int
    length: int
    drafts: int
    rows: dict[str, tuple[str, str]] | None = None
    """Prefix to draft and target row, entries separated by blanks; None for random rows."""
    kind: str = "generic"
    whole_law: bool = True
    paths: tuple[tuple[int, ...], ...] = ()
    """Drafts that are a function of the context; for schemes that take such drafts alone."""

    def instance(self, count: int) -> Instance:
        """With `count` drafts."""
        if self.rows is None:
            generator = random.Random(f"{_SEED} {self.name}")
            return random_instance(generator, self.vocab, self.length, count, kind=self.kind)
        fixed = {"draft_law": "fixed", "paths": [list(p) for p in self.paths[:count]]}
        draft_rows = {key: p.split() for key, (p, _) in self.rows.items() if p}
        target_rows = {key: q.split() for key, (_, q) in self.rows.items()}
        return instance_from_json(
            {
                "format": 1,
                "vocab": self.vocab,
                "drafts": count,
                "length": self.length,
                "draft_rows": draft_rows,
                "target_rows": target_rows,
                **(fixed if self.paths else {}),
            }
        )


_CASES = (
    _Case(
        "plain",
        ("residual-is-target", "residual-one-hot", "siblings-no-update", "keep-longest-of-B"),
        "one token, three ids, a residual of two tokens, a different bonus row after each token",
        3, 1, 2,
        {
            "": ("6/10 3/10 1/10", "2/10 5/10 3/10"),
            "0": ("", "1 0 0"), "1": ("", "1/4 1/4 1/2"), "2": ("", "0 1 0"),
        },
    ),
    _Case(
        "block",
        ("block-tokenwise-accept", "gbv-no-carry"),
        "two tokens with rows that depend on the context: a residual without its weight is seen",
        3, 2, 2,
        {
            "": ("3/5 2/5 0", "1/5 4/5 0"),
            "0": ("4/5 3/20 1/20", "0 1/2 1/2"), "1": ("1/5 1/2 3/10", "1/5 1/2 3/10"),
            "0,1": ("", "1/2 1/4 1/4"), "0,2": ("", "0 1/3 2/3"), "1,0": ("", "1 0 0"),
            "1,1": ("", "1/6 1/3 1/2"), "1,2": ("", "0 0 1"),
        },
    ),
    _Case(
        "joint-ratio",
        ("hsd-uncapped", "shared-uniform"),
        "the ratio of the joints leaves [0, 1] and comes back",
        2, 2, 2,
        {
            "": ("1/2 1/2", "3/4 1/4"),
            "0": ("1/2 1/2", "3/4 1/4"), "1": ("1/2 1/2", "3/4 1/4"),
            "0,0": ("", "3/4 1/4"), "0,1": ("", "3/4 1/4"),
            "1,0": ("", "3/4 1/4"), "1,1": ("", "3/4 1/4"),
        },
    ),
    _Case(
        "equal-one-hot",
        ("zero-residual-nan",),
        "draft and target row equal and one-hot: the residual has mass 0",
        3, 1, 2,
        {"": ("1 0 0", "1 0 0"), "0": ("", "0 1/2 1/2")},
    ),
    _Case(
        "disjoint",
        ("uniform-hard-zero", "zero-prob-at-u-zero"),
        "no drafted token can be emitted: every test has probability 0, also at uniform 0",
        3, 1, 2,
        {"": ("1 0 0", "0 3/4 1/4"), "1": ("", "1 0 0"), "2": ("", "0 0 1")},
    ),
    _Case(
        "stale-bonus",
        ("stale-bonus-row",),
        "certain drafts, accepted with certainty: the bonus row is the one after the whole path",
        2, 2, 2,
        {
            "": ("1 0", "1 0"), "0": ("0 1", "0 1"), "0,1": ("", "1 0"),
        },
    ),
    _Case(
        "no-draft", ("padding-draft",), "length 0: one draw from the target", 3, 0, 2,
        {"": ("", "1/6 0 5/6")},
    ),
    _Case(
        "ties", ("multipath-ties",), "tokens of equal ratio q/p", 3, 1, 2,
        {
            "": ("1/2 1/4 1/4", "1/2 1/4 1/4"),
            "0": ("", "0 1 0"), "1": ("", "0 0 1"), "2": ("", "1 0 0"),
        },
    ),
    _Case(
        "top-k", ("deterministic-top-k-tree", "argmax-draft-soft-q"),
        "drafts that are not sampled: the most probable tokens of the draft row", 3, 1, 2,
        {
            "": ("1/2 3/10 1/5", "1/5 1/2 3/10"),
            "0": ("", "0 1 0"), "1": ("", "1/2 0 1/2"), "2": ("", "1 0 0"),
        },
        paths=((0,), (1,)),
    ),
    _Case("random-3-2", (), "random rows, different at every node, zeros among them", 3, 2, 2),
    _Case(
        "mixed-3-2", (), "equal, disjoint, one-hot and generic rows at different nodes", 3, 2, 2,
        kind="mixed",
    ),
    _Case("random-2-3", (), "three tokens deep", 2, 3, 2, whole_law=False),
)  # fmt: skip


def file_name(scheme: str) -> str:
    """The name of a scheme's file: `spectr:kseq` is in `spectr-kseq.json`."""
    return scheme.replace(":", "-") + ".json"


def vectors(name: str) -> dict[str, Any]:
    """The content of one scheme's file.

    Raises:
        ValueError: an unknown scheme.
    """
    scheme = find(name)
    parts: dict[str, list[dict[str, Any]]] = {"decisions": [], "replays": [], "laws": []}
    for case in _CASES:
        count = min(case.drafts, scheme.drafts[1] if scheme.drafts[1] is not None else case.drafts)
        if case.length > 1 and scheme.kind == "coupling":
            continue
        if case.paths and scheme.draft_law not in ("any", "deterministic"):
            continue
        instance = case.instance(count)
        if scheme.draft_law == "without_replacement":
            if case.length > 1 or not _can_be_drawn(instance):
                continue
            instance = replace(instance, draft_law="without_replacement")
        head = {
            "hunts": list(case.hunts),
            "says": case.says,
            "instance": instance_to_json(instance),
        }
        for number, paths in enumerate(_sets_of_drafts(instance, scheme, f"{name} {case.name}")):
            asked = {**head, "drafts": [list(path) for path in paths]}
            where = f"{name}/{case.name}/{number}"
            tree = decisions(scheme, instance, paths)
            if tree is not None:
                parts["decisions"].append({"id": f"{where}/decision", **asked, "asks": tree})
            for index, uniforms in enumerate(_uniforms(instance, tree, where)):
                answer = _replay(scheme, instance, paths, uniforms)
                parts["replays"].append(
                    {"id": f"{where}/replay/{index}", **asked, **uniforms, "result": answer}
                )
        if case.whole_law:
            law = law_to_json(examine(scheme, instance))
            parts["laws"].append({"id": f"{name}/{case.name}/law", **head, "law": law})
    return {
        "format": FORMAT,
        "scheme": name,
        "summary": scheme.summary,
        "paper": scheme.paper,
        "lossless": scheme.lossless,
        "stateful": scheme.stateful,
        "draft_law": scheme.draft_law,
        "options": {key: _option(value) for key, value in scheme.options.items()},
        **parts,
    }


def _can_be_drawn(instance: Instance) -> bool:
    """Whether the draft row has as many tokens as there are drafts."""
    row = instance.draft_rows.get((), ())
    return instance.length == 0 or sum(p != 0 for p in row) >= instance.drafts


def _option(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else text(value)


def _sets_of_drafts(instance: Instance, scheme: Scheme, seed: str) -> list[list[tuple[int, ...]]]:
    """Drafts that can be drawn: all of them for one short draft, otherwise two random sets and, if
    there is one, a set of equal drafts."""

    def drawn(chance: Chance) -> tuple[tuple[int, ...], ...]:
        drafts = draw_drafts(chance, instance, scheme)
        depths = range(1, drafts.length + 1)
        return tuple(tuple(drafts.token(k, d) for d in depths) for k in range(drafts.count))

    possible = sorted(enumerate_law(drawn))
    if instance.drafts > 1 or len(possible) > 9:
        generator = random.Random(f"{_SEED} {seed}")
        equal = [paths for paths in possible if len(set(paths)) == 1]
        chosen = generator.sample(possible, min(2, len(possible)))
        possible = [*chosen, *generator.sample(equal, min(1, len(equal)))]
    return [list(paths) for number, paths in enumerate(possible) if paths not in possible[:number]]


# ---- decisions -----------------------------------------------------------------------------------


class _Script:
    """Follows given answers and records the question that comes after them."""

    def __init__(self, answers: Sequence[int]) -> None:
        self._answers = list(answers)
        self.question: tuple[Place, tuple[Number, ...]] | None = None

    def _next(self, place: Place, probabilities: tuple[Number, ...]) -> int:
        if self._answers:
            return self._answers.pop(0)
        self.question = (place, probabilities)
        raise _AskedError

    def flip(self, probability: Number, place: Place) -> bool:
        """As `Chance.flip`; certain answers are questions too, since they are decisions."""
        return bool(self._next(place, (1 - probability, probability)))

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        """As `Chance.draw`."""
        return self._next(place, normalise(weights))


class _AskedError(Exception):
    pass


class _TooLargeError(Exception):
    pass


def decisions(
    scheme: Scheme, instance: Instance, paths: Sequence[tuple[int, ...]]
) -> dict[str, Any] | None:
    """The tree of questions that a scheme asks about given drafts; None when it is too large."""
    room = [_LARGEST_TREE]

    def run(script: _Script) -> Outcome:
        drafts = FixedDrafts(paths, instance.length)
        return scheme.verify(script, drafts, instance.draft_model, instance.target_model)

    def follow(answers: tuple[int, ...]) -> dict[str, Any]:
        room[0] -= 1
        if room[0] < 0:
            raise _TooLargeError
        script = _Script(answers)
        try:
            outcome = run(script)
        except _AskedError:
            assert script.question is not None
            return _node(*script.question, lambda answer: follow((*answers, answer)))
        return _leaf(outcome)

    try:
        return follow(())
    except _TooLargeError:
        return None


def _leaf(outcome: Outcome) -> dict[str, Any]:
    leaf: dict[str, Any] = {
        "accepted": list(outcome.accepted), "next": outcome.next, "path": outcome.path
    }  # fmt: skip
    carry = freeze_carry(outcome.carry)
    if carry:
        leaf["carry"] = {prefix_key(prefix): [text(x) for x in row] for prefix, row in carry}
    return leaf


def _node(place: Place, probabilities: tuple[Number, ...], follow: Any) -> dict[str, Any]:
    """One question; answers of probability 0 are not followed."""
    after = {a: follow(a) for a, chance in enumerate(probabilities) if chance != 0}
    if isinstance(place, Accept):
        node: dict[str, Any] = {
            "test": {"draft": place.draft, "depth": place.depth},
            "probability": text(probabilities[1]),
        }
        for answer, name in ((1, "if_accepted"), (0, "if_rejected")):
            if answer in after:
                node[name] = after[answer]
        return node
    row = [text(chance) for chance in probabilities]
    if place == TOKEN:
        leaves = list(after.items())
        first = {**leaves[0][1], "next": None}
        if all(leaf.get("next") == v and {**leaf, "next": None} == first for v, leaf in leaves):
            del first["next"]
            return {"draw": "token", "row": row, **first}
        return {"draw": "token", "row": row, "then": {str(v): leaf for v, leaf in leaves}}
    assert isinstance(place, Select)
    return {"draw": "select", "draft": place.draft, "row": row,
            "then": {str(a): n for a, n in after.items()}}  # fmt: skip


# ---- replays -------------------------------------------------------------------------------------


def _thresholds(tree: Any) -> Iterator[Number]:
    """The probabilities of the tests of a tree that are neither 0 nor 1."""
    if isinstance(tree, dict):
        if "probability" in tree and tree["probability"] not in ("0", "1"):
            yield rational(tree["probability"])
        for value in tree.values():
            yield from _thresholds(value)


def _uniforms(instance: Instance, tree: Any, seed: str) -> Iterator[dict[str, Any]]:
    """All 0; all just below 1; each on a threshold; two random sets of 97ths."""
    shape = range(instance.drafts), range(instance.length)
    generator = random.Random(f"{_SEED} {seed} uniforms")

    def every(draw: Any) -> dict[str, Any]:
        return {
            "accept_uniforms": [[text(draw()) for _ in shape[1]] for _ in shape[0]],
            "select_uniforms": [text(draw()) for _ in shape[0]],
            "token_uniform": text(draw()),
        }

    yield every(lambda: rational(0))
    yield every(lambda: 1 - rational(1) / 2**53)
    limits = sorted(set(_thresholds(tree)))
    if limits:
        yield every(lambda: generator.choice(limits))
    for _ in range(2):
        yield every(lambda: rational(generator.randrange(97)) / 97)


def _replay(
    scheme: Scheme,
    instance: Instance,
    paths: Sequence[tuple[int, ...]],
    uniforms: dict[str, Any],
) -> dict[str, Any]:
    chance = Replay(
        uniforms["accept_uniforms"], uniforms["token_uniform"], uniforms["select_uniforms"]
    )
    drafts = FixedDrafts(paths, instance.length)
    outcome = scheme.verify(chance, drafts, instance.draft_model, instance.target_model)
    return _leaf(outcome)


# ---- files ---------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """The JSON Schema of a vectors file."""
    found = resources.files("draftproof.conformance") / "schemas" / SCHEMA_NAME
    loaded: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return loaded


def write(directory: str | Path, names: Iterable[str] = SCHEMES) -> list[Path]:
    """Write one file a scheme and the schema; each appears whole or not at all.

    Raises:
        OSError: the directory cannot be written.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        written.append(folder / file_name(name))
        write_json(vectors(name), written[-1])
    write_json(schema(), folder / SCHEMA_NAME)
    return written


def verify_file(path: str | Path) -> list[str]:
    """What is wrong in one file: a line a difference, empty when every answer was derived again."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return [f"not readable: {error}"]
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return [f"format is not {FORMAT}"]
    try:
        scheme = find(data.get("scheme", ""))
    except ValueError as error:
        return [str(error)]
    wrong: list[str] = []
    cases = 0
    for part in ("decisions", "replays", "laws"):
        for number, case in enumerate(data.get(part, ())):
            cases += 1
            where = case.get("id", f"{part}[{number}]") if isinstance(case, dict) else part
            try:
                difference = _difference(*_rederived(scheme, part, case))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                difference = f"malformed: {type(error).__name__}: {error}"
            if difference:
                wrong.append(f"{where}: {difference}")
    return wrong or ([] if cases else ["no decisions, replays or laws"])


def _rederived(scheme: Scheme, part: str, case: dict[str, Any]) -> tuple[Any, Any]:
    """What the file says and what it should say."""
    instance = instance_from_json(case["instance"])
    if part == "laws":
        return case["law"], law_to_json(examine(scheme, instance))
    paths = [tuple(path) for path in case["drafts"]]
    if part == "decisions":
        return case["asks"], decisions(scheme, instance, paths)
    return case["result"], _replay(scheme, instance, paths, case)


def _difference(says: Any, should: Any, where: str = "") -> str:
    """The first place where two JSON values differ; rationals compare as numbers."""
    if isinstance(says, dict) and isinstance(should, dict):
        for key in [*should, *(k for k in says if k not in should)]:
            if key not in says or key not in should:
                return f"{where or 'top'}: {'no' if key not in says else 'unexpected'} {key!r}"
            found = _difference(says[key], should[key], f"{where}.{key}" if where else key)
            if found:
                return found
        return ""
    if isinstance(says, list) and isinstance(should, list):
        if len(says) != len(should):
            return f"{where} has {len(says)} entries, not {len(should)}"
        inside = [_difference(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(says, should))]
        return next(filter(None, inside), "")
    if isinstance(says, str) and isinstance(should, str) and says != should:
        try:
            if rational(says) == rational(should):
                return ""
        except ValueError:
            pass
    return "" if says == should else f"{where} is {says!r}, derived: {should!r}"
