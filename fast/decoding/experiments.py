"""The experiments: one JSON line for each configuration, resumable, paired by prompt.

A cell decodes the same prompts as every other cell of its pair, all together in one batch, for
block efficiency, nodes and text: nothing in it depends on how busy the machine is.  Seconds have
lines of their own (`TIMED`): a few prompts one at a time, the methods of a group in turn, several
times over.  A killed run loses the line it was writing and no other.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from draftproof.fast.decoding.controls import CONTROLS
from draftproof.fast.decoding.methods import AUTOREGRESSIVE, SINGLE_DRAFT
from draftproof.fast.decoding.models import SHIPPED, LanguageModel, Pair
from draftproof.fast.decoding.rounds import (
    Settings,
    decode,
)
from draftproof.fast.rows import rows_from_logits
from scipy import stats

MULTI_DRAFT = (
    "spectr",
    "spectr:transport",
    "traversal",
    "multipath",
    "kseq_block",
    "spectr_gbv",
    "ranked_block",
)
METHODS = ("token_by_token", "block", "greedy_block", *MULTI_DRAFT)
"""The methods of the papers' tables and those of this project; autoregressive decoding apart."""

STATEFUL_RANKED = "ranked_block:stateful"
SHAPES = ((4, 6, 1.0), (8, 8, 1.0), (2, 4, 1.0), (3, 12, 0.4))
"""K, L and temperature of the methods table."""
LENGTHS = (1, 2, 4, 8, 12, 16, 24)
DRAFTS = (2, 4, 8)
TEMPERATURES = (0.0, 0.4, 0.7, 1.0)
WARMER = (0.7, 1.0)
PUBLISHED = ("token_by_token", "spectr", "greedy_block", "spectr_gbv", "ranked_block")
CURVES = ("block", "spectr", "ranked_block")
NODE_SHAPES = ((2, 4), (2, 9), (4, 3), (4, 5), (4, 10), (8, 2), (8, 5))
NODE_LENGTHS = (8, 16, 32)
"""Trees of about 8, 16 and 32 distinct nodes, and single drafts of that length."""
NGRAM = ("token_by_token", "spectr", "greedy_block", "spectr_gbv", "kseq_block", "ranked_block")


@dataclass(frozen=True)
class Configuration:
    """One cell of an experiment.  ``pair``: "shipped" (or the one the command line names) or
    "ngram".  ``prompts`` texts of ``tokens`` tokens in one batch."""

    pair: str
    scheme: str
    drafts: int
    length: int
    temperature: float
    draft_temperature: float | None
    prompts: int
    tokens: int

    @property
    def key(self) -> str:
        """Names the configuration in the results."""
        data = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    @property
    def settings(self) -> Settings:
        """What the decoder gets; the end of a text is ignored so that all have one length."""
        return Settings(
            scheme=self.scheme,
            drafts=self.drafts,
            length=self.length,
            max_new_tokens=self.tokens,
            temperature=self.temperature,
            draft_temperature=self.draft_temperature,
            ignore_end_of_text=True,
        )


def cell(
    scheme: str,
    drafts: int,
    length: int,
    temperature: float = 1.0,
    draft_temperature: float | None = None,
    pair: str = "shipped",
) -> Configuration:
    """A configuration; schemes of a single draft get one whatever K is.

    Whole rounds of every shape begin within the first 48 tokens of 128 texts (the n-gram pair: 24
    words of 24 texts); L more are there to be drafted.
    """
    prompts, tokens = (24, 24) if pair == "ngram" else (128, 48)
    drafts = 1 if scheme in SINGLE_DRAFT else drafts
    tokens += length
    return Configuration(
        pair, scheme, drafts, length, temperature, draft_temperature, prompts, tokens
    )


def _methods() -> Iterator[Configuration]:
    for shape in SHAPES:
        for scheme in METHODS:
            yield cell(scheme, *shape)
    yield cell(STATEFUL_RANKED, *SHAPES[0])


def _quality() -> Iterator[Configuration]:
    for scheme in (AUTOREGRESSIVE, *METHODS, *CONTROLS):
        yield cell(scheme, 4, 6)


def _lengths() -> Iterator[Configuration]:
    for length in LENGTHS:
        for scheme in CURVES:
            yield cell(scheme, 4, length)


def _drafts() -> Iterator[Configuration]:
    for drafts in DRAFTS:
        for scheme in MULTI_DRAFT:
            yield cell(scheme, drafts, 6)


def _temperatures() -> Iterator[Configuration]:
    for temperature in TEMPERATURES:
        for scheme in CURVES:
            yield cell(scheme, 4, 6, temperature)
    for warmer in WARMER:
        for scheme in CURVES:
            yield cell(scheme, 4, 6, 0.4, warmer)


def _nodes() -> Iterator[Configuration]:
    for length in NODE_LENGTHS:
        yield cell("block", 1, length)
    for drafts, length in NODE_SHAPES:
        for scheme in ("spectr", "ranked_block"):
            yield cell(scheme, drafts, length)


def ngram_cell(scheme: str) -> Configuration:
    """The n-gram pair at K = 4, L = 4."""
    return cell(scheme, 4, 4, pair="ngram")


CELLS: dict[str, Callable[[], Iterator[Configuration]]] = {
    "methods": _methods,
    "quality": _quality,
    "lengths": _lengths,
    "temperatures": _temperatures,
    "drafts": _drafts,
    "nodes": _nodes,
    "ngram": lambda: map(ngram_cell, NGRAM),
}
"""Experiment name -> its cells; some cells belong to several."""

TIMED: dict[str, tuple[Configuration, ...]] = {
    "speed": tuple(cell(scheme, 4, 6) for scheme in (AUTOREGRESSIVE, *METHODS)),
    "speed_long": tuple(cell(scheme, 3, 12, 0.4) for scheme in (AUTOREGRESSIVE, *PUBLISHED)),
    "speed_lengths": (
        cell(AUTOREGRESSIVE, 4, 1),
        *(cell(scheme, 4, n) for scheme in ("block", "ranked_block") for n in LENGTHS),
    ),
    "speed_random": tuple(
        cell(scheme, 4, 6, pair="random") for scheme in (AUTOREGRESSIVE, *METHODS)
    ),
    "speed_ngram": tuple(
        ngram_cell(scheme) for scheme in (AUTOREGRESSIVE, "token_by_token", "ranked_block")
    ),
}
"""Group name -> methods that are timed in turn, autoregressive decoding first."""

FORMAT = 2
"""Of the lines of a results file."""
LAW, FORWARD = "law", "forward"
UNTIMED_PARTS = (*CELLS, LAW)
TIMED_PARTS = (*TIMED, FORWARD)


def prompts_of(name: str, pair: Pair, count: int) -> list[list[int]]:
    """The first prompts of a pair as token ids; held-out text for the shipped one."""
    texts: list[str] = json.loads((SHIPPED / "prompts.json").read_text())
    if name == "random":
        generator = torch.Generator().manual_seed(count)
        return torch.randint(pair.vocabulary, (count, 48), generator=generator).tolist()
    if name == "ngram":
        words = pair.tokenizer.table()
        texts = [" ".join(w for w in t.lower().split() if w in words) for t in texts]
    if count > len(texts):
        raise ValueError(f"prompts is {count}, but there are {len(texts)}")
    return [pair.tokenizer.encode(text) for text in texts[:count]]


def run(
    configuration: Configuration, pair: Pair, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Measure one configuration.  ``progress(tokens)`` hears how many are done."""
    settings = configuration.settings
    prompts = prompts_of(configuration.pair, pair, configuration.prompts)
    done = 0

    def count(_: int, generation: Any) -> None:
        nonlocal done
        done += generation.accepted[-1] + 1
        if progress is not None:
            progress(min(done, configuration.tokens * configuration.prompts))

    decoded = decode(pair, prompts, range(len(prompts)), settings, count)
    per_prompt: dict[str, list[Any]] = {
        "rounds": [g.whole_rounds for g in decoded.generations],
        "tokens": [sum(g.accepted[: g.whole_rounds]) + g.whole_rounds for g in decoded.generations],
        "nodes": [sum(g.nodes[: g.whole_rounds]) for g in decoded.generations],
    }
    if configuration in _quality():
        per_prompt |= quality(pair, [(g.prompt, g.tokens) for g in decoded.generations])
    histogram = [0] * (configuration.length + 1)
    for generation in decoded.generations:
        for tau in generation.accepted[: generation.whole_rounds]:
            histogram[tau] += 1
    return {
        "format": FORMAT,
        "key": configuration.key,
        "configuration": asdict(configuration),
        "draft": pair.draft.name,
        "target": pair.target.name,
        "device": str(pair.target.device),
        "threads": torch.get_num_threads(),
        "accepted_lengths": histogram,
        "per_prompt": per_prompt,
        "batch_seconds": decoded.seconds,
    }


SPEED_PROMPTS, REPETITIONS, SPEED_TOKENS = 8, 3, 48


def time_group(name: str, pair: Pair, prompt: int, warm: set[Configuration]) -> dict[str, Any]:
    """Seconds of every method of a group on one prompt alone, in turn, `REPETITIONS` times over.

    Each turn begins with another method.  ``warm``: methods that this process has run before; the
    others run once untimed.  ``busy``: CPU seconds of this thread for each second on the wall
    clock, 1 if nothing else had its core.
    """
    group = TIMED[name]
    words = prompts_of(group[0].pair, pair, SPEED_PROMPTS)[prompt]
    how = [
        dataclasses.replace(c.settings, max_new_tokens=SPEED_TOKENS if c.pair != "ngram" else 24)
        for c in group
    ]
    for configuration, settings in zip(group, how):
        if configuration not in warm:
            decode(pair, [words], [prompt], dataclasses.replace(settings, max_new_tokens=8))
            warm.add(configuration)
    seconds: list[list[dict[str, float]]] = [[] for _ in group]
    calls = [0] * len(group)
    began, busy = time.perf_counter(), time.thread_time()
    for repetition in range(REPETITIONS):
        for turn in range(len(group)):
            i = (turn + repetition + prompt) % len(group)
            decoded = decode(pair, [words], [prompt], how[i])
            calls[i] = decoded.generations[0].rounds
            seconds[i].append(decoded.seconds)
    busy, began = time.thread_time() - busy, time.perf_counter() - began
    return {
        "format": FORMAT,
        "speed": {"group": name, "prompt": prompt, "tokens": how[0].max_new_tokens},
        "draft": pair.draft.name,
        "target": pair.target.name,
        "device": str(pair.target.device),
        "threads": torch.get_num_threads(),
        "busy": busy / began,
        "methods": [
            {"key": c.key, "calls": n, "seconds": runs} for c, n, runs in zip(group, calls, seconds)
        ],
    }


def quality(pair: Pair, texts: Sequence[tuple[list[int], list[int]]]) -> dict[str, list[float]]:
    """Measures of each (prompt, generated tokens), under the target at temperature 1.

    ``log_likelihood``: mean log q of a generated token, nats.  ``excess``: mean of log q plus the
    row's entropy, whose expectation is exactly 0 for texts drawn from the target at temperature 1.
    ``word_length``: mean letters of a word.  ``distinct``: distinct words among all words.
    """
    rows = target_rows(pair, texts)
    likelihood, excess, word_length, distinct = [], [], [], []
    for (_, tokens), row in zip(texts, rows):
        logs = row[: len(tokens)].clamp(min=1e-300).log()
        own = logs.gather(1, torch.tensor(tokens, device=row.device)[:, None])[:, 0]
        likelihood.append(float(own.mean()))
        excess.append(float((own - (row[: len(tokens)] * logs).sum(1)).mean()))
        words = pair.tokenizer.decode(tokens).split() or [""]
        word_length.append(statistics.fmean(map(len, words)))
        distinct.append(len(set(words)) / len(words))
    return {
        "log_likelihood": likelihood,
        "excess": excess,
        "word_length": word_length,
        "distinct": distinct,
    }


def target_rows(pair: Pair, texts: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    """The target's rows [B, n, V] before each generated token, float64, at temperature 1;
    unspecified beyond the end of a text."""

    def padded(sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        widest = max(map(len, sequences))
        return torch.tensor([[*row, *[-1] * (widest - len(row))] for row in sequences]).long()

    scorer = pair.target.start(pair.vocabulary, len(texts))
    scorer.prefill(padded([prompt[:-1] for prompt, _ in texts]))
    chain = padded([[prompt[-1], *tokens[:-1]] for prompt, tokens in texts])
    parents = torch.where(chain < 0, -1, torch.arange(chain.shape[1]) - 1)
    logits = scorer.extend(chain, parents)
    return rows_from_logits(logits.to(torch.float64), temperature=1.0)


LAW_SCHEMES = ("greedy_block", "ranked_block", *CONTROLS)


def law_of_two_bytes(
    scheme: str, pair: Pair, texts: int = 5000, batch: int = 2500
) -> dict[str, Any]:
    """Pearson's test of the first two tokens of many texts after one prompt against the target.

    K = 4, L = 3, T = 1.  The law is q(a) q(b|a) from the target's own rows; cells with fewer than 5
    expected texts are pooled into one.  ``total_variation`` is that of the pooled frequencies, and
    ``noise`` its mean under the law, by simulation.
    """
    prompt = pair.tokenizer.encode("And God said")
    scorer = pair.target.start(pair.vocabulary, 1)
    scorer.prefill(torch.tensor([prompt[:-1]]))
    tokens = torch.tensor([[prompt[-1], *range(pair.vocabulary)]])
    parents = torch.tensor([[-1] + [0] * pair.vocabulary])
    rows = rows_from_logits(scorer.extend(tokens, parents)[0].double(), temperature=1.0).cpu()
    law = (rows[0][:, None] * rows[1:]).flatten().numpy()
    settings = dataclasses.replace(cell(scheme, 4, 3).settings, max_new_tokens=2)
    counts = np.zeros(len(law))
    for first in range(0, texts, batch):
        seeds = range(first, min(first + batch, texts))
        decoded = decode(pair, [prompt] * len(seeds), seeds, settings)
        for generation in decoded.generations:
            counts[generation.tokens[0] * pair.vocabulary + generation.tokens[1]] += 1
    common = law * texts >= 5
    seen = np.append(counts[common], counts[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * texts
    simulated = np.random.default_rng(0).multinomial(texts, expected / texts, 200)
    return {
        "format": FORMAT,
        "key": f"law/{scheme}",
        LAW: {"scheme": scheme, "texts": texts, "cells": len(seen)},
        "p_value": float(stats.chisquare(seen, expected).pvalue),
        "total_variation": float(np.abs(seen - expected).sum() / (2 * texts)),
        "noise": float(np.abs(simulated - expected).sum(1).mean() / (2 * texts)),
    }


NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64)


def forward_times(
    model: LanguageModel, context: int = 64, repeats: int = 25
) -> list[dict[str, Any]]:
    """Seconds of a target call against the nodes it scores, along both axes.

    ``batch``: n requests of one node each.  ``time``: one request whose tree has n nodes.  Every
    call is on top of ``context`` committed tokens.  All cases in turn, ``repeats`` times over after
    two turns of warming up, so that a slow moment falls on all of them.
    """
    cases = []
    for axis, count in itertools.product(("batch", "time"), NODE_COUNTS):
        requests, nodes = (count, 1) if axis == "batch" else (1, count)
        generator = torch.Generator().manual_seed(count)
        tokens = torch.randint(
            1, model.vocabulary, (requests, context + nodes), generator=generator
        )
        scorer = model.start(model.vocabulary, requests)
        scorer.prefill(tokens[:, :context])
        # A star below the first node: every node is a leaf but one, as in a wide tree.
        parents = torch.zeros((requests, nodes), dtype=torch.int64)
        parents[:, 0] = -1
        cases.append((axis, count, scorer, tokens[:, context:], parents))
    seconds: list[list[float]] = [[] for _ in cases]
    for _ in range(repeats + 2):
        for own, (_, _, scorer, tokens, parents) in zip(seconds, cases):
            _synchronize(model.device)
            began = time.perf_counter()
            scorer.extend(tokens, parents)
            _synchronize(model.device)
            own.append(time.perf_counter() - began)
            scorer.commit(torch.full((len(tokens), 1), -1))
    return [
        {
            "format": FORMAT,
            "key": f"forward/{model.name}/{axis}/{count}",
            FORWARD: {"model": model.name, "axis": axis, "nodes": count, "context": context},
            "device": str(model.device),
            "threads": torch.get_num_threads(),
            "seconds": own[2:],
        }
        for own, (axis, count, *_) in zip(seconds, cases)
    ]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Shape(NamedTuple):
    """Size of a Llama of random weights."""

    hidden: int
    layers: int


class RandomPair(NamedTuple):
    """Sizes of a draft and a target of random weights over one vocabulary."""

    draft: Shape
    target: Shape
    vocabulary: int
    dtype: torch.dtype


RANDOM_PAIRS = {
    "17M": RandomPair(Shape(128, 2), Shape(384, 6), 8192, torch.float32),
    "1B": RandomPair(Shape(768, 4), Shape(2048, 22), 32000, torch.bfloat16),
    "8B": RandomPair(Shape(1024, 8), Shape(4096, 32), 128256, torch.bfloat16),
}
"""Pairs for cost alone (their text means nothing), by the size of the target."""


def random_pair(size: str, device: str = "cpu") -> Pair:
    """A pair of Llamas of random weights, one of `RANDOM_PAIRS`."""
    sizes = RANDOM_PAIRS[size]
    draft, target = (
        _random_model(shape, sizes.vocabulary, sizes.dtype, device, seed)
        for seed, shape in enumerate((sizes.draft, sizes.target))
    )
    return Pair(draft, target, sizes.vocabulary)


def _random_model(
    shape: Shape, vocabulary: int, dtype: torch.dtype, device: str, seed: int
) -> LanguageModel:
    from draftproof.fast.decoding.models import wrap
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.hidden * 8 // 3,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.hidden // 64,
        max_position_embeddings=4096,
    )
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype).eval()
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    return wrap(model, f"random-{millions:.0f}M", attention="tree")


def read_results(path: Path) -> list[dict[str, Any]]:
    """Results so far; a last line cut off by a killed run is dropped.

    Raises ``ValueError`` naming the line if an earlier one is damaged.
    """
    if not path.exists():
        return []
    results = []
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            result = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: {error}") from error
        if result.get("format", FORMAT) != FORMAT:
            raise ValueError(
                f"{path}, line {number} has format {result['format']}, this version reads "
                f"{FORMAT}: start a new file"
            )
        results.append(result)
    return results


class Results:
    """The results file, opened to go on where it stopped.

    ``again``: lines of these parts are dropped, to be measured anew.
    """

    def __init__(self, path: Path, again: Sequence[str] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = [r for r in read_results(path) if not part_of(r) & set(again)]
        self.keys = {result["key"] for result in done}
        self._path = path
        temporary = path.with_name(path.name + ".part")
        temporary.write_text("".join(json.dumps(result) + "\n" for result in done))
        os.replace(temporary, path)

    def add(self, result: dict[str, Any]) -> None:
        """Append one line and bring it to the disk."""
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.keys.add(result["key"])


def check_origin(path: Path, pair: Pair) -> None:
    """Raise ``ValueError`` if a results file has lines of another pair or device."""
    ours = {"draft": pair.draft.name, "target": pair.target.name, "device": str(pair.target.device)}
    for result in read_results(path):
        if result.get("configuration", {}).get("pair") == "shipped":
            for name, value in ours.items():
                if result[name] != value:
                    raise ValueError(
                        f"{path} has results of {name} {result[name]}, this run has {value}: "
                        "give another --out"
                    )


def part_of(result: dict[str, Any]) -> set[str]:
    """The parts (of `UNTIMED_PARTS` and `TIMED_PARTS`) that a line belongs to."""
    if "speed" in result:
        return {result["speed"]["group"]}
    for part in (LAW, FORWARD):
        if part in result:
            return {part}
    return {name for name, cells in CELLS.items() if result["key"] in {c.key for c in cells()}}


Progress = Callable[[int], None]
Pairs = Callable[[str], Pair]
"""The pair called "shipped", "random" or "ngram", made when it is needed."""


class Task(NamedTuple):
    """Something to measure: what to call it, how much it is, and how to get its lines."""

    label: str
    amount: int
    measure: Callable[[Progress], list[dict[str, Any]]]


def tasks(names: Sequence[str], pairs: Pairs, done: Collection[str]) -> Iterator[Task]:
    """What is still to be measured of the named parts."""
    seen = set(done)
    for name in names:
        for c in CELLS[name]() if name in CELLS else ():
            if c.key not in seen:
                seen.add(c.key)
                label = f"{name}: {c.scheme} K={c.drafts} L={c.length}"
                yield Task(label, c.prompts * c.tokens, functools.partial(_cell_lines, c, pairs))
    for scheme in LAW_SCHEMES if LAW in names else ():
        if f"law/{scheme}" not in seen:
            yield Task(f"law: {scheme}", 1, functools.partial(_law_lines, scheme, pairs))
    warm: set[Configuration] = set()
    for prompt, name in itertools.product(range(SPEED_PROMPTS), TIMED):
        if name in names and speed_key(name, prompt, pairs) not in seen:
            measure = functools.partial(_speed_lines, name, prompt, pairs, warm)
            yield Task(f"{name}: prompt {prompt}", 1, measure)
    for which in ("shipped", "random") if FORWARD in names else ():
        if f"forward/{pairs(which).target.name}/time/{NODE_COUNTS[-1]}" not in seen:
            yield Task(f"forward: {which}", 1, functools.partial(_forward_lines, which, pairs))


def speed_key(name: str, prompt: int, pairs: Pairs) -> str:
    """Names a prompt of a timed group in the results; pairs of random weights by their size."""
    pair = TIMED[name][0].pair
    return f"{name}/{pairs(pair).target.name if pair == 'random' else pair}/{prompt}"


def _cell_lines(
    configuration: Configuration, pairs: Pairs, progress: Progress
) -> list[dict[str, Any]]:
    return [run(configuration, pairs(configuration.pair), progress)]


def _law_lines(scheme: str, pairs: Pairs, _: Progress) -> list[dict[str, Any]]:
    return [law_of_two_bytes(scheme, pairs("shipped"))]


def _speed_lines(
    name: str, prompt: int, pairs: Pairs, warm: set[Configuration], _: Progress
) -> list[dict[str, Any]]:
    line = time_group(name, pairs(TIMED[name][0].pair), prompt, warm)
    return [{"key": speed_key(name, prompt, pairs), **line}]


def _forward_lines(which: str, pairs: Pairs, _: Progress) -> list[dict[str, Any]]:
    return forward_times(pairs(which).target)
