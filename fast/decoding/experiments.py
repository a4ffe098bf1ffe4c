"""The experiments: one JSON line for each configuration, resumable, paired by prompt.

A configuration decodes the same prompts as every other one of its pair, all together in one batch,
for block efficiency, nodes and text.  Seconds have configurations of their own (`speed_cell`): a
few prompts one at a time, each next to autoregressive decoding of the same prompt.  A killed run
loses the line it was writing and no other.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from draftproof.fast.decoding.controls import CONTROLS
from draftproof.fast.decoding.methods import AUTOREGRESSIVE, SINGLE_DRAFT
from draftproof.fast.decoding.models import SHIPPED, LanguageModel, Pair
from draftproof.fast.decoding.rounds import (
    Settings,
    autoregressive,
    decode,
)
from draftproof.fast.rows import rows_from_logits
from scipy import stats

MULTI_DRAFT = ("spectr", "traversal", "multipath", "kseq_block", "spectr_gbv", "ranked_block")
LENGTHS = (1, 2, 4, 8, 12, 16, 24)
DRAFTS = (1, 2, 4, 8)
TEMPERATURES = (0.0, 0.4, 0.7, 1.0)
WARMER = (0.7, 1.0)
PUBLISHED = ("token_by_token", "spectr", "greedy_block", "spectr_gbv", "ranked_block")
CURVES = ("block", "spectr", "ranked_block")
METHODS = ("token_by_token", "block", "greedy_block", *MULTI_DRAFT)
"""The methods of the papers' tables and the two of this project; autoregressive decoding apart."""


@dataclass(frozen=True)
class Configuration:
    """One cell of an experiment.  ``pair``: "shipped", "ngram" or "given" (by the command line).

    ``prompts`` texts of ``tokens`` tokens in one batch; ``timed`` of them again, one at a time.
    """

    pair: str
    scheme: str
    drafts: int
    length: int
    temperature: float = 1.0
    draft_temperature: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    prompts: int = 48
    tokens: int = 96
    timed: int = 0

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
            options=self.options,
        )


def cell(
    scheme: str,
    drafts: int,
    length: int,
    temperature: float = 1.0,
    pair: str = "shipped",
    **more: Any,
) -> Configuration:
    """A configuration; schemes of a single draft get one whatever K is."""
    return Configuration(
        pair, scheme, 1 if scheme in SINGLE_DRAFT else drafts, length, temperature, **more
    )


def speed_cell(
    scheme: str, drafts: int, length: int, temperature: float = 1.0, pair: str = "shipped"
) -> Configuration:
    """The configuration that measures seconds for a shape."""
    if pair == "ngram":
        return cell(scheme, drafts, length, temperature, pair, prompts=2, tokens=24, timed=2)
    return cell(scheme, drafts, length, temperature, pair, prompts=5, tokens=40, timed=5)


def _methods(pair: str) -> Iterator[Configuration]:
    for drafts, length, temperature in ((4, 6, 1.0), (8, 8, 1.0), (2, 4, 1.0), (3, 12, 0.4)):
        for scheme in METHODS:
            yield cell(scheme, drafts, length, temperature, pair)


def series_cell(
    scheme: str,
    drafts: int,
    length: int,
    temperature: float = 1.0,
    pair: str = "shipped",
    draft_temperature: float | None = None,
) -> Configuration:
    """A point of a curve: fewer and shorter texts than a table's cell."""
    size = {"prompts": 32, "tokens": 64}
    more = {"draft_temperature": draft_temperature}
    return cell(scheme, drafts, length, temperature, pair, **more, **size)


def _lengths(pair: str) -> Iterator[Configuration]:
    for length in LENGTHS:
        for scheme in CURVES:
            yield series_cell(scheme, 4, length, pair=pair)


def _drafts(pair: str) -> Iterator[Configuration]:
    for drafts in DRAFTS:
        for scheme in MULTI_DRAFT:
            yield series_cell(scheme, drafts, 6, pair=pair)


def _temperatures(pair: str) -> Iterator[Configuration]:
    for temperature in TEMPERATURES:
        for scheme in CURVES:
            yield series_cell(scheme, 4, 6, temperature, pair)
    for warmer in WARMER:
        for scheme in CURVES:
            yield series_cell(scheme, 4, 6, 0.4, pair, warmer)


def _nodes(pair: str) -> Iterator[Configuration]:
    """Trees of about 8, 16 and 32 distinct nodes, each method with the shapes that suit it."""
    for length in (8, 16, 32):
        yield series_cell("block", 1, length, pair=pair)
    for drafts, length in ((2, 4), (2, 9), (4, 3), (4, 5), (4, 10), (8, 2), (8, 5)):
        for scheme in ("spectr", "ranked_block"):
            yield series_cell(scheme, drafts, length, pair=pair)


def _quality(pair: str) -> Iterator[Configuration]:
    for scheme in (AUTOREGRESSIVE, *METHODS, *CONTROLS):
        yield cell(scheme, 4, 6, 1.0, pair, prompts=128, tokens=64)


def _ngram(_: str) -> Iterator[Configuration]:
    for scheme in PUBLISHED:
        yield ngram_cell(scheme)


def ngram_cell(scheme: str) -> Configuration:
    """The n-gram pair at K = 4, L = 4."""
    return cell(scheme, 4, 4, pair="ngram", prompts=8, tokens=32)


def _speed(pair: str) -> Iterator[Configuration]:
    for scheme in METHODS:
        yield speed_cell(scheme, 4, 6, pair=pair)
    for length in LENGTHS:
        for scheme in ("block", "ranked_block"):
            yield speed_cell(scheme, 4, length, pair=pair)
    for scheme in PUBLISHED:
        yield speed_cell(scheme, 3, 12, 0.4, pair)
    for scheme in ("token_by_token", "ranked_block"):
        yield speed_cell(scheme, 4, 4, pair="ngram")


EXPERIMENTS: dict[str, Callable[[str], Iterator[Configuration]]] = {
    "methods": _methods,
    "lengths": _lengths,
    "drafts": _drafts,
    "temperatures": _temperatures,
    "nodes": _nodes,
    "quality": _quality,
    "ngram": _ngram,
    "speed": _speed,
}
"""Experiment name -> its configurations on a pair.  "forward" is measured apart."""

FORWARD = "forward"


def prompts_of(name: str, pair: Pair, count: int) -> list[list[int]]:
    """The first prompts of a pair as token ids; held-out text for the shipped one."""
    texts: list[str] = json.loads((SHIPPED / "prompts.json").read_text())
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
    per_prompt |= quality(pair, [(g.prompt, g.tokens) for g in decoded.generations])
    histogram = [0] * (configuration.length + 1)
    for generation in decoded.generations:
        for tau in generation.accepted[: generation.whole_rounds]:
            histogram[tau] += 1
    return {
        "format": 1,
        "key": configuration.key,
        "configuration": asdict(configuration),
        "draft": pair.draft.name,
        "target": pair.target.name,
        "device": str(pair.target.device),
        "threads": torch.get_num_threads(),
        "clock": stopwatch(pair.target.device)[0],
        "accepted_lengths": histogram,
        "per_prompt": per_prompt,
        "batch_seconds": decoded.seconds,
        "timed": [
            timed(pair, prompt, seed, settings)
            for seed, prompt in enumerate(prompts[: configuration.timed])
        ],
    }


def stopwatch(device: torch.device) -> tuple[str, Callable[[], float]]:
    """(its name, the clock that seconds are read from).

    On one CPU thread that is the thread's CPU time: what the wall clock shows on a quiet machine,
    and nearly the same on a busy one.
    """
    if device.type == "cpu" and torch.get_num_threads() == 1:
        return "cpu", time.thread_time
    return "wall", time.perf_counter


def timed(pair: Pair, prompt: list[int], seed: int, settings: Settings) -> dict[str, Any]:
    """Seconds of one prompt alone, beside autoregressive decoding of it; both are warmed up
    first."""
    now = stopwatch(pair.target.device)[1]
    plain = autoregressive(settings)
    for how in (settings, plain):
        decode(pair, [prompt], [seed], dataclasses.replace(how, max_new_tokens=4))
    method = decode(pair, [prompt], [seed], settings, now=now)
    return {
        "tokens": settings.max_new_tokens,
        "calls": method.generations[0].rounds,
        "method": method.seconds,
        "autoregressive": decode(pair, [prompt], [seed], plain, now=now).seconds,
    }


def quality(pair: Pair, texts: Sequence[tuple[list[int], list[int]]]) -> dict[str, list[float]]:
    """Measures of each (prompt, generated tokens), under the target at temperature 1.

    ``log_likelihood``: mean log q of a generated token, nats.  ``excess``: mean of log q plus the
    row's entropy, whose expectation is exactly 0 for texts drawn from the target at temperature 1.
    ``word_length``: mean letters of a word.  ``distinct``: distinct words among all words.
    """
    rows = [_target_rows(pair, prompt, tokens) for prompt, tokens in texts]
    likelihood, excess, word_length, distinct = [], [], [], []
    for (_, tokens), row in zip(texts, rows):
        logs = row.clamp(min=1e-300).log()
        own = logs.gather(1, torch.tensor(tokens, device=row.device)[:, None])[:, 0]
        likelihood.append(float(own.mean()))
        excess.append(float((own - (row * logs).sum(1)).mean()))
        words = pair.tokenizer.decode(tokens).split() or [""]
        word_length.append(statistics.fmean(map(len, words)))
        distinct.append(len(set(words)) / len(words))
    return {
        "log_likelihood": likelihood,
        "excess": excess,
        "word_length": word_length,
        "distinct": distinct,
    }


def _target_rows(pair: Pair, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """The target's rows [n, V] before each generated token, float64, at temperature 1."""
    scorer = pair.target.start(pair.vocabulary, 1)
    scorer.prefill(torch.tensor([prompt[:-1]], dtype=torch.int64))
    chain = torch.tensor([[prompt[-1], *tokens[:-1]]])
    logits = scorer.extend(chain, torch.arange(len(tokens))[None] - 1)[0]
    return rows_from_logits(logits.to(torch.float64), temperature=1.0)


LAW = "law"
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
    settings = dataclasses.replace(
        cell(scheme, 4, 3).settings, max_new_tokens=2, ignore_end_of_text=True
    )
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
        "format": 1,
        "key": f"law/{scheme}",
        LAW: {"scheme": scheme, "texts": texts, "cells": len(seen)},
        "p_value": float(stats.chisquare(seen, expected).pvalue),
        "total_variation": float(np.abs(seen - expected).sum() / (2 * texts)),
        "noise": float(np.abs(simulated - expected).sum(1).mean() / (2 * texts)),
    }


NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64)


def forward_times(
    model: LanguageModel, context: int = 64, repeats: int = 9
) -> Iterator[dict[str, Any]]:
    """Seconds of a target call against the nodes it scores, along both axes.

    ``batch``: n requests of one node each.  ``time``: one request whose tree has n nodes.  Every
    call is on top of ``context`` committed tokens; the median of ``repeats`` after two warm-up
    calls.
    """
    clock, now = stopwatch(model.device)
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
        seconds = []
        for _ in range(repeats + 2):
            _synchronize(model.device)
            began = now()
            scorer.extend(tokens[:, context:], parents)
            _synchronize(model.device)
            seconds.append(now() - began)
            scorer.commit(torch.full((requests, 1), -1))
        yield {
            "format": 1,
            "key": f"forward/{model.name}/{axis}/{count}",
            "forward": {"model": model.name, "axis": axis, "nodes": count, "context": context},
            "device": str(model.device),
            "threads": torch.get_num_threads(),
            "clock": clock,
            "seconds": statistics.median(seconds[2:]),
        }


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def random_model(
    hidden: int = 384, layers: int = 6, vocabulary: int = 8192, device: str = "cpu"
) -> LanguageModel:
    """A Llama of random weights, for the cost of a forward alone (its text means nothing)."""
    from draftproof.fast.decoding.models import wrap
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        max_position_embeddings=4096,
    )
    model = LlamaForCausalLM(config).to(device).eval()
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
            results.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: {error}") from error
    return results


class Results:
    """The results file, opened to go on where it stopped."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = read_results(path)
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
