"""Edges: single inputs with one right answer, or with answers that are never right.

Zero-probability tokens, one-hot rows at distinct ids, p = q, ragged batches, uniforms at 0, at
exact thresholds and just below 1, NaN rows, a vocabulary of 151,936 with a one-token residual in
every declared precision, greedy requests beside sampled ones. Ties u = q/p are not graded, nor is
which token follows a draft that its own row cannot draw: only that nothing impossible is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from draftproof.conformance.cases.fixtures import draft_counts, draft_laws, longest
from draftproof.conformance.context import Context
from draftproof.conformance.subject import Batch, Floats, SubjectError
from draftproof.conformance.verdict import CheckResult

__all__ = ["LARGE_VOCABULARY", "NAME", "BelowOne", "case_names", "run"]

NAME = "edges"
BelowOne = 1 - 2.0**-53
LARGE_VOCABULARY = 151_936


@dataclass
class _Wrong:
    """One case that failed."""

    case: str
    message: str


def _batch(
    context: Context,
    drafts: Any,
    draft_rows: Any,
    target_rows: Any,
    *,
    accept: float = 0.5,
    token: Any = 0.5,
    dtype: str = "float64",
    temperature: Any = None,
) -> Batch:
    """A batch of given blocks; every accept uniform is `accept`, every token uniform `token`."""
    tokens = np.asarray(drafts, dtype=np.int64)
    size, count, length = tokens.shape
    target = np.ascontiguousarray(target_rows, dtype=np.float64)
    asks = context.declaration.uniforms
    seeds = np.asarray(context.generator("edges seeds").integers(2**31, size=size))
    return Batch(
        scheme=context.scheme.name,
        drafts=tokens,
        draft_rows=np.ascontiguousarray(draft_rows, dtype=np.float64),
        target_rows=target,
        root_rows=np.ascontiguousarray(target[:, 0, 0]),
        accept_uniforms=np.full((size, count, length), accept) if asks else None,
        select_uniforms=np.full((size, count), 0.5) if asks else None,
        token_uniform=np.broadcast_to(np.asarray(token, dtype=float), (size,)).copy()
        if asks
        else None,
        seed=context.seed + 1,
        seeds=seeds,
        position=np.zeros(size, dtype=np.int64),
        temperature=None if temperature is None else np.asarray(temperature, dtype=np.float64),
        dtype=dtype,
    )


def _hot(vocab: int, token: int) -> Floats:
    row = np.zeros(vocab)
    row[token] = 1.0
    return row


def _grid(context: Context) -> list[tuple[float, float]]:
    """Extreme uniforms, or one entry where the subject draws for itself."""
    if not context.declaration.uniforms:
        return [(0.5, 0.5)]
    uniforms = (0.0, 0.5, BelowOne)
    return [(accept, token) for accept in uniforms for token in uniforms]


def _repeated(context: Context, batch: Batch, times: int) -> Batch:
    """Many copies for a subject that draws for itself."""
    if context.declaration.uniforms:
        return batch
    many = batch.take(np.arange(batch.size).repeat(times))
    seeds = context.generator("edges repeat").integers(2**31, size=many.size)
    return replace(many, seeds=seeds)


def _expect(
    context: Context, case: str, batch: Batch, accepted: Any, tokens: Any, times: int = 1
) -> Iterator[_Wrong]:
    """The accepted lengths and the next tokens must be these; a set of tokens allows each of it."""
    many = _repeated(context, batch, times)
    repeat = many.size // batch.size
    result = context.ask(many, f"edges: {case}")
    drafted = result._replace(tokens=None).accepted(many.drafts)
    unlike = np.argwhere(result.accepted(many.drafts) != drafted)
    for b, depth in unlike[:1]:
        assert result.tokens is not None
        yield _Wrong(
            case,
            f"token {depth} is {result.tokens[b, depth]}, but it was accepted as "
            f"{many.drafts[b, result.path[b], depth]} (block {b})",
        )
        return
    for b in range(many.size):
        allowed = tokens[b // repeat]
        allowed = allowed if isinstance(allowed, (set, frozenset)) else {allowed}
        length, token = int(result.accepted_length[b]), int(result.next_token[b])
        if token not in allowed:
            which = f"one of {sorted(allowed)}" if len(allowed) < 9 else f"{len(allowed)} others"
            yield _Wrong(case, f"next token is {token}, allowed: {which} (block {b})")
            return
        wanted = accepted[b // repeat]
        if wanted is not None and length != wanted:
            yield _Wrong(case, f"accepted length is {length}, not {wanted} (block {b})")
            return


def _sizes(context: Context) -> tuple[list[int], list[int]]:
    """Numbers and lengths of drafts to try."""
    counts = draft_counts(context.scheme, context.declaration, 2)
    most = longest(context.scheme)
    low, high = context.declaration.length
    lengths = [
        n for n in (1, 2, 3) if low <= n and (high is None or n <= high) and (not most or n <= most)
    ]
    return counts, lengths


def _allows(context: Context, k: int, length: int, vocab: int) -> bool:
    return context.declaration.allows(k, length, vocab)


# Cases. Each yields what is wrong; each says in one line what it hunts.


def _one_hot_chain(context: Context) -> Iterator[_Wrong]:
    """Rows one-hot at distinct ids at every node: the only possible answer is the target's path.

    Sees a stale bonus row, an off-by-one row, swapped requests, NaN from a residual of mass 0.
    """
    counts, lengths = _sizes(context)
    for k, length in product(counts, lengths):
        vocab = 3 * (length + 1)
        if not _allows(context, k, length, vocab):
            continue
        size = 3
        drafts = np.zeros((size, k, length), dtype=np.int64)
        draft_rows = np.zeros((size, k, length, vocab))
        target_rows = np.zeros((size, k, length + 1, vocab))
        for b in range(size):
            for depth in range(length + 1):
                token = 3 * depth + b
                target_rows[b, :, depth, token] = 1
                if depth < length:
                    drafts[b, :, depth] = token
                    draft_rows[b, :, depth, token] = 1
        final = [3 * length + b for b in range(size)]
        for accept, token_uniform in _grid(context):
            batch = _batch(
                context, drafts, draft_rows, target_rows, accept=accept, token=token_uniform
            )
            yield from _expect(
                context, "one-hot rows, p = q", batch, [length] * size, final, times=20
            )


def _equal_rows(context: Context) -> Iterator[_Wrong]:
    """p = q with soft rows: residuals have mass 0, and only tokens of the row's support come."""
    counts, lengths = _sizes(context)
    for k, length in product(counts, lengths):
        if not _allows(context, k, length, 5):
            continue
        rows = np.tile(np.array([0.5, 0.0, 0.25, 0.0, 0.25]), (3, k, length + 1, 1))
        drafts = np.zeros((3, k, length), dtype=np.int64)
        drafts[:, :, 0] = np.array([0, 2, 4])[None, :k]
        for accept, token in _grid(context):
            batch = _batch(context, drafts, rows[:, :, :-1], rows, accept=accept, token=token)
            support = [{0, 2, 4}] * 3
            yield from _expect(context, "p = q", batch, [None] * 3, support, times=10)


def _impossible_draft(context: Context) -> Iterator[_Wrong]:
    """A drafted token of target probability 0 is never accepted: also not at u = 0."""
    counts, lengths = _sizes(context)
    for k in counts:
        if 1 not in lengths or not _allows(context, k, 1, 3):
            continue
        vocab = 3
        drafts = np.full((1, k, 1), 2)
        if draft_laws(context.scheme, context.declaration)[0] != "iid" and k > 1:
            continue
        draft_rows = np.tile(np.array([0.25, 0.25, 0.5]), (1, k, 1, 1))
        target_rows = np.zeros((1, k, 2, vocab))
        target_rows[:, :, 0] = [0.0, 1.0, 0.0]
        target_rows[:, :, 1] = [0.0, 0.0, 1.0]
        for accept, token in _grid(context):
            zero = accept == 0.0
            case = f"target probability 0{' at u = 0' if zero else ''}"
            batch = _batch(context, drafts, draft_rows, target_rows, accept=accept, token=token)
            yield from _expect(context, case, batch, [0], [1], times=50)


def _disjoint(context: Context) -> Iterator[_Wrong]:
    """p and q have disjoint supports: the correction lies in the target's support."""
    counts, lengths = _sizes(context)
    for k, length in product(counts, lengths):
        if not _allows(context, k, length, 6):
            continue
        draft_rows = np.tile(np.array([0.5, 0.25, 0.25, 0, 0, 0]), (1, k, length, 1))
        target_rows = np.tile(np.array([0, 0, 0, 0.25, 0.25, 0.5]), (1, k, length + 1, 1))
        drafts = np.zeros((1, k, length), dtype=np.int64)
        drafts[0, :, 0] = np.arange(k)  # distinct siblings are drafts under every draft law
        for accept, token in _grid(context):
            case = f"disjoint supports{' at u = 0' if accept == 0 else ''}"
            batch = _batch(context, drafts, draft_rows, target_rows, accept=accept, token=token)
            yield from _expect(context, case, batch, [0], [{3, 4, 5}], times=50)


def _draw_boundaries(context: Context) -> Iterator[_Wrong]:
    """A uniform that equals a boundary of the cumulative sum takes the later token, and a token of
    weight 0 is never drawn; with one residual token every uniform gives it."""
    if not context.declaration.uniforms or context.declaration.rows == "logits":
        return  # logits do not hold the boundary exactly
    counts, lengths = _sizes(context)
    k, length = (counts[0], lengths[0]) if counts and lengths else (0, 0)
    if not k or not _allows(context, k, length, 4):
        return
    target_rows = np.tile(np.array([0.0, 0.25, 0.0, 0.75]), (5, k, length + 1, 1))
    draft_rows = np.tile(np.array([0.5, 0.0, 0.5, 0.0]), (5, k, length, 1))
    drafts = np.zeros((5, k, length), dtype=np.int64)
    drafts[:, 1:] = 2
    token = [0.0, 0.25, 0.125, 0.5, BelowOne]
    batch = _batch(context, drafts, draft_rows, target_rows, accept=0.5, token=token)
    # Rows with an exact boundary at 1/4: the draft has no target probability, so the correction is
    # drawn from the target row itself.
    yield from _expect(
        context, "uniform at a boundary of the cumulative sum", batch, [0] * 5, [1, 3, 1, 3, 3]
    )


def _no_drafts(context: Context) -> Iterator[_Wrong]:
    """K = 0 and L = 0: the next token comes from the target row at once."""
    for k, length in ((0, 2), (0, 0), (1, 0)):
        low, high = context.scheme.drafts
        if k < low or (high is not None and k > high) or not _allows(context, k, length, 5):
            continue
        target = np.zeros((3, max(k, 1), length + 1, 5))
        for b in range(3):
            target[b, :, 0, b + 1] = 1
        batch = _batch(
            context,
            np.zeros((3, k, length), dtype=np.int64),
            np.zeros((3, k, length, 5)),
            target,
        )
        batch = replace(batch, target_rows=target[:, :k])
        yield from _expect(context, f"K = {k}, L = {length}", batch, [0, 0, 0], [1, 2, 3], times=5)


def _ragged(context: Context) -> Iterator[_Wrong]:
    """Drafts of different lengths in one batch: padding is never accepted, the bonus comes from the
    row at the draft's own end."""
    if not context.declaration.ragged:
        return
    counts, lengths = _sizes(context)
    for k in counts:
        length = max(lengths, default=0)
        if length < 2 or not _allows(context, k, length, 3 * (length + 1)):
            continue
        vocab, size = 3 * (length + 1), length + 1
        drafts = np.full((size, k, length), -1, dtype=np.int64)
        draft_rows = np.zeros((size, k, length, vocab))
        target_rows = np.zeros((size, k, length + 1, vocab))
        final = []
        for b in range(size):
            for depth in range(b + 1):
                token = 3 * depth + b % 3
                target_rows[b, :, depth, token] = 1
                if depth < b:
                    drafts[b, :, depth] = token
                    draft_rows[b, :, depth, token] = 1
            final.append(3 * b + b % 3)
        for accept, draw in _grid(context):
            batch = _batch(context, drafts, draft_rows, target_rows, accept=accept, token=draw)
            yield from _expect(context, "ragged batch", batch, list(range(size)), final, times=5)


def _padding_inside(context: Context) -> Iterator[_Wrong]:
    """Padding before another token: at most the tokens before it are accepted."""
    counts, lengths = _sizes(context)
    if not context.declaration.ragged or 1 not in counts or 3 not in lengths:
        return
    if not _allows(context, 1, 3, 4):
        return
    drafts = np.array([[[0, -1, -1]], [[0, -1, 2]]])
    draft_rows = np.zeros((2, 1, 3, 4))
    target_rows = np.zeros((2, 1, 4, 4))
    for depth, token in enumerate((0, 3, 2)):
        draft_rows[:, :, depth, token] = 1
        target_rows[:, :, depth, token] = 1
    target_rows[:, :, 3, 0] = 1
    batch = _batch(context, drafts, draft_rows, target_rows)
    try:
        yield from _expect(context, "padding inside a draft", batch, [1, 1], [3, 3])
    except SubjectError as error:
        if error.kind != "raised":  # refusing it is right too
            raise


def _counters(context: Context) -> Iterator[_Wrong]:
    """Accept, reject, accept: what follows the first rejection does not count."""
    counts, lengths = _sizes(context)
    length = max(lengths, default=0)
    if length < 3 or not counts or not _allows(context, counts[0], length, 4):
        return
    k = counts[0]
    draft_rows = np.zeros((1, k, length, 4))
    target_rows = np.zeros((1, k, length + 1, 4))
    drafts = np.zeros((1, k, length), dtype=np.int64)
    for depth in range(length):
        drafts[0, :, depth] = depth % 3
        draft_rows[0, :, depth, depth % 3] = 1
        target_rows[0, :, depth, 3 if depth == 1 else depth % 3] = 1
    target_rows[0, :, length, 3] = 1
    for accept, token in _grid(context):
        case = f"accept, reject, accept{' at u = 0' if accept == 0 else ''}"
        batch = _batch(context, drafts, draft_rows, target_rows, accept=accept, token=token)
        yield from _expect(context, case, batch, [1], [3], times=20)


def _not_a_number(context: Context) -> Iterator[_Wrong]:
    """A NaN target row: a clear error or a flagged row, never an id of the vocabulary or beyond."""
    counts, lengths = _sizes(context)
    if not counts or not lengths or context.declaration.rows == "logits":
        return
    k, length, vocab = counts[0], lengths[0], 64
    if not _allows(context, k, length, vocab):
        return
    rows = np.full((1, k, length + 1, vocab), np.nan)
    batch = _batch(
        context,
        np.zeros((1, k, length), dtype=np.int64),
        np.full((1, k, length, vocab), 1 / vocab),
        rows,
    )
    try:
        result = context.ask(batch, "edges: NaN row")
    except SubjectError as error:
        if error.kind in ("raised", "nan", "dtype"):
            return
        if error.kind == "range" and "next_token[0] is -1" in error.message:
            return
        yield _Wrong("NaN row", f"a NaN target row: {error}")
        return
    yield _Wrong("NaN row", f"a NaN target row gives token {int(result.next_token[0])}, no error")


def _large_vocabulary(context: Context) -> Iterator[_Wrong]:
    """V = 151,936, draft and target on two tokens, in every declared precision: nothing else comes.

    A residual clamped at a small positive number, or passed through softmax, emits junk here.
    """
    counts, _ = _sizes(context)
    if not counts or not _allows(context, counts[0], 1, LARGE_VOCABULARY):
        return
    k, vocab = counts[0], LARGE_VOCABULARY
    low, high = 7, vocab - 3
    for number, dtype in enumerate(context.declaration.dtypes):
        if number and context.elapsed > context.budget:
            return
        draft_rows, target_rows = np.zeros((3, k, 1, vocab)), np.zeros((3, k, 2, vocab))
        draft_rows[..., low] = 1.0
        target_rows[..., low], target_rows[..., high] = 0.75, 0.25
        batch = _batch(
            context,
            np.full((3, k, 1), low),
            draft_rows,
            target_rows,
            accept=1 - 2.0**-20,
            token=np.array([0.0, 0.6, BelowOne]),
            dtype=dtype,
        )
        case = f"one-token residual at V = {vocab}, {dtype}"
        yield from _expect(context, case, batch, [None] * 3, [{low, high}] * 3, times=3)


def _impossible_under_draft(context: Context) -> Iterator[_Wrong]:
    """A drafted token that its own row cannot draw: nothing impossible is emitted, no NaN."""
    counts, lengths = _sizes(context)
    if not counts or 1 not in lengths or not _allows(context, counts[0], 1, 3):
        return
    k = counts[0]
    for q in ([0.5, 0.5, 0.0], [0.0, 1.0, 0.0]):
        draft_rows = np.tile(np.array([0.0, 0.5, 0.5]), (1, k, 1, 1))
        target_rows = np.tile(np.array(q), (1, k, 2, 1))
        drafts = np.zeros((1, k, 1), dtype=np.int64)
        for accept, token in _grid(context):
            batch = _batch(context, drafts, draft_rows, target_rows, accept=accept, token=token)
            result = context.ask(batch, "edges: p = 0 at the drafted token")
            n, v = int(result.accepted_length[0]), int(result.next_token[0])
            at_zero = " at u = 0" if accept == 0 else ""
            if q[v] == 0 or (n == 1 and q[0] == 0):
                yield _Wrong(
                    f"draft probability 0{at_zero}",
                    f"emitted {'token 0, then ' if n else ''}{v}: target row {q}",
                )
                return


def _greedy(context: Context) -> Iterator[_Wrong]:
    """Temperature 0 beside temperature 1: the greedy request emits the target's best token."""
    if not context.declaration.temperatures:
        return
    draft_rows = np.tile(np.array([0.3, 0.7]), (2, 1, 1, 1))
    target_rows = np.tile(np.array([0.6, 0.4]), (2, 1, 2, 1))
    drafts = np.ones((2, 1, 1), dtype=np.int64)
    for accept, token in _grid(context):
        batch = _batch(
            context,
            drafts,
            draft_rows,
            target_rows,
            accept=accept,
            token=token,
            temperature=[0.0, 1.0],
        )
        many = _repeated(context, batch, 40)
        result = context.ask(many, "edges: greedy beside sampled")
        for b in np.flatnonzero(many.temperature == 0):
            if result.accepted_length[b] != 0 or result.next_token[b] != 0:
                yield _Wrong(
                    "greedy beside sampled",
                    f"at temperature 0 the request emits "
                    f"{'the draft 1' if result.accepted_length[b] else int(result.next_token[b])}, "
                    "the target's best token is 0",
                )
                return


_CASES: dict[str, Callable[[Context], Iterator[_Wrong]]] = {
    "one-hot rows": _one_hot_chain,
    "equal rows": _equal_rows,
    "target probability 0": _impossible_draft,
    "disjoint supports": _disjoint,
    "boundaries": _draw_boundaries,
    "no drafts": _no_drafts,
    "ragged": _ragged,
    "padding inside": _padding_inside,
    "counters": _counters,
    "NaN row": _not_a_number,
    "draft probability 0": _impossible_under_draft,
    "large vocabulary": _large_vocabulary,
    "greedy": _greedy,
}


def case_names() -> list[str]:
    """The names of all cases."""
    return list(_CASES)


def run(context: Context) -> CheckResult:
    """The check: every case that applies."""
    wrong: list[_Wrong] = []
    passed: list[str] = []
    for name, case in _CASES.items():
        asked = context.asked
        try:
            found = list(case(context))
        except SubjectError as error:
            if error.kind in ("timeout", "memory", "crash", "protocol", "skipped"):
                raise
            found = [_Wrong(name, str(error))]
        wrong += found
        if not found and context.asked > asked:
            passed.append(name)
    endings = tuple(context.declaration.known)
    known = [w for w in wrong if endings and w.case.endswith(endings)]
    graded = [w for w in wrong if w not in known]
    details = {
        "passed": passed,
        "wrong": [{"case": w.case, "message": w.message} for w in graded],
        "known": [{"case": w.case, "message": w.message} for w in known],
    }
    if graded:
        more = f" (and {len(graded) - 1} more)" if len(graded) > 1 else ""
        first = graded[0]
        return context.bias(NAME, f"{first.case}: {first.message}{more}", details=details)
    if not passed:
        return context.result(NAME, "skipped", "no case is within the declared ranges")
    message = f"{len(passed)} cases"
    if known:
        message += f"; known and not graded: {', '.join(endings)}"
    return context.result(NAME, "passed", message, details=details)
