"""Gate: verdicts, accepted lengths and speed of subjects against a stored baseline.

    verdict            a scheme that was lossless must stay so
    accepted length    the mean over fixed blocks: with given uniforms the same decisions give the
                       same number, so that a fall of half a percent fails; a subject with a
                       generator of its own may fall by five standard errors
    speed ratio        the time of a verification over that of the plain thing, in numpy, on the
                       same rows in the same run: SPEED_RISE times the stored ratio fails

A scheme of the baseline that is gone, or can no longer be run, is a regression too.

*Speed on a shared machine.* Time spent ready to run but without a core is not counted, which Linux
tells; sleeping and waiting for others is. Verification and yardstick take turns, and the ratio of a
run is the median of the ratios of neighbours: what slows the machine's memory for longer than a
pair slows both, and what strikes one of them moves one pair. A ratio that is too high is measured
SPEED_TRIES times, and their median decides: slowness of the subject is there every time.
docs/formats.md has the spread that the bounds were chosen from. A speed that was stored on another
kind of processor is not compared, and the command says so.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from draftproof.conformance.cases.fixtures import draft_laws
from draftproof.conformance.subject import Batch, Declaration, Floats, Ints, call, one_by_one
from draftproof.conformance.tables import sample_rows
from draftproof.reference.catalogue import find

__all__ = [
    "ACCEPTED_FALL",
    "FORMAT",
    "SPEED_RISE",
    "SPEED_TRIES",
    "accepted_length",
    "comparable",
    "compare",
    "processor",
    "read_baseline",
    "speed_ratio",
    "speed_within",
]

FORMAT = 1
ACCEPTED_FALL = 0.005
"""The largest relative fall of the accepted length under given uniforms."""
_STANDARD_ERRORS = 5
SPEED_RISE = 1.75
"""How many times the stored speed ratio is allowed."""
SPEED_TRIES = 5
"""How often a ratio that is too high at first is measured."""
_PAIRS, _LEAST_PAIRS, _SECONDS = 21, 5, 3.0


def _batch(
    scheme: str, declaration: Declaration, *, size: int, vocab: int, length: int, drafts: int
) -> Batch:
    """Fixed blocks with sampled drafts; the rows after a token are the base rows rolled by it, so
    that they differ at every node and drafts that share a prefix share its rows."""
    generator = np.random.default_rng(zlib.crc32(f"gate {scheme} {size} {vocab}".encode()))
    entry = find(scheme)
    for most in (declaration.drafts[1], entry.drafts[1]):
        drafts = drafts if most is None else min(drafts, most)
    drafts = max(drafts, declaration.drafts[0], entry.drafts[0])
    length = 1 if entry.kind == "coupling" else length
    distinct = draft_laws(entry, declaration)[:1] == ["without_replacement"]
    if distinct:
        length = 1  # siblings of one node; how longer drafts share theirs is up to the tree
    if declaration.length[1] is not None:
        length = min(length, declaration.length[1])
    length = max(length, declaration.length[0])
    base = generator.dirichlet(np.full(vocab, 0.3), (size, 1, length + 1))
    noise = generator.dirichlet(np.full(vocab, 0.3), (size, 1, length))
    mixed = 0.7 * base[:, :, :length] + 0.3 * noise
    tokens = np.zeros((size, drafts, length), dtype=np.int64)
    draft_rows = np.zeros((size, drafts, length, vocab))
    target_rows = np.zeros((size, drafts, length + 1, vocab))
    last: Ints = np.zeros((size, drafts), dtype=np.int64)
    for depth in range(length + 1):
        place = (np.arange(vocab) - last[..., None]) % vocab
        target_rows[:, :, depth] = np.take_along_axis(base[:, :, depth], place, axis=-1)
        if depth == length:
            break
        rows = np.take_along_axis(mixed[:, :, depth], place, axis=-1)
        draft_rows[:, :, depth] = rows
        if distinct:
            last = _without_replacement(generator, rows)
        else:
            reached = np.cumsum(rows, axis=-1)
            threshold = generator.random((size, drafts, 1)) * reached[..., -1:]
            last = (reached <= threshold).sum(axis=-1)
        tokens[:, :, depth] = last
    takes = declaration.uniforms
    return Batch(
        scheme=scheme,
        drafts=tokens,
        draft_rows=draft_rows,
        target_rows=target_rows,
        root_rows=np.ascontiguousarray(base[:, 0, 0]),
        accept_uniforms=generator.random((size, drafts, length)) if takes else None,
        select_uniforms=generator.random((size, drafts)) if takes else None,
        token_uniform=generator.random(size) if takes else None,
        seed=1,
        seeds=np.arange(size, dtype=np.int64),
        position=np.zeros(size, dtype=np.int64),
    )


def _without_replacement(generator: np.random.Generator, rows: Floats) -> Ints:
    """[B, K]: K distinct tokens of each row [B, K, V] (K times the same), in the order drawn."""
    size, drafts, _ = rows.shape
    left, drawn = rows[:, 0].copy(), np.zeros((size, drafts), dtype=np.int64)
    for draft in range(drafts):
        drawn[:, draft] = sample_rows(generator, left)
        left[np.arange(size), drawn[:, draft]] = 0.0
    return drawn


def accepted_length(
    subject: Any, declaration: Declaration, scheme: str, *, blocks: int = 2000
) -> tuple[float, float]:
    """The mean accepted length over fixed blocks (V = 16, K ≤ 3, L ≤ 4), its standard error.

    Raises:
        SubjectError: the subject failed.
    """
    batch = _batch(scheme, declaration, size=blocks, vocab=16, length=4, drafts=3)
    lengths = call(subject, batch, declaration).accepted_length
    return float(lengths.mean()), float(lengths.std(ddof=1) / math.sqrt(len(lengths)))


class _Clock:
    """Seconds as they pass, without those in which this thread was ready and had no core."""

    def __init__(self) -> None:
        self._file: Any = None
        with contextlib.suppress(OSError):  # only Linux tells
            self._file = open("/proc/thread-self/schedstat", "rb", buffering=0)  # noqa: SIM115

    def __call__(self) -> float:
        waited = 0.0
        if self._file is not None:
            self._file.seek(0)
            waited = 1e-9 * int(self._file.read().split()[1])
        return time.perf_counter() - waited


class _Timed:
    """A subject whose own time is taken, without what the suite does around it."""

    def __init__(self, subject: Any, clock: _Clock) -> None:
        self._subject, self._clock = subject, clock
        self.seconds = 0.0

    def verify(self, batch: Batch) -> Any:
        begun = self._clock()
        try:
            if callable(getattr(self._subject, "verify", None)):
                return self._subject.verify(batch)
            return one_by_one(self._subject, batch)
        finally:
            self.seconds = self._clock() - begun


class _Yardstick:
    """The plain thing: residuals at every node, and the cumulative sums to draw from.

    Its memory is its own, so that it takes the same time whatever was allocated before.
    """

    def __init__(self, batch: Batch, clock: _Clock) -> None:
        self._batch, self._clock = batch, clock
        self._residual = np.empty_like(batch.draft_rows)
        self._last = np.empty_like(batch.target_rows[:, :, -1])

    def seconds(self) -> float:
        """How long it takes now."""
        begun = self._clock()
        np.subtract(self._batch.target_rows[:, :, :-1], self._batch.draft_rows, out=self._residual)
        np.maximum(self._residual, 0, out=self._residual)
        np.cumsum(self._residual, axis=-1, out=self._residual)
        np.cumsum(self._batch.target_rows[:, :, -1], axis=-1, out=self._last)
        return self._clock() - begun


def speed_ratio(
    subject: Any, declaration: Declaration, scheme: str, *, vocab: int = 8192
) -> tuple[float, float]:
    """Time of one verification (B = 8, K ≤ 3, L ≤ 4) over the yardstick's; milliseconds of it.

    Raises:
        SubjectError: the subject failed.
    """
    batch = _batch(scheme, declaration, size=8, vocab=vocab, length=4, drafts=3)
    clock = _Clock()
    timed = _Timed(subject, clock)
    yardstick = _Yardstick(batch, clock)
    ratios, milliseconds = [], []
    begun = time.perf_counter()
    for number in range(_PAIRS + 1):
        call(timed, batch, declaration)
        ratio = timed.seconds / yardstick.seconds()
        if number:  # what is compiled or cached on the first call is not counted
            ratios.append(ratio)
            milliseconds.append(1e3 * timed.seconds)
        if len(ratios) >= _LEAST_PAIRS and time.perf_counter() - begun > _SECONDS:
            break
    return float(np.median(ratios)), float(np.median(milliseconds))


def speed_within(
    was: float | None, measure: Callable[[], tuple[float, float]]
) -> dict[str, float | list[float]]:
    """The speed of a scheme: measured once if that is within bounds, else the median of several.

    Args:
        was: the stored ratio, or None where there is nothing to compare with.
        measure: see `speed_ratio`.
    """
    tried = [measure()]
    if was is None or tried[0][0] > SPEED_RISE * was:
        tried += [measure() for _ in range(SPEED_TRIES - 1)]
    ratio, milliseconds = sorted(tried)[len(tried) // 2]
    return {
        "speed_ratio": round(ratio, 4),
        "milliseconds": round(milliseconds, 3),
        "speed_tries": [round(found, 4) for found, _ in tried],
    }


def read_baseline(path: str | Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Subject → scheme → what was measured.

    Raises:
        ValueError: not readable, or not a baseline of this format.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path}: format is not {FORMAT}")
    subjects = data.get("subjects")
    if not isinstance(subjects, dict) or not subjects:
        raise ValueError(f"{path} has no subjects")
    return subjects


def processor() -> str:
    """The kind of processor that this is: speed ratios hold for one kind alone."""
    kind = {"model name": platform.processor() or platform.machine(), "cpu family": "", "model": ""}
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    for name, _, value in (line.partition(":") for line in reversed(lines)):
        if name.strip() in kind:
            kind[name.strip()] = value.strip()
    return f"{' '.join(' '.join(kind.values()).split())}, {os.cpu_count()} cores"


def comparable(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What was stored for a scheme, without a speed that was measured on another processor."""
    known = stored.get("processor", processor()) == processor()
    return dict(stored) if known else {**stored, "speed_ratio": None}


def compare(was: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[str]:
    """What is worse than in the baseline, for one scheme of one subject."""
    if now is None:
        return ["is gone"]
    worse = []
    if was["verdict"] in ("lossless", "lossy by design") and now["verdict"] != was["verdict"]:
        worse.append(f"verdict: {was['verdict']} → {now['verdict']}: {now.get('reason', '')}")
    before, after = was.get("accepted_length"), now.get("accepted_length")
    if before is not None:
        if after is None:
            worse.append("accepted length: no longer measured")
        else:
            allowed = ACCEPTED_FALL * before
            if not (was["uniforms"] and now["uniforms"]):
                errors = was["standard_error"], now["standard_error"]
                allowed = max(allowed, _STANDARD_ERRORS * math.hypot(*errors))
            if after < before - allowed:
                worse.append(
                    f"accepted length: {before:.4f} → {after:.4f}, {allowed:.4f} less is allowed"
                )
    before, after = was.get("speed_ratio"), now.get("speed_ratio")
    if before is not None:
        if after is None:
            worse.append("speed ratio: no longer measured")
        elif after > (allowed := before * SPEED_RISE):
            tries = now.get("speed_tries", [after])
            worse.append(
                f"speed ratio: {before:.2f} → {after:.2f}, median of {len(tries)}; "
                f"{allowed:.2f} is allowed"
            )
    return worse
