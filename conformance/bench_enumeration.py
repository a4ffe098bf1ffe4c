"""How fast the exact oracle enumerates: `python -m draftproof.conformance.bench_enumeration`.

Prints, for every scheme, the size of the instance, the seconds that the exact law and E[τ] take,
and branches per second, and beside it the naive enumeration, which draws all drafts at once and
does not share work, where that ends within a time limit. A branch is one run of the verifier, to
its end or to the next state in which several histories meet.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import click
from draftproof.conformance.comparison import dirichlet_instance
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.clip import smallest_scale
from draftproof.reference.instance import Instance
from draftproof.reference.law import Law
from draftproof.reference.models import block_law
from draftproof.reference.numbers import backend
from draftproof.reference.oracle import Stop, examine, freeze_carry
from draftproof.reference.rows import Row, normalise
from draftproof.reference.scheme import Scheme
from draftproof.reference.tree import FixedDrafts
from rich.console import Console
from rich.table import Table

__all__ = ["Timing", "benchmark", "naive_law", "rounded"]


@dataclass(frozen=True)
class Timing:
    """One law, timed."""

    scheme: str
    vocab: int
    length: int
    drafts: int
    seconds: float
    branches: int
    naive_seconds: float | None
    """None when the naive enumeration did not end in time."""


def rounded(instance: Instance, denominator: int = 1000) -> Instance:
    """The instance with rows rounded to multiples of about 1/denominator, none of them 0."""

    def coarse(row: Row) -> Row:
        return normalise([max(round(entry * denominator), 1) for entry in row])

    return replace(
        instance,
        draft_rows={x: coarse(row) for x, row in instance.draft_rows.items()},
        target_rows={x: coarse(row) for x, row in instance.target_rows.items()},
    )


def naive_law(scheme: Scheme, instance: Instance, limit: float = float("inf")) -> Law[Stop]:
    """The law by enumerating all drafts first, each combination on its own.

    Raises:
        TimeoutError: it takes more than `limit` seconds.
    """
    started = time.perf_counter()
    draft, target = instance.draft_model, instance.target_model
    paths = list(block_law(draft, instance.length).items())
    weights: list[tuple[Stop, Any]] = []
    for chosen in product(paths, repeat=instance.drafts):
        if time.perf_counter() - started > limit:
            raise TimeoutError(f"more than {limit} seconds")
        drafts = FixedDrafts([path for path, _ in chosen], instance.length)

        def program(chance: Chance, drafts: FixedDrafts = drafts) -> Stop:
            outcome = scheme.verify(chance, drafts, draft, target)
            return Stop(outcome.accepted, outcome.next, freeze_carry(outcome.carry))

        together: Any = 1
        for _, weight in chosen:
            together = together * weight
        weights += [(stop, together * w) for stop, w in enumerate_law(program).items()]
    return Law(weights)


class _Counter:
    """Counts how many times a scheme's functions are run."""

    def __init__(self) -> None:
        self.runs = 0

    def watch(self, scheme: Scheme) -> Scheme:
        """The scheme, each run of it counted."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self.runs += 1
            return scheme.verify(*arguments, **options)

        return replace(scheme, verify=counted)


def benchmark(name: str, instance: Instance, naive_limit: float = 0.0) -> Timing:
    """Time the exact law and E[τ] of one scheme, from cold caches."""
    scheme = SCHEMES[name]
    most = scheme.drafts[1]
    shown = replace(
        instance, drafts=instance.drafts if most is None else min(most, instance.drafts)
    )
    counter = _Counter()
    examine(counter.watch(scheme), shown)
    cold = replace(shown)  # its models are made again
    smallest_scale.cache_clear()
    started = time.perf_counter()
    result = examine(name, cold)
    _ = result.law, result.expected_accepted_length
    seconds = time.perf_counter() - started
    naive: float | None = None
    if naive_limit > 0:
        started = time.perf_counter()
        try:
            law = naive_law(scheme, replace(shown), naive_limit)
        except TimeoutError:
            pass
        else:
            naive = time.perf_counter() - started
            if law != result.stops:
                raise AssertionError(f"{name}: the two enumerations differ")
    return Timing(name, shown.vocab, shown.length, shown.drafts, seconds, counter.runs, naive)


STATELESS = [
    name
    for name, scheme in SCHEMES.items()
    if scheme.kind == "verifier"
    and scheme.lossless
    and not scheme.stateful
    and scheme.draft_law in ("iid", "independent", "any")
]
SEVERAL = [name for name in STATELESS if SCHEMES[name].drafts[1] is None]
CASES = [
    ((3, 3, 2), STATELESS, 5.0),
    ((3, 2, 4), ["spectr", "kseq_block", "spectr_gbv"], 60.0),
    ((4, 3, 2), STATELESS, 60.0),
    ((4, 3, 4), [*SEVERAL, "spectr_gbv"], 60.0),
    ((3, 2, 8), [*SEVERAL, "spectr_gbv"], 60.0),
]
"""Sizes (V, L, K), schemes, and the seconds each is meant to stay under on two cores."""


@click.command()
@click.option("--naive-limit", default=20.0, show_default=True, help="Seconds; 0 leaves it out.")
def main(naive_limit: float) -> None:
    """Time the exact enumeration beside the naive one."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(
        f"rationals: {backend()}; rows: Dirichlet(1), rounded to thousandths, full support"
    )
    for (vocab, length, drafts), names, target in CASES:
        instance = rounded(dirichlet_instance(0, vocab, length, drafts))
        table = Table(title=f"V = {vocab}, L = {length}, K = {drafts} (target: {target:g} s each)")
        table.add_column("scheme", no_wrap=True)
        for column in ("drafts", "seconds", "branches", "branches/s", "naive seconds"):
            table.add_column(column, justify="right")
        for name in names:
            t = benchmark(name, instance, naive_limit)
            naive = f"> {naive_limit:g}" if t.naive_seconds is None else f"{t.naive_seconds:.2f}"
            table.add_row(
                name,
                str(t.drafts),
                f"{t.seconds:.2f}",
                f"{t.branches:,}",
                f"{t.branches / max(t.seconds, 1e-9):,.0f}",
                naive if naive_limit > 0 else "not run",
            )
        console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"peak memory: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
