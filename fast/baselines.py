"""What the benchmark sets beside the fast path: the same rules written in the straightforward way.

    baseline(tokens [B, K, L], draft rows [B, K, L, V], target rows [B, K, L+1, V], uniforms)
        -> int64 [B, L+1], the emitted tokens padded with -1, as `Result.tokens`

Each is what an implementation that follows its paper line by line would be: rows path by path,
temporaries of the size of the rows, a search for the scale that reads the rows at each step, a loop
over the blocks in Python where the rule branches. They keep the randomness contract, so the same
uniforms give the tokens of `verify` (within rounding of a threshold): a baseline that computed
something else would be none. All drafts have L ≥ 1 tokens, K ≥ 1; stateful schemes start a round
without a carry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from draftproof.fast.clip import DEFAULT_GRID
from draftproof.fast.ranked_coupling import coupling
from draftproof.fast.tree import Uniforms
from draftproof.fast.verifiers.ranked_block import CLASSES, RATIO_TYPES, label_edges, ratio_edges
from torch import Tensor

__all__ = ["BASELINES", "Baseline", "transformers_sampler"]

Baseline = Callable[[Tensor, Tensor, Tensor, Uniforms], Tensor]
"""baseline(tokens, draft rows, target rows, uniforms) -> emitted tokens"""

Walked = tuple[int, int, Tensor]
"""Of one block: accepted length, a draft with the accepted prefix, the row of the next token."""


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, 0 where that is 0/0."""
    return torch.where(numerator > 0, numerator / denominator, 0.0)


def _normalised(row: Tensor, otherwise: Tensor) -> Tensor:
    """The row (last dimension) divided by its sum, `otherwise` where that is 0."""
    mass = row.sum(-1, keepdim=True)
    return torch.where(mass > 0, row / mass, otherwise)


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """The inverse CDF of each row [B, V] at `uniform` [B]."""
    reached = weights.to(torch.float64).cumsum(-1)
    threshold = uniform[:, None] * reached[:, -1:]
    return torch.searchsorted(reached, threshold, right=True)[:, 0].clamp(max=weights.shape[1] - 1)


def _along(tokens: Tensor, rows: Tensor) -> Tensor:
    """The entry of each token in its row: tokens [.., L], rows [.., L, V]."""
    return rows.gather(-1, tokens[..., None])[..., 0]


def _emitted(tokens: Tensor, accepted: Tensor, following: Tensor) -> Tensor:
    """The first `accepted` [B] of the tokens [B, L], then the one that follows."""
    out = torch.cat([tokens, tokens[:, :1]], 1)
    depth = torch.arange(out.shape[1], device=out.device)
    out = torch.where(depth < accepted[:, None], out, -1)
    return torch.where(depth == accepted[:, None], following[:, None], out)


def _longest(h: Tensor, uniforms: Tensor) -> Tensor:
    """The last depth 1 .. L whose test passes, 0 if none does; h and uniforms [.., L]."""
    depth = torch.arange(1, h.shape[-1] + 1, device=h.device)
    return torch.where(uniforms < h, depth, 0).amax(-1)


# One draft: whole tensors over all blocks.


def token_by_token(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms) -> Tensor:
    """All residual rows at once, then the one at the first rejection."""
    tokens, p, q = tokens[:, 0], draft[:, 0], target[:, 0]
    length = tokens.shape[1]
    h = _ratio(_along(tokens, q[:, :length]), _along(tokens, p))
    accepted = (uniforms.accept[:, 0] < h).to(torch.int64).cumprod(1).sum(1)
    residual = torch.cat([(q[:, :length] - p).clamp(min=0), q[:, length:]], 1)
    every = torch.arange(len(tokens), device=tokens.device)
    return _emitted(tokens, accepted, _draw(residual[every, accepted], uniforms.token))


def _weights(ratio: Tensor, start: Tensor) -> Tensor:
    """w_1 .. w_L of block verification from the ratios [.., L], clipped one after the other."""
    weights = []
    for i in range(ratio.shape[-1]):
        start = (start * ratio[..., i]).clamp(max=1)
        weights.append(start)
    return torch.stack(weights, -1)


def block(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms) -> Tensor:
    """All sums at once, then the scan."""
    return _block(tokens[:, 0], draft[:, 0], target[:, 0], uniforms.accept[:, 0], uniforms.token)


def _block(tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor, token: Tensor) -> Tensor:
    """Block verification of one path of each block, whose law has the rows p [B, L, V]."""
    length = tokens.shape[1]
    ratio = _ratio(_along(tokens, q[:, :length]), _along(tokens, p))
    one = torch.ones_like(ratio[:, 0])
    w = torch.cat([one[:, None], _weights(ratio, one)], 1)
    residual = torch.cat([(w[:, :length, None] * q[:, :length] - p).clamp(min=0), q[:, length:]], 1)
    owed = residual[:, 1:length].sum(-1)
    h = torch.cat([_ratio(owed, owed + 1 - w[:, 1:length]), w[:, length:]], 1)
    accepted = _longest(h, accept)
    every = torch.arange(len(tokens), device=tokens.device)
    return _emitted(tokens, accepted, _draw(residual[every, accepted], token))


def greedy_block(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms) -> Tensor:
    """One round: joint ratios, both gaps of all rows at once."""
    return _greedy(tokens[:, 0], draft[:, 0], target[:, 0], uniforms.accept[:, 0], uniforms.token)


def _greedy(tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor, token: Tensor) -> Tensor:
    """Greedy block verification of one path of each block, as `_block`."""
    length = tokens.shape[1]
    ratio = _ratio(_along(tokens, q[:, :length]), _along(tokens, p)).cumprod(1)
    r = torch.cat([torch.ones_like(ratio[:, :1]), ratio], 1)
    gap = r[:, :length, None] * q[:, :length] - p
    gained, lost = gap.clamp(min=0).sum(-1), (-gap).clamp(min=0).sum(-1)
    inner = torch.where(lost > 0, gained / lost, 1.0)[:, 1:].clamp(max=1)
    h = torch.cat([inner, r[:, length:].clamp(max=1)], 1)
    accepted = _longest(h, accept)
    residual = torch.cat([gap.clamp(min=0), q[:, length:]], 1)
    every = torch.arange(len(tokens), device=tokens.device)
    return _emitted(tokens, accepted, _draw(residual[every, accepted], token))


# Several drafts: one block after the other, in Python.


def _by_block(verify: Callable[[Tensor, Tensor, Tensor, Tensor], Walked]) -> Baseline:
    """A baseline from verify(tokens [K, L], p [K, L, V], q [K, L+1, V], accept [K, L])."""

    def all_blocks(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms) -> Tensor:
        every = zip(tokens, draft, target, uniforms.accept, strict=True)
        lengths, paths, rows = zip(*(verify(*one) for one in every), strict=True)
        accepted = torch.tensor(lengths, device=tokens.device)
        chosen = tokens[torch.arange(len(tokens), device=tokens.device), list(paths)]
        return _emitted(chosen, accepted, _draw(torch.stack(rows), uniforms.token))

    return all_blocks


Coupled = tuple[int, Tensor]
"""The place of the candidate that is kept, or -1 and the row of the token."""


def _walk(coupling: Callable[[list[int], Tensor, Tensor, list[float]], Coupled]) -> Baseline:
    """SpecTr over a coupling of the alive drafts: coupling(candidates, p, q, uniforms)."""

    def verify(tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor) -> Walked:
        drafts, length = tokens.shape
        alive = list(range(drafts))
        for i in range(length):
            candidates = tokens[alive, i].tolist()
            own = (p[alive[0], i], q[alive[0], i])
            kept, row = coupling(candidates, *own, accept[alive, i].tolist())
            if kept < 0:
                return i, alive[0], row
            alive = [k for k, x in zip(alive, candidates, strict=True) if x == candidates[kept]]
        return length, alive[0], q[alive[0], length]

    return _by_block(verify)


def _cover(kept: Tensor, drafts: int) -> Tensor:
    """c(β, n) = (1 - (1-β)^n)/β, n at β = 0."""
    kept = kept.to(torch.float64).clamp(max=1)
    return torch.where(kept > 0, -torch.expm1(drafts * torch.log1p(-kept)) / kept, float(drafts))


def _smallest_scale(p: Tensor, target: Tensor, drafts: int) -> tuple[float, float]:
    """ρ, a multiple of 1/DEFAULT_GRID, and c: by bisection, reading both rows at each step."""

    def cover(tick: int) -> float:
        return float(_cover(torch.minimum(p, target * (DEFAULT_GRID / tick)).sum(), drafts))

    low, high = DEFAULT_GRID, drafts * DEFAULT_GRID
    while low < high:
        tick = (low + high) // 2
        low, high = (low, tick) if cover(tick) * DEFAULT_GRID <= tick else (tick + 1, high)
    return high / DEFAULT_GRID, cover(high)


def _kseq(candidates: list[int], p: Tensor, q: Tensor, uniforms: list[float]) -> Coupled:
    scale, cover = _smallest_scale(p, q, len(candidates))
    for k, x in enumerate(candidates):
        if uniforms[k] < float(q[x] / (scale * p[x])):
            return k, q
    return -1, (q - cover * torch.minimum(p, q / scale)).clamp(min=0)


def _recursive(candidates: list[int], p: Tensor, q: Tensor, uniforms: list[float]) -> Coupled:
    for k, x in enumerate(candidates):
        if uniforms[k] < float(q[x] / p[x]):
            return k, q
        q = _normalised((q - p).clamp(min=0), q)
    return -1, q


def _without(candidates: list[int], p: Tensor, q: Tensor, uniforms: list[float]) -> Coupled:
    for k, x in enumerate(candidates):
        if float(p[x]) == 0:  # rejected before
            continue
        if uniforms[k] < float(q[x] / p[x]):
            return k, q
        q = _normalised((q - p).clamp(min=0), q)
        p = p.clone()
        p[x] = 0
        p = _normalised(p, p)
    return -1, q


def _match(candidates: list[int], p: Tensor, q: Tensor, uniforms: list[float]) -> Coupled:
    """The token of the target is x with probability q(x), else one of the others."""
    q = q.clone()
    for k, x in enumerate(candidates):
        if uniforms[k] < float(_ratio(q[x], q.sum())):
            return k, q
        q[x] = 0
    return -1, q


@dataclass
class _Node:
    """A node of the prefix tree of `traversal`, with its own copies of its rows."""

    path: int
    depth: int
    p: Tensor | None
    q: Tensor
    weight: float
    children: list[int]


def _traversal(tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor) -> Walked:
    drafts, length = tokens.shape
    paths = [tuple(path) for path in tokens.tolist()]

    def node(path: int, depth: int, weight: float) -> _Node:
        own = p[path, depth].clone() if depth < length else None
        same = [x for x in paths if x[:depth] == paths[path][:depth]]
        children = list(dict.fromkeys(x[depth] for x in same)) if depth < length else []
        return _Node(path, depth, own, q[path, depth].clone(), weight, children)

    way = [node(0, 0, 1.0)]  # from the root to the first leaf
    while True:
        while way[-1].children:
            up, x = way[-1], way[-1].children[0]
            assert up.p is not None
            prefix = (*paths[up.path][: up.depth], x)
            first = next(k for k in range(drafts) if paths[k][: up.depth + 1] == prefix)
            weight = min(1.0, up.weight * float(_ratio(up.q[x], up.p[x])))
            way.append(node(first, up.depth + 1, weight))
        leaf = way.pop()
        if not way or float(accept[leaf.path, leaf.depth - 1]) < leaf.weight:
            return leaf.depth, leaf.path, leaf.q
        up, x = way[-1], way[-1].children.pop(0)
        assert up.p is not None
        owed = (up.weight * up.q - up.p).clamp(min=0)
        mass = float(owed.sum())
        up.q = owed / mass if mass > 0 else up.q
        up.weight = mass / (mass + 1 - up.weight) if mass > 0 else 0.0
        up.p[x] = 0
        up.p = _normalised(up.p, up.p)


def _powers(high: Tensor, low: Tensor, count: int) -> Tensor:
    """(high^n - low^n)/(high - low), as a sum without cancellation."""
    return torch.stack([high**j * low ** (count - 1 - j) for j in range(count)]).sum(0)


def multipath(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms) -> Tensor:
    """Sort every row along the largest draft, then block-verify it with the law that it has."""
    b, drafts, length = tokens.shape
    paths = []
    for own, p, q in zip(tokens, draft, target, strict=True):
        key = _along(own, q[:, :length]).to(torch.float64) / _along(own, p)
        words = [list(zip(*pair, strict=True)) for pair in zip(key.tolist(), own.tolist())]
        paths.append(words.index(max(words)))
    every = torch.arange(b, device=tokens.device)
    own, p, q = tokens[every, paths], draft[every, paths], target[every, paths]
    exact = p.to(torch.float64)
    order = torch.where(p > 0, q[:, :length] / exact, torch.inf).sort(dim=-1, stable=True).indices
    ranked = exact.gather(-1, order)
    before = torch.zeros_like(exact).scatter_(-1, order, ranked.cumsum(-1) - ranked)
    below, inside = torch.zeros_like(exact[:, 0, :1]), torch.ones_like(exact[:, 0, :1])
    selected = torch.empty_like(p)
    for i in range(length):
        low = below + inside * before[:, i]
        rise = _powers(low + inside * exact[:, i], low, drafts)
        selected[:, i] = exact[:, i] * rise / _powers(torch.ones_like(below), below, drafts)
        x = own[:, i : i + 1]
        low, high = low.gather(1, x), inside * exact[:, i].gather(1, x)
        below, inside = low / (low + high), high / (low + high)
    return _block(own, selected, q, uniforms.accept[every, paths], uniforms.token)


def _after(tokens: Tensor, draft: int, depth: int) -> list[int]:
    """The later drafts that share the first `depth` tokens of `draft`."""
    same = (tokens[draft + 1 :, :depth] == tokens[draft, :depth]).all(1)
    return (same.nonzero()[:, 0] + draft + 1).tolist()


def _kseq_block(tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor) -> Walked:
    drafts, length = tokens.shape
    depth = path = 0
    row, alive = q[0, 0], list(range(drafts))
    while alive:
        scale, cover = _smallest_scale(p[alive[0], depth], row, len(alive))
        for k in alive:
            own, below = tokens[k, depth:], p[k, depth:]
            above = torch.cat([row[None], q[k, depth + 1 : length]])
            ratio = _ratio(_along(own, above), _along(own, below))
            w = _weights(ratio, torch.ones_like(ratio[0]) / scale)
            owed = (w[:-1, None] * q[k, depth + 1 : length] - below[1:]).clamp(min=0)
            mass = owed.sum(-1)
            h = torch.cat([_ratio(mass, mass + 1 - w[:-1]), w[-1:]])
            found = int(_longest(h, accept[k, depth:]))
            if found:
                break
        else:
            covered = torch.minimum(p[alive[0], depth], row / scale)
            return depth, path, (row - cover * covered).clamp(min=0)
        depth, path = depth + found, k
        row = q[k, length] if depth == length else _normalised(owed[found - 1], q[k, depth])
        alive = [] if depth == length else _after(tokens, k, depth)
    return depth, path, row


def _spectr_gbv(scaled: bool, tokens: Tensor, p: Tensor, q: Tensor, accept: Tensor) -> Walked:
    """SpecTr-GBV keeping the chain of target rows of all paths, [K, L+1, V], and updating it."""
    drafts, length = tokens.shape
    depth = path = 0
    chain, alive = q.clone(), list(range(drafts))

    def joint(k: int) -> Tensor:
        """r at the depths `depth` .. L of draft k, from the current node."""
        own = tokens[k, depth:]
        ratio = _ratio(_along(own, chain[k, depth:length]), _along(own, p[k, depth:]))
        return torch.cat([torch.ones_like(ratio[:1]), ratio.cumprod(0)])

    def update(deeper: int) -> None:
        """Take what the clip at the current node covers out of the rows from `deeper` on."""
        for k in range(drafts):
            r = joint(k)[deeper - depth : length - depth, None]
            rows = chain[k, deeper:length]
            covered = torch.minimum(p[k, deeper:], r * rows / scale)
            owed = (r * rows - cover * covered).clamp(min=0)
            chain[k, deeper:length] = _normalised(owed, rows)

    while alive:
        scale, cover = 1.0, 1.0
        if scaled:
            scale, cover = _smallest_scale(p[alive[0], depth], chain[alive[0], depth], len(alive))
        for k in alive:
            s = joint(k)[1:] / scale
            gap = s[:-1, None] * chain[k, depth + 1 : length] - p[k, depth + 1 :]
            gained, lost = gap.clamp(min=0).sum(-1), (-gap).clamp(min=0).sum(-1)
            inner = torch.where((lost > 0) & (s[:-1] < 1), gained / lost, 1.0)
            h = torch.cat([inner, s[-1:]]).clamp(max=1)
            found = int(_longest(h, accept[k, depth:]))
            if found or not scaled:
                update(depth + found)
            if found:
                break
        else:
            if scaled:
                update(depth)
            break
        depth, path = depth + found, k
        alive = [] if depth == length else _after(tokens, k, depth)
    return depth, path, chain[path, depth]


def _ranked_block(
    stateful: bool, tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Uniforms
) -> Tensor:
    """Classify every token of every row, couple, make the selected rows of all drafts, verify one.

    The coupling of 17 types with 8 labels is the scheme's argument, and the one of the fast path.
    """
    b, drafts, length = tokens.shape
    assert uniforms.select is not None
    edges = torch.tensor(ratio_edges(RATIO_TYPES), dtype=torch.float64, device=tokens.device)
    steps = [float(s) for s in label_edges(drafts, CLASSES)]
    s = torch.tensor(steps, dtype=torch.float64, device=tokens.device)
    start = s.diff().expand(b, drafts, -1)
    u = (s**drafts).diff() / s.diff()
    selected = torch.empty_like(draft)
    labels, tilt = start, torch.ones_like(start[..., 0])
    weight = ratios = tilt
    for i in range(length):
        p, q = draft[:, :, i], target[:, :, i]
        ratio = torch.where(p > 0, q / p, 0.0).clamp(max=float(edges[-1])).to(torch.float64)
        kind = (torch.searchsorted(edges, ratio, right=True) - 1).clamp(max=RATIO_TYPES - 2)
        part = (ratio - edges[kind]) / (edges[kind + 1] - edges[kind])
        types = torch.zeros(b, drafts, RATIO_TYPES, dtype=torch.float64, device=p.device)
        types.scatter_add_(2, kind, p * (1 - part)).scatter_add_(2, kind + 1, p * part)
        boost = u / tilt[..., None]
        flat = (x.flatten(0, 1) for x in (types, labels, boost, weight))
        small = dict(zip(("types", "labels", "boost", "weight"), flat, strict=True))
        matrix = coupling(edges=edges, **small).view(b, drafts, RATIO_TYPES, CLASSES)
        posterior = _ratio(matrix, types[..., None])
        rise = (posterior * boost[:, :, None]).sum(3)
        factor = (1 - part) * rise.gather(2, kind) + part * rise.gather(2, kind + 1)
        selected[:, :, i] = p * factor
        x = tokens[:, :, i : i + 1]
        own, f = kind.gather(2, x)[..., None].expand(b, drafts, 1, CLASSES), part.gather(2, x)
        low, high = (posterior.gather(2, own + step)[:, :, 0] for step in (0, 1))
        mixed = (1 - f) * low + f * high
        labels = _normalised(mixed, labels)
        grown = (labels * boost).sum(2)
        tilt = tilt * grown
        own_ratio = (q.gather(2, x) / p.gather(2, x))[..., 0]
        ratios = ratios * own_ratio / grown
        weight = (ratios if stateful else weight * own_ratio / grown).clamp(max=1)
    reached = labels.cumsum(2)
    label = (reached > uniforms.select[..., None] * reached[..., -1:]).to(torch.int8).argmax(2)
    every, path = torch.arange(b, device=tokens.device), label.argmax(1)
    verify = _greedy if stateful else _block
    rows = (selected[every, path], target[every, path])
    return verify(tokens[every, path], *rows, uniforms.accept[every, path], uniforms.token)


BASELINES: dict[str, Baseline] = {
    "token_by_token": token_by_token,
    "block": block,
    "greedy_block": greedy_block,
    "spectr": _walk(_kseq),
    "spectr:recursive_rejection": _walk(_recursive),
    "spectr:without_replacement": _walk(_without),
    "spectr:target_match": _walk(_match),
    "tree_match": _walk(_match),
    "traversal": _by_block(_traversal),
    "multipath": multipath,
    "kseq_block": _by_block(_kseq_block),
    "ranked_block": partial(_ranked_block, False),
    "ranked_block:stateful": partial(_ranked_block, True),
    "spectr_gbv": _by_block(partial(_spectr_gbv, False)),
    "spectr_gbv kseq": _by_block(partial(_spectr_gbv, True)),
}
"""Scheme, and its scale if it has one -> its straightforward version."""


def transformers_sampler() -> Callable[[Tensor, Tensor, Tensor], None] | None:
    """transformers' `_speculative_sampling` called per block on logits, or None without it.

    call(tokens [B, L], draft logits [B, L, V], target logits [B, L+1, V])
    """
    try:
        from transformers.generation.utils import _speculative_sampling
    except ImportError:
        return None

    def call(tokens: Tensor, draft: Tensor, target: Tensor) -> None:
        for b in range(len(tokens)):
            _speculative_sampling(
                tokens[b : b + 1], draft[b : b + 1], tokens.shape[1], target[b : b + 1]
            )

    return call
