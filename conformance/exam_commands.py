"""The command `exam`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import joblib
from draftproof.conformance.exam import Answer, examine_fault, null_run
from draftproof.conformance.many import backend_context
from draftproof.conformance.mutants import FAULTS
from draftproof.conformance.verdict import FORMAT, Verdict
from draftproof.reference.instance import write_json
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

__all__ = ["exam"]

T = TypeVar("T")


@click.command()
@click.option("--fault", "faults", multiple=True, help="Only this one (may be repeated).")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the run [0].")
@click.option("--budget", type=click.FloatRange(min=0.1), default=12.0, help="Seconds each [12].")
@click.option("--null-runs", type=click.IntRange(min=0), default=1000, help="Correct runs [1000].")
@click.option("--jobs", type=int, default=-1, help="At a time [cores].")
@click.option("--backend", default="loky", help="A joblib backend [loky].")
@click.option("--json", "json_file", type=click.Path(), help="Write the answers.")
def exam(
    faults: tuple[str, ...],
    seed: int,
    budget: float,
    null_runs: int,
    jobs: int,
    backend: str,
    json_file: str | None,
) -> None:
    """Examine the suite: every mutant must be flagged, every control and correct run must pass.

    Exit status 1 when one of them is not.
    """
    for name in faults:
        if name not in FAULTS:
            raise click.UsageError(f"unknown fault {name!r}; known: {', '.join(FAULTS)}")
    begun = time.monotonic()
    names = list(faults or FAULTS)
    try:
        with backend_context(backend, jobs):
            answers = _each(
                "mutants", lambda: [joblib.delayed(examine_fault)(n, seed, budget) for n in names]
            )
            wrong = _each(
                "correct runs",
                lambda: [joblib.delayed(null_run)(seed * null_runs + i) for i in range(null_runs)],
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    alarms = [verdict for verdicts in wrong for verdict in verdicts]
    answers.sort(key=lambda answer: names.index(answer.name))
    _print(answers, alarms, null_runs, time.monotonic() - begun)
    if json_file:
        write_json(_to_json(answers, alarms, null_runs), json_file)
    sys.exit(0 if all(a.right for a in answers) and not alarms else 1)


def _each(title: str, calls: Callable[[], Sequence[Any]]) -> list[Any]:
    tasks = calls()
    if not tasks:
        return []
    console = Console(stderr=True)
    with Progress(
        TextColumn(title), BarColumn(), MofNCompleteColumn(), console=console, transient=True
    ) as bar:
        line = bar.add_task(title, total=len(tasks))
        results = []
        for result in joblib.Parallel(return_as="generator")(tasks):
            results.append(result)
            bar.advance(line)
    return results


def _print(answers: list[Answer], alarms: list[Verdict], runs: int, seconds: float) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=100)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("fault", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("found by", no_wrap=True)
    table.add_column("total variation", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for answer in answers:
        found = answer.found
        mark = "✓" if answer.right else "✗ expected " + answer.fault.expected + ", got"
        bias = answer.verdict.counterexample
        exact = bias.total_variation if bias is not None else ""
        if found is not None and not exact and found.total_variation:
            exact = f"≥ {found.total_variation:.3g}"
        table.add_row(
            answer.name + (" (control)" if answer.fault.control else ""),
            f"{mark} {answer.verdict.verdict}",
            found.check if found is not None else "",
            exact if len(exact) <= 15 else f"{_value(exact):.6g}",
            f"{answer.samples:,}",
            f"{answer.seconds:.1f}",
            style="" if answer.right else "bold red",
        )
    console.print(table)
    flagged = [a for a in answers if not a.fault.control]
    controls = [a for a in answers if a.fault.control]
    console.print(
        f"{sum(a.right for a in flagged)} of {len(flagged)} faults flagged, "
        f"{sum(a.right for a in controls)} of {len(controls)} controls pass, "
        f"{len(alarms)} alarms in {runs} runs of correct subjects; {seconds:.0f} s"
    )
    for answer in answers:
        if not answer.right:
            console.print(f"  {answer.name}: {answer.verdict.reason}", markup=False)
    for verdict in alarms[:10]:
        console.print(f"  alarm: {verdict.scheme}: {verdict.reason}", markup=False)


def _value(text: str) -> float:
    numerator, _, denominator = text.partition("/")
    return float(numerator) / float(denominator or 1)


def _to_json(answers: list[Answer], alarms: list[Verdict], runs: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "faults": [
            {
                "fault": answer.name,
                "control": answer.fault.control,
                "expected": answer.fault.expected,
                "right": answer.right,
                "seconds": answer.seconds,
                **json.loads(json.dumps(answer.verdict.to_json())),
            }
            for answer in answers
        ],
        "null_runs": runs,
        "alarms": [verdict.to_json() for verdict in alarms],
    }
