"""The batch: blocks of drafts as paths over node rows, their uniforms, and the result.

A *node* is a distinct prefix of a block. Rows are kept once per node, so that drafts which share a
prefix share its rows: scoring, verification and memory are proportional to distinct nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from draftproof.fast.philox import ACCEPT, SELECT, TOKEN, uniforms
from torch import Tensor

__all__ = ["Batch", "Result", "Uniforms", "row_sum_tolerance", "validate"]

ROW_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Batch:
    """B blocks with up to K drafts of up to L tokens over a vocabulary of V.

    Padding is -1: a draft shorter than L ends in -1 tokens, an absent draft is all -1.
    """

    tokens: Tensor
    """int64 [B, K, L]: the drafted tokens."""
    nodes: Tensor
    """int64 [B, K, L+1]: the row index of each path's prefixes of 0, 1, .., L tokens, -1 beyond its
    end. Entry [b, 0, 0] is the root of block b and is always given; when K = 0 the second dimension
    is 1, for the root alone."""
    draft_rows: Tensor
    """[N, V]: the draft row after each prefix. The row of a leaf is not read."""
    target_rows: Tensor
    """[N, V]: the target row after each prefix."""

    @property
    def blocks(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def drafts(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def length(self) -> int:
        return int(self.tokens.shape[2])

    @property
    def vocab(self) -> int:
        return int(self.target_rows.shape[1])

    @property
    def device(self) -> torch.device:
        return self.target_rows.device

    @property
    def lengths(self) -> Tensor:
        """int64 [B, K]: the number of tokens of each draft."""
        return (self.tokens >= 0).sum(-1)

    @property
    def roots(self) -> Tensor:
        """int64 [B]: the node of each block's empty prefix."""
        return self.nodes[:, 0, 0]

    @classmethod
    def from_paths(cls, tokens: Tensor, draft_rows: Tensor, target_rows: Tensor) -> Batch:
        """The batch of drafts given path by path, rows of shared prefixes taken from the first.

        Args:
            tokens: [B, K, L] with -1 padding.
            draft_rows: [B, K, L, V], the draft row that each token was drawn from.
            target_rows: [B, K, L+1, V], the target row after each prefix. When K = 0 the second
                dimension is 1, for the row of the root.

        Raises:
            ValueError: shapes that do not fit together.
        """
        if tokens.dim() != 3:
            raise ValueError(f"tokens must be [B, K, L], not {list(tokens.shape)}")
        b, k, length = tokens.shape
        paths = max(k, 1)
        if target_rows.dim() != 4 or tuple(target_rows.shape[:3]) != (b, paths, length + 1):
            raise ValueError(
                f"target_rows must be [{b}, {paths}, {length + 1}, V], "
                f"not {list(target_rows.shape)}"
            )
        vocab = target_rows.shape[3]
        if tuple(draft_rows.shape) != (b, k, length, vocab):
            raise ValueError(
                f"draft_rows must be [{b}, {k}, {length}, {vocab}], not {list(draft_rows.shape)}"
            )
        tokens = tokens.to(torch.int64)
        padded = draft_rows.new_zeros(b, paths, length + 1, vocab)
        padded[:, :k, :length] = draft_rows
        own = torch.arange(b * paths * (length + 1), device=tokens.device)
        own = own.view(b, paths, length + 1)
        nodes = own.clone()
        # same[b, k, j, i]: drafts j and k agree on their first i tokens; the first such j owns it.
        agree = (tokens[:, :, None] == tokens[:, None]).to(torch.int8).cumprod(-1)
        same = torch.cat([agree.new_ones(b, k, k, 1), agree], -1)
        for i in range(length + 1 if k else 0):
            first = same[:, :, :, i].argmax(2)
            nodes[:, :, i] = own[:, :, i].gather(1, first)
        if k:
            depth = torch.arange(length + 1, device=tokens.device)
            beyond = depth > (tokens >= 0).sum(-1, keepdim=True)
            nodes = nodes.masked_fill(beyond, -1)
        elif length:
            nodes[:, :, 1:] = -1
        return cls(tokens, nodes, padded.view(-1, vocab), target_rows.reshape(-1, vocab))

    def token_probabilities(self, rows: Tensor) -> Tensor:
        """float64 [B, K, L]: the entry of `rows` [N, V] for each drafted token, 0 on padding."""
        present = self.tokens >= 0
        node = self.nodes[:, : self.drafts, : self.length].clamp(min=0)
        entry = rows[node, self.tokens.clamp(min=0)].to(torch.float64)
        return torch.where(present, entry, 0.0)


@dataclass(frozen=True)
class Uniforms:
    """The randomness of one call, in [0, 1): the contract shared with the reference.

    The test of draft k at depth i uses `accept[:, k, i-1]` and nothing else; schemes that select a
    draft label draft k with `select[:, k]`; the token that ends the block is drawn with `token`.
    """

    accept: Tensor
    """float64 [B, K, L]"""
    select: Tensor | None
    """float64 [B, K], or None for schemes that select no draft."""
    token: Tensor
    """float64 [B]"""

    @classmethod
    def from_generator(cls, generator: torch.Generator | None, batch: Batch) -> Uniforms:
        """Uniforms for `batch` from one generator (None: torch's global one)."""
        b, k, length = batch.tokens.shape

        def rand(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, dtype=torch.float64, device=batch.device)

        return cls(rand(b, k, length), rand(b, k), rand(b))

    @classmethod
    def from_seeds(cls, seeds: Tensor, positions: Tensor, drafts: int, length: int) -> Uniforms:
        """One counter-based stream per request: Philox4x32-10 keyed by seed and position.

        A uniform depends on the request's seed, the position of the block in the request, and the
        place (draft, depth) of the test alone: not on the batch, its shape, or the device.

        Args:
            seeds: int64 [B], the key of each request.
            positions: int64 [B], for example the number of tokens before the block. A position
                must not be used for two blocks of a request.
            drafts, length: K and L of the batch.
        """
        k = torch.arange(drafts, device=seeds.device)
        i = torch.arange(length, device=seeds.device)
        return cls(
            uniforms(
                seeds[:, None, None],
                positions[:, None, None],
                ACCEPT,
                k[None, :, None],
                i[None, None, :],
            ),
            uniforms(seeds[:, None], positions[:, None], SELECT, k[None, :], 0),
            uniforms(seeds, positions, TOKEN, 0, 0),
        )


@dataclass(frozen=True)
class Result:
    """What a verification call returns."""

    accepted_length: Tensor
    """int64 [B]: accepted draft tokens; the next token is not counted."""
    path: Tensor
    """int64 [B]: a draft on which the accepted prefix lies, 0 when nothing is accepted."""
    next_token: Tensor
    """int64 [B]: the correction, or the bonus after a whole path."""
    tokens: Tensor
    """int64 [B, L+1]: accepted tokens and the next token, padded with -1."""
    carry: Any = None
    """Stateful schemes: what the next call for the same requests takes as `carry`."""

    @classmethod
    def of(
        cls, batch: Batch, accepted: Tensor, path: Tensor, token: Tensor, carry: Any = None
    ) -> Result:
        """Assemble the emitted tokens of each block."""
        b, k, length = batch.tokens.shape
        depth = torch.arange(length + 1, device=accepted.device)
        emitted = accepted.new_full((b, length + 1), -1)
        if k and length:
            own = batch.tokens.gather(1, path[:, None, None].expand(b, 1, length))[:, 0]
            emitted[:, :length] = torch.where(depth[:-1] < accepted[:, None], own, -1)
        emitted = torch.where(depth == accepted[:, None], token[:, None], emitted)
        return cls(accepted, path, token, emitted, carry)


def row_sum_tolerance(dtype: torch.dtype, vocab: int) -> float:
    """How far from 1 the sum of a row of `vocab` rounded entries may be.

    Rounding each entry to `dtype` moves the sum by at most eps/2. A softmax whose sum runs in 16
    lanes may be off by V/16 · eps/2 (torch's float32 softmax was seen off by 1.2e-5 at
    V = 151,936). Half precision has a least subnormal of 2^-24, so that V entries can lose
    V · 2^-25 more; half precision rows are taken to be rounded from float32 ones.
    """
    eps = torch.finfo(dtype).eps
    lanes = vocab / 32 * (eps if dtype == torch.float64 else 2.0**-23)
    subnormal = 2.0**-25 * vocab if dtype == torch.float16 else 0.0
    return max(16 * eps, lanes, 1e-12 if dtype == torch.float64 else 1e-5) + subnormal


def validate(batch: Batch, uniforms: Uniforms) -> None:
    """Raise unless the batch and its uniforms are well formed; reads each row that is used once.

    Raises:
        TypeError: a wrong dtype. ValueError: anything else. The message names the argument, the
        position and the value.
    """
    tokens, nodes = batch.tokens, batch.nodes
    if tokens.dim() != 3:
        raise ValueError(f"tokens must be [B, K, L], not {list(tokens.shape)}")
    b, k, length = tokens.shape
    _check_dtype("tokens", tokens, (torch.int64,))
    _check_dtype("nodes", nodes, (torch.int64,))
    _check_shape("nodes", nodes, (b, max(k, 1), length + 1))
    for name, rows in (("draft_rows", batch.draft_rows), ("target_rows", batch.target_rows)):
        _check_dtype(name, rows, ROW_DTYPES)
        if rows.dim() != 2 or rows.shape[1] == 0:
            raise ValueError(f"{name} must be [N, V] with V >= 1, not {list(rows.shape)}")
    _check_shape("draft_rows", batch.draft_rows, tuple(batch.target_rows.shape))
    if batch.draft_rows.dtype != batch.target_rows.dtype:
        raise TypeError(
            f"draft_rows is {batch.draft_rows.dtype} and target_rows {batch.target_rows.dtype}; "
            "give both in one dtype"
        )
    count, vocab = batch.target_rows.shape
    devices = {
        name: tensor.device
        for name, tensor in (
            ("tokens", tokens),
            ("nodes", nodes),
            ("draft_rows", batch.draft_rows),
            ("target_rows", batch.target_rows),
            ("accept uniforms", uniforms.accept),
            ("token uniform", uniforms.token),
        )
    }
    if len(set(devices.values())) > 1:
        raise ValueError(f"all inputs must be on one device, not {devices}")

    _check_entries("tokens", tokens, (tokens < -1) | (tokens >= vocab), f"-1 or 0..{vocab - 1}")
    if length > 1:
        gap = (tokens[:, :, :-1] < 0) & (tokens[:, :, 1:] >= 0)
        _check_entries("tokens", tokens[:, :, :-1], gap, "a token: padding must come last")
    _check_entries("nodes", nodes, (nodes < -1) | (nodes >= count), f"-1 or 0..{count - 1}")
    root = nodes[:, 0, 0]
    _check_entries("nodes[:, 0, 0]", root, root < 0, "the node of the root")
    depth = torch.arange(length + 1, device=tokens.device)
    lengths = batch.lengths if k else torch.zeros(b, 1, dtype=torch.int64, device=tokens.device)
    needed = (depth <= lengths[:, :, None]) & ((lengths > 0) | (nodes[:, :, 0] >= 0))[:, :, None]
    _check_entries("nodes", nodes, needed & (nodes < 0), "a node: the path has a prefix here")
    _check_entries("nodes", nodes, ~needed & (nodes >= 0), "-1 beyond the end of the path")

    inner = needed & (depth < lengths[:, :, None])
    _check_rows("target_rows", batch.target_rows, _used(nodes, needed, count))
    _check_rows("draft_rows", batch.draft_rows, _used(nodes, inner, count))

    _check_uniforms("accept uniforms", uniforms.accept, (b, k, length))
    _check_uniforms("token uniform", uniforms.token, (b,))
    if uniforms.select is not None:
        _check_uniforms("select uniforms", uniforms.select, (b, k))


def _used(nodes: Tensor, mask: Tensor, count: int) -> Tensor:
    """int64: the distinct nodes under the mask."""
    used = torch.zeros(count, dtype=torch.bool, device=nodes.device)
    used[nodes[mask]] = True
    return used.nonzero()[:, 0]


def _check_dtype(name: str, tensor: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    if tensor.dtype not in allowed:
        raise TypeError(f"{name} is {tensor.dtype}, not one of {', '.join(map(str, allowed))}")


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, not {list(tensor.shape)}")


def _check_entries(name: str, tensor: Tensor, bad: Tensor, wanted: str) -> None:
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        value = tensor[where].item()
        raise ValueError(f"{name}[{', '.join(map(str, where))}] is {value}, not {wanted}")


def _check_uniforms(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    _check_dtype(name, tensor, (torch.float64,))
    _check_shape(name, tensor, shape)
    _check_entries(name, tensor, ~((tensor >= 0) & (tensor < 1)), "in [0, 1)")


def _check_rows(name: str, rows: Tensor, used: Tensor) -> None:
    """Non-negative finite entries that sum to 1, a tile of rows at a time."""
    vocab = rows.shape[1]
    tolerance = row_sum_tolerance(rows.dtype, vocab)
    wide = torch.float64 if rows.dtype == torch.float64 else torch.float32
    for tile in torch.split(used, max(1, 2**20 // vocab)):
        part = rows[tile].to(wide)
        sums, least = part.sum(1), part.amin(1)
        bad = ~((least >= 0) & ((sums - 1).abs() <= tolerance))
        if bool(bad.any()):
            at = int(bad.nonzero()[0])
            node, row = int(tile[at]), part[at]
            wrong = ~((row >= 0) & row.isfinite())
            if bool(wrong.any()):
                token = int(wrong.nonzero()[0])
                raise ValueError(
                    f"{name}[{node}, {token}] is {row[token].item()}, not a probability"
                )
            raise ValueError(
                f"{name}[{node}] sums to {sums[at].item()}, not 1 (tolerance {tolerance:.3g})"
            )
