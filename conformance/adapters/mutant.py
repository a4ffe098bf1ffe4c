"""A correct verifier with one known fault: `mutant:NAME`, to see what the suite says about it."""

from __future__ import annotations

from typing import Any

from draftproof.conformance.mutants import FAULTS

__all__ = ["create"]


def create(argument: str) -> Any:
    """The mutant called `argument`.

    Raises:
        ValueError: no such mutant.
    """
    if argument not in FAULTS:
        raise ValueError(f"unknown mutant {argument!r}; known: {', '.join(FAULTS)}")
    return FAULTS[argument].build()
