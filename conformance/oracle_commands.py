"""Commands of the exact oracle: `law` and `schemes`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.instance import read_instance
from draftproof.reference.numbers import text
from draftproof.reference.oracle import Examination, examine, law_to_json
from rich.console import Console
from rich.table import Table

__all__ = ["law", "schemes"]


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
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table")
def schemes(style: str) -> None:
    """List every scheme of the catalogue."""
    entries = list(SCHEMES.values())
    if style == "json":
        keys = ("name", "kind", "summary", "paper", "lossless", "stateful", "draft_law", "drafts")
        more = ("selects", "approximate", "counterexample")
        click.echo(json.dumps([{k: getattr(s, k) for k in keys + more} for s in entries], indent=1))
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
    Console().print(table)
