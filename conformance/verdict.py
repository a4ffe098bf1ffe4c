"""Verdicts: the result of each check, the verdict on each scheme of a subject, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

__all__ = [
    "FORMAT",
    "CheckResult",
    "Counterexample",
    "Report",
    "Status",
    "Verdict",
    "Word",
    "exit_code",
    "judge",
]

FORMAT = 1

Status = Literal["passed", "failed", "error", "skipped", "measured"]
"""`measured`: a bias that the subject declares (lossy by design), or a value that is not graded."""
Word = Literal["lossless", "biased", "lossy by design", "error", "skipped"]


@dataclass(frozen=True)
class Counterexample:
    """An input on which a subject is biased, in a form that can be pasted and re-run."""

    instance: Mapping[str, Any]
    """The instance format."""
    target_law: list[dict[str, Any]]
    """`{"tokens": [..], "probability": "1/6"}`, the law of the emitted string and its
    continuation."""
    subject_law: list[dict[str, Any]]
    """The same of the subject; probabilities are observed frequencies where `exact` is False."""
    total_variation: str
    """Between the two."""
    exact: bool
    """Whether the subject's law was rebuilt without sampling error."""
    command: str = ""
    """Re-runs it."""
    smallest: bool = False
    """Whether it was shrunk as far as it goes."""
    samples: int = 0
    """Blocks of the fresh run that the subject's law was estimated from; 0 where it is exact. Each
    outcome then has bounds `low` and `high`, all right together with probability 0.999."""
    at_least: str = ""
    """A lower bound on the total variation, right with probability 1 - 1e-9, where estimated."""

    def to_json(self) -> dict[str, Any]:
        """The form in `--json`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Counterexample:
        """Read what `to_json` wrote."""
        return cls(**given)


@dataclass(frozen=True)
class CheckResult:
    """What one check found on one scheme."""

    check: str
    """exact sweep, statistical, rounds, drafter, edges, metamorphic, acceptance."""
    status: Status
    message: str = ""
    """One line: what was found, or why the check does not apply."""
    samples: int = 0
    """Blocks verified."""
    seconds: float = 0.0
    total_variation: float | None = None
    """The bias found (a lower bound, or exact in `counterexample`)."""
    evidence: float | None = None
    """Natural logarithm of the e-value against losslessness; the check fails at `threshold`."""
    threshold: float | None = None
    detectable: float | None = None
    """The smallest total variation that this run finds with probability 0.999; 0 for exact."""
    details: Mapping[str, Any] = field(default_factory=dict)
    counterexample: Counterexample | None = None

    def to_json(self) -> dict[str, Any]:
        """The form in `--json`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["details"] = dict(self.details)
        if self.counterexample is not None:
            values["counterexample"] = self.counterexample.to_json()
        return values

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> CheckResult:
        """Read what `to_json` wrote."""
        values = dict(given)
        if values.get("counterexample"):
            values["counterexample"] = Counterexample.from_json(values["counterexample"])
        return cls(**values)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one scheme of one subject."""

    subject: str
    scheme: str
    verdict: Word
    checks: tuple[CheckResult, ...] = ()
    reason: str = ""
    """One line that goes with the verdict."""
    seconds: float = 0.0

    @property
    def counterexample(self) -> Counterexample | None:
        """The best one: exact before observed, then the smallest."""
        found = [c.counterexample for c in self.checks if c.counterexample is not None]
        return min(found, key=lambda c: (not c.exact, not c.smallest, _size(c)), default=None)

    def to_json(self) -> dict[str, Any]:
        """One entry of `verdicts` in `--json`."""
        counterexample = self.counterexample
        return {
            "subject": self.subject,
            "scheme": self.scheme,
            "verdict": self.verdict,
            "reason": self.reason,
            "seconds": self.seconds,
            "checks": [check.to_json() for check in self.checks],
            "counterexample": None if counterexample is None else counterexample.to_json(),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Verdict:
        """Read what `to_json` wrote."""
        return cls(
            subject=given["subject"],
            scheme=given["scheme"],
            verdict=given["verdict"],
            checks=tuple(CheckResult.from_json(c) for c in given["checks"]),
            reason=given.get("reason", ""),
            seconds=given.get("seconds", 0.0),
        )


def _size(counterexample: Counterexample) -> tuple[int, int, int]:
    instance = counterexample.instance
    return instance.get("vocab", 0), instance.get("length", 0), instance.get("drafts", 0)


@dataclass(frozen=True)
class Report:
    """All verdicts of a run."""

    subjects: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    seed: int = 0
    budget: float | None = None
    command: str = ""
    seconds: float = 0.0
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions of what took part."""
    stderr: Mapping[str, str] = field(default_factory=dict)
    """The end of what each subject wrote to its standard error, where it wrote something."""

    def to_json(self) -> dict[str, Any]:
        """The content of `--json FILE`."""
        return {
            "format": FORMAT,
            "subject": " ".join(self.subjects),
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "seed": self.seed,
            "budget": self.budget,
            "command": self.command,
            "seconds": self.seconds,
            "declarations": {name: dict(d) for name, d in self.declarations.items()},
            "environment": dict(self.environment),
            "stderr": dict(self.stderr),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Report:
        """Read what `to_json` wrote.

        Raises:
            ValueError: another format.
        """
        if given.get("format") != FORMAT:
            raise ValueError(f"format is {given.get('format')!r}, this version reads {FORMAT}")
        return cls(
            subjects=tuple(given["subject"].split()),
            verdicts=tuple(Verdict.from_json(v) for v in given["verdicts"]),
            **{
                key: given[key]
                for key in (
                    "seed", "budget", "command", "seconds", "declarations", "environment", "stderr"
                )
                if key in given
            },
        )  # fmt: skip


def judge(
    subject: str, scheme: str, checks: Iterable[CheckResult], *, lossless: bool, seconds: float = 0
) -> Verdict:
    """The verdict that follows from the checks of one scheme.

    A failed check of a subject that claims losslessness is a bias (or, for `edges`, `metamorphic`
    and `acceptance`, a fault that is reported under the same word); an error in any check is an
    error unless a bias was found; nothing graded is `skipped`, never `lossless`.
    """
    results = tuple(checks)

    def verdict(word: Word, reason: str) -> Verdict:
        return Verdict(subject, scheme, word, results, reason, seconds)

    failed = [c for c in results if c.status == "failed"]
    errors = [c for c in results if c.status == "error"]
    measured = [c for c in results if c.status == "measured"]
    if failed:
        return verdict("biased", _first(failed))
    if errors:
        return verdict("error", _first(errors))
    if not lossless and measured:
        worst = max(measured, key=lambda c: c.total_variation or 0)
        return verdict("lossy by design", worst.message)
    if not any(c.status == "passed" for c in results):
        skipped = [c for c in results if c.status == "skipped"]
        return verdict("skipped", _first(skipped) if skipped else "no check applies")
    return verdict("lossless" if lossless else "lossy by design", "")


def _first(checks: list[CheckResult]) -> str:
    exact_first = min(checks, key=lambda c: c.counterexample is None)
    return f"{exact_first.check}: {exact_first.message}"


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """0: nothing that claims losslessness failed; 1: something is biased; 2: could not be run.

    A bias counts more than an error.
    """
    words = {verdict.verdict for verdict in verdicts}
    if "biased" in words:
        return 1
    return 2 if "error" in words else 0
