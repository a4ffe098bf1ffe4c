"""Guard: runs subjects in a child process, and survives what they do.

The child is asked one thing at a time. It is stopped, and the question answered by a
`SubjectError`, when a call takes longer than the subject's time limit, when its memory passes the
limit, and when it dies; the next question starts a new child.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from draftproof.conformance.subject import SubjectError

__all__ = ["WATCH", "Guard", "doing", "guard_for"]

WATCH = struct.Struct("dd240s")
"""Start of the current call (monotonic clock, 0 when idle), its limit in seconds, what it is."""
_POLL = 0.1
_RUNNING: weakref.WeakSet[Guard] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """No child outlives the run, also when it is interrupted."""
    for guard in list(_RUNNING):
        guard.stop()


class Guard:
    """A child process that holds subjects."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="draftproof-")
        self._log = Path(self._directory.name) / "output"

    def _start(self) -> None:
        watch = Path(self._directory.name) / "watch"
        watch.write_bytes(bytes(WATCH.size))
        self._watch = watch.open("rb", buffering=0)
        child_in, parent_out = os.pipe()
        parent_in, child_out = os.pipe()
        arguments = ["-m", "draftproof.conformance.worker", str(child_in), str(child_out)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments, str(watch)],
                pass_fds=(child_in, child_out),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"} | self._environment,
                start_new_session=True,
            )
        _RUNNING.add(self)
        os.close(child_in)
        os.close(child_out)
        self._in, self._out = Connection(parent_in), Connection(parent_out)

    def output(self, most: int = 4000) -> str:
        """The end of what the subjects wrote to standard output and standard error."""
        try:
            written = self._log.read_bytes()
        except OSError:
            return ""
        return written[-most:].decode(errors="replace")

    def stop(self) -> None:
        """End the child and everything that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._in.close()
        self._out.close()
        self._watch.close()

    def ask(self, kind: str, argument: Any, memory_limit: float) -> Any:
        """The child's answer.

        Raises:
            SubjectError: kind timeout, memory or crash.
        """
        if self._process is not None and self._process.poll() is not None:
            self.stop()  # it died after its last answer, which is no fault of what comes now
        if self._process is None:
            self._start()
        assert self._process is not None
        try:
            self._out.send((kind, argument))
            while not self._in.poll(_POLL):
                self._look(memory_limit)
            return self._in.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._process.wait()
            begun, _, last_call = self._doing()
            call = last_call if begun else "between calls"
            self.stop()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            last = self.output(300).strip().splitlines()[-1:]
            said = f"; its last words: {last[0]}" if last else ""
            raise SubjectError("crash", f"the process ended with {how} ({call}){said}") from None
        except BaseException:
            self.stop()
            raise

    def _doing(self) -> tuple[float, float, str]:
        self._watch.seek(0)
        begun, limit, text = WATCH.unpack(self._watch.read(WATCH.size))
        return begun, limit, text.rstrip(b"\0").decode(errors="replace")

    def _look(self, memory_limit: float) -> None:
        assert self._process is not None
        begun, limit, call = self._doing()
        if begun and time.monotonic() - begun > limit:
            raise SubjectError("timeout", f"no answer within {limit:g} s ({call})")
        with contextlib.suppress(OSError, ValueError, IndexError):  # only Linux has /proc
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
            used = pages * os.sysconf("SC_PAGE_SIZE") / 2**30
            if used > memory_limit:
                raise SubjectError(
                    "memory", f"memory grew to {used:.1f} GiB, the limit is {memory_limit:g} GiB"
                )


def doing() -> str:
    """What a subject of this process is asked right now, with how long that has taken: the longest
    of them; empty when none is."""
    calls = []
    for guard in list(_RUNNING):
        with contextlib.suppress(OSError, ValueError, AttributeError, struct.error):
            begun, _, said = guard._doing()
            if said:
                calls.append((begun or time.monotonic(), said))
    if not calls:
        return ""
    begun, said = min(calls)
    seconds = time.monotonic() - begun
    return said if seconds < 2 else f"{said}, {seconds:.0f} s"


_own = threading.local()


def guard_for(environment: dict[str, str]) -> Guard:
    """The guard of this thread for subjects that need these variables, in this folder.

    A subject is found from the folder that its child was started in, so each folder has its own.
    """
    guards: dict[tuple[str, ...], Guard] = _own.__dict__.setdefault("guards", {})
    key = (os.getcwd(), *(f"{name}={value}" for name, value in sorted(environment.items())))
    if key not in guards:
        guards[key] = Guard(environment)
    return guards[key]
