"""Draw K draft paths per request from a model's cache, and merge identical prefixes into a tree.

Each level of the tree is one forward over its distinct nodes.  A token of draft k is drawn from the
row of its own node, and that very row is what verification gets: temperature and cuts are applied
once, before drawing.  Leaves are drawn but not forwarded: nobody reads the draft row after them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
) -> DraftTree:
    """Draw drafts below the context and leave the scorer with their inner nodes pending.

    ``fresh`` int64 [B, f]: the context's tokens that the scorer has not committed, at least one
    each, -1 padding at the end; they become pending nodes 0 .. f-1, and a node at place i ≥ 1
    becomes pending node f - 1 + i.  ``uniforms`` float64 [B, K, L].  ``to_rows``: one function for
    each temperature, and ``groups`` says which one each draft uses.
    """
    batch, drafts, length = uniforms.shape
    device = uniforms.device
    counts = (fresh >= 0).sum(1)
    request = torch.arange(batch, device=device)
    chain = torch.arange(fresh.shape[1], device=device).expand(batch, -1) - 1
    logits = scorer.extend(fresh, chain)[request, (counts - 1).to(request.device)][:, None]

    last = fresh[request, counts - 1].tolist()
    tokens = [[token] for token in last]
    parents = [[-1] for _ in range(batch)]
    paths = [[[-1] * length for _ in range(drafts)] for _ in range(batch)]
    places = [[[0] * (length + 1) for _ in range(drafts)] for _ in range(batch)]
    group = torch.tensor(list(groups), device=device)
    levels: list[Tensor] = []
    start = 0  # place of the current level's first node
    for depth in range(length):
        width = logits.shape[1]
        rows = torch.stack([function(logits) for function in to_rows])
        levels.append(rows)
        node = torch.tensor([[path[depth] for path in p] for p in places], device=device) - start
        index = (group * batch + request[:, None]) * width + node
        drawn = sample(rows.flatten(0, 2), index, uniforms[:, :, depth]).tolist()
        start += width
        for b in range(batch):
            children: dict[tuple[int, int], int] = {}
            for k, token in enumerate(drawn[b]):
                edge = (places[b][k][depth], token)
                place = start + children.setdefault(edge, len(children))
                places[b][k][depth + 1] = place
                paths[b][k][depth] = token
            tokens[b] += [token for _, token in children]
            parents[b] += [parent for parent, _ in children]
        widest = max(map(len, tokens))
        for b in range(batch):
            padding = [-1] * (widest - len(tokens[b]))
            tokens[b] += padding
            parents[b] += padding
        if depth + 1 < length:
            level_tokens = torch.tensor([row[start:] for row in tokens])
            above = torch.tensor([row[start:] for row in parents])
            logits = scorer.extend(level_tokens, pending_nodes(above, counts.cpu(), fresh.shape[1]))
    leaves = len(tokens[0]) - start if length else 1
    levels.append(levels[0].new_zeros((len(to_rows), batch, leaves, levels[0].shape[-1])))
    return DraftTree(
        paths=torch.tensor(paths, device=device),
        places=torch.tensor(places, device=device),
        tokens=torch.tensor(tokens, device=device),
        parents=torch.tensor(parents, device=device),
        rows=torch.cat(levels, 2),
        groups=group,
    )


def pending_nodes(places: Tensor, counts: Tensor, fresh: int) -> Tensor:
    """Places of a tree [B, m] as pending nodes of the scorer that drew it; -1 stays -1.

    ``counts`` int64 [B] and ``fresh``: how many fresh tokens each request had, and the padded
    width.
    """
    inner = torch.where(places == 0, counts[:, None] - 1, fresh - 1 + places)
    return torch.where(places < 0, -1, inner)
