"""The command `gate`: fail when a subject got worse than its stored baseline."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
from draftproof.conformance import gate as gating
from draftproof.reference.instance import write_json
from rich.console import Console
from rich.table import Table

__all__ = ["gate"]


class _BadInput(click.ClickException):
    exit_code = 2


@click.command()
@click.option("--baseline", required=True, type=click.Path(path_type=Path), help="The baseline.")
@click.option("--update", is_flag=True, help="Measure anew and write the baseline.")
@click.option(
    "--subject", "subjects", multiple=True, help="Default: those of the baseline, or fast."
)
@click.option("--scheme", "schemes", multiple=True, help="Only this scheme; may be repeated.")
@click.option("--budget", type=click.FloatRange(min=0.1), default=5.0, help="Seconds a scheme [5].")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the checks [0].")
@click.option("--no-speed", is_flag=True, help="Leave speed ratios out (a busy machine).")
def gate(
    baseline: Path,
    update: bool,
    subjects: tuple[str, ...],
    schemes: tuple[str, ...],
    budget: float,
    seed: int,
    no_speed: bool,
) -> None:
    """Compare verdicts, accepted lengths and speed ratios with a stored baseline.

    Exit status: 0, 1 when something is worse, 2 for wrong usage.
    """
    try:
        stored = {} if update and not baseline.exists() else gating.read_baseline(baseline)
        if not update:
            stored = _comparable(stored)
        wanted = list(subjects or stored or ["fast"])
        unknown = [s for s in wanted if not update and s not in stored]
        if unknown:
            raise ValueError(f"{baseline} has no subject {unknown[0]!r}; write it with --update")
        now = {
            s: _measure(
                s,
                schemes,
                {} if update else stored[s],
                budget=budget,
                seed=seed,
                speed=not no_speed,
            )
            for s in wanted
        }
    except ValueError as error:
        raise _BadInput(str(error)) from None
    if update:
        for subject, measured in now.items():
            stored[subject] = {**stored.get(subject, {}), **measured}
        write_json({"format": gating.FORMAT, "subjects": stored}, baseline)
        _print(now, {})
        click.echo(f"baseline written: {baseline}")
        return
    worse: dict[tuple[str, str], list[str]] = {}
    for subject in wanted:
        for scheme, was in stored[subject].items():
            if schemes and scheme not in schemes:
                continue
            if no_speed:
                was = {**was, "speed_ratio": None}
            found = gating.compare(was, now[subject].get(scheme))
            if found:
                worse[subject, scheme] = found
    _print(now, worse)
    for (subject, scheme), lines in worse.items():
        for line in lines:
            click.echo(f"worse: {subject} {scheme}: {line}")
    if worse:
        sys.exit(1)
    click.echo("nothing is worse than the baseline")


def _comparable(stored: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The baseline without the speeds of other processors, which it names."""
    here = gating.processor()
    processors = {
        was.get("processor", here) for schemes in stored.values() for was in schemes.values()
    }
    for other in sorted(processors - {here}):
        click.echo(f"speed ratios stored on {other} are not compared on this {here}")
    return {
        subject: {scheme: gating.comparable(was) for scheme, was in schemes.items()}
        for subject, schemes in stored.items()
    }


def _measure(
    subject: str,
    schemes: tuple[str, ...],
    stored: dict[str, dict[str, Any]],
    *,
    budget: float,
    seed: int,
    speed: bool,
) -> dict[str, dict[str, Any]]:
    """Verdicts, accepted lengths and speeds; a speed is measured again where it is not within the
    bounds of the stored one."""
    from draftproof.conformance.adapters import load
    from draftproof.conformance.campaign import (
        ask_declaration,
        plan,
        run_campaign,
        schemes_of,
        verdicts_of,
    )
    from draftproof.conformance.checks import CHECKS
    from draftproof.conformance.subject import SubjectError, Unavailable

    asked = ask_declaration(subject)
    if asked.declaration is None:
        assert asked.verdict is not None
        raise ValueError(f"{subject}: {asked.verdict.verdict}: {asked.verdict.reason}")
    declaration = asked.declaration
    tasks = plan(
        subject, declaration, schemes_of(declaration, schemes), list(CHECKS),
        seeds=[seed], budget=budget,
    )  # fmt: skip
    finished = []
    with Console(stderr=True).status(f"{subject}: checks") as status:
        for number, pair in enumerate(run_campaign(tasks), start=1):
            finished.append(pair)
            status.update(f"{subject}: {number} of {len(tasks)} checks")
        verdicts = verdicts_of(finished, {subject: declaration})
        measured = {}
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread has the steadiest speed
        loaded = load(subject)
        for verdict in verdicts:
            status.update(f"{subject} {verdict.scheme}: accepted length and speed")
            entry: dict[str, Any] = {"verdict": verdict.verdict, "reason": verdict.reason}
            entry["uniforms"] = declaration.uniforms
            try:
                entry["accepted_length"], entry["standard_error"] = gating.accepted_length(
                    loaded, declaration, verdict.scheme
                )
                if speed:
                    was = stored.get(verdict.scheme, {}).get("speed_ratio")
                    measure = partial(gating.speed_ratio, loaded, declaration, verdict.scheme)
                    entry |= gating.speed_within(was, measure)
                    entry["processor"] = gating.processor()
            except (SubjectError, Unavailable) as error:
                entry["reason"] = entry["reason"] or str(error)
            measured[verdict.scheme] = entry
    return measured


def _print(
    now: dict[str, dict[str, dict[str, Any]]], worse: dict[tuple[str, str], list[str]]
) -> None:
    table = Table(box=None)
    for name in ("subject", "scheme", "verdict"):
        table.add_column(name, overflow="fold")
    for name in ("accepted length", "speed ratio", "ms"):
        table.add_column(name, justify="right")
    for subject, schemes in now.items():
        for scheme, entry in schemes.items():
            table.add_row(
                subject,
                scheme,
                entry["verdict"],
                f"{entry['accepted_length']:.4f}" if "accepted_length" in entry else "",
                f"{entry['speed_ratio']:.2f}" if "speed_ratio" in entry else "",
                f"{entry['milliseconds']:.2f}" if "milliseconds" in entry else "",
                style="red" if (subject, scheme) in worse else None,
            )
    Console().print(table)
