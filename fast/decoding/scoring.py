"""Score the nodes of a draft tree in one forward of a Hugging Face model, and keep its cache exact.

A *scorer* holds one model's state for a batch of requests.  Committed tokens are those of the
context; *pending* nodes hang below the last committed token as a tree.  Its
operations:

* ``prefill(tokens)`` commits the prompt;
* ``extend(tokens, parents)`` scores new pending nodes in one forward;
* ``commit(nodes)`` makes a chain of pending nodes part of the context and forgets all others;
* ``select(requests)`` keeps only some requests of the batch.

`TreeScorer` runs every distinct node once: a four-dimensional attention mask lets a node see the
committed tokens, its ancestors and itself, and its position is that of its depth, so siblings share
one position.  `PathScorer` is for models that take no such mask: it runs the paths of the tree as
an ordinary causal batch on copies of the cache.  Both give the rows of plain forwards over each
path.

Shapes: ``B`` requests, ``n`` new nodes a request (padded with token -1), ``V`` vocabulary.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache


class Scorer(Protocol):
    """One model's state for a batch of requests; see the module's first lines."""

    @property
    def lengths(self) -> list[int]:
        """Committed tokens of each request."""

    def prefill(self, tokens: Tensor) -> None:
        """Commit the context of a new scorer: int64 [B, n], -1 padding at the end."""

    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Score new pending nodes; logits [B, n, V], unspecified at padding.

        ``tokens`` int64 [B, n], -1 where a request has fewer; ``parents`` int64 [B, n], the index
        of the parent among the request's pending nodes in order of arrival (this call's own
        included, each parent before its children), -1 for the last committed token.  Every call
        adds ``n`` indices to every request, padding included.
        """

    def commit(self, nodes: Tensor) -> None:
        """Append a chain of pending nodes to the context, and drop the rest.

        ``nodes`` int64 [B, m]: indices as in `extend`, root first, -1 padding at the end.
        """

    def select(self, requests: Sequence[int]) -> None:
        """Keep these requests, in this order."""


def cache_argument(model: Any) -> str:
    """The name under which this version's ``forward`` takes its cache."""
    names = inspect.signature(model.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def attention_windows(config: Any) -> dict[str, int | None]:
    """Sliding window (None: all) of each kind of attention layer that a model's config names.

    Raises ``ValueError`` for a kind that a mask built here would get wrong.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    if not kinds:
        return {"full_attention" if window is None else "sliding_attention": window}
    unknown = kinds - {"full_attention", "sliding_attention"}
    if unknown:
        raise ValueError(f"no tree mask for attention layers of kind {', '.join(sorted(unknown))}")
    return {k: window if k == "sliding_attention" else None for k in sorted(kinds)}


class TreeScorer:
    """Scores a tree with one forward over its distinct nodes (see `Scorer`).

    The cache's slots 0 .. length-1 of a request hold its committed tokens in order; slots between
    its own length and the batch's longest are never attended to; pending nodes follow in order of
    arrival.  Committing moves the kept nodes' keys and values down and crops the rest away.
    """

    def __init__(self, model: Any, vocabulary: int, batch: int) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._windows = attention_windows(model.config)
        self._cache_argument = cache_argument(model)
        self._device = next(model.parameters()).device
        self._dtype = next(model.parameters()).dtype
        self._cache = DynamicCache()
        self._lengths = np.zeros(batch, np.int64)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._base = int(self._lengths.max(initial=0))
        self._parents = np.zeros((len(self._lengths), 0), np.int64)
        self._positions = np.zeros((len(self._lengths), 0), np.int64)

    @property
    def lengths(self) -> list[int]:
        return [int(length) for length in self._lengths]

    @torch.inference_mode()
    def prefill(self, tokens: Tensor) -> None:
        # Padding stands at the end, where causal attention hides it: no mask is needed.
        self._lengths = (tokens >= 0).sum(1).cpu().numpy()
        if tokens.shape[1]:
            last_row_only = {}
            if "logits_to_keep" in inspect.signature(self._model.forward).parameters:
                last_row_only["logits_to_keep"] = 1
            self._model(
                input_ids=tokens.clamp(min=0).to(self._device),
                use_cache=True,
                **{self._cache_argument: self._cache},
                **last_row_only,
            )
        self._forget_pending()

    def _add_nodes(self, parents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Record new nodes; return their ancestors, themselves included: bool [B, n, P]."""
        batch, new = parents.shape
        old = self._parents.shape[1]
        self._parents = np.concatenate([self._parents, parents], 1)
        ancestors = np.zeros((batch, new, old + new), np.bool_)
        request, row = np.mgrid[:batch, :new]
        node = np.broadcast_to(np.arange(old, old + new), (batch, new))
        depth = np.full((batch, new), -1)
        while (node >= 0).any():
            on_path = node >= 0
            ancestors[request[on_path], row[on_path], node[on_path]] = True
            depth += on_path
            node = np.where(on_path, self._parents[request, node], -1)
        self._positions = np.concatenate([self._positions, self._lengths[:, None] + depth], 1)
        return ancestors

    def _mask(self, ancestors: NDArray[np.bool_], window: int | None) -> Tensor:
        """Additive mask [B, 1, n, slots] of the newest nodes: 0 where they may look."""
        batch, new, _ = ancestors.shape
        slots = np.arange(self._base)
        committed = np.broadcast_to(
            (slots < self._lengths[:, None])[:, None], (batch, new, self._base)
        )
        seen = np.concatenate([committed, ancestors], 2)
        if window is not None:
            where = np.concatenate(
                [np.broadcast_to(slots, (batch, self._base)), self._positions], 1
            )
            seen = seen & (where[:, None] > self._positions[:, -new:, None] - window)
        hidden = torch.from_numpy(~seen).to(self._device)
        mask = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device)
        return mask.masked_fill_(hidden, torch.finfo(self._dtype).min)[:, None]

    @torch.inference_mode()
    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        new = tokens.shape[1]
        ancestors = self._add_nodes(parents.cpu().numpy())
        masks = {kind: self._mask(ancestors, window) for kind, window in self._windows.items()}
        output = self._model(
            input_ids=tokens.clamp(min=0).to(self._device),
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=torch.from_numpy(self._positions[:, -new:]).to(self._device),
            use_cache=True,
            **{self._cache_argument: self._cache},
        )
        logits: Tensor = output.logits[..., : self._vocabulary]
        return logits

    @torch.inference_mode()
    def commit(self, nodes: Tensor) -> None:
        index = nodes.cpu().numpy()
        kept = index >= 0
        source = self._base + np.maximum(index, 0)
        target = self._lengths[:, None] + np.arange(index.shape[1])
        self._lengths = self._lengths + kept.sum(1)
        longest = int(self._lengths.max(initial=0))
        request, column = np.nonzero(kept)
        rows = torch.from_numpy(request).to(self._device)
        origin = torch.from_numpy(source[request, column]).to(self._device)
        place = torch.from_numpy(target[request, column]).to(self._device)
        for layer in self._cache.layers:
            for name in ("keys", "values"):
                states = getattr(layer, name)
                states[rows, :, place] = states[rows, :, origin]
                setattr(layer, name, states[:, :, :longest])
        self._forget_pending()

    @torch.inference_mode()
    def select(self, requests: Sequence[int]) -> None:
        self._lengths = self._lengths[list(requests)]
        longest = int(self._lengths.max(initial=0))
        index = torch.tensor(list(requests), dtype=torch.int64, device=self._device)
        for layer in self._cache.layers:
            layer.keys = layer.keys[index, :, :longest]
            layer.values = layer.values[index, :, :longest]
        self._forget_pending()


class PathScorer:
    """Scores a tree by running its paths as an ordinary causal batch (see `Scorer`).

    One forward per request: its cache is copied once per leaf, and every path is run from the last
    committed token down, so a node shared by several paths is computed in each of them.
    """

    def __init__(self, model: Any, vocabulary: int, batch: int) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._cache_argument = cache_argument(model)
        self._device = next(model.parameters()).device
        # Per request: the committed keys and values of each layer, [1, heads, length, width].
        self._states: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(batch)]
        self._lengths = [0] * batch
        self._forget_pending()

    def _forget_pending(self) -> None:
        batch = len(self._lengths)
        self._tokens: list[list[int]] = [[] for _ in range(batch)]
        self._parents: list[list[int]] = [[] for _ in range(batch)]
        # Per request and pending node: the last forward that ran it, and its row there.
        self._runs: list[dict[int, tuple[Any, int]]] = [{} for _ in range(batch)]

    @property
    def lengths(self) -> list[int]:
        return list(self._lengths)

    def _path(self, request: int, node: int) -> list[int]:
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self._parents[request][node]
        return path[::-1]

    def _run(self, request: int, paths: list[list[int]]) -> tuple[Any, Tensor]:
        """(cache, logits [paths, longest path, V]) of one plain forward over the padded paths."""
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._states[request]):
            copies = (len(paths), -1, -1, -1)
            cache.update(keys.expand(copies), values.expand(copies), layer)
        longest = max(map(len, paths))
        tokens = self._tokens[request]
        padded = [[tokens[n] for n in path] + [0] * (longest - len(path)) for path in paths]
        output = self._model(
            input_ids=torch.tensor(padded, device=self._device),
            use_cache=True,
            **{self._cache_argument: cache},
        )
        return cache, output.logits[..., : self._vocabulary]

    def prefill(self, tokens: Tensor) -> None:
        if not tokens.shape[1]:
            return
        columns = torch.arange(tokens.shape[1]).expand(len(tokens), -1)
        padded = tokens.cpu() < 0
        self.extend(tokens, columns - 1)
        self.commit(columns.masked_fill(padded, -1))

    @torch.inference_mode()
    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        result = torch.zeros((*tokens.shape, self._vocabulary), device=self._device)
        for request, (new, above) in enumerate(zip(tokens.tolist(), parents.tolist())):
            first = len(self._tokens[request])
            self._tokens[request] += new
            self._parents[request] += above
            real = [first + i for i, token in enumerate(new) if token >= 0]
            if not real:
                continue
            inner = {self._parents[request][node] for node in real}
            paths = [self._path(request, node) for node in real if node not in inner]
            cache, logits = self._run(request, paths)
            result = result.to(logits.dtype)
            for row, path in enumerate(paths):
                for depth, node in enumerate(path):
                    self._runs[request][node] = (cache, row)
                    if node >= first:
                        result[request, node - first] = logits[row, depth]
        return result

    @torch.inference_mode()
    def commit(self, nodes: Tensor) -> None:
        for request, padded in enumerate(nodes.tolist()):
            chain = [node for node in padded if node >= 0]
            if not chain:
                continue
            if self._path(request, chain[-1]) != chain:
                raise ValueError(f"nodes[{request}] = {chain} is not a chain from the context")
            cache, row = self._runs[request][chain[-1]]
            length = self._lengths[request] + len(chain)
            self._states[request] = [
                (layer.keys[row : row + 1, :, :length], layer.values[row : row + 1, :, :length])
                for layer in cache.layers
            ]
            self._lengths[request] = length
        self._forget_pending()

    def select(self, requests: Sequence[int]) -> None:
        self._states = [self._states[r] for r in requests]
        self._lengths = [self._lengths[r] for r in requests]
        self._forget_pending()


@torch.inference_mode()
def takes_tree_mask(model: Any) -> bool:
    """Does this model obey a four-dimensional mask and per-node positions?

    Found out by trying: a small tree below a short prefix, scored once by `TreeScorer` and once
    path by path.  The logits must agree to 64 roundings of the model's dtype at their own scale;
    a mask that is ignored or misread shows as a difference far above that in single or double
    precision.  In half precision the allowance is large and the trial weak.
    """
    names: Mapping[str, inspect.Parameter] = inspect.signature(model.forward).parameters
    implementation = getattr(model.config, "_attn_implementation", "eager")
    if "position_ids" not in names or implementation not in ("eager", "sdpa"):
        return False
    size = int(model.config.vocab_size)
    prefix = torch.tensor([[1 % size, 2 % size, 3 % size]])
    tokens = torch.tensor([[4 % size, 5 % size, 6 % size, 7 % size]])
    parents = torch.tensor([[-1, -1, 0, 1]])
    rows: list[Tensor] = []
    try:
        for kind in (TreeScorer, PathScorer):
            scorer: Scorer = kind(model, size, 1)
            scorer.prefill(prefix)
            rows.append(scorer.extend(tokens, parents))
    except (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError):
        return False
    tree, paths = rows
    allowed = 64 * torch.finfo(tree.dtype).eps * max(1.0, float(paths.abs().max()))
    return bool((tree - paths).abs().max() <= allowed)
