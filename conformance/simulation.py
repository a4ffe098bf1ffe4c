"""Many rounds on larger vocabularies: tokens per target call of every scheme, by simulation.

    python -m draftproof.conformance.simulation --plot docs/figures/which_scheme.png

The exact oracle says what one round of a small vocabulary does; this says what hundreds of rounds
of a vocabulary of up to a few hundred tokens do. The verifier is a subject of the conformance
suite, by default the batched implementation, which replays the reference; everything else is numpy.
Many sequences run side by side, so that their means give an honest standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from draftproof.conformance.many import BACKENDS, map_all
from draftproof.conformance.subject import Batch, Subject, call
from draftproof.reference.catalogue import SCHEMES
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

__all__ = ["Efficiency", "Pair", "Setting", "plot", "schemes_of", "simulate", "trigram_pair"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two trigram models: rows [V, V, V] indexed by the two tokens before."""

    draft: Floats
    target: Floats

    @property
    def vocab(self) -> int:
        """V."""
        return int(self.draft.shape[0])

    def mean_overlap(self) -> float:
        """The mean of Σ min(p, q) over all contexts, 1 for equal models."""
        return float(np.minimum(self.draft, self.target).sum(-1).mean())


@dataclass(frozen=True)
class Setting:
    """A random pair of models and the shape of a round."""

    vocab: int
    drafts: int
    length: int
    noise: float
    """Standard deviation of the draft's logits around the target's: the quality of the draft."""
    temperature: float = 1.0
    draft_temperature: float | None = None
    """As the target's, unless given."""
    seed: int = 0

    def __str__(self) -> str:
        hotter = "" if self.draft_temperature is None else f", draft T = {self.draft_temperature:g}"
        return (
            f"V = {self.vocab}, K = {self.drafts}, L = {self.length}, noise {self.noise:g}, "
            f"T = {self.temperature:g}{hotter}"
        )


@dataclass(frozen=True)
class Efficiency:
    """Tokens emitted per target call, with the standard error over independent sequences."""

    scheme: str
    setting: Setting
    drafts: int
    mean: float
    standard_error: float
    first_round: float
    """The mean of the first round alone, before any carry."""


@lru_cache(maxsize=8)
def trigram_pair(setting: Setting) -> Pair:
    """The random pair of a setting: target logits N(0, 2²), draft logits with noise added."""
    generator = np.random.default_rng(setting.seed)
    shape = (setting.vocab,) * 3
    logits = 2.0 * generator.standard_normal(shape)
    noisy = logits + setting.noise * generator.standard_normal(shape)
    draft_temperature = setting.draft_temperature or setting.temperature
    return Pair(_softmax(noisy / draft_temperature), _softmax(logits / setting.temperature))


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    rows: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return rows


def _draw(rows: Floats, uniforms: Floats) -> NDArray[np.int64]:
    """An index for each row [..., V], by inversion of its uniform [...]."""
    reached = np.cumsum(rows, axis=-1)
    drawn: NDArray[np.int64] = (reached <= uniforms[..., None] * reached[..., -1:]).sum(axis=-1)
    return drawn


def simulate(
    scheme: str,
    setting: Setting,
    *,
    sequences: int = 128,
    rounds: int = 40,
    subject: Subject | None = None,
) -> Efficiency:
    """Decode `sequences` independent sequences for `rounds` rounds each.

    Carries are handed from round to round. The first quarter of the rounds is not counted, so that
    the mean is that of the long run; `first_round` has the mean of the first one.

    Raises:
        ValueError: fewer than 2 sequences or 4 rounds.
    """
    if sequences < 2 or rounds < 4:
        raise ValueError(f"{sequences} sequences of {rounds} rounds: at least 2 of 4 are needed")
    subject = subject or _fast()
    pair = trigram_pair(setting)
    most = SCHEMES[scheme].drafts[1]
    K = setting.drafts if most is None else min(setting.drafts, most)
    B, L, V = sequences, setting.length, pair.vocab
    generator = np.random.default_rng([setting.seed, 1])
    before = generator.integers(V, size=(B, 2))
    emitted = np.zeros((rounds, B))
    carry: Any = None
    for number in range(rounds):
        drafts = np.zeros((B, K, L), dtype=np.int64)
        draft_rows, target_rows = np.empty((B, K, L, V)), np.empty((B, K, L + 1, V))
        seen = np.repeat(before[:, None], K, axis=1)
        for i in range(L + 1):
            target_rows[:, :, i] = pair.target[seen[..., 0], seen[..., 1]]
            if i < L:
                draft_rows[:, :, i] = pair.draft[seen[..., 0], seen[..., 1]]
                drafts[:, :, i] = _draw(draft_rows[:, :, i], generator.random((B, K)))
                seen = np.stack([seen[..., 1], drafts[:, :, i]], axis=-1)
        batch = Batch(
            scheme=scheme,
            drafts=drafts,
            draft_rows=draft_rows,
            target_rows=target_rows,
            root_rows=target_rows[:, 0, 0],
            accept_uniforms=generator.random((B, K, L)),
            select_uniforms=generator.random((B, K)),
            token_uniform=generator.random(B),
            carry=carry,
        )
        result = call(subject, batch)
        carry = result.carry
        accepted, every = result.accepted_length, np.arange(B)
        emitted[number] = accepted + 1
        history = np.concatenate([before, drafts[every, result.path]], axis=1)
        before = np.stack([history[every, accepted + 1], result.next_token], axis=1)
    means = emitted[rounds // 4 :].mean(axis=0)
    return Efficiency(
        scheme,
        setting,
        K,
        float(means.mean()),
        float(means.std(ddof=1) / np.sqrt(B)),
        float(emitted[0].mean()),
    )


@lru_cache(maxsize=1)
def _fast() -> Subject:
    from draftproof.conformance.adapters.fast import create

    return create("")


def schemes_of(subject: Subject | None = None) -> list[str]:
    """The lossless block schemes that the subject implements, in the order of the catalogue."""
    offered = (subject or _fast()).declaration["schemes"]
    return [
        name
        for name, scheme in SCHEMES.items()
        if name in offered
        and scheme.kind == "verifier"
        and scheme.lossless
        and not scheme.approximate
        and scheme.draft_law in ("iid", "independent", "any")
    ]


SETTINGS = (
    *(Setting(32, 4, 6, noise, 1.0) for noise in (0.5, 1.0, 2.0)),
    Setting(32, 4, 6, 1.0, 0.6),
    Setting(32, 4, 6, 1.0, 0.6, 0.8),
    Setting(8, 2, 4, 1.0, 1.0),
    Setting(64, 4, 6, 1.0, 1.0),
)
"""What the page "Which scheme, when" reports."""


def _one(task: tuple[str, Setting, int, int]) -> Efficiency:
    scheme, setting, sequences, rounds = task
    return simulate(scheme, setting, sequences=sequences, rounds=rounds)


def _label(efficiency: Efficiency) -> str:
    one = efficiency.drafts != efficiency.setting.drafts
    return f"{efficiency.scheme} (K = {efficiency.drafts})" if one else efficiency.scheme


def _print(results: Sequence[Efficiency], settings: Sequence[Setting]) -> None:
    console = Console()
    for setting in settings:
        table = Table(title=f"{setting}; mean overlap {trigram_pair(setting).mean_overlap():.3f}")
        table.add_column("scheme", no_wrap=True)
        for column in ("tokens per target call", "standard error", "first round"):
            table.add_column(column, justify="right")
        chosen = [r for r in results if r.setting == setting]
        for r in sorted(chosen, key=lambda r: -r.mean):
            error = f"{r.standard_error:.3f}"
            table.add_row(_label(r), f"{r.mean:.3f}", error, f"{r.first_round:.3f}")
        console.print(table)


def plot(results: Sequence[Efficiency], path: str | Path) -> None:
    """Tokens per target call of every scheme, one panel for each setting, two standard errors."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'draftproof[plot]'") from None
    settings = list(dict.fromkeys(r.setting for r in results))
    columns = min(2, len(settings))
    lines = -(-len(settings) // columns)
    schemes = list(dict.fromkeys(r.scheme for r in results))
    figure = Figure(figsize=(6.4 * columns, 0.8 + (0.9 + 0.23 * len(schemes)) * lines))
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, setting in zip(panels, settings, strict=False):
        chosen = sorted((r for r in results if r.setting == setting), key=lambda r: r.mean)
        for position, r in enumerate(chosen):
            stateful = SCHEMES[r.scheme].stateful
            panel.errorbar(
                r.mean,
                position,
                xerr=2 * r.standard_error,
                fmt="s" if stateful else "o",
                color="#c0693b" if stateful else "#2b6ca3",
                capsize=3,
            )
            panel.annotate(
                f"{r.mean:.2f}",
                (r.mean, position),
                (0, 4),
                textcoords="offset points",
                ha="center",
                fontsize="x-small",
            )
        panel.set_yticks(range(len(chosen)), [_label(r) for r in chosen], fontsize="small")
        panel.set_ylim(-0.7, len(chosen) - 0.1)
        panel.set_title(str(setting), fontsize="medium")
        panel.set_xlabel("tokens per target call (± 2 standard errors)", fontsize="small")
        panel.grid(axis="x", alpha=0.3)
    for panel in panels[len(settings) :]:
        panel.set_axis_off()
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", color="#2b6ca3", linestyle="", label="stateless"),
        Line2D([], [], marker="s", color="#c0693b", linestyle="", label="with a carry"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2)
    destination = Path(path)
    temporary = destination.with_name(f".{destination.name}.tmp{destination.suffix or '.png'}")
    try:
        figure.savefig(temporary, dpi=130)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)


@click.command()
@click.option("--sequences", default=128, show_default=True, help="Independent sequences.")
@click.option("--rounds", default=40, show_default=True, help="Rounds of each sequence.")
@click.option("--plot", "picture", type=click.Path(), help="Draw the result into this file.")
@click.option("--json", "file", type=click.Path(), help="Write the result into this file.")
@click.option("--backend", default="loky", show_default=True, help=" | ".join(BACKENDS))
@click.option("--jobs", default=-1, show_default=True, help="Processes; -1 for all cores.")
def main(
    sequences: int, rounds: int, picture: str | None, file: str | None, backend: str, jobs: int
) -> None:
    """Simulate every lossless scheme on random trigram pairs."""
    tasks = [(name, setting, sequences, rounds) for setting in SETTINGS for name in schemes_of()]
    results = map_all(_one, tasks, backend=backend, jobs=jobs, progress="simulating")
    _print(results, SETTINGS)
    if picture is not None:
        plot(results, picture)
    if file is not None:
        from draftproof.reference.instance import write_json

        write_json([asdict(result) for result in results], file)


if __name__ == "__main__":
    main()
