"""Measuring one call: its inputs, time, the rows that it reads, and the memory that it holds."""

from __future__ import annotations

import itertools
import os
import statistics
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from draftproof.fast import Batch, Uniforms, clip, verify
from draftproof.fast.baselines import BASELINES, transformers_sampler
from draftproof.fast.clip import Rows
from draftproof.fast.rows import rows_from_logits
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "Call",
    "Runner",
    "Size",
    "Usage",
    "copy_bandwidth",
    "from_logits",
    "graph_replay",
    "inputs",
    "instrumented",
    "row_pass",
    "straightforward",
    "summary",
    "timed",
    "transformers_calls",
]

Call = Callable[[], Any]

BANK = 32
"""Pairs of rows that are drawn; those of the inputs are these, rotated by offsets of their own."""


@dataclass(frozen=True)
class Size:
    """One point of the grid."""

    vocab: int
    blocks: int
    length: int
    drafts: int

    @property
    def nodes(self) -> int:
        return self.blocks * (1 + self.drafts * self.length)

    @property
    def steps(self) -> int:
        """To this the operations of a call on small tensors are about proportional."""
        return self.length * self.drafts

    @property
    def bytes(self) -> int:
        """Bytes of both tables of rows in float32: rows are not shared between blocks."""
        return 2 * self.nodes * self.vocab * 4

    @property
    def path_bytes(self) -> int:
        """Bytes of the rows given path by path, as the straightforward versions take them."""
        return self.blocks * self.drafts * (2 * self.length + 1) * self.vocab * 4

    def __str__(self) -> str:
        return f"V = {self.vocab:,}, B = {self.blocks}, L = {self.length}, K = {self.drafts}"


def inputs(size: Size, device: torch.device, seed: int = 0) -> Batch:
    """Blocks whose target rows are the draft rows with noise; drafts drawn from the draft rows.

    Every node has rows of its own in memory. Their contents are rotations of `BANK` random pairs,
    so that large inputs are made at the speed of a copy.
    """
    generator = torch.Generator().manual_seed(seed)
    scores = 2.5 * torch.randn(BANK, size.vocab, generator=generator)
    noise = torch.randn(BANK, size.vocab, generator=generator)
    bank = scores.softmax(1), (scores + 0.5 * noise).softmax(1)
    reached = bank[0].to(torch.float64).cumsum(1)
    draft, target = (torch.empty(size.nodes, size.vocab, device=device) for _ in range(2))
    offsets = torch.randint(size.vocab, (size.nodes,), generator=generator).tolist()
    on_device = [rows.to(device) for rows in bank]
    for rows, made in zip(on_device, (draft, target), strict=True):
        for n, cut in enumerate(offsets):
            source = rows[n % BANK]
            made[n, cut:], made[n, :cut] = source[: size.vocab - cut], source[size.vocab - cut :]

    shape = (size.blocks, size.drafts, size.length)
    points = torch.rand(shape, generator=generator, dtype=torch.float64)
    tokens = torch.zeros(shape, dtype=torch.int64)
    nodes = torch.zeros(size.blocks, size.drafts, size.length + 1, dtype=torch.int64)
    known: dict[tuple[int, ...], int] = {}
    for b, k in itertools.product(range(size.blocks), range(size.drafts)):
        prefix: tuple[int, ...] = (b,)
        for i in range(size.length + 1):
            node = known.setdefault(prefix, len(known))
            nodes[b, k, i] = node
            if i < size.length:
                row = reached[node % BANK]
                at = int(torch.searchsorted(row, points[b, k, i] * row[-1], right=True))
                token = (at + offsets[node]) % size.vocab
                tokens[b, k, i] = token
                prefix = (*prefix, token)
    return Batch(tokens.to(device), nodes.to(device), draft, target)


def timed(call: Call, device: torch.device, repeats: int, seconds: float) -> list[float]:
    """Wall times of calls: at least one, at most `repeats`, and no new one after `seconds`.

    Where a call is cheap one more goes first, to warm up.
    """
    times: list[float] = []
    spent, warm = 0.0, False
    while not times or (len(times) < repeats and spent + times[-1] <= seconds):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spent += (taken := time.perf_counter() - start)
        if not warm and 3 * taken <= seconds:
            warm = True
            continue
        warm = True
        times.append(taken)
    return times


def summary(times: list[float]) -> dict[str, float]:
    """Median and quartiles in milliseconds, and the number of calls."""
    ordered = sorted(1e3 * t for t in times)
    return {
        "median_ms": statistics.median(ordered),
        "low_ms": ordered[len(ordered) // 4],
        "high_ms": ordered[-1 - len(ordered) // 4],
        "calls": len(ordered),
    }


def copy_bandwidth(device: torch.device, repeats: int = 15) -> float:
    """Bytes read and written per second when rows are copied."""
    rows = torch.rand(256, 151_936, device=device)
    to = torch.empty_like(rows)
    times = timed(lambda: to.copy_(rows), device, repeats, 60.0)
    return 2 * rows.numel() * rows.element_size() / statistics.median(times)


def row_pass(size: Size, batch: Batch, repeats: int, seconds: float) -> dict[str, float]:
    """The pass Σ (a q - p)+ over all rows of the batch, by itself; adds `bandwidth`, bytes/s."""
    index = torch.arange(size.nodes, device=batch.device)
    rows = Rows(batch.draft_rows, batch.target_rows, index, index)
    a = torch.full((size.nodes,), 0.7, dtype=torch.float64, device=batch.device)
    times = summary(timed(lambda: clip.owed_mass(rows, a), batch.device, repeats, seconds))
    return {**times, "bandwidth": 1e3 * size.bytes / times["median_ms"]}


@contextmanager
def _observed() -> Iterator[dict[str, Any]]:
    """Collect which rows are read while the block runs."""
    seen: dict[str, Any] = {"draft": set(), "target": set(), "passes": 0}

    def see(rows: Rows) -> None:
        needed = rows.target_index >= 0
        seen["target"].update(rows.target_index[needed].tolist())
        drafted = needed & (rows.draft_index >= 0)
        seen["draft"].update(rows.draft_index[drafted].tolist())
        seen["passes"] += int(needed.sum()) + int(drafted.sum())

    clip.observer = see
    try:
        yield seen
    finally:
        clip.observer = None


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that operations make, while they live."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {x.untyped_storage().data_ptr() for x in given}
        self._views: dict[int, int] = {}
        self._held = self.peak = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations += 1
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor):
                self._add(x)
        return out

    def _add(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place == 0 or place in self._known:
            return
        self._views[place] = self._views.get(place, 0) + 1
        if self._views[place] == 1:
            self._held += size
            self.peak = max(self.peak, self._held)
        weakref.finalize(x, self._drop, place, size)

    def _drop(self, place: int, size: int) -> None:
        self._views[place] -= 1
        if self._views[place] == 0:
            self._held -= size


def _resident(reset: bool) -> int:
    """The peak of the process's memory in bytes, optionally since now; 0 where it is not known."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(found[0]) if found else 0


def _extra_memory(call: Call, batch: Batch) -> tuple[int, int]:
    """Peak bytes that a call holds beside its batch, and the number of its torch operations.

    On the CPU: those of its tensors, or by how much the process grew, whichever is more (compiled
    loops have buffers that are not tensors; memory that the process had kept is not growth).
    """
    if batch.device.type == "cuda":
        torch.cuda.synchronize(batch.device)
        before = torch.cuda.memory_allocated(batch.device)
        torch.cuda.reset_peak_memory_stats(batch.device)
        with _Live([]) as live:
            call()
        torch.cuda.synchronize(batch.device)
        return int(torch.cuda.max_memory_allocated(batch.device) - before), live.operations
    before = _resident(reset=True)
    with _Live([batch.draft_rows, batch.target_rows]) as live:
        call()
    return max(int(live.peak), _resident(reset=False) - before), live.operations


def instrumented(size: Size, call: Runner, batch: Batch) -> dict[str, float]:
    """Bytes to read, bytes of all passes, extra memory and accepted length of one call.

    The passes of a root search over one row count once, as it is read from the cache.
    """
    with _observed() as seen:
        memory, operations = _extra_memory(call, batch)
    row = 4 * size.vocab
    return {
        "bytes_to_read": row * (len(seen["draft"]) + len(seen["target"])),
        "bytes_of_all_passes": row * seen["passes"],
        "extra_bytes": memory,
        "operations": operations,
        "mean_accepted": float(call.accepted.double().mean()),
    }


class Runner:
    """A call of a scheme on a batch, with other uniforms each time."""

    def __init__(self, scheme: str, batch: Batch) -> None:
        name, _, option = scheme.partition(" ")
        self._verify = name, batch, {"scale": option} if option else {}
        seeds = torch.arange(batch.blocks, device=batch.device)
        self._made = itertools.cycle(
            [
                Uniforms.from_seeds(seeds, seeds * 0 + n, batch.drafts, batch.length)
                for n in range(8)
            ]
        )

    def __call__(self) -> None:
        name, batch, options = self._verify
        result = verify(name, batch, next(self._made), validate=False, **options)
        self.accepted = result.accepted_length


def straightforward(scheme: str, batch: Batch) -> Call | None:
    """A call of the straightforward version on the same rows, given path by path."""
    written = BASELINES.get(scheme)
    if written is None:
        return None
    draft = batch.draft_rows[batch.nodes[:, :, : batch.length]]
    target = batch.target_rows[batch.nodes]
    uniforms = Uniforms.from_generator(torch.Generator(batch.device).manual_seed(0), batch)
    return lambda: written(batch.tokens, draft, target, uniforms)


def transformers_calls(batch: Batch) -> Call | None:
    """transformers' function on the same blocks, one call a block, logits in."""
    call = transformers_sampler()
    if call is None:
        return None
    draft = batch.draft_rows[batch.nodes[:, 0, : batch.length]].log_()
    target = batch.target_rows[batch.nodes[:, 0]].log_()
    return lambda: call(batch.tokens[:, 0], draft, target)


def from_logits(batch: Batch) -> Call:
    """Block verification with the rows made from logits in the same call."""
    draft, target = batch.draft_rows.log(), batch.target_rows.log()
    seeds = torch.arange(batch.blocks, device=batch.device)
    uniforms = Uniforms.from_seeds(seeds, seeds, batch.drafts, batch.length)

    def call() -> Any:
        rows = Batch(batch.tokens, batch.nodes, rows_from_logits(draft), rows_from_logits(target))
        return verify("block", rows, uniforms, validate=False)

    return call


def graph_replay(call: Call, device: torch.device) -> Call:
    """The call captured in a CUDA graph: what it costs without the launches from Python."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


class Usage:
    """How many cores other processes have kept busy since it was made."""

    def __init__(self) -> None:
        self._start = _processor_seconds()

    def others(self) -> float | None:
        """The mean number of cores, or None where the system does not tell."""
        now = _processor_seconds()
        if now is None or self._start is None:
            return None
        wall, all_, own = (x - y for x, y in zip(now, self._start, strict=True))
        return max(0.0, (all_ - own) / wall) if wall > 0 else 0.0


def _processor_seconds() -> tuple[float, float, float] | None:
    """Wall time, the busy time of all cores, and that of this process, in seconds."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(x) for x in fields[:8])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), busy, time.process_time()
