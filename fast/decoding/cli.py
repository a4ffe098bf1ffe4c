"""The commands ``draftproof generate`` and ``draftproof experiment``."""

import json
import os
import sys
from collections.abc import Callable
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

            return ngram_pair()
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

        def count(i: int, piece: str) -> None:
            counts[i] += len(piece)
            progress.update(task, completed=min(sum(counts), total))

        return rounds.generate(pair, prompts, seeds, settings, count)


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("experiments"),
    show_default=True,
    help="Folder of results.jsonl; what it already holds is not measured again.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Refill its tables.",
)
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), help="Draw the plots here."
)
@pair_options
def experiment(
    names: tuple[str, ...],
    out: Path,
    page: Path | None,
    figures: Path | None,
    target: str | None,
    draft: str | None,
    device: str,
    dtype: str,
    threads: int | None,
) -> None:
    """Measure methods against K, L and temperature, and print the tables.

    NAMES: methods lengths drafts temperatures nodes quality ngram speed law forward (default: all).
    A run that was stopped goes on where it stopped.
    """
    pair = load(target, draft, device, dtype, threads)
    from draftproof.fast.decoding import analysis
    from draftproof.fast.decoding import experiments as ex

    known = [*ex.EXPERIMENTS, ex.LAW, ex.FORWARD]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    path = out / "results.jsonl"
    try:
        results = ex.Results(path)
        _measure(pair, names or tuple(known), results, device)
        found = {result["key"]: result for result in ex.read_results(path)}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        click.echo(
            f"stopped; {path} has what is done, the same command goes on from there", err=True
        )
        sys.exit(130)
    for name, build in analysis.TABLES.items():
        click.echo(f"{name}\n\n{build(found)}")
    if page is not None:
        temporary = page.with_name(page.name + ".part")
        temporary.write_text(analysis.fill_page(page.read_text(), found))
        os.replace(temporary, page)
    if figures is not None:
        for file in analysis.plot(found, figures):
            click.echo(f"wrote {file}", err=True)


def _measure(pair: Any, names: tuple[str, ...], results: Any, device: str) -> None:
    """Run what is missing, behind a progress bar."""
    from draftproof.fast.decoding import experiments as ex
    from rich.console import Console
    from rich.progress import Progress

    todo = {
        configuration.key: configuration
        for name in names
        if name in ex.EXPERIMENTS
        for configuration in ex.EXPERIMENTS[name]("shipped")
        if configuration.key not in results.keys
    }
    pairs = {"shipped": pair}
    if any(configuration.pair == "ngram" for configuration in todo.values()):
        from draftproof.fast.decoding.ngram import ngram_pair

        pairs["ngram"] = ngram_pair()
    with Progress(console=Console(stderr=True)) as progress:
        overall = progress.add_task("configurations", total=len(todo))
        for configuration in todo.values():
            label = f"{configuration.scheme} K={configuration.drafts} L={configuration.length}"
            tokens = configuration.prompts * configuration.tokens
            task = progress.add_task(label, total=tokens)

            def advance(done: int, task: Any = task) -> None:
                progress.update(task, completed=done)

            results.add(ex.run(configuration, pairs[configuration.pair], advance))
            progress.remove_task(task)
            progress.advance(overall)
        if ex.LAW in names:
            for scheme in ex.LAW_SCHEMES:
                if f"law/{scheme}" not in results.keys:
                    results.add(ex.law_of_two_bytes(scheme, pair))
        if ex.FORWARD in names:
            for model in (pair.target, ex.random_model(device=device)):
                wanted = f"forward/{model.name}/time/{ex.NODE_COUNTS[-1]}"
                if wanted not in results.keys:
                    for line in ex.forward_times(model):
                        if line["key"] not in results.keys:
                            results.add(line)
