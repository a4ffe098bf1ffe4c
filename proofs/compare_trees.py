"""Compare the decision trees of `draftproof.reference` with those of the extracted Coq oracle.

    python compare_trees.py [--count 5000] [--seed 1] [--jobs 2] [SCHEME ..]
    python compare_trees.py --write-vectors      renew vectors/*.json from the oracle

Exit status 1 at the first difference, which is printed with its instance.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import ceil
from pathlib import Path
from typing import Any

from decision_tree import (
    DrawDrafts,
    Instance,
    Tree,
    count_nodes,
    draw_distinct,
    draw_hub,
    draw_independent,
    first_difference,
    scheme_tree,
)
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.couplings import canonical, transport
from draftproof.reference.models import Prefix
from draftproof.reference.numbers import ONE, ZERO, rational
from draftproof.reference.rows import Row

HERE = Path(__file__).parent
ORACLE = Path(os.environ.get("DRAFTPROOF_ORACLE", HERE / "build" / "oracle"))
VECTORS = HERE / "vectors"
BATCH = 100


# --- What is compared ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Wiring:
    """How one comparison ties a scheme of the catalogue to a program of the oracle."""

    name: str
    """SCHEME, or SCHEME:OPTION, with /models for a draft model for each draft, /rounds for two
    rounds and /distinct for paths drawn without replacement."""
    scheme: str
    drafts: tuple[int, ...]
    length: tuple[int, ...]
    options: Callable[[Instance], dict[str, Any]] = lambda instance: {}
    oracle: str = ""
    """The program, by the name in `ocaml/main.ml`; by default `name`."""
    stateful: bool = False
    models: bool = False
    rounds: int = 1
    draw_drafts: DrawDrafts = draw_independent
    one_hot: float = 0
    """How many of the draft rows have one token; if all have, drafts are given, not drawn. In two
    rounds those of a single draft have any."""
    ranks: bool = False
    choose: Callable[[Row, Row, Prefix], Row] | None = None
    """The law of the chosen candidate, given the two rows and the candidates."""
    leaves: int = 40
    """About how many tuples of drafts an instance may have."""
    share: Fraction = Fraction(1)
    """How many of the `--count` instances; variants of a scheme have a fifth of it."""
    vectors: tuple[int, int] = (40, 16)
    """How many committed vectors, and how many tuples of drafts each may have."""

    @property
    def file(self) -> str:
        """The name of its file of vectors."""
        return re.sub("[:/]", "_", self.name) + ".json"

    def random(self, generator: random.Random, leaves: int | None = None) -> Instance:
        """A random instance of this scheme."""
        return random_instance(generator, self, leaves or self.leaves)

    def tree(self, instance: Instance, verify: Any = None) -> Tree:
        """The tree of the reference (or of another `verify` in its place)."""
        return scheme_tree(
            verify or SCHEMES[self.scheme].verify,
            instance,
            stateful=self.stateful,
            draw_drafts=self.draw_drafts,
            options=self.options(instance),
        )


def _grid(instance: Instance) -> dict[str, Any]:
    return {"grid": instance.grid}


def _ranking(instance: Instance) -> dict[str, Any]:
    proposals = instance.proposals
    return {
        "label_edges": instance.label_edges,
        "ratio_edges": instance.ratio_edges,
        "couple": lambda prefix, *others: proposals[prefix],
    }


def _of_candidates(chosen: dict[int, Any], vocab: int) -> Row:
    return tuple(chosen.get(v, ZERO) for v in range(vocab))


def _canonical_choice(p: Row, q: Row, candidates: Prefix) -> Row:
    weights, _ = canonical._weights(p, q, len(candidates), "iid")
    return _of_candidates(weights[frozenset(candidates)], len(p))


def _canonical_choice_of_distinct(p: Row, q: Row, candidates: Prefix) -> Row:
    weights, _ = canonical._weights(p, q, len(candidates), "without_replacement")
    return _of_candidates(weights.get(frozenset(candidates), {}), len(p))  # {}: never drawn


def _transport_choice(p: Row, q: Row, candidates: Prefix) -> Row:
    plan = transport.score_plan(p, q, len(candidates))
    return _of_candidates(transport.selection(plan, p, candidates), len(p))


def _gbv_unit(instance: Instance) -> dict[str, Any]:
    return {"scale": "unit"}


def _gbv_kseq(instance: Instance) -> dict[str, Any]:
    return {"scale": "kseq", "grid": instance.grid}


VARIANT = Fraction(1, 5)
UP_TO_3, SOME = (0, 1, 2, 2, 2, 3), (1, 2, 2, 3)
LONG, SHORT, MIDDLE = (0, 1, 2, 3), (0, 1, 1, 2, 2), (0, 1, 1, 2, 2, 2, 3)
_ALL = (
    # One token.
    Wiring("maximal", "maximal", (1,), (1,)),
    Wiring("kseq", "kseq", (0, 1, 2, 3, 4), (1,), _grid),
    Wiring("recursive_rejection", "recursive_rejection", (0, 1, 2, 3, 4), (1,)),
    Wiring(
        "without_replacement",
        "without_replacement",
        (0, 1, 2, 3),
        (1,),
        draw_drafts=draw_distinct,
        vectors=(80, 27),
    ),
    Wiring("target_match", "target_match", (0, 1, 2, 3), (1,)),
    Wiring("canonical", "canonical", (1, 2, 3), (1,), oracle="planned", choose=_canonical_choice),
    Wiring(
        "canonical/distinct",
        "canonical",
        (1, 2, 3),
        (1,),
        lambda instance: {"draft_law": "without_replacement"},
        oracle="planned/distinct",
        draw_drafts=draw_distinct,
        choose=_canonical_choice_of_distinct,
        share=VARIANT,
        vectors=(80, 27),
    ),
    Wiring("transport", "transport", (1, 2, 3), (1,), oracle="planned", choose=_transport_choice),
    Wiring("spechub", "spechub", (2,), (1,), draw_drafts=draw_hub),
    # Blocks.
    Wiring("token_by_token", "token_by_token", (1,), LONG),
    Wiring("block", "block", (1,), LONG),
    Wiring("greedy_block", "greedy_block", (1,), LONG, stateful=True),
    Wiring("spectr", "spectr", UP_TO_3, SHORT, _grid),
    Wiring(
        "spectr:canonical",
        "spectr:canonical",
        UP_TO_3,
        SHORT,
        oracle="spectr:planned",
        choose=_canonical_choice,
    ),
    Wiring("spectr:recursive_rejection", "spectr:recursive_rejection", UP_TO_3, SHORT),
    Wiring("spectr:target_match", "spectr:target_match", UP_TO_3, SHORT),
    Wiring(
        "spectr:transport",
        "spectr:transport",
        UP_TO_3,
        SHORT,
        oracle="spectr:planned",
        choose=_transport_choice,
    ),
    Wiring(
        "spectr:without_replacement",
        "spectr:without_replacement",
        UP_TO_3,
        SHORT,
        vectors=(80, 27),
    ),
    Wiring(
        "spectr:without_replacement/distinct",
        "spectr:without_replacement",
        UP_TO_3,
        MIDDLE,
        oracle="spectr:distinct",
        draw_drafts=draw_distinct,
        vectors=(80, 27),
    ),
    Wiring(
        "tree_match",
        "tree_match",
        UP_TO_3,
        MIDDLE,
        oracle="spectr:target_match",
        models=True,
        one_hot=1,
        leaves=300,
        vectors=(40, 100),
    ),
    Wiring("kseq_block", "kseq_block", UP_TO_3, MIDDLE, _grid),
    Wiring("spectr_gbv:unit", "spectr_gbv", UP_TO_3, MIDDLE, _gbv_unit, stateful=True),
    Wiring("spectr_gbv:kseq", "spectr_gbv", UP_TO_3, MIDDLE, _gbv_kseq, stateful=True),
    Wiring("traversal", "traversal", UP_TO_3, MIDDLE, vectors=(80, 27)),
    Wiring("multipath", "multipath", UP_TO_3, SHORT),
    Wiring("ranked_block", "ranked_block", UP_TO_3, SHORT, _ranking, ranks=True, leaves=20),
    Wiring(
        "ranked_block:stateful",
        "ranked_block:stateful",
        SOME,
        SHORT,
        _ranking,
        stateful=True,
        ranks=True,
        leaves=20,
    ),
)
WITH_MODELS = (
    "recursive_rejection",
    "target_match",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "spectr_gbv:unit",
    "ranked_block",
    "ranked_block:stateful",
)
"""Where each draft may come from a model of its own."""
WIRINGS: dict[str, Wiring] = {wiring.name: wiring for wiring in _ALL}
for _wiring in [WIRINGS[name] for name in WITH_MODELS]:
    _name = f"{_wiring.name}/models"
    WIRINGS[_name] = replace(
        _wiring,
        name=_name,
        oracle=_name if _wiring.ranks else _wiring.name,
        models=True,
        share=VARIANT,
        drafts=(2, 2, 2, 3),
        length=tuple(length for length in _wiring.length if length),
        leaves=20,
    )
for _wiring in [wiring for wiring in WIRINGS.values() if wiring.stateful]:
    _name = f"{_wiring.name}/rounds"
    WIRINGS[_name] = replace(
        _wiring,
        name=_name,
        oracle=_wiring.oracle or _wiring.name,
        rounds=2,
        share=VARIANT,
        drafts=(1,) if _wiring.drafts == (1,) else (1, 1, 2),
        length=(2, 3, 3),
        leaves=16,
        one_hot=0.6,
        vectors=(40, 16),
    )


# --- Random instances ---------------------------------------------------------------------------
def random_row(generator: random.Random, vocab: int) -> tuple[Any, ...]:
    """A row of one of several kinds: with zeros, one-hot, smooth, or of very unequal scales."""
    kind = generator.random()
    if kind < 0.4:
        weights = [generator.choice((0, 0, 1, 2, 3, 5, 8)) for _ in range(vocab)]
    elif kind < 0.5:
        weights = [0] * vocab
    elif kind < 0.8:
        weights = [generator.randint(1, 9) for _ in range(vocab)]
    else:
        weights = [generator.choice((1, 7, 10**3, 10**6 + 3)) for _ in range(vocab)]
    if not any(weights):
        weights[generator.randrange(vocab)] = 1
    return tuple(rational(Fraction(w, sum(weights))) for w in weights)


def random_instance(generator: random.Random, wiring: Wiring, leaves: int = 40) -> Instance:
    """An instance with about `leaves` draft tuples at most; p = q and disjoint rows do occur."""
    while True:
        vocab = generator.choice((1, 2, 2, 2, 2, 3, 3, 4))
        drafts, length = generator.choice(wiring.drafts), generator.choice(wiring.length)
        if vocab ** (drafts * length) <= leaves:
            break
    second = None if wiring.rounds == 1 else generator.choice((1, 1, min(length, 2)))
    depth = length if second is None else length + 1 + second
    prefixes = [p for size in range(depth + 1) for p in product(range(vocab), repeat=size)]
    tables: list[dict[Prefix, Any]] = [{} for _ in range(max(drafts, 1) if wiring.models else 1)]
    target_rows = {}
    one_hot = wiring.one_hot if second is None or drafts > 1 else 0
    equal, disjoint = generator.random() < 0.05, generator.random() < 0.05
    for prefix in prefixes:
        p, q = random_row(generator, vocab), random_row(generator, vocab)
        special = generator.random()
        if equal or special < 0.12:
            q = p
        elif (disjoint or special < 0.2) and 0 in p:
            weights = [0 if w else generator.randint(1, 3) for w in p]
            q = tuple(rational(Fraction(w, sum(weights))) for w in weights)
        target_rows[prefix] = q
        for k, table in enumerate(tables):
            table[prefix] = (
                p if k == 0 or generator.random() < 0.1 else random_row(generator, vocab)
            )
            if generator.random() < one_hot:
                token = generator.randrange(vocab)
                table[prefix] = tuple(ONE if v == token else ZERO for v in range(vocab))
    grid = generator.choice((1, 2, 3, 4, 7, 10, 2**20))
    others = tuple(tables[1:])
    instance = Instance(vocab, drafts, length, tables[0], target_rows, others, second, grid)
    return _with_ranking(generator, instance) if wiring.ranks else instance


def _with_ranking(generator: random.Random, instance: Instance) -> Instance:
    """The instance with label edges, ratio edges and an arbitrary proposal at every prefix."""
    classes, types = generator.choice((1, 2, 2, 3)), generator.choice((2, 3, 4))
    cuts = sorted(generator.sample(range(1, 12), classes - 1))
    ratios = sorted(generator.sample(range(1, 17), types - 1))
    numerators = (-1, 0, 0, 1, 2, 3, 5)

    def matrix() -> tuple[tuple[Any, ...], ...]:
        scale = generator.choice((3, 8, 20))
        return tuple(
            tuple(rational(Fraction(generator.choice(numerators), scale)) for _ in range(classes))
            for _ in range(types)
        )

    return replace(
        instance,
        label_edges=tuple(rational(Fraction(cut, 12)) for cut in (0, *cuts, 12)),
        ratio_edges=tuple(rational(Fraction(ratio, 4)) for ratio in (0, *ratios)),
        proposals={
            x: matrix()
            for x in instance.draft_rows
            if len(x) < max(instance.length, instance.second or 0)
        },
    )


def line(wiring: Wiring, instance: Instance) -> str:
    """The instance in the one-line form that the oracle reads."""

    def numbers(row: Sequence[Any]) -> str:
        return " ".join(f"{x.numerator}/{x.denominator}" for x in row)

    def context(prefix: Prefix) -> str:
        return " ".join(map(str, (len(prefix), *prefix)))

    tables = (instance.draft_rows, *instance.other_draft_rows)
    rows = " ".join(
        " ".join([context(x), *(numbers(t.get(x, q)) for t in tables), numbers(q)])
        for x, q in instance.target_rows.items()
    )
    second = -1 if instance.second is None else instance.second
    sizes = f"{instance.vocab} {instance.drafts} {instance.length} {second} {instance.grid}"
    text = (
        f"{wiring.oracle or wiring.name} {sizes} {len(tables)} {len(instance.target_rows)} {rows}"
    )
    if wiring.ranks:
        law = [high - low for low, high in pairwise(instance.label_edges)]
        text += f" {len(law)} {numbers(law)} {len(instance.ratio_edges)}"
        text += f" {numbers(instance.ratio_edges)} {len(instance.proposals)}"
        for prefix, matrix in instance.proposals.items():
            text += f" {context(prefix)} {' '.join(map(numbers, matrix))}"
    if wiring.choose is not None:
        least = instance.drafts if instance.length == 1 else 1
        nodes = [x for x in instance.target_rows if len(x) < instance.length]
        text += f" {len(nodes)}"
        for x in nodes:
            p, q = instance.draft_rows[x], instance.target_rows[x]
            drafted = [v for v in range(instance.vocab) if p[v] != 0]
            tuples = [
                candidates
                for count in range(least, instance.drafts + 1)
                for candidates in product(drafted, repeat=count)
                if count
            ]
            text += f" {context(x)} {len(tuples)}"
            for candidates in tuples:
                text += f" {context(candidates)} {numbers(wiring.choose(p, q, candidates))}"
    return text


def ask(lines: list[str]) -> list[Tree]:
    """The oracle's trees for some instances."""
    if not ORACLE.exists():
        raise FileNotFoundError(f"the extracted oracle {ORACLE} is missing: run `make proofs`")
    done = subprocess.run(
        [str(ORACLE)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(lines):
        raise RuntimeError(f"the oracle gave {len(answers)} of {len(lines)} trees: {done.stderr}")
    return [json.loads(answer) for answer in answers]


# --- The comparison -----------------------------------------------------------------------------
def compare(name: str, count: int, seed: str, verify: Any = None) -> tuple[int, int, str]:
    """Compare `count` random instances; (instances, nodes, the first difference or "")."""
    wiring = WIRINGS[name]
    generator = random.Random(f"{seed} {name}")
    done = nodes = 0
    while done < count:
        batch = [wiring.random(generator) for _ in range(min(BATCH, count - done))]
        for instance, proved in zip(batch, ask([line(wiring, i) for i in batch])):
            try:
                found = wiring.tree(instance, verify)
            except Exception as error:  # a reference that fails on an instance differs from it too
                return done, nodes, f"{type(error).__name__}: {error}\n{line(wiring, instance)}"
            if found != proved:
                where = first_difference(found, proved)
                return done, nodes, f"{where} (reference against proof)\n{line(wiring, instance)}"
            done += 1
            nodes += count_nodes(proved)
    return done, nodes, ""


def _chunks(names: list[str], count: int, seed: int) -> Iterator[tuple[str, int, str]]:
    for name in names:
        wanted = ceil(count * WIRINGS[name].share)
        for start in range(0, wanted, 500):
            yield name, min(500, wanted - start), f"{seed}.{start}"


def compare_all(names: list[str], count: int, seed: int, jobs: int) -> int:
    """Compare every scheme on `jobs` processes, with progress; 0 if all trees are equal."""
    left = dict.fromkeys(names, 0)
    totals = {name: [0, 0] for name in names}
    for name, _, _ in _chunks(names, count, seed):
        left[name] += 1
    started, finished, terminal = time.monotonic(), 0, sys.stderr.isatty()
    with ProcessPoolExecutor(jobs) as pool:
        jobs_of = {pool.submit(compare, *chunk): chunk[0] for chunk in _chunks(names, count, seed)}
        for job in as_completed(jobs_of):
            name = jobs_of[job]
            done, nodes, difference = job.result()
            if difference:
                pool.shutdown(cancel_futures=True)
                print(f"{name}: the trees differ\n{difference}")
                return 1
            totals[name][0] += done
            totals[name][1] += nodes
            left[name] -= 1
            finished += 1
            if terminal:
                print(f"\r{finished}/{len(jobs_of)}", end="", file=sys.stderr, flush=True)
            if not left[name]:
                print(
                    f"{name}: {totals[name][0]} instances, {totals[name][1]} nodes equal",
                    flush=True,
                )
    instances, nodes = (sum(t[i] for t in totals.values()) for i in (0, 1))
    seconds = time.monotonic() - started
    print(f"{len(names)} schemes, {instances} instances, {nodes} nodes equal in {seconds:.0f} s")
    return 0


# --- Committed vectors --------------------------------------------------------------------------
def _row_text(row: tuple[Any, ...]) -> list[str]:
    return [str(Fraction(int(x.numerator), int(x.denominator))) for x in row]


def _rows_json(table: dict[Prefix, tuple[Any, ...]], depth: int) -> dict[str, list[str]]:
    return {
        ",".join(map(str, prefix)): _row_text(row)
        for prefix, row in table.items()
        if len(prefix) <= depth
    }


def to_json(instance: Instance) -> dict[str, Any]:
    """The instance in the format of conformance instances."""
    depth = max(map(len, instance.target_rows))  # the draft model is not read so deep
    return {
        "format": 1,
        "vocab": instance.vocab,
        "drafts": instance.drafts,
        "length": instance.length,
        "draft_rows": _rows_json(instance.draft_rows, depth - 1),
        "target_rows": _rows_json(instance.target_rows, depth),
    }


def from_json(vector: dict[str, Any]) -> Instance:
    """The instance of a vector."""

    def rows(table: dict[str, list[str]]) -> dict[Prefix, tuple[Any, ...]]:
        return {
            tuple(map(int, key.split(","))) if key else (): tuple(map(rational, row))
            for key, row in table.items()
        }

    data, options = vector["instance"], vector["options"]
    return Instance(
        data["vocab"],
        data["drafts"],
        data["length"],
        rows(data["draft_rows"]),
        rows(data["target_rows"]),
        tuple(map(rows, options.get("other_draft_rows", ()))),
        options.get("second"),
        options.get("grid", 1),
        tuple(map(rational, options.get("label_edges", ()))),
        tuple(map(rational, options.get("ratio_edges", ()))),
        {
            tuple(map(int, key.split(","))) if key else (): tuple(
                tuple(map(rational, row)) for row in matrix
            )
            for key, matrix in options.get("proposals", {}).items()
        },
    )


def write_vectors(seed: int) -> None:
    """Write some small instances of each scheme with the oracle's tree, one file a scheme."""
    VECTORS.mkdir(exist_ok=True)
    for name, wiring in WIRINGS.items():
        generator = random.Random(f"{seed} vectors {name}")
        count, leaves = wiring.vectors
        instances = [wiring.random(generator, leaves) for _ in range(count)]
        trees = ask([line(wiring, instance) for instance in instances])
        vectors = []
        for instance, tree in zip(instances, trees):
            options: dict[str, Any] = {"grid": instance.grid}
            if instance.second is not None:
                options["second"] = instance.second
            if wiring.models:
                depth = max(map(len, instance.target_rows)) - 1
                options["other_draft_rows"] = [
                    _rows_json(table, depth) for table in instance.other_draft_rows
                ]
            if wiring.ranks:
                options["label_edges"] = _row_text(instance.label_edges)
                options["ratio_edges"] = _row_text(instance.ratio_edges)
                options["proposals"] = {
                    ",".join(map(str, x)): [_row_text(row) for row in matrix]
                    for x, matrix in instance.proposals.items()
                }
            vectors.append({"options": options, "instance": to_json(instance), "tree": tree})
        path = VECTORS / wiring.file
        body = ",\n".join(json.dumps(vector, separators=(",", ":")) for vector in vectors)
        head = f'{{"format": 1, "scheme": "{wiring.scheme}", "oracle": "{name}", "vectors": [\n'
        temporary = path.with_suffix(".tmp")
        temporary.write_text(head + body + "\n]}\n")
        os.replace(temporary, path)
        print(f"{path.name}: {count} vectors, {path.stat().st_size // 1024} kB")


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("schemes", nargs="*", metavar="SCHEME", help="default: all of them")
    parser.add_argument("--count", type=int, default=5000, help="random instances per scheme")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write-vectors", action="store_true", help="renew the committed vectors")
    arguments = parser.parse_args()
    for name in arguments.schemes:
        if name not in WIRINGS:
            parser.error(f"unknown scheme {name!r}; known: {', '.join(WIRINGS)}")
    if arguments.write_vectors:
        write_vectors(arguments.seed)
        return 0
    names = arguments.schemes or list(WIRINGS)
    return compare_all(names, arguments.count, arguments.seed, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
