"""Decode: round after round of drafting, one target call, verification, and keeping the caches.

A round of one request: K paths of L tokens from the draft, one target forward over the tree's
distinct nodes, one verification, and then both caches keep exactly the accepted path.  Uniforms
come from counters keyed by the request's seed and the number of tokens it has emitted, so a
request's text does not depend on what else is in the batch (except within rounding of a threshold,
since a model's forward rounds differently in another batch shape).
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from draftproof.fast import Batch, Uniforms
from draftproof.fast.decoding.drafting import DraftTree, ToRows, draw_tree, pending_nodes
from draftproof.fast.decoding.methods import (
    AUTOREGRESSIVE,
    DISTINCT_DRAFTS,
    MIXED_DRAFTS,
    SINGLE_DRAFT,
    WITHOUT_REPLACEMENT,
    Verifier,
    check_signature,
    known_schemes,
    name_of,
    select_carry,
    verify_any,
)
from draftproof.fast.decoding.models import LanguageModel, Pair
from draftproof.fast.decoding.text import cut_at_stop, showable, stopped_length
from draftproof.fast.rows import rows_from_logits
from torch import Tensor

STAGES = ("draft", "target", "verification", "rest")


@dataclass(frozen=True)
class Settings:
    """How to decode.

    ``scheme``: a verifier's name, a function of your own (see `methods`), "autoregressive", or None
    for ``ranked_block`` (``block`` with one draft).  ``drafts`` K and ``length`` L are at least 1.
    ``temperature`` 0 is greedy.  The draft uses the target's temperature unless
    ``draft_temperature`` says otherwise, as one number or as one per draft (only for schemes that
    do not need identically distributed drafts).  ``distinct``: whether drafts are drawn without
    replacement; None is what the scheme is made for.
    ``top_k``, ``top_p``, ``min_p`` cut both models' rows in the same way.  ``stop`` strings end a
    text and are not part of it.  ``options`` go to the verifier.
    """

    scheme: str | Verifier | None = None
    drafts: int = 4
    length: int = 6
    max_new_tokens: int = 128
    temperature: float = 1.0
    draft_temperature: float | tuple[float, ...] | None = None
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    ignore_end_of_text: bool = False
    distinct: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str | Verifier:
        """The scheme or function, the default one resolved."""
        if self.scheme is not None:
            return self.scheme
        return "ranked_block" if self.drafts > 1 else "block"

    @property
    def scheme_name(self) -> str:
        """The scheme's name, or ``module:function``."""
        return name_of(self.method)

    @property
    def draws_distinct(self) -> bool:
        """Whether drafts are drawn without replacement."""
        return self.method == WITHOUT_REPLACEMENT if self.distinct is None else self.distinct

    @property
    def draft_temperatures(self) -> tuple[float, ...]:
        """One temperature for each draft."""
        chosen = self.draft_temperature
        if isinstance(chosen, tuple):
            return chosen
        return (self.temperature if chosen is None else chosen,) * self.drafts

    def check(self) -> None:
        """Raise ``ValueError`` naming the first setting that makes no sense."""
        name, own = self.scheme_name, not isinstance(self.method, str)
        known = [AUTOREGRESSIVE, *known_schemes()]
        if not isinstance(self.method, str):
            check_signature(self.method)
        elif name not in known:
            raise ValueError(f"scheme is {name!r}; there are {', '.join(known)}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}, expected at least 1")
        if name != AUTOREGRESSIVE:
            if self.drafts < 1:
                raise ValueError(f"drafts is {self.drafts}, expected at least 1")
            if self.length < 1:
                raise ValueError(f"length is {self.length}, expected at least 1")
            if name in SINGLE_DRAFT and self.drafts > 1:
                raise ValueError(f"scheme {name} verifies one draft, but drafts is {self.drafts}")
            if len(self.draft_temperatures) != self.drafts:
                raise ValueError(
                    f"draft_temperature has {len(self.draft_temperatures)} entries for "
                    f"{self.drafts} drafts"
                )
            mixed = len(set(self.draft_temperatures)) > 1
            if mixed and not own and name not in MIXED_DRAFTS:
                raise ValueError(
                    f"scheme {name} needs drafts of one law; different draft temperatures are for "
                    f"{', '.join(sorted(MIXED_DRAFTS))}"
                )
            if self.draws_distinct and not own and name not in DISTINCT_DRAFTS:
                raise ValueError(
                    f"scheme {name} needs independent drafts; drafts without replacement are for "
                    f"{', '.join(sorted(DISTINCT_DRAFTS))}"
                )
            if self.draws_distinct and mixed:
                raise ValueError("drafts without replacement need one draft temperature")
        for label, value in [
            ("temperature", self.temperature),
            *(("draft_temperature", value) for value in self.draft_temperatures),
        ]:
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{label} is {value}, expected a number from 0 up")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}, expected at least 1")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, expected a number in (0, 1]")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p is {self.min_p}, expected a number in [0, 1]")
        if any(not string for string in self.stop):
            raise ValueError("stop has an empty string")


@dataclass
class Generation:
    """What one request produced, and what each of its rounds did."""

    prompt: list[int]
    seed: int
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish: str = ""
    """"length", "end of text" or "stop"."""
    accepted: list[int] = field(default_factory=list)
    """Accepted length of each round."""
    nodes: list[int] = field(default_factory=list)
    """Distinct draft nodes of each round."""
    whole_rounds: int = 0
    """Rounds that began with at least L+1 tokens to go, so that nothing of them could be cut off.
    They come first."""

    @property
    def rounds(self) -> int:
        """Target calls after the prompt."""
        return len(self.accepted)


class Clock:
    """Seconds spent in each stage; whatever is not measured is the rest."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._began = self._now()
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the body to one stage."""
        began = self._now()
        try:
            yield
        finally:
            self.seconds[name] += self._now() - began

    @property
    def total(self) -> float:
        """Seconds since the clock was made."""
        return self._now() - self._began

    def stop(self) -> dict[str, float]:
        """Seconds by stage, the rest filled in."""
        measured = sum(self.seconds[name] for name in STAGES[:-1])
        self.seconds["rest"] = max(0.0, self.total - measured)
        return dict(self.seconds)


@dataclass(frozen=True)
class Decoded:
    """The requests in the order given, and the seconds they took together."""

    settings: Settings
    generations: list[Generation]
    seconds: dict[str, float]


def row_function(model: LanguageModel, settings: Settings, temperature: float) -> ToRows:
    """Logits to rows at one temperature with the settings' cuts; `ValueError` on NaN logits."""

    def to_rows(logits: Tensor) -> Tensor:
        if bool(torch.isnan(logits).any()):
            where = torch.isnan(logits).nonzero()[0].tolist()
            raise ValueError(
                f"model {model.name} returned NaN: request {where[0]} of the batch, "
                f"node {where[1]}, token {where[2]}"
            )
        return rows_from_logits(
            logits,
            temperature=temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            min_p=settings.min_p,
        )

    return to_rows


def check_prompts(pair: Pair, prompts: Sequence[Sequence[int]], settings: Settings) -> None:
    """Raise ``ValueError`` for a prompt that is empty, out of vocabulary or too long."""
    length = 0 if settings.scheme_name == AUTOREGRESSIVE else settings.length
    for i, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompt {i} has no tokens")
        for model in (pair.draft, pair.target):
            for position, token in enumerate(prompt):
                if not 0 <= token < model.inputs:
                    raise ValueError(
                        f"prompt {i}, position {position}: token {token} is not in 0.."
                        f"{model.inputs - 1}, the tokens of {model.name}"
                    )
            needed = len(prompt) + settings.max_new_tokens + length - 1
            if model.context is not None and needed > model.context:
                raise ValueError(
                    f"prompt {i} has {len(prompt)} tokens; with max_new_tokens = "
                    f"{settings.max_new_tokens} and drafts of {length} it needs a context of "
                    f"{needed}, but {model.name} has {model.context}"
                )


@dataclass
class _Batch:
    """The requests still running, and the state that goes with them."""

    generations: list[Generation]
    draft: Any
    target: Any
    device: torch.device
    carry: Any = None


def decode(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    settings: Settings,
    on_tokens: Callable[[int, Generation], None] | None = None,
) -> Decoded:
    """Decode token prompts together; request i uses ``seeds[i]``.

    ``on_tokens(i, generation)`` is called after every round of request i.  Raises ``ValueError``
    for settings or prompts that make no sense, for a model that returns NaN, and for a function of
    the user's own that returns something malformed (see `methods`).
    """
    settings.check()
    check_prompts(pair, prompts, settings)
    for i, seed in enumerate(seeds):
        if not 0 <= seed < 2**64:
            raise ValueError(f"seeds[{i}] is {seed}, expected 0 up to 2^64 - 1")
    if len(seeds) != len(prompts):
        raise ValueError(f"seeds has {len(seeds)} entries for {len(prompts)} prompts")
    clock = Clock(pair.target.device)
    everyone = [Generation(list(p), s) for p, s in zip(prompts, seeds)]
    order = {id(generation): i for i, generation in enumerate(everyone)}
    running = _start(pair, everyone, settings, clock)
    while running.generations:
        emitted = _round(pair, running, settings, clock)
        alive = []
        for slot, (generation, tokens) in enumerate(zip(running.generations, emitted)):
            _append(pair, generation, tokens, settings)
            if on_tokens is not None:
                on_tokens(order[id(generation)], generation)
            if not generation.finish:
                alive.append(slot)
        _keep(running, alive)
    return Decoded(settings, everyone, clock.stop())


def _start(pair: Pair, everyone: list[Generation], settings: Settings, clock: Clock) -> _Batch:
    widest = max((len(g.prompt) for g in everyone), default=1)
    context = torch.full((len(everyone), widest - 1), -1, dtype=torch.int64)
    for b, generation in enumerate(everyone):
        known = generation.prompt[:-1]
        context[b, : len(known)] = torch.tensor(known, dtype=torch.int64)
    scorers: list[Any] = []
    for stage, model in (("draft", pair.draft), ("target", pair.target)):
        if stage == "draft" and settings.scheme_name == AUTOREGRESSIVE:
            scorers.append(None)
            continue
        scorer = model.start(pair.vocabulary, len(everyone))
        with clock.stage(stage):
            scorer.prefill(context)
        scorers.append(scorer)
    draft, target = scorers
    return _Batch(list(everyone), draft, target, pair.target.device)


def _round(pair: Pair, running: _Batch, settings: Settings, clock: Clock) -> list[list[int]]:
    """One round of every running request: the tokens each emits."""
    if settings.scheme_name == AUTOREGRESSIVE:
        return _autoregressive_round(pair, running, settings, clock)
    device = pair.target.device
    draft_uniforms, uniforms = draw_uniforms(running.generations, settings, device)
    temperatures = sorted(set(settings.draft_temperatures))
    with clock.stage("draft"):
        fresh = _fresh(running)
        tree = draw_tree(
            running.draft,
            fresh.to(device),
            draft_uniforms,
            [row_function(pair.draft, settings, t) for t in temperatures],
            [temperatures.index(t) for t in settings.draft_temperatures],
            settings.draws_distinct,
        )
    with clock.stage("target"):
        logits = running.target.extend(tree.tokens, tree.parents)
        target_rows = row_function(pair.target, settings, settings.temperature)(logits)
    with clock.stage("verification"):
        result = verify_any(
            settings.method,
            as_batch(tree, target_rows),
            uniforms,
            running.carry,
            **settings.options,
        )
        running.carry = result.carry
        accepted = result.accepted_length.tolist()
        emitted = [[t for t in row if t >= 0] for row in result.tokens.tolist()]
    path = tree.places.gather(1, result.path[:, None, None].expand(-1, 1, settings.length + 1))[
        :, 0
    ]
    depth = torch.arange(settings.length + 1, device=device)
    kept = torch.where(depth <= result.accepted_length[:, None], path, -1).cpu()
    with clock.stage("target"):
        running.target.commit(kept)
    with clock.stage("draft"):
        counts = (fresh >= 0).sum(1)
        drawn = torch.where(kept < 0, -1, tree.drawn.cpu().gather(1, kept.clamp(min=0)))
        inner = pending_nodes(drawn[:, 1 : settings.length], counts, fresh.shape[1])
        chain = torch.arange(fresh.shape[1]).expand(len(fresh), -1)
        chain = torch.where(fresh >= 0, chain, -1)
        running.draft.commit(_pack(torch.cat([chain, inner], 1)))
    for generation, length, nodes in zip(running.generations, accepted, tree.distinct):
        _record(generation, length, nodes, settings)
    return emitted


def as_batch(tree: DraftTree, target_rows: Tensor) -> Batch:
    """A tree and its target rows [B, n, V] as the verifiers take them."""
    groups, batch, nodes, vocabulary = tree.rows.shape
    request = torch.arange(batch, device=target_rows.device)[:, None, None]
    index = (tree.groups[None, :, None] * batch + request) * nodes + tree.places
    rows = target_rows.flatten(0, 1)
    return Batch(
        tree.paths,
        index,
        tree.rows.reshape(-1, vocabulary),
        rows.repeat(groups, 1) if groups > 1 else rows,
    )


def _autoregressive_round(
    pair: Pair, running: _Batch, settings: Settings, clock: Clock
) -> list[list[int]]:
    device = pair.target.device
    _, uniforms = draw_uniforms(running.generations, settings, device)
    batch = len(running.generations)
    with clock.stage("target"):
        last = torch.tensor([[_context(g)[-1]] for g in running.generations])
        logits = running.target.extend(last, torch.full_like(last, -1))
        rows = row_function(pair.target, settings, settings.temperature)(logits)[:, 0]
    with clock.stage("verification"):
        blocks = Batch(
            torch.empty((batch, 0, 0), dtype=torch.int64, device=device),
            torch.arange(batch, device=device)[:, None, None],
            rows,
            rows,
        )
        result = verify_any("token_by_token", blocks, uniforms)
        emitted = result.next_token[:, None].tolist()
    with clock.stage("target"):
        running.target.commit(torch.zeros_like(last))
    for generation in running.generations:
        _record(generation, 0, 0, settings)
    return [list(row) for row in emitted]


def draw_uniforms(
    generations: Sequence[Generation], settings: Settings, device: torch.device
) -> tuple[Tensor, Uniforms]:
    """(for drawing drafts, as `draw_tree` takes them; for verifying) in each request's next round.

    A Philox stream keyed by the request's seed, whose counter is the number of tokens it has
    emitted: no two rounds share a uniform, and none depends on the batch.
    """
    if settings.scheme_name == AUTOREGRESSIVE:
        drafts, length = 0, 0
    else:
        drafts, length = settings.drafts, settings.length
    block = drafts * length
    drawing = block * 2 * drafts if settings.draws_distinct else block
    numbers = np.empty((len(generations), drawing + block + drafts + 1))
    for b, generation in enumerate(generations):
        stream = np.random.Philox(key=generation.seed, counter=[0, 0, len(generation.tokens), 0])
        np.random.Generator(stream).random(out=numbers[b])
    every = torch.from_numpy(numbers).to(device)
    shape = (len(generations), drafts, length)
    own = (*shape, 2 * drafts) if settings.draws_distinct else shape
    return every[:, :drawing].view(own), Uniforms(
        accept=every[:, drawing : drawing + block].view(shape),
        select=every[:, drawing + block : -1],
        token=every[:, -1],
    )


def _context(generation: Generation) -> list[int]:
    return generation.prompt + generation.tokens


def _fresh(running: _Batch) -> Tensor:
    """The context's tokens that the draft has not committed yet: one or two of each request."""
    pieces = [
        _context(generation)[length:]
        for generation, length in zip(running.generations, running.draft.lengths)
    ]
    fresh = torch.full((len(pieces), max(map(len, pieces))), -1, dtype=torch.int64)
    for b, piece in enumerate(pieces):
        fresh[b, : len(piece)] = torch.tensor(piece)
    return fresh


def _pack(nodes: Tensor) -> Tensor:
    """Move the -1 entries of each row to its end, keeping the order of the others."""
    order = torch.argsort((nodes < 0).to(torch.int8), dim=1, stable=True)
    return nodes.gather(1, order)


def _record(generation: Generation, accepted: int, nodes: int, settings: Settings) -> None:
    length = 0 if settings.scheme_name == AUTOREGRESSIVE else settings.length
    left = settings.max_new_tokens - len(generation.tokens)
    generation.accepted.append(accepted)
    generation.nodes.append(nodes)
    if left >= length + 1:
        generation.whole_rounds += 1


def _append(pair: Pair, generation: Generation, tokens: list[int], settings: Settings) -> None:
    """Add a round's tokens, up to whatever ends the text first."""
    left = settings.max_new_tokens - len(generation.tokens)
    ends = frozenset[int]() if settings.ignore_end_of_text else pair.target.end_of_text
    for position, token in enumerate(tokens[:left]):
        if token in ends:
            tokens = tokens[: position + 1]
            generation.finish = "end of text"
            break
    generation.tokens += tokens[:left]
    if settings.stop:
        length = stopped_length(pair.tokenizer, generation.tokens, settings.stop)
        if length is not None:
            del generation.tokens[length:]
            generation.finish = "stop"
    if not generation.finish and len(generation.tokens) >= settings.max_new_tokens:
        generation.finish = "length"


def _keep(running: _Batch, alive: list[int]) -> None:
    """Drop the requests that are finished."""
    if len(alive) == len(running.generations):
        return
    if alive:
        running.target.select(alive)
        if running.draft is not None:
            running.draft.select(alive)
        running.carry = select_carry(running.carry, torch.tensor(alive, device=running.device))
    running.generations = [running.generations[slot] for slot in alive]


def generate(
    pair: Pair,
    prompts: Sequence[str],
    seeds: Sequence[int],
    settings: Settings,
    on_text: Callable[[int, str], None] | None = None,
    on_round: Callable[[int, Generation], None] | None = None,
) -> Decoded:
    """Decode text prompts together.

    ``on_text(i, piece)`` gets request i's text as it grows: whole characters only, and nothing that
    may turn out to begin a stop string.  ``on_round(i, generation)`` is called after each of its
    rounds.
    """
    tokenizer = pair.tokenizer
    shown = [0] * len(prompts)

    def on_tokens(i: int, generation: Generation) -> None:
        text = tokenizer.decode(generation.tokens)
        if generation.finish:
            generation.text = text = cut_at_stop(text, settings.stop)
        else:
            text = showable(text, settings.stop)
        if on_text is not None and len(text) > shown[i]:
            on_text(i, text[shown[i] :])
            shown[i] = len(text)
        if on_round is not None:
            on_round(i, generation)

    encoded = [tokenizer.encode(prompt) for prompt in prompts]
    return decode(pair, encoded, seeds, settings, on_tokens)


def autoregressive(settings: Settings) -> Settings:
    """The same settings, one target call per token."""
    return dataclasses.replace(
        settings, scheme=AUTOREGRESSIVE, draft_temperature=None, distinct=None, options={}
    )
