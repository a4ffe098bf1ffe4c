"""Finding the cells and lines of a report."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.fast.bench.measure import Size
from draftproof.fast.bench.run import AIM, Report

__all__ = ["cell_at", "has_grid", "line_of", "sizes"]


def sizes(report: Report) -> Iterator[tuple[Size, Report]]:
    """The cells with their sizes."""
    for cell in report["cells"]:
        yield Size(**cell["size"]), cell


def line_of(cell: Report, scheme: str) -> Report | None:
    """The line of a scheme in a cell, or None."""
    return next((line for line in cell["lines"] if line["scheme"] == scheme), None)


def cell_at(report: Report, size: Size) -> Report | None:
    """The cell of a size, or None."""
    return next((cell for here, cell in sizes(report) if here == size), None)


def has_grid(report: Report) -> bool:
    """Whether there are several numbers of blocks to plot."""
    return len({s.blocks for s, _ in sizes(report) if s.length == AIM.length}) > 1
