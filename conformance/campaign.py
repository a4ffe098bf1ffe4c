"""Campaigns: the tasks of a run, spread over cores or a cluster, kept as they are finished.

A task is one check of one scheme of one subject with one seed. Tasks are independent, so that any
joblib backend can run them; each runs its subject behind a `Guard`. With a results file every
result is appended as it comes, a run that was interrupted goes on from the file, and a torn last
line (of a run that was killed while writing) is dropped.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import joblib
from draftproof.conformance.adapters import environment
from draftproof.conformance.checks import CHECKS, perform
from draftproof.conformance.context import Context
from draftproof.conformance.evidence import RUN_FALSE_ALARM
from draftproof.conformance.guard import guard_for
from draftproof.conformance.many import backend_context
from draftproof.conformance.subject import Declaration, SubjectError, declared
from draftproof.conformance.verdict import CheckResult, Report, Verdict, judge
from draftproof.reference.catalogue import SCHEMES, find
from draftproof.reference.instance import instance_from_json

__all__ = [
    "DEFAULT_BUDGET",
    "Task",
    "check_object",
    "plan",
    "read_results",
    "run_campaign",
    "run_task",
]

DEFAULT_BUDGET = 15.0
"""Seconds of checking for each scheme of each subject."""
_TESTS_OF_A_CHECK = 40
"""An upper bound on the sequential tests in one check."""


@dataclass(frozen=True)
class Task:
    """One check of one scheme of one subject."""

    subject: str
    scheme: str
    check: str
    seed: int
    budget: float
    threshold: float
    memory_limit: float = 8.0
    instance: dict[str, Any] | None = field(default=None, hash=False)

    @property
    def key(self) -> str:
        """What tells it from the other tasks of a campaign."""
        return json.dumps(asdict(self), sort_keys=True)


def threshold_for(tasks: int) -> float:
    return math.log(tasks * _TESTS_OF_A_CHECK / RUN_FALSE_ALARM)


def plan(
    subject: str,
    declaration: Declaration,
    schemes: Sequence[str],
    checks: Sequence[str],
    *,
    seeds: Iterable[int],
    budget: float,
    instance: dict[str, Any] | None = None,
) -> list[Task]:
    """The tasks of one subject; `run_campaign`, which knows them all, sets their thresholds."""
    shares = {name: CHECKS[name][1] for name in checks}
    whole = sum(shares.values())
    return [
        Task(
            subject,
            scheme,
            check,
            seed,
            budget * shares[check] / whole,
            0.0,
            declaration.memory_limit,
            instance,
        )
        for seed in seeds
        for scheme in schemes
        for check in checks
    ]


def run_task(task: Task) -> dict[str, Any]:
    """The result of a task, as JSON; nothing that the subject does escapes."""
    guard = guard_for(environment(task.subject))
    begun = time.monotonic()
    try:
        result: dict[str, Any] = guard.ask("perform", task, task.memory_limit)
        return result
    except SubjectError as error:
        return CheckResult(
            check=task.check,
            status="error",
            message=str(error),
            seconds=round(time.monotonic() - begun, 3),
            details={"kind": error.kind, "output": guard.output()},
        ).to_json()


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Finished tasks of a results file, by key; a torn last line is dropped from the file.

    Raises:
        ValueError: a line that is not a result, other than the last.
    """
    if not path.exists():
        return {}
    finished: dict[str, dict[str, Any]] = {}
    kept = 0
    with path.open("rb") as file:
        lines = file.readlines()
    for number, line in enumerate(lines):
        try:
            entry = json.loads(line)
            finished[entry["key"]] = entry["result"]
        except (ValueError, KeyError, TypeError):
            if number == len(lines) - 1:
                break
            raise ValueError(f"{path}: line {number + 1} is not a result of this suite") from None
        if not line.endswith(b"\n"):
            break
        kept += len(line)
    with path.open("r+b") as file:
        file.truncate(kept)
    return finished


Progress = Callable[[int, int, Task, CheckResult], None]


def run_campaign(
    tasks: Sequence[Task],
    *,
    jobs: int | None = None,
    backend: str | None = None,
    results: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Task, CheckResult]]:
    """Run the tasks, and yield results as they come.

    Args:
        jobs: how many at a time; by default the number of cores.
        backend: see `many.BACKENDS`; by default threads, each with a child process of its own.
        results: a file of results to go on from and to append to.
    """
    threshold = threshold_for(max(len(tasks), 1))
    tasks = [replace(task, threshold=threshold) for task in tasks]
    finished = read_results(results) if results else {}
    done = 0

    def told(task: Task, given: dict[str, Any]) -> tuple[Task, CheckResult]:
        nonlocal done
        done += 1
        result = CheckResult.from_json(given)
        if progress:
            progress(done, len(tasks), task, result)
        return task, result

    for task in tasks:
        if task.key in finished:
            yield told(task, finished[task.key])
    remaining = [task for task in tasks if task.key not in finished]
    if not remaining:
        return
    jobs = min(jobs or os.cpu_count() or 1, len(remaining))
    with contextlib.ExitStack() as stack:
        stack.enter_context(backend_context(backend or "threading", jobs))
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        file = stack.enter_context(results.open("ab")) if results else None
        for task, given in parallel(joblib.delayed(_with_task)(task) for task in remaining):
            if file:
                line = json.dumps({"key": task.key, "result": given}).encode() + b"\n"
                file.write(line)
                file.flush()
            yield told(task, given)


def _with_task(task: Task) -> tuple[Task, dict[str, Any]]:
    return task, run_task(task)


@dataclass(frozen=True)
class Asked:
    """What a subject declared, or why it cannot be tested."""

    declaration: Declaration | None
    verdict: Verdict | None


def ask_declaration(subject: str) -> Asked:
    """Load the subject behind its guard and read its declaration."""
    try:
        answer = guard_for(environment(subject)).ask("declaration", subject, 16.0)
    except SubjectError as error:
        answer = {"error": str(error)}
    if "unavailable" in answer:
        return Asked(None, Verdict(subject, "-", "skipped", (), answer["unavailable"]))
    if "error" in answer:
        return Asked(None, Verdict(subject, "-", "error", (), answer["error"]))
    return Asked(Declaration.parse(answer["declaration"]), None)


def verdicts_of(
    finished: Iterable[tuple[Task, CheckResult]], declarations: dict[str, Declaration]
) -> list[Verdict]:
    """One verdict for each scheme of each subject, in the order in which they were planned."""
    grouped: dict[tuple[str, str], list[CheckResult]] = {}
    for task, result in finished:
        grouped.setdefault((task.subject, task.scheme), []).append(result)
    order = list(CHECKS)
    verdicts = []
    for (subject, scheme), results in grouped.items():
        results.sort(key=lambda r: order.index(r.check))
        verdicts.append(
            judge(
                subject,
                scheme,
                results,
                lossless=declarations[subject].lossless,
                seconds=round(sum(r.seconds for r in results), 3),
            )
        )
    return verdicts


def schemes_of(declaration: Declaration, wanted: Sequence[str]) -> list[str]:
    """The schemes to test: those declared, or those asked for.

    Raises:
        ValueError: a scheme that the catalogue does not have, or the subject does not declare.
    """
    for name in (*wanted, *declaration.schemes):
        find(name)
    for name in wanted:
        if name not in declaration.schemes:
            raise ValueError(
                f"{declaration.name} does not declare the scheme {name!r}; "
                f"it has {', '.join(declaration.schemes)}"
            )
    return list(wanted or declaration.schemes)


def versions() -> dict[str, str]:
    """What takes part in a run."""
    found = {"python": platform.python_version()}
    for package in ("draftproof", "numpy", "scipy", "torch", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def check_object(
    subject: Any,
    *,
    name: str | None = None,
    schemes: Sequence[str] = (),
    checks: Sequence[str] = (),
    seed: int = 0,
    budget: float = DEFAULT_BUDGET,
    instance: dict[str, Any] | None = None,
    stop_early: bool = False,
) -> Report:
    """Test a Python object in this process: no guard, so a hang hangs.

    With `stop_early` a scheme's checks end at the first that fails.

    Raises:
        SubjectError: a bad declaration.
        ValueError: an unknown scheme or check.
    """
    begun = time.monotonic()
    declaration = declared(subject)
    label = name or declaration.name
    wanted = list(checks or CHECKS)
    for check in wanted:
        if check not in CHECKS:
            raise ValueError(f"unknown check {check!r}; known: {', '.join(CHECKS)}")
    tasks = plan(
        label,
        declaration,
        schemes_of(declaration, schemes),
        wanted,
        seeds=[seed],
        budget=budget,
        instance=instance,
    )
    finished = []
    found: set[str] = set()
    for task in tasks:
        if stop_early and task.scheme in found:
            continue
        context = Context(
            subject=subject,
            declaration=declaration,
            scheme=SCHEMES[task.scheme],
            name=label,
            seed=seed,
            budget=task.budget,
            threshold=threshold_for(len(tasks)),
            instance=instance_from_json(instance) if instance else None,
        )
        result = perform(task.check, context)
        finished.append((task, result))
        if result.status in ("failed", "error"):
            found.add(task.scheme)
    return Report(
        subjects=(label,),
        verdicts=tuple(verdicts_of(finished, {label: declaration})),
        seed=seed,
        budget=budget,
        seconds=round(time.monotonic() - begun, 3),
        declarations={label: declaration.to_json()},
        environment=versions(),
    )
