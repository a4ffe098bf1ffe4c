"""Draw K draft paths per request from a model's cache, and merge identical prefixes into a tree.

Each level of the tree is one forward over its distinct nodes.  A token of draft k is drawn from the
row of its own node, and that very row is what verification gets: temperature and cuts are applied
once, before drawing.  Leaves are drawn but not forwarded: nobody reads the draft row after them.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from draftproof.fast.decoding.scoring import Scorer
from torch import Tensor

ToRows = Callable[[Tensor], Tensor]
"""Logits [.., V] to rows [.., V]: temperature, then cuts, then normalised."""


@dataclass(frozen=True)
class DraftTree:
    """The drafts of B requests, as paths and as a tree of n node places per request.

    Places are numbered level by level, the root at 0; a request with fewer nodes on a level than
    the widest one has padding there (token -1).
    """

    paths: Tensor
    """int64 [B, K, L]: the drafted tokens."""
    places: Tensor
    """int64 [B, K, L+1]: the node of each path's prefixes."""
    tokens: Tensor
    """int64 [B, n]: each node's own token, the root's being the last one of the context."""
    parents: Tensor
    """int64 [B, n]: the parent's place, -1 for the root and for padding."""
    rows: Tensor
    """[G, B, n, V]: the draft row after each node, for each of G temperatures; 0 after leaves."""
    groups: Tensor
    """int64 [K]: which of the G temperatures each draft was drawn with."""
    drawn: Tensor
    """int64 [B, n]: the place at which each node was drawn, arbitrary at padding; another one than
    its own where nodes drawn on the way are on no path and were left out."""

    @property
    def distinct(self) -> list[int]:
        """Distinct nodes of each request, without the root."""
        return [int(count) - 1 for count in (self.tokens >= 0).sum(1)]


def sample(rows: Tensor, index: Tensor, uniforms: Tensor) -> Tensor:
    """Token drawn from ``rows[index]`` at ``uniforms``, both of one shape: int64 of that shape.

    The smallest token whose cumulated weight exceeds the uniform's share of the whole, which is
    never one of weight 0.
    """
    cumulated = rows[index].to(torch.float64).cumsum(-1)
    whole = cumulated[..., -1:]
    token = torch.searchsorted(cumulated, uniforms[..., None] * whole, right=True)
    last = (cumulated < whole).sum(-1, keepdim=True)  # a product rounded up to the whole ends here
    return torch.minimum(token, last)[..., 0]


def draw_tree(
    scorer: Scorer,
    fresh: Tensor,
    uniforms: Tensor,
    to_rows: Sequence[ToRows],
    groups: Sequence[int],
    distinct: bool = False,
) -> DraftTree:
    """Draw drafts below the context and leave the scorer with their inner nodes pending.

    ``fresh`` int64 [B, f]: the context's tokens that the scorer has not committed, at least one
    each, -1 padding at the end; they become pending nodes 0 .. f-1, and a node drawn at place
    i ≥ 1 becomes pending node f - 1 + i.  ``to_rows``: one function for each temperature, and
    ``groups`` [K] says which one each draft uses.  ``uniforms`` float64 [B, K, L] for independent
    drafts.

    ``distinct``: paths drawn without replacement, each from the draft model given that it is a new
    path; of one temperature, ``uniforms`` [B, K, L, 2K] (see `race`).  Where there are fewer than K
    paths of positive probability, the last one is repeated.
    """
    batch, drafts, length = uniforms.shape[:3]
    device = uniforms.device
    counts = (fresh >= 0).sum(1)
    request = torch.arange(batch, device=device)
    chain = torch.arange(fresh.shape[1], device=device).expand(batch, -1) - 1
    logits = scorer.extend(fresh, chain)[request, (counts - 1).to(request.device)][:, None]

    last = fresh[request, counts - 1].tolist()
    tokens = [[token] for token in last]
    parents = [[-1] for _ in range(batch)]
    ends = [[0] * (1 if distinct else drafts) for _ in range(batch)]  # the paths' last nodes
    runners = Runners.start(batch, device)
    group = torch.tensor(list(groups), device=device)
    levels: list[Tensor] = []
    start = 0  # place of the current level's first node
    for depth in range(length):
        width = logits.shape[1]
        rows = torch.stack([function(logits) for function in to_rows])
        levels.append(rows)
        if distinct:
            runners, edges = race(rows[0], runners, uniforms[:, :width, depth])
        else:
            node = torch.tensor(ends, device=device) - start
            index = (group * batch + request[:, None]) * width + node
            drawn = sample(rows.flatten(0, 2), index, uniforms[:, :, depth]).tolist()
            edges = [list(zip(own, new)) for own, new in zip(node.tolist(), drawn)]
        after = start + width
        for b, own in enumerate(edges):
            children: dict[tuple[int, int], int] = {}
            ends[b] = [after + children.setdefault(edge, len(children)) for edge in own]
            tokens[b] += [token for _, token in children]
            parents[b] += [start + parent for parent, _ in children]
        start = after
        widest = max(map(len, tokens))
        for b in range(batch):
            padding = [-1] * (widest - len(tokens[b]))
            tokens[b] += padding
            parents[b] += padding
        if depth + 1 < length:
            level_tokens = torch.tensor([row[start:] for row in tokens])
            above = torch.tensor([row[start:] for row in parents])
            logits = scorer.extend(level_tokens, pending_nodes(above, counts.cpu(), fresh.shape[1]))
    leaves = len(tokens[0]) - start
    levels.append(levels[0].new_zeros((len(to_rows), batch, leaves, levels[0].shape[-1])))
    whole = [own + own[-1:] * (drafts - len(own)) for own in ends]
    places = torch.tensor([[_lineage(end, parents[b]) for end in p] for b, p in enumerate(whole)])
    tree = DraftTree(
        paths=torch.tensor(
            [[[tokens[b][i] for i in q[1:]] for q in p] for b, p in enumerate(places.tolist())],
            device=device,
        ),
        places=places.to(device),
        tokens=torch.tensor(tokens, device=device),
        parents=torch.tensor(parents, device=device),
        rows=torch.cat(levels, 2),
        groups=group,
        drawn=torch.arange(len(tokens[0]), device=device).expand(batch, -1),
    )
    return _without_losers(tree) if distinct else tree


def _lineage(node: int, parents: Sequence[int]) -> list[int]:
    """The nodes from the root to a node."""
    line: list[int] = []
    while node >= 0:
        line.append(node)
        node = parents[node]
    return line[::-1]


class Runners(NamedTuple):
    """The nodes of one level in a race (see `race`), the earliest first; padding arrives never."""

    log_time: Tensor
    """float64 [B, n]: when the first path through the node arrives."""
    log_mass: Tensor
    """float64 [B, n]: joint draft probability of the node."""

    @classmethod
    def start(cls, batch: int, device: torch.device) -> "Runners":
        zero = torch.zeros((batch, 1), dtype=torch.float64, device=device)
        return cls(zero - torch.inf, zero)


def race(
    rows: Tensor, runners: Runners, uniforms: Tensor
) -> tuple[Runners, list[list[tuple[int, int]]]]:
    """One level of drawing K paths without replacement: the next runners and, for each request,
    their (parent in this level, token), the earliest first.

    Let every path arrive after an exponential time whose rate is its probability: the order of
    arrival is that of drawing without replacement.  The first path through a node arrives together
    with the first one through one of its children, drawn from the node's ``rows`` [B, n, V]; the
    other children follow, each drawn from what is left of the row, after exponential times whose
    rate is the probability left.  The prefixes of the first K paths are among the first K nodes of
    every level, so that no more have to be looked at (stochastic beam search: Kool et al.,
    1903.06059).  ``uniforms`` float64 [B, n, 2K]: of each node, K for tokens and K for times.
    """
    batch = len(rows)
    count = uniforms.shape[2] // 2
    left = rows.flatten(0, 1).to(torch.float64, copy=True)
    node = torch.arange(len(left), device=rows.device)
    log_mass = runners.log_mass.flatten()
    clock = runners.log_time.flatten()
    tokens, times, masses = [], [], []
    for child in range(count):
        log_left = left.sum(1).log()  # -inf: the row is used up
        if child:
            wait = (-torch.log1p(-uniforms[:, :, count + child].flatten())).log()
            clock = torch.logaddexp(clock, wait - log_mass - log_left)
        token = sample(left, node, uniforms[:, :, child].flatten())
        tokens.append(token)
        times.append(torch.where(log_left.isfinite(), clock, torch.inf))
        masses.append(log_mass + left[node, token].log())
        left[node, token] = 0
    # By parent, then by child, so that what is equal keeps one order whatever the batch.
    time, mass, token = (torch.stack(c, 1).view(batch, -1) for c in (times, masses, tokens))
    order = time.argsort(dim=1, stable=True)[:, :count]
    time, mass, token = (x.gather(1, order) for x in (time, mass, token))
    parent = order // count
    arrived = (time < torch.inf).sum(1).tolist()
    edges = [
        list(zip(own[:n], new[:n])) for own, new, n in zip(parent.tolist(), token.tolist(), arrived)
    ]
    widest = max(arrived)
    return Runners(time[:, :widest], mass[:, :widest]), edges


def _without_losers(tree: DraftTree) -> DraftTree:
    """The tree without the nodes that are on no path."""
    batch, vocabulary = len(tree.paths), tree.rows.shape[3]
    device = tree.rows.device
    kept = [sorted({i for path in p for i in path}) for p in tree.places.tolist()]
    widest = max(map(len, kept))
    drawn = torch.tensor([k + [-1] * (widest - len(k)) for k in kept], device=device)
    place = torch.full((batch, tree.tokens.shape[1] + 1), -1, device=device)
    place.scatter_(
        1,
        drawn.where(drawn >= 0, place.shape[1] - 1),
        torch.arange(widest, device=device).expand(batch, -1),
    )
    place[:, -1] = -1

    def of_kept(values: Tensor) -> Tensor:
        return torch.where(drawn >= 0, values.gather(1, drawn.clamp(min=0)), -1)

    above = of_kept(tree.parents)
    row = drawn.clamp(min=0)[None, :, :, None].expand(len(tree.rows), -1, -1, vocabulary)
    return dataclasses.replace(
        tree,
        places=place.gather(1, tree.places.flatten(1)).view_as(tree.places),
        tokens=of_kept(tree.tokens),
        parents=torch.where(above >= 0, place.gather(1, above.clamp(min=0)), -1),
        rows=tree.rows.gather(2, row),
        drawn=drawn,
    )


def pending_nodes(places: Tensor, counts: Tensor, fresh: int) -> Tensor:
    """Places of a tree [B, m] as pending nodes of the scorer that drew it; -1 stays -1.

    ``counts`` int64 [B] and ``fresh``: how many fresh tokens each request had, and the padded
    width.
    """
    inner = torch.where(places == 0, counts[:, None] - 1, fresh - 1 + places)
    return torch.where(places < 0, -1, inner)
