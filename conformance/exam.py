"""Exam: the suite examined on its mutants, its controls, and many runs of correct subjects."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec

from draftproof.conformance.adapters import load
from draftproof.conformance.campaign import check_object
from draftproof.conformance.mutants import FAULTS, Fault
from draftproof.conformance.verdict import CheckResult, Verdict

__all__ = ["NULL_SCHEMES", "Answer", "examine_fault", "null_run"]

NULL_SCHEMES = (
    "token_by_token", "block", "greedy_block", "spectr", "spectr:recursive_rejection",
    "spectr:target_match", "spectr:without_replacement", "traversal", "multipath", "kseq_block",
    "spectr_gbv", "tree_match",
)  # fmt: skip
_SAMPLED = ("statistical", "rounds", "acceptance")
_DETERMINISTIC = ("exact sweep", "metamorphic")


@dataclass(frozen=True)
class Answer:
    """What the suite said about one fault or control."""

    name: str
    verdict: Verdict
    seconds: float

    @property
    def fault(self) -> Fault:
        """What it was asked about."""
        return FAULTS[self.name]

    @property
    def found(self) -> CheckResult | None:
        """The check that found the fault; None for a control that passed."""
        if self.verdict.verdict == "lossless":
            return None
        failed = [c for c in self.verdict.checks if c.status in ("failed", "error")]
        measured = [c for c in self.verdict.checks if c.status == "measured"]
        return next(iter(failed or measured), None)

    @property
    def samples(self) -> int:
        """Blocks that were verified."""
        return sum(check.samples for check in self.verdict.checks)

    @property
    def right(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict.verdict == self.fault.expected


def examine_fault(name: str, seed: int = 0, budget: float = 12.0) -> Answer:
    """The suite's verdict on one mutant or control, ending at the first check that fails."""
    begun = time.monotonic()
    report = check_object(
        FAULTS[name].build(), name=f"mutant:{name}", seed=seed, budget=budget, stop_early=True
    )
    return Answer(name, report.verdicts[0], round(time.monotonic() - begun, 2))


def null_run(seed: int, budget: float = 0.03) -> list[Verdict]:
    """A short run on one scheme of a correct subject: `fast` where torch is there, else the exact
    reference; one run in ten has the deterministic checks as well. Returns the verdicts that are
    not `lossless`."""
    subject = load("fast" if find_spec("torch") else "reference")
    declared = subject.declaration["schemes"]
    schemes = [name for name in NULL_SCHEMES if name in declared]
    report = check_object(
        subject,
        schemes=[schemes[seed % len(schemes)]],
        checks=_SAMPLED if seed % 10 else (*_DETERMINISTIC, *_SAMPLED),
        seed=1_000_000 + seed,
        budget=budget,
    )
    return [verdict for verdict in report.verdicts if verdict.verdict != "lossless"]
