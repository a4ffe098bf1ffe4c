"""Commands of the exact oracle: `law`, `compare` and `schemes`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from draftproof.conformance import comparison as comparing
from draftproof.conformance.many import BACKENDS, map_all
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.instance import read_instance
from draftproof.reference.numbers import text
from draftproof.reference.oracle import Examination, examine, law_to_json
from rich.console import Console
from rich.table import Table

__all__ = ["compare", "law", "schemes", "schemes_markdown"]


class _BadInput(click.ClickException):
    exit_code = 2


def _refuses_bad_input(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a ValueError into one message and exit status 2."""

    @wraps(command)
    def wrapped(**arguments: Any) -> None:
        try:
            command(**arguments)
        except ValueError as error:
            raise _BadInput(str(error)) from None

    return wrapped


@click.command()
@click.option("--scheme", required=True, help="Name of a scheme; `draftproof schemes` lists them.")
@click.option("--instance", "file", required=True, type=click.Path(), help="Instance file (JSON).")
@click.option("--format", "style", type=click.Choice(["json", "table"]), default="table")
@_refuses_bad_input
def law(scheme: str, file: str, style: str) -> None:
    """Print the exact law of (accepted tokens, next token) of a scheme on an instance."""
    result = examine(scheme, read_instance(file))
    if style == "json":
        click.echo(json.dumps(law_to_json(result), indent=1))
    else:
        _print_law(result)


def _print_law(result: Examination) -> None:
    table = Table(title=f"{result.scheme.name}: exact law of one block")
    table.add_column("accepted tokens")
    table.add_column("next token", justify="right")
    table.add_column("probability", justify="right")
    table.add_column("≈", justify="right")
    for (accepted, token), chance in sorted(result.law.items(), key=lambda item: item[0]):
        shown = ", ".join(map(str, accepted)) or "none"
        table.add_row(shown, str(token), text(chance), f"{float(chance):.6f}")
    console = Console()
    console.print(table)
    console.print(f"expected accepted length: {_both(result.expected_accepted_length)}")
    verdict = "lossless on this instance" if result.total_variation == 0 else "biased"
    console.print(f"total variation from the target: {_both(result.total_variation)} ({verdict})")


def _both(value: Any) -> str:
    exact = text(value)
    return exact if value.denominator == 1 else f"{exact} ≈ {float(value):.6f}"


@click.command()
@click.option("--instance", "file", type=click.Path(), help="Instance file (JSON).")
@click.option("--random", "size", metavar="V,L,K", help="Random pairs with Dirichlet(1) rows.")
@click.option("--count", default=1, show_default=True, help="How many random pairs.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first; then seed + 1, ...")
@click.option("--plot", "picture", type=click.Path(), help="Draw the comparison into this file.")
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table")
@click.option("--backend", default="loky", show_default=True, help=" | ".join(BACKENDS))
@click.option("--jobs", default=-1, show_default=True, help="Processes; -1 for all cores.")
@_refuses_bad_input
def compare(
    file: str | None,
    size: str | None,
    count: int,
    seed: int,
    picture: str | None,
    style: str,
    backend: str,
    jobs: int,
) -> None:
    """Compare all schemes exactly: expected accepted length, total variation, the optima."""
    if (file is None) == (size is None):
        raise click.UsageError("give either --instance FILE or --random V,L,K")
    if file is not None:
        instances = [read_instance(file)]
    else:
        if count < 1:
            raise ValueError(f"--count is {count}; it must be at least 1")
        vocab, length, drafts = _size(size or "")
        seeds = range(seed, seed + count)
        instances = [comparing.dirichlet_instance(s, vocab, length, drafts) for s in seeds]
    results = map_all(
        comparing.compare, instances, backend=backend, jobs=jobs, progress="comparing"
    )
    result = comparing.mean(results)
    if style == "json":
        click.echo(json.dumps(comparing.comparison_to_json(result), indent=1))
    else:
        _print_comparison(result)
    if picture is not None:
        comparing.plot(result, picture)


def _size(given: str) -> tuple[int, int, int]:
    parts = given.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--random is {given!r}, not three integers V,L,K")
    vocab, length, drafts = map(int, parts)
    if vocab < 1:
        raise ValueError(f"--random is {given!r}: the vocabulary has at least one token")
    return vocab, length, drafts


def _print_comparison(result: comparing.Comparison) -> None:
    size = f"V = {result.vocab}, L = {result.length}, K = {result.drafts}"
    table = Table(title=f"{size}; instances: {result.instances}; exact, shown to four digits")
    table.add_column("scheme", no_wrap=True)
    for column in ("drafts used", "E[τ]", "total variation"):
        table.add_column(column, justify="right")
    for name, entry in result.entries.items():
        distance = entry.total_variation
        shown = "0" if distance == 0 else f"{float(distance):.4g}"
        length = f"{float(entry.expected_accepted_length):.4f}"
        table.add_row(name, str(entry.drafts), length, shown)
    table.add_section()
    for name, value in result.yardsticks.items():
        table.add_row(name, str(result.drafts), f"{float(value):.4f}", "")
    console = Console()
    console.print(table)
    for reason in dict.fromkeys(result.left_out.values()):
        names = ", ".join(name for name, why in result.left_out.items() if why == reason)
        console.print(f"not compared ({reason}): {names}", highlight=False)


@click.command()
@click.option(
    "--format", "style", type=click.Choice(["table", "json", "markdown"]), default="table"
)
def schemes(style: str) -> None:
    """List every scheme of the catalogue."""
    entries = list(SCHEMES.values())
    if style == "json":
        keys = ("name", "kind", "summary", "paper", "lossless", "stateful", "draft_law", "drafts")
        more = ("selects", "approximate", "counterexample")
        click.echo(json.dumps([{k: getattr(s, k) for k in keys + more} for s in entries], indent=1))
        return
    if style == "markdown":
        click.echo(schemes_markdown())
        return
    table = Table()
    table.add_column("scheme", no_wrap=True)
    for column in ("kind", "lossless", "state", "drafts assumed"):
        table.add_column(column)
    table.add_column("rule", ratio=1)
    for s in entries:
        lossless = "nearly" if s.approximate else ("yes" if s.lossless else "no")
        state = "carry" if s.stateful else "none"
        table.add_row(s.name, s.kind, lossless, state, s.draft_law, s.summary)
    console = Console()
    if not console.is_terminal:  # piped output has no width of its own; the rules need some room
        console = Console(width=max(console.width, 140))
    console.print(table)


def schemes_markdown() -> str:
    """The catalogue as a Markdown table, the one of the README."""
    lines = ["| scheme | lossless | drafts | rule |", "|---|---|---|---|"]
    for s in SCHEMES.values():
        lossless = "nearly" if s.approximate else ("yes" if s.lossless else "**no**")
        if s.stateful:
            lossless += ", with its carry"
        least, most = s.drafts
        count = f"{least} or more" if most is None else f"{least} to {most}"
        count = str(least) if least == most else count
        summary = s.summary.replace("|", "\\|")
        lines.append(f"| `{s.name}` | {lossless} | {count}, {s.draft_law} | {summary} |")
    return "\n".join(lines)
