"""Instances: a pair of models on one block, as the versioned JSON format and in memory.

The format is described in docs/formats.md. Rationals are strings (``"3/4"``, ``"0.25"``, ``"1"``),
prefixes are comma-joined tokens, the empty prefix is ``""``.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from draftproof.reference.models import Model, Prefix, random_row
from draftproof.reference.numbers import ONE, ZERO, rational, text
from draftproof.reference.rows import Row, row

__all__ = [
    "FORMAT",
    "KINDS",
    "DraftLaw",
    "Instance",
    "instance_from_json",
    "instance_to_json",
    "prefix_key",
    "random_instance",
    "read_instance",
    "write_instance",
    "write_json",
]

FORMAT = 1
DraftLaw = Literal["iid", "without_replacement", "fixed"]
_KEYS = {"format", "vocab", "drafts", "length", "draft_rows", "target_rows", "draft_law", "paths"}


@dataclass(frozen=True)
class Instance:
    """A draft model and a target model on one block of `length` tokens, with `drafts` drafts.

    `draft_rows` holds the row after every prefix shorter than `length` that can be drafted,
    `target_rows` the row after every prefix up to `length` that can be emitted. Rows that are
    absent are never drawn from; where an algorithm reads one all the same (and multiplies it by 0)
    it sees the uniform row.
    """

    vocab: int
    drafts: int
    length: int
    draft_rows: Mapping[Prefix, Row]
    target_rows: Mapping[Prefix, Row]
    draft_law: DraftLaw = "iid"
    paths: tuple[Prefix, ...] = ()
    """The drafts themselves [K][L], when `draft_law` is "fixed"."""

    @cached_property
    def draft_model(self) -> Model:
        """The draft rows as a model."""
        if not self.draft_rows:
            return Model(self.vocab, _no_draft_rows if self.length else self._uniform)
        return Model(
            self.vocab, lambda prefix: self.draft_rows.get(prefix) or self._uniform(prefix)
        )

    @cached_property
    def target_model(self) -> Model:
        """The target rows as a model."""
        return Model(
            self.vocab, lambda prefix: self.target_rows.get(prefix) or self._uniform(prefix)
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: the models are made again where the instance is sent to."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _uniform(self, prefix: Prefix) -> Row:
        return (rational(1) / self.vocab,) * self.vocab


def _no_draft_rows(prefix: Prefix) -> Row:
    raise ValueError(
        f'the instance gives its drafts without draft rows: no row after "{prefix_key(prefix)}"'
    )


def prefix_key(prefix: Sequence[int]) -> str:
    """The key of a prefix in the file format: its tokens joined by commas."""
    return ",".join(map(str, prefix))


def instance_from_json(data: object, where: str = "instance") -> Instance:
    """The instance that decoded JSON describes.

    Raises:
        ValueError: naming the key, the position and the value that is wrong.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{where} must be a JSON object, not {type(data).__name__}")
    for key in data:
        if key not in _KEYS:
            raise ValueError(
                f"{where} has an unknown key {key!r}; known: {', '.join(sorted(_KEYS))}"
            )
    if data.get("format", FORMAT) != FORMAT:
        raise ValueError(f"{where}: format is {data['format']!r}; this version reads {FORMAT}")
    vocab = _integer(data, "vocab", 1, where)
    drafts = _integer(data, "drafts", 0, where)
    length = _integer(data, "length", 0, where)
    law = data.get("draft_law", "iid")
    if law not in get_args(DraftLaw):
        raise ValueError(
            f"{where}: draft_law is {law!r}, not one of {', '.join(get_args(DraftLaw))}"
        )
    if law == "without_replacement" and drafts > vocab**length:
        raise ValueError(f"{where}: drafts is {drafts}, more than the {vocab**length} paths")
    draft_rows = _rows(data, "draft_rows", vocab, length - 1, where)
    target_rows = _rows(data, "target_rows", vocab, length, where)
    paths = _paths(data, vocab, drafts, length, where) if law == "fixed" else ()
    if law != "fixed" and "paths" in data:
        raise ValueError(f"{where}: paths are given, but draft_law is {law!r}, not 'fixed'")
    if law != "fixed" and drafts > 0:
        _require(draft_rows, vocab, length - 1, "drafted", f"{where}: draft_rows")
    elif draft_rows:
        for path in paths:
            for depth in range(length):
                if path[:depth] not in draft_rows:
                    missing = prefix_key(path[:depth])
                    raise ValueError(
                        f'{where}: draft_rows has no row for the prefix "{missing}", which lies on '
                        f"paths[{paths.index(path)}]"
                    )
    _require(target_rows, vocab, length, "emitted", f"{where}: target_rows")
    return Instance(vocab, drafts, length, draft_rows, target_rows, law, paths)


def _integer(data: Mapping[str, Any], key: str, least: int, where: str) -> int:
    if key not in data:
        raise ValueError(f"{where} has no {key!r}")
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{where}: {key} is {value!r}, not an integer of at least {least}")
    return value


def _rows(
    data: Mapping[str, Any], key: str, vocab: int, longest: int, where: str
) -> dict[Prefix, Row]:
    given = data.get(key, {})
    if not isinstance(given, dict):
        raise ValueError(f"{where}: {key} must be an object, not {type(given).__name__}")
    rows: dict[Prefix, Row] = {}
    for name, entries in given.items():
        place = f'{where}: {key}["{name}"]'
        prefix = _prefix(name, vocab, place)
        if len(prefix) > longest:
            raise ValueError(
                f"{place}: the prefix has {len(prefix)} tokens; at most {max(longest, 0)} are used"
                if longest >= 0
                else f"{place}: a block of length 0 has no draft rows"
            )
        if prefix in rows:
            raise ValueError(f"{place}: the prefix occurs twice")
        if not isinstance(entries, list):
            raise ValueError(f"{place} must be a list of {vocab} numbers, not {entries!r}")
        if len(entries) != vocab:
            raise ValueError(f"{place} has {len(entries)} entries; the vocabulary has {vocab}")
        try:
            rows[prefix] = row(entries, place)
        except TypeError as error:
            raise ValueError(str(error)) from None
    return rows


def _prefix(name: str, vocab: int, place: str) -> Prefix:
    if name == "":
        return ()
    tokens = []
    for position, token in enumerate(name.split(",")):
        if not token.strip().isdecimal() or int(token) >= vocab:
            raise ValueError(
                f"{place}: token {position} of the prefix is {token!r}, not in 0..{vocab - 1}"
            )
        tokens.append(int(token))
    return tuple(tokens)


def _paths(
    data: Mapping[str, Any], vocab: int, drafts: int, length: int, where: str
) -> tuple[Prefix, ...]:
    given = data.get("paths")
    if not isinstance(given, list) or len(given) != drafts:
        raise ValueError(f"{where}: draft_law 'fixed' needs paths, a list of {drafts} drafts")
    for draft, path in enumerate(given):
        if not isinstance(path, list) or len(path) != length:
            raise ValueError(f"{where}: paths[{draft}] is {path!r}, not a list of {length} tokens")
        for depth, token in enumerate(path):
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
                raise ValueError(
                    f"{where}: paths[{draft}][{depth}] is {token!r}, not in 0..{vocab - 1}"
                )
    return tuple(tuple(path) for path in given)


def _require(rows: Mapping[Prefix, Row], vocab: int, longest: int, verb: str, where: str) -> None:
    """Every prefix that can occur has a row."""
    reached: list[Prefix] = [()] if longest >= 0 else []
    while reached:
        prefix = reached.pop()
        if prefix not in rows:
            raise ValueError(
                f'{where} has no row for the prefix "{prefix_key(prefix)}", which can be {verb}'
            )
        if len(prefix) < longest:
            reached += [(*prefix, v) for v in range(vocab) if rows[prefix][v] != 0]


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """The instance as data for `json.dump`."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "vocab": instance.vocab,
        "drafts": instance.drafts,
        "length": instance.length,
        "draft_rows": _rows_to_json(instance.draft_rows),
        "target_rows": _rows_to_json(instance.target_rows),
    }
    if instance.draft_law != "iid":
        data["draft_law"] = instance.draft_law
    if instance.draft_law == "fixed":
        data["paths"] = [list(path) for path in instance.paths]
    return data


def _rows_to_json(rows: Mapping[Prefix, Row]) -> dict[str, list[str]]:
    ordered = sorted(rows, key=lambda prefix: (len(prefix), prefix))
    return {prefix_key(prefix): [text(entry) for entry in rows[prefix]] for prefix in ordered}


def read_instance(path: str | Path) -> Instance:
    """The instance in a file.

    Raises:
        ValueError: not readable, not JSON, or not a valid instance; the message names the file.
    """
    try:
        data = json.loads(
            Path(path).read_text(encoding="utf-8"), object_pairs_hook=_without_duplicates
        )
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    return instance_from_json(data, str(path))


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def write_instance(instance: Instance, path: str | Path) -> None:
    """Write the file, whole or not at all."""
    write_json(instance_to_json(instance), path)


def write_json(data: object, path: str | Path) -> None:
    """Write JSON to a temporary name beside `path`, then move it there."""
    destination = Path(path)
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, destination)
    finally:
        temporary.unlink(missing_ok=True)


# Random instances. Every kind is a way of drawing the two rows after a prefix.

PairOfRows = Callable[[random.Random, int, int], tuple[Row, Row]]


def _generic(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    return random_row(generator, vocab, denominator), random_row(generator, vocab, denominator)


def _equal(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    both = random_row(generator, vocab, denominator)
    return both, both


def _disjoint(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    """Supports that do not meet (impossible, and so equal rows, when V = 1)."""
    if vocab == 1:
        return (ONE,), (ONE,)
    cut = generator.randint(1, vocab - 1)
    low = random_row(generator, cut, denominator) + (ZERO,) * (vocab - cut)
    high = (ZERO,) * cut + random_row(generator, vocab - cut, denominator)
    return (low, high) if generator.random() < 0.5 else (high, low)


def _one_hot(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    def one() -> Row:
        hot = generator.randrange(vocab)
        return tuple(ONE if v == hot else ZERO for v in range(vocab))

    rows = [one(), random_row(generator, vocab, denominator)]
    generator.shuffle(rows)
    return (rows[0], rows[1]) if generator.random() < 0.7 else (one(), one())


def _mixed(generator: random.Random, vocab: int, denominator: int) -> tuple[Row, Row]:
    kind = generator.choice((_generic, _generic, _equal, _disjoint, _one_hot))
    return kind(generator, vocab, denominator)


KINDS: Mapping[str, PairOfRows] = {
    "generic": _generic,
    "equal": _equal,
    "disjoint": _disjoint,
    "one_hot": _one_hot,
    "mixed": _mixed,
}
"""Ways of drawing the two rows after each prefix; `mixed` takes one of the others at every node."""


def random_instance(
    generator: random.Random,
    vocab: int,
    length: int,
    drafts: int,
    *,
    denominator: int = 12,
    kind: str = "generic",
    draft_law: DraftLaw = "iid",
) -> Instance:
    """A random instance with rows of multiples of 1/denominator, different after every prefix.

    Raises:
        ValueError: an unknown `kind`, or a size out of range.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, not one of {', '.join(KINDS)}")
    if vocab < 1 or length < 0 or drafts < 0:
        raise ValueError(f"vocab, length, drafts = {vocab}, {length}, {drafts}: out of range")
    draft_rows: dict[Prefix, Row] = {}
    target_rows: dict[Prefix, Row] = {}
    for prefix in _prefixes(vocab, length):
        p, q = KINDS[kind](generator, vocab, denominator)
        target_rows[prefix] = q
        if len(prefix) < length:
            draft_rows[prefix] = p
    paths: tuple[Prefix, ...] = ()
    if draft_law == "fixed":
        paths = tuple(
            tuple(generator.randrange(vocab) for _ in range(length)) for _ in range(drafts)
        )
    return Instance(vocab, drafts, length, draft_rows, target_rows, draft_law, paths)


def _prefixes(vocab: int, longest: int) -> Iterator[Prefix]:
    for length in range(longest + 1):
        yield from product(range(vocab), repeat=length)
