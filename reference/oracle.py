"""The oracle: the exact law of any scheme on an instance, and what follows from it.

A scheme is lossless when the law of L + 1 tokens, its own and then those of the continuation it
prescribes (its carry, or the unmodified target), is the target's law of L + 1 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from draftproof.reference.catalogue import find
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.instance import FORMAT, Instance
from draftproof.reference.law import Law
from draftproof.reference.models import DraftModels, Model, Prefix, block_law
from draftproof.reference.numbers import Number, text
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import (
    Drafts,
    FixedDrafts,
    SampledDrafts,
    distinct_drafts,
    hub_drafts,
)

__all__ = [
    "CarryRows",
    "Examination",
    "Stop",
    "block_stops",
    "check_drafts",
    "continued_law",
    "draw_drafts",
    "exact_law",
    "examine",
    "expected_accepted_length",
    "freeze_carry",
    "law_to_json",
    "thaw_carry",
    "total_variation",
]

CarryRows = tuple[tuple[Prefix, Row], ...]
"""The rows of a carry after every prefix it can emit: a hashable value that stands for it."""


class Stop(NamedTuple):
    """How a block ended: everything that the rest of the decoding can depend on."""

    accepted: Prefix
    next: int
    carry: CarryRows = ()


def draw_drafts(chance: Chance, instance: Instance, scheme: Scheme | None = None) -> Drafts:
    """The drafts of an instance, drawn by its draft law; SpecHub draws its own pair."""
    if scheme is not None and scheme.draft_law == "hub" and instance.length == 1:
        return hub_drafts(chance, instance.draft_model)
    if instance.draft_law == "fixed":
        return FixedDrafts(instance.paths, instance.length)
    if instance.draft_law == "without_replacement":
        return distinct_drafts(chance, instance.draft_model, instance.drafts, instance.length)
    return SampledDrafts(chance, [instance.draft_model] * instance.drafts, instance.length)


def freeze_carry(carry: Model | None) -> CarryRows:
    """The rows of `carry` that may differ from the target, after prefixes it can emit."""
    if carry is None:
        return ()
    positions = carry.carried
    frozen: list[tuple[Prefix, Row]] = []
    reached: list[Prefix] = [()] if positions > 0 else []
    for prefix in reached:  # grows while it is walked
        row = carry(prefix)
        frozen.append((prefix, row))
        if len(prefix) + 1 < positions:
            reached += [(*prefix, v) for v, chance in enumerate(row) if chance != 0]
    return tuple(frozen)


def thaw_carry(carry: CarryRows, target: Model) -> Model:
    """The target of the next round: the carried rows, then those of `target` (both relative)."""
    if not carry:
        return target
    rows = dict(carry)
    positions = 1 + max(len(prefix) for prefix in rows)
    return Model(
        target.vocab,
        lambda prefix: rows[prefix] if prefix in rows else target(prefix),
        positions,
    )


@dataclass(frozen=True)
class Examination:
    """The exact result of one scheme on one instance; every quantity is computed once."""

    scheme: Scheme
    instance: Instance
    stops: Law[Stop]

    @cached_property
    def law(self) -> Law[tuple[Prefix, int]]:
        """The law of (accepted prefix, next token)."""
        return self.stops.map(lambda stop: (stop.accepted, stop.next))

    @cached_property
    def continued(self) -> Law[Prefix]:
        """The law of L + 1 tokens: those of the block, then its carry or the target."""
        length, target = self.instance.length, self.instance.target_model
        after: dict[Stop, Law[Prefix]] = {}

        def rest(stop: Stop) -> Law[Prefix]:
            emitted = (*stop.accepted, stop.next)
            key = Stop(emitted, 0, stop.carry)
            if key not in after:
                model = thaw_carry(stop.carry, target.after(emitted))
                tail = block_law(model, length - len(stop.accepted))
                after[key] = tail.map(lambda y: emitted + y)
            return after[key]

        return self.stops.bind(rest)

    @cached_property
    def expected_accepted_length(self) -> Number:
        """E[τ]; the correction or bonus is not counted."""
        return self.stops.expectation(lambda stop: len(stop.accepted))

    @cached_property
    def total_variation(self) -> Number:
        """Between `continued` and the target's law of L + 1 tokens; 0 iff lossless here."""
        truth = block_law(self.instance.target_model, self.instance.length + 1)
        return self.continued.total_variation(truth)


def block_stops(
    scheme: str | Scheme,
    drafts: Callable[[Chance], Drafts],
    draft: DraftModels,
    target: Model,
    **options: Any,
) -> Law[Stop]:
    """The exact law of how one block ends, the drafts being what `drafts(chance)` draws.

    Raises:
        ValueError: a model for each draft, for a scheme that takes one model for all, or models of
            different vocabularies.
    """
    entry = find(scheme) if isinstance(scheme, str) else scheme
    for k, model in enumerate([draft] if isinstance(draft, Model) else draft):
        if model.vocab != target.vocab:
            name = "the draft model" if isinstance(draft, Model) else f"draft model {k}"
            raise ValueError(f"{name} has {model.vocab} tokens, the target model {target.vocab}")
    if not isinstance(draft, Model) and entry.draft_law not in ("independent", "any"):
        raise ValueError(f"{entry.name} takes one draft model for all drafts")

    def stop(outcome: Outcome) -> Stop:
        return Stop(outcome.accepted, outcome.next, freeze_carry(outcome.carry))

    return enumerate_law(
        lambda chance: stop(entry.verify(chance, drafts(chance), draft, target, **options)),
        merge=True,  # which draft the accepted prefix lies on is not part of how a block ends
    )


def examine(scheme: str | Scheme, instance: Instance, **options: Any) -> Examination:
    """The exact result of a scheme (or the name of one) on an instance.

    Raises:
        ValueError: an unknown scheme, or a number of drafts that it does not take.
    """
    entry = find(scheme) if isinstance(scheme, str) else scheme
    check_drafts(entry, instance.drafts)
    stops = block_stops(
        entry,
        lambda chance: draw_drafts(chance, instance, entry),
        instance.draft_model,
        instance.target_model,
        **options,
    )
    return Examination(entry, instance, stops)


def check_drafts(scheme: Scheme, drafts: int) -> None:
    """Raise ValueError unless the scheme takes this number of drafts."""
    least, most = scheme.drafts
    if drafts < least or (most is not None and drafts > most):
        allowed = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{scheme.name} takes {allowed} drafts, not {drafts}")


def exact_law(scheme: str | Scheme, instance: Instance, **options: Any) -> Law[tuple[Prefix, int]]:
    """The exact law of (accepted prefix, next token)."""
    return examine(scheme, instance, **options).law


def continued_law(scheme: str | Scheme, instance: Instance, **options: Any) -> Law[Prefix]:
    """The exact law of L + 1 tokens, continued as the scheme prescribes."""
    return examine(scheme, instance, **options).continued


def total_variation(scheme: str | Scheme, instance: Instance, **options: Any) -> Number:
    """Between the continued law and the target's law of L + 1 tokens: 0 for a lossless scheme."""
    return examine(scheme, instance, **options).total_variation


def expected_accepted_length(scheme: str | Scheme, instance: Instance, **options: Any) -> Number:
    """E[τ] of one block."""
    return examine(scheme, instance, **options).expected_accepted_length


def law_to_json(result: Examination) -> dict[str, Any]:
    """The law format of docs/formats.md, outcomes sorted by accepted, then next."""
    return {
        "format": FORMAT,
        "scheme": result.scheme.name,
        "outcomes": [
            {"accepted": list(accepted), "next": token, "probability": text(chance)}
            for (accepted, token), chance in sorted(result.law.items(), key=lambda item: item[0])
        ],
        "expected_accepted_length": text(result.expected_accepted_length),
        "total_variation": text(result.total_variation),
    }
