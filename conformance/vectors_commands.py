"""The command `vectors`: write the exact vectors of every scheme, or derive them again."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from draftproof.conformance import vectors as files
from draftproof.reference.catalogue import SCHEMES

__all__ = ["vectors"]


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write into DIR.")
@click.option("--verify", "given", type=click.Path(path_type=Path), help="Check the files of DIR.")
@click.option("--scheme", "schemes", multiple=True, help="Write only these; may be repeated.")
def vectors(out: Path | None, given: Path | None, schemes: tuple[str, ...]) -> None:
    """Exact decisions, replays and laws as JSON, one file a scheme.

    Exit status: 0, 1 when a file says something that cannot be derived, 2 for wrong usage.
    """
    if (out is None) == (given is None):
        raise click.UsageError("give either --out DIR or --verify DIR")
    if out is not None:
        _write(out, schemes or tuple(SCHEMES))
    elif schemes:
        raise click.UsageError("--scheme goes with --out")
    else:
        assert given is not None
        _verify(given)


def _write(out: Path, schemes: tuple[str, ...]) -> None:
    for name in schemes:
        if name not in SCHEMES:
            raise click.UsageError(f"unknown scheme {name!r}; known: {', '.join(SCHEMES)}")
    try:
        for done, name in enumerate(schemes):
            _progress(f"{done}/{len(schemes)} {name}")
            files.write(out, [name])
    except OSError as error:
        raise click.UsageError(f"{out}: {error.strerror or error}") from None
    _progress("")
    click.echo(f"{len(schemes)} files and their JSON Schema in {out}")


def _verify(given: Path) -> None:
    found = sorted(given.glob("*.json")) if given.is_dir() else []
    found = [file for file in found if file.name != files.SCHEMA_NAME]
    if not found:
        raise click.UsageError(f"{given} is not a folder with vectors (*.json)")
    wrong = 0
    for done, file in enumerate(found):
        _progress(f"{done}/{len(found)} {file.name}")
        lines = files.verify_file(file)
        wrong += bool(lines)
        for line in lines:
            _progress("")
            click.echo(f"{file.name}: {line}")
    _progress("")
    click.echo(f"{len(found) - wrong} of {len(found)} files derived again without a difference")
    if wrong:
        sys.exit(1)


def _progress(text: str) -> None:
    """One line on a terminal that the next one replaces."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text}", nl=False, err=True)
