"""A program as a subject: JSON lines over its standard input and output.

The protocol is documented in docs/formats.md and, as a JSON Schema, in conformance/schemas. A
request may be sent before the last one is answered, and answers may come in any order. Whatever the
program writes to its standard error is kept, its end is shown with an error.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import queue
import shlex
import signal
import subprocess
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from draftproof.conformance.subject import Batch, Block, Declaration, Result, SubjectError

__all__ = ["PROTOCOL", "Program", "create", "request"]

PROTOCOL = 1
TIME_TO_DECLARE = 30.0
"""Seconds from the start of the program to its declaration."""
_STDERR_LINES = 200
_POLL = 0.25  # seconds between two looks at the memory of a silent program


class Program:
    """A running program; it is started again when it ended in an earlier call."""

    def __init__(self, command: str) -> None:
        """Start it and shake hands.

        Raises:
            SubjectError: it cannot be started, ends, says nothing or declares something wrong.
        """
        self.command = command
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[str] | None = None
        self._limit = TIME_TO_DECLARE
        self._memory = math.inf
        self._start()
        self._limit = self.declaration.time_limit
        self._memory = self.declaration.memory_limit

    @property
    def stderr(self) -> str:
        """The end of what the program wrote to its standard error."""
        return "".join(self._stderr)

    def verify(self, batch: Batch) -> Result:
        """Send every block of the batch ahead, then collect the answers.

        Raises:
            SubjectError: kind timeout, crash, protocol, memory, range, raised or skipped.
        """
        if self._process is None:
            self._start()
        open_blocks: dict[int, int] = {}
        lines = []
        for b, asked in zip(range(batch.size), self._numbers):
            open_blocks[asked] = b
            lines.append(json.dumps(request(batch.block(b), asked, batch.root_rows[b])))
        self._send(lines)
        answers: list[tuple[int, int, int, Any]] = [(0, 0, 0, None)] * batch.size
        while open_blocks:
            answer = self._receive()
            number: Any = answer.get("id")
            if number not in open_blocks:
                raise self._failed("protocol", f"answer to id {number!r}, which is not open")
            b = open_blocks.pop(number)
            answers[b] = self._read(answer, batch, b)
        carries = [answer[3] for answer in answers]
        accepted, path, token = np.array([a[:3] for a in answers], np.int64).reshape(-1, 3).T
        return Result(accepted, path, token, None if all(c is None for c in carries) else carries)

    def _read(self, answer: dict[str, Any], batch: Batch, b: int) -> tuple[int, int, int, Any]:
        kind = answer.get("type")
        if kind == "skip":
            link = f" ({answer['link']})" if answer.get("link") else ""
            raise self._failed("skipped", f"skipped: {answer.get('reason', 'no reason')}{link}")
        if kind == "error":
            raise self._failed("raised", f"the program reports: {answer.get('message', '')}")
        if kind != "result":
            raise self._failed("protocol", f"type {kind!r} in answer to a request")
        accepted, token = answer.get("accepted"), answer.get("next")
        if not isinstance(accepted, list) or not all(_is_int(t) for t in accepted):
            raise self._failed("protocol", f"accepted is {accepted!r}, not a list of tokens")
        if not _is_int(token):
            raise self._failed("protocol", f"next is {token!r}, not a token")
        assert isinstance(token, int)
        for path, draft in enumerate(batch.drafts[b].tolist()):
            if draft[: len(accepted)] == accepted:
                return len(accepted), path, token, answer.get("carry")
        if accepted:
            raise self._failed("range", f"accepted {accepted} lies on no draft of its block")
        return 0, 0, token, answer.get("carry")

    def close(self) -> None:
        """Say bye, and end the program if it stays."""
        process, self._process = self._process, None
        if process is None:
            return
        self._send_to.put('{"type": "bye"}')
        self._send_to.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        _end(process)

    def _start(self) -> None:
        self._stderr.clear()
        try:
            words = shlex.split(self.command)
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except (OSError, ValueError, IndexError) as error:
            raise SubjectError("crash", f"cannot start {self.command!r}: {error}") from None
        self._process = process
        self._received: queue.Queue[str | None] = queue.Queue()
        self._send_to: queue.Queue[str | None] = queue.Queue()
        weakref.finalize(self, _end, process)
        for work, arguments in (
            (_read_lines, (process.stdout, self._received.put)),
            (_read_lines, (process.stderr, self._keep)),
            (_write_lines, (process.stdin, self._send_to)),
        ):
            threading.Thread(target=work, args=arguments, daemon=True).start()
        self._send([json.dumps({"type": "hello", "protocol": PROTOCOL})])
        answer = self._receive()
        if answer.get("type") != "declare":
            raise self._failed(
                "protocol",
                f'the program answered hello with type {answer.get("type")!r}, not "declare"',
            )
        if answer.get("protocol", PROTOCOL) != PROTOCOL:
            raise self._failed("protocol", f"protocol {answer['protocol']!r}, not {PROTOCOL}")
        try:
            self.declaration = Declaration.parse(answer)
        except SubjectError as error:
            raise self._failed(error.kind, error.message) from None

    def _keep(self, line: str | None) -> None:
        if line is not None:
            self._stderr.append(line)

    def _send(self, lines: list[str]) -> None:
        self._send_to.put("\n".join(lines))

    def _receive(self) -> dict[str, Any]:
        """The next answer, within the time limit.

        The memory is looked at while waiting, and at every thousandth answer.
        """
        waited = 0.0
        while True:
            try:
                line = self._received.get(timeout=min(_POLL, self._limit))
                break
            except queue.Empty:
                waited += min(_POLL, self._limit)
                self._check_memory()
                if waited >= self._limit:
                    raise self._failed(
                        "timeout", f"the program said nothing for {self._limit:g} s"
                    ) from None
        if line is None:
            assert self._process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            raise self._failed("crash", f"the program ended ({_status(self._process.returncode)})")
        if self._received.qsize() % 1000 == 0:
            self._check_memory()
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._failed("protocol", f"the program printed {line[:80]!r}, not JSON") from None
        if not isinstance(answer, dict):
            raise self._failed("protocol", f"the program printed {line[:80]!r}, not an object")
        return answer

    def _check_memory(self) -> None:
        assert self._process is not None
        held = _resident(self._process.pid)
        if held > self._memory:
            raise self._failed(
                "memory", f"the program holds {held:.1f} GiB, more than its {self._memory:g} GiB"
            )

    def _failed(self, kind: str, message: str) -> SubjectError:
        """An error; a program in an unknown state is ended, so that the next call starts anew."""
        if kind not in ("skipped", "raised", "range"):
            process, self._process = self._process, None
            if process is not None:
                _end(process)
        elif self._process is not None:
            # Answers to the rest of the batch would be taken for answers to the next one.
            self.close()
        said = self.stderr.strip()
        if said:
            message += "; its standard error ends: " + said[-500:]
        return SubjectError(kind, message)


def create(argument: str) -> Program:
    """The subject `program:COMMAND`; the command is split as by a shell, and run without one.

    Raises:
        SubjectError: it cannot be started, or does not shake hands.
    """
    return Program(argument)


def request(block: Block, number: int, root_row: Any) -> dict[str, Any]:
    """The request that asks for one block: plain data, ready for JSON.

    Drafts are as long as they are (no padding). A number that JSON does not have, NaN or the
    logarithm of 0, is null.
    """
    lengths = [_length(draft) for draft in block.drafts.tolist()]
    position = getattr(block, "position", 0)
    asked = {
        "type": "verify",
        "id": number,
        "scheme": block.scheme,
        "vocab": len(root_row),
        "drafts": [d[:n] for d, n in zip(block.drafts.tolist(), lengths)],
        "draft_rows": [_numbers(r[:n]) for r, n in zip(block.draft_rows, lengths)],
        "target_rows": [_numbers(r[: n + 1]) for r, n in zip(block.target_rows, lengths)],
        "root_row": _numbers(root_row),
        "accept_uniforms": None
        if block.accept_uniforms is None
        else [u[:n] for u, n in zip(block.accept_uniforms.tolist(), lengths)],
        "select_uniforms": None
        if block.select_uniforms is None
        else block.select_uniforms.tolist(),
        "token_uniform": block.token_uniform,
        "seed": block.seed % 2**53,  # what a double holds exactly
        "carry": block.carry,
    }
    if position:
        asked["position"] = position
    if block.temperature is not None:
        asked["temperature"] = block.temperature
    return asked


def _length(draft: list[int]) -> int:
    """Up to the first padding; what stands after it is no part of the draft."""
    return next((depth for depth, token in enumerate(draft) if token < 0), len(draft))


def _numbers(rows: Any) -> Any:
    array = np.asarray(rows, dtype=np.float64)
    if np.isfinite(array).all():
        return array.tolist()
    numbers = array.astype(object)
    numbers[~np.isfinite(array)] = None
    return numbers.tolist()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_lines(stream: Any, use: Any) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in stream:
            use(line)
    use(None)


def _write_lines(stream: Any, lines: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError, OSError):  # a program that ended is noticed by its reader
        while (line := lines.get()) is not None:
            stream.write(line + "\n")
            stream.flush()
        stream.close()


def _status(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"


def _resident(pid: int) -> float:
    """GiB of memory that a process holds; 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (OSError, ValueError, IndexError):
        return 0.0


def _end(process: subprocess.Popen[str]) -> None:
    # The guard of the suite ends the whole group, should the program have children of its own.
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
