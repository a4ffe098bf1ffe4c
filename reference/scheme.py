"""Scheme: what a verifier returns, and the record by which it enters the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from draftproof.reference.models import Model, Prefix

__all__ = ["Counterexample", "Outcome", "Scheme"]


class Outcome(NamedTuple):
    """The result of verifying one block."""

    accepted: Prefix
    """The accepted prefix: its length is the accepted length, the next token not counted."""
    next: int
    """The correction (after a rejection) or the bonus (after a whole path)."""
    path: int = 0
    """A draft on which the accepted prefix lies; 0 when nothing is accepted."""
    carry: Model | None = None
    """Stateful schemes: the target of what follows (prefixes relative to the end of the emitted
    tokens), or None for the unmodified target."""


class Counterexample(NamedTuple):
    """An instance with context-free rows on which a scheme emits the wrong marginal.

    Rationals are text. As text it reads "K = 2, L = 1, p = (0, 1), q = (1/2, 1/2): P(token 1 at
    position 1) = 3/4 instead of 1/2".
    """

    drafts: int
    length: int
    draft_row: tuple[str, ...]
    target_row: tuple[str, ...]
    position: int
    """The emitted token that is looked at, from 0."""
    token: int
    emitted: str
    """P(that token is `token`), which should be `target_row[token]`."""
    paths: tuple[Prefix, ...] = ()
    """The drafts, for schemes whose drafts are not drawn."""

    def __str__(self) -> str:
        p, q = ", ".join(self.draft_row), ", ".join(self.target_row)
        drafts = f", drafts {self.paths}" if self.paths else ""
        return (
            f"K = {self.drafts}, L = {self.length}, p = ({p}), q = ({q}){drafts}: "
            f"P(token {self.token} at position {self.position + 1}) = {self.emitted} "
            f"instead of {self.target_row[self.token]}"
        )


@dataclass(frozen=True)
class Scheme:
    """One entry of the catalogue."""

    name: str
    kind: Literal["coupling", "verifier", "control"]
    """A coupling decides one token; a verifier decides a block; a control is not lossless."""
    summary: str
    """One line for tables."""
    paper: str
    """Authors, year, arXiv number and section, or "this project"."""
    verify: Callable[..., Outcome]
    """verify(chance, drafts, draft_model, target_model, **options)"""
    lossless: bool = True
    stateful: bool = False
    draft_law: Literal[
        "iid", "independent", "without_replacement", "hub", "deterministic", "any"
    ] = "iid"
    """The law of the drafts that the scheme assumes. `iid`: independent paths of one model;
    `independent`: a model for each path; `hub`: the pair of `tree.hub_drafts`; `any`: whatever the
    drafts are."""
    drafts: tuple[int, int | None] = (0, None)
    """The inclusive range of K."""
    selects: bool = False
    """Whether it reads `select_uniforms`."""
    approximate: str = ""
    """For a scheme that is lossless only up to an error: its bound."""
    counterexample: str = ""
    """Controls: the smallest counterexample, in exact fractions."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options with their default values."""
