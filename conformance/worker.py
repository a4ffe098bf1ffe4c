"""The process in which subjects run: `python -m draftproof.conformance.worker IN OUT WATCH`.

A subject that crashes, hangs or leaks takes this process with it, and nothing else. IN and OUT are
file descriptors for pickled messages; WATCH is a shared file in which the process notes when the
call that it is in began, how long it may take, and what it is (see `guard`).
"""

from __future__ import annotations

import mmap
import os
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from draftproof.conformance.adapters import load
from draftproof.conformance.campaign import Task
from draftproof.conformance.checks import perform
from draftproof.conformance.context import Context
from draftproof.conformance.guard import WATCH
from draftproof.conformance.subject import Declaration, SubjectError, Unavailable, declared
from draftproof.reference.catalogue import find
from draftproof.reference.instance import instance_from_json

_LOAD_LIMIT = 180.0


class _Worker:
    def __init__(self, watch: mmap.mmap) -> None:
        self._watch = watch
        self._subjects: dict[str, tuple[Any, Declaration]] = {}

    def note(self, description: str, limit: float) -> None:
        """Note that a call begins (or, with no description, has ended; what it was stays)."""
        begun = time.monotonic() if description else 0.0
        text = description.encode()[: WATCH.size - 16] or WATCH.unpack(self._watch[:])[2]
        self._watch[: WATCH.size] = WATCH.pack(begun, limit, text)

    def subject(self, spec: str) -> tuple[Any, Declaration]:
        """The subject, loaded once."""
        if spec not in self._subjects:
            self.note(f"loading {spec}", _LOAD_LIMIT)
            try:
                loaded = load(spec)
                self._subjects[spec] = loaded, declared(loaded)
            finally:
                self.note("", 0.0)
        return self._subjects[spec]

    def declaration(self, spec: str) -> dict[str, Any]:
        """What the subject declares, or why it cannot run."""
        try:
            return {"declaration": self.subject(spec)[1].to_json()}
        except Unavailable as reason:
            return {"unavailable": str(reason)}
        except SubjectError as error:
            return {"error": str(error)}
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}

    def perform(self, task: Task) -> dict[str, Any]:
        """The result of one check, as JSON."""
        subject, declaration = self.subject(task.subject)
        context = Context(
            subject=subject,
            declaration=declaration,
            scheme=find(task.scheme),
            name=task.subject,
            seed=task.seed,
            budget=task.budget,
            threshold=task.threshold,
            instance=instance_from_json(task.instance) if task.instance else None,
            watch=lambda description: self.note(description, declaration.time_limit),
        )
        return perform(task.check, context).to_json()


def main() -> None:
    """Answer messages until the other side closes."""
    descriptor_in, descriptor_out, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with open(path, "r+b") as file:
        worker = _Worker(mmap.mmap(file.fileno(), WATCH.size))
    incoming, outgoing = Connection(descriptor_in), Connection(descriptor_out)
    try:
        while True:
            kind, argument = incoming.recv()
            answer = getattr(worker, kind)(argument)
            outgoing.send(answer)
    except (EOFError, BrokenPipeError):
        os._exit(0)


if __name__ == "__main__":
    main()
