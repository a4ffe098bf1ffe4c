"""Subject: what a verification function under test declares, receives and returns.

A subject is any object with a `declaration` and a `verify(batch)` (or, for a verifier of single
blocks, `verify_one(block)`). `Declaration.parse` and `call` hold both sides to the interface: what
is wrong is said as a `SubjectError` that names the argument, the position and the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Batch",
    "Block",
    "Declaration",
    "Result",
    "Subject",
    "SubjectError",
    "Unavailable",
    "call",
    "checked",
    "declared",
    "one_by_one",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Unavailable(Exception):  # noqa: N818 - a state of the machine, not an error
    """This subject cannot run here (an engine or a device is missing): skipped, never passed."""


class SubjectError(Exception):
    """The subject broke the interface; the message names what, where and the value.

    `kind` is one of declaration, raised, missing, shape, dtype, range, nan, timeout, memory, crash,
    protocol, skipped.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Declaration:
    """What a subject says about itself; `parse` reads it from the dictionary of the interface."""

    name: str
    version: str = ""
    schemes: tuple[str, ...] = ()
    """Names of the catalogue: the laws that the subject claims to have."""
    drafts: tuple[int, int | None] = (0, None)
    """Inclusive range of K."""
    length: tuple[int, int | None] = (0, None)
    """Inclusive range of L."""
    vocab: tuple[int, int | None] = (1, None)
    """Inclusive range of V."""
    uniforms: bool = False
    """Whether it takes the uniforms of the randomness contract."""
    generator: bool | None = None
    """Whether it draws for itself, from the seed, when the uniforms of a batch are None; left out:
    exactly if it does not take uniforms."""
    rows: Literal["probabilities", "logits"] = "probabilities"
    """What the rows of a batch are; logits are logarithms of the rows, -inf for probability 0."""
    bonus: Literal["drawn", "supplied"] = "drawn"
    """Whether the function draws the bonus itself, or its caller (here the adapter) does."""
    lossless: bool = True
    """False: lossy by design; the bias is measured and reported, never a failure."""
    ragged: bool = False
    """Whether drafts of a batch may have different lengths (padding -1)."""
    draft_law: Literal["iid", "without_replacement", "deterministic", ""] = ""
    """The law of the drafts it is made for; empty: the one its scheme assumes."""
    temperatures: bool = False
    """Whether it applies `batch.temperature` to rows that are given at temperature 1."""
    request_seeds: bool = False
    """Whether row b of a batch depends on `batch.seeds[b]` and on no other seed."""
    dtypes: tuple[str, ...] = ("float64",)
    """Precisions it computes in, for the edge cases of large vocabularies."""
    graded_laws: tuple[str, ...] = ("tokens", "accepted")
    """`tokens`: the emitted string has the target's law. `accepted`: the accepted length is the
    scheme's too (a rule may be lossless and accept less: it leaves this out)."""
    known: tuple[str, ...] = ()
    """Endings of names of edge cases that are reported but not graded, the reason in `note`."""
    time_limit: float = 30.0
    """Seconds that one call may take."""
    memory_limit: float = 8.0
    """GiB that the subject's process may hold."""
    note: str = ""
    """One line for the report: what exactly is run, at which version."""

    @classmethod
    def parse(cls, given: Any) -> Declaration:
        """A declaration from the dictionary of the interface.

        Raises:
            SubjectError: kind "declaration": an unknown key, a missing name or scheme, a value of
                the wrong type or outside its range.
        """
        if isinstance(given, Declaration):
            return given
        if not isinstance(given, Mapping):
            raise _bad(f"declaration is {type(given).__name__}, not a dictionary")
        known = {f.name for f in fields(cls)}
        for key in given:
            if key not in known and key not in ("type", "protocol", "format"):
                raise _bad(f"unknown key {key!r}; known: {', '.join(sorted(known))}")
        if not isinstance(given.get("name"), str) or not given["name"]:
            raise _bad(f"name is {given.get('name')!r}, not a text")
        schemes = given.get("schemes")
        if (
            isinstance(schemes, str)
            or not isinstance(schemes, Sequence)
            or not schemes
            or not all(isinstance(s, str) for s in schemes)
        ):
            raise _bad(f"schemes is {schemes!r}, not a list of scheme names")
        values: dict[str, Any] = {"name": given["name"], "schemes": tuple(schemes)}
        for key in ("drafts", "length", "vocab"):
            if given.get(key) is not None:
                values[key] = _range(key, given[key])
        for key in ("uniforms", "generator", "lossless", "ragged", "temperatures", "request_seeds"):
            if given.get(key) is not None:
                if not isinstance(given[key], bool):
                    raise _bad(f"{key} is {given[key]!r}, not true or false")
                values[key] = given[key]
        for key, allowed in (
            ("rows", ("probabilities", "logits")),
            ("bonus", ("drawn", "supplied")),
            ("draft_law", ("", "iid", "without_replacement", "deterministic")),
        ):
            if key in given:
                if given[key] not in allowed:
                    raise _bad(f"{key} is {given[key]!r}, not one of {', '.join(allowed)}")
                values[key] = given[key]
        for key, allowed in (
            ("dtypes", ("float64", "float32", "bfloat16", "float16")),
            ("graded_laws", ("tokens", "accepted")),
        ):
            if key in given:
                listed = given[key]
                if isinstance(listed, str) or not isinstance(listed, Sequence):
                    raise _bad(f"{key} is {listed!r}, not a list")
                for item in listed:
                    if item not in allowed:
                        raise _bad(f"{key} has {item!r}, not one of {', '.join(allowed)}")
                values[key] = tuple(listed)
        if given.get("known") is not None:
            listed = given["known"]
            if isinstance(listed, str) or not all(isinstance(item, str) for item in listed):
                raise _bad(f"known is {listed!r}, not a list of names of edge cases")
            values["known"] = tuple(listed)
        for key in ("time_limit", "memory_limit"):
            if key in given:
                number = given[key]
                if isinstance(number, bool) or not isinstance(number, (int, float)) or number <= 0:
                    raise _bad(f"{key} is {number!r}, not a positive number")
                values[key] = float(number)
        for key in ("version", "note"):
            if given.get(key) is not None:
                values[key] = str(given[key])
        return cls(**values)

    @property
    def draws(self) -> bool:
        """Whether it can be asked without uniforms."""
        return not self.uniforms if self.generator is None else self.generator

    def allows(self, drafts: int, length: int, vocab: int) -> bool:
        """Whether an instance of this size is within the declared ranges."""
        return (
            _within(drafts, self.drafts)
            and _within(length, self.length)
            and _within(vocab, self.vocab)
        )

    def to_json(self) -> dict[str, Any]:
        """The dictionary that `parse` reads."""
        return {
            f.name: list(value) if isinstance(value, tuple) else value
            for f in fields(self)
            for value in (getattr(self, f.name),)
        }


def _bad(message: str) -> SubjectError:
    return SubjectError("declaration", f"declaration: {message}")


def _range(key: str, value: Any) -> tuple[int, int | None]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise _bad(f"{key} is {value!r}, not a pair [lowest, highest]")
    low, high = value
    for bound in (low, high):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise _bad(f"{key} is {value!r}: {bound!r} is not an integer")
    low = 0 if low is None else low
    if low < 0 or (high is not None and high < low):
        raise _bad(f"{key} is {value!r}: not an increasing range of integers from 0")
    return low, high


def _within(value: int, bounds: tuple[int, int | None]) -> bool:
    return bounds[0] <= value and (bounds[1] is None or value <= bounds[1])


class Block(NamedTuple):
    """One block, as `verify_one` receives it: the fields of `Batch` without the axis B."""

    scheme: str
    drafts: Ints
    draft_rows: Floats
    target_rows: Floats
    accept_uniforms: Floats | None
    select_uniforms: Floats | None
    token_uniform: float | None
    seed: int
    position: int
    temperature: float | None
    carry: Any


@dataclass(frozen=True)
class Batch:
    """B blocks to verify, all arrays in C order and owned by the suite."""

    scheme: str
    drafts: Ints
    """[B, K, L], -1 after the end of a shorter draft."""
    draft_rows: Floats
    """[B, K, L, V]: row i of draft k is the draft's law after its first i tokens."""
    target_rows: Floats
    """[B, K, L+1, V]: row i is the target after the first i tokens; the bonus row is the one at the
    draft's own length. With K = 0 a block still has its root row: `root_rows`."""
    root_rows: Floats
    """[B, V]: the target at the root, `target_rows[:, 0, 0]` whenever there is a draft."""
    accept_uniforms: Floats | None = None
    """[B, K, L], float64 in [0, 1)."""
    select_uniforms: Floats | None = None
    """[B, K]."""
    token_uniform: Floats | None = None
    """[B]."""
    seed: int = 0
    """For the whole call."""
    seeds: Ints | None = None
    """[B]: one for each request, the same in every round of it."""
    position: Ints | None = None
    """[B]: how many tokens the request has emitted before this round; with `seeds` it tells the
    rounds of a request apart (a generator made from the seed alone repeats itself)."""
    temperature: Floats | None = None
    """[B], only for subjects that declare `temperatures`."""
    dtype: str = "float64"
    """The precision the subject is asked to compute in."""
    carry: Any = None
    """What the last result returned, for stateful schemes."""

    @property
    def size(self) -> int:
        """B."""
        return int(self.drafts.shape[0])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, K, L, V)."""
        b, k, length = self.drafts.shape
        return b, k, length, int(self.root_rows.shape[-1])

    @property
    def lengths(self) -> Ints:
        """[B, K]: the length of each draft, up to its first padding."""
        found: Ints = np.cumprod(self.drafts >= 0, axis=2).sum(axis=2)
        return found

    def take(self, rows: Sequence[int] | Ints) -> Batch:
        """The blocks at `rows`, in that order; a carry cannot be taken apart and is dropped."""
        picked = np.asarray(rows, dtype=np.int64)
        changes: dict[str, Any] = {"carry": None}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray) and f.name != "carry":
                changes[f.name] = np.ascontiguousarray(value[picked])
        return replace(self, **changes)

    def copy(self) -> Batch:
        """A batch with its own buffers, which a subject may spoil."""
        owned: dict[str, Any] = {
            f.name: value.copy()
            for f in fields(self)
            for value in (getattr(self, f.name),)
            if isinstance(value, np.ndarray) and f.name != "carry"
        }
        return replace(self, **owned)

    def block(self, b: int) -> Block:
        """Block `b`, for `verify_one`."""
        carry = self.carry[b] if isinstance(self.carry, list) else self.carry
        return Block(
            scheme=self.scheme,
            drafts=self.drafts[b],
            draft_rows=self.draft_rows[b],
            target_rows=self.target_rows[b],
            accept_uniforms=None if self.accept_uniforms is None else self.accept_uniforms[b],
            select_uniforms=None if self.select_uniforms is None else self.select_uniforms[b],
            token_uniform=None if self.token_uniform is None else float(self.token_uniform[b]),
            seed=int(self.seeds[b]) if self.seeds is not None else self.seed + b,
            position=0 if self.position is None else int(self.position[b]),
            temperature=None if self.temperature is None else float(self.temperature[b]),
            carry=carry,
        )


class Result(NamedTuple):
    """What a subject answers, one entry a block."""

    accepted_length: Ints
    """[B]: the next token is not counted."""
    path: Ints
    """[B]: a draft that the accepted prefix lies on."""
    next_token: Ints
    """[B]: the correction or the bonus."""
    carry: Any = None
    tokens: Ints | None = None
    """[B, L+1], -1 after the last: what was emitted, where the subject says so itself. It may then
    differ from the accepted drafts, which is a fault that the law of these tokens shows."""

    def accepted(self, drafts: Ints) -> Ints:
        """[B, L]: the accepted tokens of drafts [B, K, L], -1 beyond the accepted length."""
        size, count, length = drafts.shape
        if self.tokens is not None:
            taken = self.tokens[:, :length]
        elif count:
            taken = drafts[np.arange(size), self.path]
        else:
            taken = np.full((size, length), -1, dtype=np.int64)
        keep = np.arange(length)[None, :] < self.accepted_length[:, None]
        found: Ints = np.where(keep, taken, -1)
        return found


class Subject(Protocol):
    """A verification function under test. `verify_one(block)` may take the place of `verify`; a
    subject with a drafter of its own offers `draft(batch) -> tokens` too (see checks.drafter)."""

    declaration: Any

    def verify(self, batch: Batch) -> Any:
        """Verify every block of the batch."""
        ...


def declared(subject: Any) -> Declaration:
    """The parsed declaration of a subject, which must also offer a verify function.

    Raises:
        SubjectError: kind "declaration".
    """
    if not hasattr(subject, "declaration"):
        raise _bad(f"{type(subject).__name__} has no attribute `declaration`")
    declaration = Declaration.parse(subject.declaration)
    if not callable(getattr(subject, "verify", None)) and not callable(
        getattr(subject, "verify_one", None)
    ):
        raise _bad(f"{type(subject).__name__} offers neither `verify` nor `verify_one`")
    return declaration


def _logits(rows: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(rows)


def call(subject: Any, batch: Batch, declaration: Declaration | None = None) -> Result:
    """Verify a batch by the subject, on buffers of its own, and hold the answer to the interface.

    Rows are given as probabilities here, and turned into logits for a subject that declares them.

    Raises:
        SubjectError: the subject raised, or its answer has a wrong shape, a wrong dtype, a NaN, an
            accepted length that its drafts do not have or a token outside the vocabulary.
    """
    declaration = declaration or declared(subject)
    given = batch.copy()
    if declaration.rows == "logits":
        given = replace(
            given,
            draft_rows=_logits(given.draft_rows),
            target_rows=_logits(given.target_rows),
            root_rows=_logits(given.root_rows),
        )
    try:
        if callable(getattr(subject, "verify", None)):
            answer = subject.verify(given)
        else:
            answer = one_by_one(subject, given)
    except (SubjectError, Unavailable, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}".strip()
        raise SubjectError("raised", f"verify raised {what}") from error
    return checked(answer, batch)


def one_by_one(subject: Any, batch: Batch) -> Result:
    """The answers of a subject that offers `verify_one`, collected."""
    answers = [subject.verify_one(batch.block(b)) for b in range(batch.size)]
    carries = [_optional(answer, "carry") for answer in answers]
    lengths, paths, tokens = (
        np.array([_scalar(a, name, b) for b, a in enumerate(answers)])
        for name in ("accepted_length", "path", "next_token")
    )
    carry = None if all(c is None for c in carries) else carries
    return Result(lengths, paths, tokens, carry, _stacked(answers, batch.shape[2] + 1))


def _stacked(answers: list[Any], width: int) -> Ints | None:
    """The tokens of single blocks as one array, padded by -1; None where none has any."""
    given = [_optional(answer, "tokens") for answer in answers]
    if all(tokens is None for tokens in given):
        return None
    stacked = np.full((len(given), width), -1, dtype=np.int64)
    for b, tokens in enumerate(given):
        row = _plain([] if tokens is None else tokens)
        if row.ndim != 1 or len(row) > width:
            raise SubjectError(
                "shape", f"tokens of block {b} has shape {row.shape}, not at most ({width},)"
            )
        stacked[b, : len(row)] = row
    return stacked


def _scalar(answer: Any, name: str, b: int) -> Any:
    found = _field(answer, name)
    value = _plain(0 if found is None else found)  # a path left out is draft 0
    if value.shape not in ((), (1,)):
        raise SubjectError("shape", f"{name} of block {b} has shape {value.shape}, not a number")
    return value.reshape(())[()]


def _field(answer: Any, name: str) -> Any:
    if isinstance(answer, Mapping):
        if name in answer:
            return answer[name]
    elif hasattr(answer, name):
        return getattr(answer, name)
    if name == "path":
        return None
    raise SubjectError(
        "missing", f"the result ({type(answer).__name__}) has no {name}; it needs "
        "accepted_length, path and next_token"
    )  # fmt: skip


def _optional(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)


def _plain(value: Any) -> NDArray[Any]:
    """A numpy array of a numpy array, a torch tensor, a number or a list."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def checked(answer: Any, batch: Batch) -> Result:
    """The answer as int64 arrays.

    Raises:
        SubjectError: see `call`.
    """
    size, count, _, vocab = batch.shape
    arrays: dict[str, Ints] = {}
    for name in ("accepted_length", "path", "next_token"):
        value = _field(answer, name)
        if name == "path" and value is None:
            if count > 1:
                raise SubjectError("missing", "the result has no path, needed with several drafts")
            value = np.zeros(size, dtype=np.int64)
        array = _plain(value)
        if array.shape != (size,):
            raise SubjectError("shape", f"{name} has shape {array.shape}, not {(size,)}")
        if array.dtype.kind == "f":
            if not np.isfinite(array).all():
                b = int(np.flatnonzero(~np.isfinite(array))[0])
                raise SubjectError("nan", f"{name}[{b}] is {array[b]}")
            if (array != np.floor(array)).any():
                b = int(np.flatnonzero(array != np.floor(array))[0])
                raise SubjectError("dtype", f"{name}[{b}] is {array[b]}, not an integer")
        elif array.dtype.kind not in "iu":
            raise SubjectError("dtype", f"{name} has dtype {array.dtype}, not integers")
        arrays[name] = array.astype(np.int64)
    _in_range("next_token", arrays["next_token"], np.full(size, vocab), "the vocabulary has {} ids")
    _in_range("path", arrays["path"], np.full(size, max(count, 1)), "there are {} drafts")
    if count:
        available = batch.lengths[np.arange(size), arrays["path"]]
    else:
        available = np.zeros(size, dtype=np.int64)
    _in_range(
        "accepted_length", arrays["accepted_length"], available + 1, "allowed values number {}"
    )
    tokens = _emitted(_optional(answer, "tokens"), batch, arrays)
    return Result(**arrays, carry=_optional(answer, "carry"), tokens=tokens)


def _emitted(given: Any, batch: Batch, arrays: Mapping[str, Ints]) -> Ints | None:
    """The emitted tokens [B, L+1], held to the accepted lengths and the next tokens."""
    if given is None:
        return None
    tokens, (size, _, length, vocab) = _plain(given), batch.shape
    if tokens.shape != (size, length + 1) or tokens.dtype.kind not in "iu":
        raise SubjectError(
            "shape",
            f"tokens has shape {tokens.shape} and dtype {tokens.dtype}, not integers "
            f"{(size, length + 1)}",
        )
    emitted: Ints = tokens.astype(np.int64)
    accepted = arrays["accepted_length"]
    places = np.arange(length + 1)[None, :]
    inside = places <= accepted[:, None]
    wrong = np.argwhere(inside & ((emitted < 0) | (emitted >= vocab)))
    if len(wrong):
        b, i = wrong[0]
        raise SubjectError(
            "range", f"tokens[{b}, {i}] is {emitted[b, i]}, out of range: the vocabulary has "
            f"{vocab} ids and {accepted[b]} drafts were accepted"
        )  # fmt: skip
    last = emitted[np.arange(size), accepted]
    unequal = np.flatnonzero(last != arrays["next_token"])
    if len(unequal):
        b = int(unequal[0])
        raise SubjectError(
            "range", f"tokens[{b}, {accepted[b]}] is {last[b]}, next_token[{b}] is "
            f"{arrays['next_token'][b]}"
        )  # fmt: skip
    return emitted


def _in_range(name: str, values: Ints, bounds: Ints, what: str) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= bounds))
    if len(wrong):
        b = int(wrong[0])
        raise SubjectError(
            "range", f"{name}[{b}] is {values[b]}, out of range: {what.format(bounds[b])}"
        )
