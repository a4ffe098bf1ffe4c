"""The commands ``draftproof generate`` and ``draftproof experiment``."""

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

PAIR_OPTIONS = (
    click.option("--target", metavar="PATH", help="Target model (default: the shipped one)."),
    click.option("--draft", metavar="PATH", help="Draft model (default: the shipped one)."),
    click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, .."),
    click.option(
        "--dtype",
        default="float32",
        show_default=True,
        type=click.Choice(["auto", "float16", "bfloat16", "float32", "float64"]),
    ),
    click.option(
        "--threads", type=click.IntRange(1), help="Of torch (default: 1 for the shipped pair)."
    ),
)


def pair_options(command: Command) -> Command:
    """Add the options that choose a pair of models."""
    for option in reversed(PAIR_OPTIONS):
        command = option(command)
    return command


def load(
    target: str | None, draft: str | None, device: str, dtype: str, threads: int | None
) -> Any:
    """The pair that the options ask for; exits with status 2 and a message if there is none.

    The shipped models are so small that a second thread only waits for the first.
    """
    try:
        from draftproof.fast.decoding.models import load_pair, shipped_pair
    except ImportError as error:
        raise click.UsageError(
            f"decoding needs more packages ({error}); run: pip install 'draftproof[transformers]'"
        ) from error
    if (target is None) != (draft is None):
        raise click.UsageError("give both --target and --draft, or neither")
    if threads is None and target is None:
        threads = 1
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    try:
        if target is None or draft is None:
            return shipped_pair(device, dtype)
        if (draft, target) == ("2-gram", "3-gram"):
            from draftproof.fast.decoding.ngram import ngram_pair

            return ngram_pair(device=device)
        return load_pair(draft, target, device, dtype)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def write_json(path: Path, data: Any) -> None:
    """Write by way of a temporary name, so that no half-written file is left."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(data, indent=2) + "\n")
    os.replace(temporary, path)


@click.command()
@click.option("--prompt", "prompts", multiple=True, required=True, help="May be given repeatedly.")
@click.option("--max-new-tokens", default=128, show_default=True)
@click.option("--scheme", help="A verifier, or autoregressive (default: ranked_block or block).")
@click.option(
    "--method",
    metavar="PACKAGE.MODULE:FUNCTION",
    help="Your own verify(batch, uniforms, carry) in place of a scheme.",
)
@click.option(
    "--drafts", type=int, help="K, drafts per round (default: 4, or 1 if the scheme asks)."
)
@click.option("--length", default=6, show_default=True, help="L, tokens per draft.")
@click.option(
    "--distinct/--independent",
    default=None,
    help="Drafts without or with replacement (default: what the scheme is made for).",
)
@click.option("--temperature", default=1.0, show_default=True, help="0 is greedy.")
@click.option("--draft-temperature", type=float, help="Default: the target's.")
@click.option("--top-k", type=int)
@click.option("--top-p", default=1.0)
@click.option("--min-p", default=0.0)
@click.option("--stop", multiple=True, help="End the text before this string; repeatable.")
@click.option("--seed", default=0, show_default=True, help="Prompt i uses SEED + i.")
@pair_options
@click.option("--report", is_flag=True, help="Print what the run did, and its speed-up.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
def generate(
    prompts: tuple[str, ...],
    max_new_tokens: int,
    scheme: str | None,
    method: str | None,
    drafts: int | None,
    length: int,
    distinct: bool | None,
    temperature: float,
    draft_temperature: float | None,
    top_k: int | None,
    top_p: float,
    min_p: float,
    stop: tuple[str, ...],
    seed: int,
    target: str | None,
    draft: str | None,
    device: str,
    dtype: str,
    threads: int | None,
    report: bool,
    json_file: Path | None,
) -> None:
    """Generate text by speculative decoding, with the target model's own law.

    Without --target and --draft the two small byte-level models inside the package are used; the
    pair of names 3-gram and 2-gram stands for the n-gram models of the `ngram` extra.
    """
    pair = load(target, draft, device, dtype, threads)
    from draftproof.fast.decoding import methods, metrics, rounds

    if drafts is None:
        drafts = 1 if scheme in methods.SINGLE_DRAFT else 4
    own = None
    if method is not None:
        if scheme is not None:
            raise click.UsageError("give --scheme or --method, not both")
        try:
            own = methods.load_method(method)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    settings = rounds.Settings(
        scheme=scheme or own,
        drafts=drafts,
        length=length,
        distinct=distinct,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        draft_temperature=draft_temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        stop=stop,
    )
    seeds = [seed + i for i in range(len(prompts))]
    wants_report = report or json_file is not None
    try:
        settings.check()
        rounds.check_prompts(pair, [pair.tokenizer.encode(p) for p in prompts], settings)
        if wants_report:  # a first round compiles and caches what later ones use
            brief = dataclasses.replace(settings, max_new_tokens=1)
            rounds.generate(pair, prompts[:1], seeds[:1], brief)
        if len(prompts) == 1:
            click.echo(prompts[0], nl=False)
            decoded = rounds.generate(pair, prompts, seeds, settings, _stream)
            click.echo()
        else:
            decoded = _with_progress(pair, prompts, seeds, settings)
            for prompt, generation in zip(prompts, decoded.generations):
                click.echo(f"{prompt}{generation.text}\n")
        if not wants_report:
            return
        baseline = rounds.generate(pair, prompts, seeds, rounds.autoregressive(settings))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        click.echo()
        sys.exit(130)
    result = metrics.summary(decoded, pair, baseline)
    if report:
        for label, value in metrics.table(result):
            click.echo(f"{label:<30}{value}", err=True)
    if json_file is not None:
        result["generations"] = [
            {"prompt": p, "text": g.text, "tokens": g.tokens, "seed": g.seed, "finish": g.finish}
            for p, g in zip(prompts, decoded.generations)
        ]
        write_json(json_file, result)


def _stream(_: int, piece: str) -> None:
    click.echo(piece, nl=False)
    sys.stdout.flush()


def _with_progress(pair: Any, prompts: Any, seeds: Any, settings: Any) -> Any:
    """Decode several prompts behind a progress bar on standard error."""
    from draftproof.fast.decoding import rounds
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        total = settings.max_new_tokens * len(prompts)
        task = progress.add_task("tokens", total=total)
        counts = [0] * len(prompts)

        def count(i: int, generation: Any) -> None:
            counts[i] = settings.max_new_tokens if generation.finish else len(generation.tokens)
            progress.update(task, completed=sum(counts))

        return rounds.generate(pair, prompts, seeds, settings, on_round=count)


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("experiments.jsonl"),
    show_default=True,
    help="Results, one line each; what it already holds is not measured again.",
)
@click.option("--again", is_flag=True, help="Drop what --out holds of the named parts first.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Refill its tables and what it says about them.",
)
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), help="Draw the plots here."
)
@click.option(
    "--random",
    "size",
    type=click.Choice(["17M", "1B", "8B"]),
    help="Target size of the pair of random weights (default: 17M on a CPU, 1B on a GPU).",
)
@pair_options
def experiment(
    names: tuple[str, ...],
    out: Path,
    again: bool,
    page: Path | None,
    figures: Path | None,
    size: str | None,
    target: str | None,
    draft: str | None,
    device: str,
    dtype: str,
    threads: int | None,
) -> None:
    """Measure methods against K, L and temperature, and print the tables.

    NAMES (default: all). "untimed" are the parts that a busy machine does not change: methods
    quality lengths temperatures drafts nodes ngram law. "timed" are those that want a quiet one:
    speed speed_long speed_lengths speed_random speed_ngram forward.

    A run that was stopped goes on where it stopped.
    """
    pair = load(target, draft, device, dtype, threads)
    from draftproof.fast.decoding import experiments as ex
    from draftproof.fast.decoding.plots import plot
    from draftproof.fast.decoding.statements import fill_page
    from draftproof.fast.decoding.tables import TABLES

    groups = {"untimed": ex.UNTIMED_PARTS, "timed": ex.TIMED_PARTS}
    known = [*groups, *ex.UNTIMED_PARTS, *ex.TIMED_PARTS]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    parts = [part for name in names or tuple(groups) for part in groups.get(name, (name,))]

    @functools.cache
    def pairs(name: str) -> Any:
        if name == "random":
            return ex.random_pair(size or ("17M" if device == "cpu" else "1B"), device)
        if name == "ngram":
            from draftproof.fast.decoding.ngram import ngram_pair

            return ngram_pair(device=device)
        return pair

    try:
        ex.check_origin(out, pair)
        results = ex.Results(out, parts if again else ())
        _measure(list(ex.tasks(parts, pairs, results.keys)), results)
        found = {result["key"]: result for result in ex.read_results(out)}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        click.echo(
            f"stopped; {out} has what is done, the same command"
            f"{' without --again' if again else ''} goes on from there",
            err=True,
        )
        sys.exit(130)
    for name, build in TABLES.items():
        click.echo(f"{name}\n\n{build(found)}")
    if page is not None:
        try:
            filled = fill_page(page.read_text(), found, TABLES)
        except ValueError as error:
            raise click.UsageError(f"{page}: {error}") from error
        temporary = page.with_name(page.name + ".part")
        temporary.write_text(filled)
        os.replace(temporary, page)
    if figures is not None:
        for file in plot(found, figures):
            click.echo(f"wrote {file}", err=True)


def _measure(todo: Sequence[Any], results: Any) -> None:
    """Run what is missing, behind a progress bar."""
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        overall = progress.add_task("all", total=len(todo))
        for task in todo:
            bar = progress.add_task(task.label, total=task.amount)

            def advance(done: int, bar: Any = bar) -> None:
                progress.update(bar, completed=done)

            for line in task.measure(advance):
                if line["key"] not in results.keys:
                    results.add(line)
            progress.remove_task(bar)
            progress.advance(overall)
