"""Context: what every check is given, and the one door through which it asks the subject."""

from __future__ import annotations

import json
import shlex
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from draftproof.conformance.cases import fixtures
from draftproof.conformance.subject import Batch, Declaration, Result, call
from draftproof.conformance.tables import Table
from draftproof.conformance.verdict import CheckResult, Counterexample, Status
from draftproof.reference.instance import Instance
from draftproof.reference.scheme import Scheme

__all__ = ["Context"]

_TEMPERATURES = (Fraction(1, 2), Fraction(2))


def _no_watch(description: str) -> None:
    """Nobody watches the time of calls made in the caller's own process."""


@dataclass
class Context:
    """One scheme of one subject under test."""

    subject: Any
    declaration: Declaration
    scheme: Scheme
    name: str
    """How the subject is called on the command line."""
    seed: int
    budget: float
    """Seconds that the check should take at most (it finishes the step it is in)."""
    threshold: float
    """ln(1/α) of each sequential test."""
    instance: Instance | None = None
    """Test on this instance alone."""
    watch: Callable[[str], None] = _no_watch
    """Called with a description before, and with "" after, every call of the subject."""
    started: float = field(default_factory=time.monotonic)
    asked: int = 0
    """Blocks verified so far."""
    spent: float = 0.0
    """Seconds inside the subject."""

    def generator(self, label: str) -> np.random.Generator:
        """A generator for one purpose."""
        return np.random.default_rng([self.seed, zlib.crc32(label.encode())])

    def ask(self, batch: Batch, what: str = "") -> Result:
        """The subject's answer.

        Raises:
            SubjectError: see `subject.call`.
        """
        b, k, length, vocab = batch.shape
        self.watch(what or f"{batch.scheme}, B={b}, K={k}, L={length}, V={vocab}")
        begun = time.monotonic()
        try:
            return call(self.subject, batch, self.declaration)
        finally:
            self.spent += time.monotonic() - begun
            self.asked += batch.size
            self.watch("")

    def sweep_tables(self) -> Iterator[Table]:
        """Instances whose drafts can all be enumerated, smallest first."""
        if self.instance is not None:
            yield Table(self.instance)
            return
        tempered = _TEMPERATURES if self.declaration.temperatures else ()
        for instance in fixtures.sweep_instances(self.scheme, self.declaration, self.seed):
            yield Table(instance)
            if instance.vocab ** (instance.length * instance.drafts) <= 9:
                for temperature in tempered:
                    at, shown = fixtures.tempered(instance, temperature)
                    yield Table(at, shown, float(temperature))

    def takes(self, instance: Instance) -> bool:
        """Whether the scheme and the subject are made for an instance of this shape."""
        low, high = self.scheme.drafts
        count, most = instance.drafts, fixtures.longest(self.scheme)
        if count < low or (high is not None and count > high):
            return False
        if most is not None and instance.length > most:
            return False
        siblings = count
        if instance.draft_law == "without_replacement" and instance.length:
            siblings = sum(chance != 0 for chance in instance.draft_rows[()])
        if siblings < count:
            return False
        if len(set(instance.paths)) < len(instance.paths):
            return False
        return self.declaration.allows(count, instance.length, instance.vocab)

    def rerun(self, instance: dict[str, Any]) -> str:
        """The command that tests the subject on one instance again."""
        told = shlex.quote(json.dumps(instance, separators=(",", ":")))
        subject = shlex.quote(self.name)
        return f"draftproof check {subject} --scheme {self.scheme.name} --instance {told}"

    def large_instances(self) -> Iterable[Instance]:
        """Instances with too many drafts for that."""
        if self.instance is not None:
            return []
        return fixtures.large_instances(self.scheme, self.declaration, self.seed)

    def statistical_tables(self) -> list[Table]:
        """Instances for sampling."""
        if self.instance is not None:
            return [Table(self.instance)]
        found = fixtures.statistical_instances(self.scheme, self.declaration, self.seed)
        tables = [Table(instance) for instance in found]
        if self.declaration.temperatures:
            for temperature in _TEMPERATURES:
                at, shown = fixtures.tempered(found[0], temperature)
                tables.append(Table(at, shown, float(temperature)))
        return tables

    @property
    def elapsed(self) -> float:
        """Seconds since the check began."""
        return time.monotonic() - self.started

    @property
    def seconds_per_block(self) -> float:
        """Measured so far; a millisecond before anything was measured."""
        return self.spent / self.asked if self.asked else 1e-3

    def out_of_time(self, samples: int, least: int = 2000) -> bool:
        """Whether sampling should stop: the budget is used up, and either enough samples were seen
        for gross faults to show or ten times the budget is gone."""
        late = self.elapsed > self.budget
        return late and (samples >= least or self.elapsed > 10 * self.budget)

    def result(self, check: str, status: Status, message: str, **values: Any) -> CheckResult:
        """The result of the check, with its samples and time."""
        counterexample: Counterexample | None = values.get("counterexample")
        values["counterexample"] = counterexample
        return CheckResult(
            check=check,
            status=status,
            message=message,
            samples=self.asked,
            seconds=round(self.elapsed, 3),
            **values,
        )

    def bias(self, check: str, message: str, **values: Any) -> CheckResult:
        """A failure, or a measurement where the subject is lossy by design."""
        return self.result(
            check, "failed" if self.declaration.lossless else "measured", message, **values
        )
