"""Gate: verdicts, accepted lengths and speed of subjects against a stored baseline.

    verdict            a scheme that was lossless must stay so
    accepted length    the mean over fixed blocks: with given uniforms the same decisions give the
                       same number, so that a fall of half a percent fails; a subject with a
                       generator of its own may fall by five standard errors
    speed ratio        the time of a verification over that of a yardstick (numpy's cumulative sum
                       of the same rows, taken in turn with it, the least of several), so that a
                       baseline means something on another machine; half as much again fails

A scheme of the baseline that is gone, or can no longer be run, is a regression too.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Declaration, Ints, call
from draftproof.reference.catalogue import find

__all__ = [
    "ACCEPTED_FALL",
    "FORMAT",
    "SPEED_RISE",
    "accepted_length",
    "compare",
    "read_baseline",
    "speed_ratio",
]

FORMAT = 1
ACCEPTED_FALL = 0.005
"""The largest relative fall of the accepted length under given uniforms."""
_STANDARD_ERRORS = 5
SPEED_RISE = 0.5
"""The largest relative rise of the speed ratio."""
_REPEATS = 9


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


def speed_ratio(
    subject: Any, declaration: Declaration, scheme: str, *, vocab: int = 8192
) -> tuple[float, float]:
    """Time of one verification (B = 16, K ≤ 3, L ≤ 4) over the yardstick's; milliseconds of it.

    Raises:
        SubjectError: the subject failed.
    """
    batch = _batch(scheme, declaration, size=16, vocab=vocab, length=4, drafts=3)
    call(subject, batch, declaration)  # what is compiled or cached on the first call is not timed
    verification, yardstick = [], []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        call(subject, batch, declaration)
        middle = time.perf_counter()
        np.cumsum(batch.target_rows, axis=-1)
        np.cumsum(batch.draft_rows, axis=-1)
        verification.append(middle - begun)
        yardstick.append(time.perf_counter() - middle)
    return min(verification) / min(yardstick), min(verification) * 1e3


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
        elif after > (allowed := before * (1 + SPEED_RISE)):
            worse.append(f"speed ratio: {before:.2f} → {after:.2f}, {allowed:.2f} is allowed")
    return worse
