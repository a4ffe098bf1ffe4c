"""The command line: `draftproof check`, and the other commands, imported when they are called."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

__all__ = ["main"]

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "check": ("draftproof.conformance.cli", "check"),
    "exam": ("draftproof.conformance.exam_commands", "exam"),
    "law": ("draftproof.conformance.oracle_commands", "law"),
    "compare": ("draftproof.conformance.oracle_commands", "compare"),
    "schemes": ("draftproof.conformance.oracle_commands", "schemes"),
    "vectors": ("draftproof.conformance.vectors_commands", "vectors"),
    "gate": ("draftproof.conformance.gate_commands", "gate"),
    "generate": ("draftproof.fast.decoding.cli", "generate"),
    "experiment": ("draftproof.fast.decoding.cli", "experiment"),
}
_EXTRA = {"torch": "fast", "transformers": "transformers", "safetensors": "transformers"}


class _BadInput(click.ClickException):
    exit_code = 2


class _Lazy(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in _EXTRA:
                raise
            return _missing(cmd_name, error)
        return command


def _missing(command: str, error: ModuleNotFoundError) -> click.Command:
    """A command that says which extra it needs."""
    package = (error.name or "").split(".")[0]
    how = f"pip install 'draftproof[{_EXTRA[package]}]'"

    @click.command(
        command,
        short_help=f"(needs {package})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def refuse() -> None:
        raise _BadInput(f"`draftproof {command}` needs {package}, which is not installed: {how}")

    return refuse


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="draftproof")
def main() -> None:
    """Is a speculative-decoding verifier lossless, and if not, by how much and on which input?"""


def _checks(value: str | None) -> list[str]:
    from draftproof.conformance.checks import CHECKS

    if value is None:
        return list(CHECKS)
    wanted = [name.strip().replace("_", " ").replace("-", " ") for name in value.split(",")]
    for name in wanted:
        if name not in CHECKS:
            raise _BadInput(f"unknown check {name!r}; known: {', '.join(CHECKS)}")
    return [name for name in CHECKS if name in wanted]


def _instance(given: str) -> Any:
    """An instance from a file, or from its JSON, as a report prints it."""
    from draftproof.reference.instance import instance_from_json, read_instance

    if not given.lstrip().startswith("{"):
        return read_instance(given)
    try:
        data = json.loads(given)
    except ValueError as error:
        raise ValueError(f"--instance is not valid JSON: {error}") from None
    return instance_from_json(data)


@click.command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1, required=True)
@click.option("--scheme", "schemes", multiple=True, help="Only this scheme (may be repeated).")
@click.option("--checks", help="Only these checks, separated by commas.")
@click.option("--budget", type=click.FloatRange(min=0.1), help="Seconds for each scheme [15].")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the run [0].")
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="With this many seeds [1].")
@click.option("--instance", "given_instance", metavar="FILE|JSON", help="Only on this instance.")
@click.option("--json", "json_file", type=click.Path(), help="Write the verdicts.")
@click.option("--junit", "junit_file", type=click.Path(), help="Write JUnit XML.")
@click.option("--html", "html_file", type=click.Path(), help="Write one self-contained page.")
@click.option("--summary", "summary_file", type=click.Path(), help="Write GitHub Markdown.")
@click.option("--jobs", type=click.IntRange(min=1), help="Checks at a time [cores].")
@click.option("--backend", help="A joblib backend, such as dask, instead of this machine's cores.")
@click.option("--results", type=click.Path(), help="Append results as they come; go on from it.")
def check(
    subjects: tuple[str, ...],
    schemes: tuple[str, ...],
    checks: str | None,
    budget: float | None,
    seed: int,
    repeat: int,
    given_instance: str | None,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
    summary_file: str | None,
    jobs: int | None,
    backend: str | None,
    results: str | None,
) -> None:
    """Test verification functions and print a verdict for each scheme.

    SUBJECT is fast, reference, transformers, vllm, sglang, flashinfer, control:NAME, mutant:NAME,
    python:package.module:factory or program:COMMAND.

    Exit status: 0 when nothing that claims losslessness failed, 1 when something is biased, 2 for
    wrong usage or a subject that could not be run.
    """
    from draftproof.conformance.adapters import environment
    from draftproof.conformance.campaign import DEFAULT_BUDGET
    from draftproof.conformance.report import print_report, write_reports
    from draftproof.conformance.verdict import exit_code
    from draftproof.reference.catalogue import find
    from draftproof.reference.instance import instance_to_json

    wanted = _checks(checks)
    instance = None
    try:
        for subject in subjects:
            environment(subject)
        for scheme in schemes:
            find(scheme)
        if given_instance:
            instance = instance_to_json(_instance(given_instance))
            if checks is None:
                wanted = ["exact sweep", "statistical"]
    except ValueError as error:
        raise _BadInput(str(error)) from None
    for name, path in (
        ("--json", json_file),
        ("--junit", junit_file),
        ("--html", html_file),
        ("--summary", summary_file),
        ("--results", results),
    ):
        if path and not Path(path).absolute().parent.is_dir():
            raise _BadInput(f"{name}: {path} lies in no existing folder")
    report = _run(
        list(dict.fromkeys(subjects)),
        list(schemes),
        wanted,
        seeds=range(seed, seed + repeat),
        budget=DEFAULT_BUDGET if budget is None else budget,
        instance=instance,
        jobs=jobs,
        backend=backend,
        results=Path(results) if results else None,
    )
    print_report(report, Console() if sys.stdout.isatty() else Console(width=100))
    write_reports(
        report,
        json_file=json_file,
        junit_file=junit_file,
        html_file=html_file,
        summary_file=summary_file,
    )
    sys.exit(exit_code(report.verdicts))


class _Doing(ProgressColumn):
    """What a subject is asked right now: a long check, or the shrinking after it, is seen to go on.

    Subjects of a cluster's workers are not seen.
    """

    def __init__(self) -> None:
        super().__init__(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))

    def render(self, task: Any) -> Text:
        from draftproof.conformance.guard import doing

        return Text(doing(), style="dim")


def _run(
    subjects: list[str],
    schemes: list[str],
    checks: list[str],
    *,
    seeds: range,
    budget: float,
    instance: dict[str, Any] | None,
    jobs: int | None,
    backend: str | None,
    results: Path | None,
) -> Any:
    from draftproof.conformance.campaign import (
        ask_declaration,
        plan,
        run_campaign,
        schemes_of,
        verdicts_of,
        versions,
    )
    from draftproof.conformance.guard import guard_for
    from draftproof.conformance.verdict import Report

    begun = time.monotonic()
    declarations, verdicts, tasks = {}, [], []
    console = Console(stderr=True)
    with console.status("loading subjects"):
        for subject in subjects:
            asked = ask_declaration(subject)
            if asked.declaration is None:
                assert asked.verdict is not None
                verdicts.append(asked.verdict)
                continue
            try:
                chosen = schemes_of(asked.declaration, schemes)
            except ValueError as error:
                if len(subjects) == 1:
                    raise _BadInput(str(error)) from None
                from draftproof.conformance.verdict import Verdict

                verdicts.append(Verdict(subject, "-", "skipped", (), str(error)))
                continue
            declarations[subject] = asked.declaration
            tasks += plan(
                subject,
                asked.declaration,
                chosen,
                checks,
                seeds=seeds,
                budget=budget,
                instance=instance,
            )
    finished = []
    try:
        with Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Doing(),
            console=console,
            transient=True,
            expand=True,
        ) as bar:
            line = bar.add_task("checking", total=len(tasks))
            for task, result in run_campaign(tasks, jobs=jobs, backend=backend, results=results):
                finished.append((task, result))
                said = f"{task.scheme}: {task.check} {result.status}"
                bar.update(line, advance=1, description=f"{said:<40.40}")
    except ValueError as error:
        raise _BadInput(str(error)) from None
    except KeyboardInterrupt:
        kept = f"; go on with --results {results}" if results else ""
        said = f"interrupted after {len(finished)} of {len(tasks)} checks{kept}"
        console.print(said, soft_wrap=True)  # a broken path could not be pasted
        sys.exit(130)
    order = {json.dumps([t.subject, t.scheme]): i for i, t in reversed(list(enumerate(tasks)))}
    finished.sort(key=lambda pair: order[json.dumps([pair[0].subject, pair[0].scheme])])
    verdicts = [*verdicts_of(finished, declarations), *verdicts]
    output = guard_for({}).output()
    return Report(
        subjects=tuple(subjects),
        verdicts=tuple(verdicts),
        seed=seeds.start,
        budget=budget,
        command=shlex.join(["draftproof", *sys.argv[1:]]),
        seconds=round(time.monotonic() - begun, 3),
        declarations={name: d.to_json() for name, d in declarations.items()},
        environment=versions(),
        stderr={"loading": output} if output else {},
    )


if __name__ == "__main__":
    main()
