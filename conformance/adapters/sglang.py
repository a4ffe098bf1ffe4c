"""SGLang: chain verification (classic and block), the blockwise sampler, and the tree kernel.

Follows the signatures of SGLang 0.5.23:

    sglang/kernels/ops/speculative/
        reject_sampling.py               chain_speculative_sampling_triton
        dspark/blockwise_rejection.py    blockwise_rejection_torch, blockwise_rejection_triton
        sampling.py                      tree_speculative_sampling_target_only

The first two are executed from an unpacked wheel (`DRAFTPROOF_SGLANG=/path`) behind stubs, on a GPU
or, with `TRITON_INTERPRET=1`, in Triton's interpreter. The tree kernel is CUDA alone and needs the
installed package.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from draftproof.conformance.adapters.unpacked import (
    TRITON_ENVIRONMENT,
    choose,
    device,
    engine_path,
    how_triton_runs,
    interpreted_triton,
    load,
    version_of,
)
from draftproof.conformance.subject import Batch, Result, Unavailable
from numpy.typing import NDArray

__all__ = ["ENVIRONMENT", "create"]

ENVIRONMENT = TRITON_ENVIRONMENT

VERSION = "0.5.23"
_OPS = "sglang.kernels.ops.speculative"


def _modules(*names: str) -> dict[str, Any]:
    root = engine_path("DRAFTPROOF_SGLANG", "SGLang")
    return dict(
        load(root, {name: name.replace(".", "/") + ".py" for name in names}, stubbed={"sglang"})
    )


def single_precision(uniforms: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 not above each uniform: rounding up could reach 1."""
    rounded = uniforms.astype(np.float32)
    down: NDArray[np.float32] = np.where(
        rounded > uniforms, np.nextafter(rounded, np.float32(0)), rounded
    ).astype(np.float32)
    return down


class _Chain:
    """`chain_speculative_sampling_triton`: explicit uniforms, probabilities, slot 0 is the root."""

    def __init__(self) -> None:
        interpreted_triton()
        name = f"{_OPS}.reject_sampling"
        self._sample = _modules(name)[name].chain_speculative_sampling_triton
        self.declaration = {
            "name": "sglang:chain",
            "version": version_of(engine_path("DRAFTPROOF_SGLANG", "SGLang"), VERSION),
            "schemes": ["token_by_token", "block"],
            "drafts": [1, 1],
            "length": [1, None],
            "uniforms": True,
            "known": ["NaN row"],  # the last id of the vocabulary
            "dtypes": ["float32"],
            "time_limit": 600,
            "note": f"speculative/reject_sampling.py behind stubs, {how_triton_runs()}",
        }

    def verify(self, batch: Batch) -> Result:
        """Uniforms are rounded down to the engine's float32."""
        import torch

        where = device()
        size, _, length, _ = batch.shape
        assert batch.accept_uniforms is not None
        assert batch.token_uniform is not None
        slots = length + 1

        def to(values: Any, dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device=where)

        predicts = torch.full((size * slots,), -1, dtype=torch.int32, device=where)
        accept_index = torch.full((size, slots), -1, dtype=torch.int32, device=where)
        accepted = torch.zeros(size, dtype=torch.int32, device=where)
        candidates = np.concatenate([np.zeros((size, 1), np.int64), batch.drafts[:, 0]], axis=1)
        index = to(np.arange(size * slots).reshape(size, slots), torch.int64)
        self._sample(
            predicts,
            accept_index,
            accepted,
            to(candidates, torch.int64),
            index,
            None,
            None,
            to(single_precision(batch.accept_uniforms[:, 0]), torch.float32),
            to(single_precision(batch.token_uniform), torch.float32),
            to(batch.target_rows[:, 0], torch.float32),
            to(batch.draft_rows[:, 0], torch.float32),
            1.0,
            1.0,
            True,
            block_verification=batch.scheme == "block",
        )
        count = accepted.cpu().numpy().astype(np.int64)
        last = accept_index.cpu().numpy()[np.arange(size), count]
        return Result(count, np.zeros(size, np.int64), predicts.cpu().numpy()[last])


class _Blockwise:
    """`blockwise_rejection_*`: logits and temperatures in, draws keyed by (server key, counter)."""

    def __init__(self, triton: bool) -> None:
        _need("triton")
        _need("msgspec")
        name = f"{_OPS}.dspark.blockwise_rejection"
        self._module = _modules(f"{_OPS}.dspark.dispatch", name)[name]
        if triton:
            self._module.libdevice = interpreted_triton()["tldevice"]
        kind = "triton" if triton else "torch"
        self._sample = getattr(self._module, f"blockwise_rejection_{kind}")
        self._triton = triton
        self.declaration = {
            "name": f"sglang:blockwise-{kind}",
            "version": version_of(engine_path("DRAFTPROOF_SGLANG", "SGLang"), VERSION),
            "schemes": ["token_by_token"],
            "drafts": [1, 1],
            "length": [1, None],
            "rows": "logits",
            "temperatures": True,
            "dtypes": ["float32"],
            "time_limit": 600,
            "note": "speculative/dspark/blockwise_rejection.py behind stubs, "
            + (how_triton_runs() if triton else "its torch reference"),
        }

    def verify(self, batch: Batch) -> Result:
        """One server key a call."""
        import torch

        where = device() if self._triton else "cpu"
        size, _, _, vocab = batch.shape

        def to(values: Any, dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device=where)

        temperature = np.ones(size) if batch.temperature is None else batch.temperature
        temperatures = to(temperature, torch.float32)
        candidates = np.concatenate([np.zeros((size, 1), np.int64), batch.drafts[:, 0]], axis=1)
        accepted, token, _ = self._sample(
            candidates=to(candidates, torch.int64),
            target_logits=to(batch.target_rows[:, 0].reshape(-1, vocab), torch.float32),
            draft_logits=to(batch.draft_rows[:, 0], torch.float32),
            target_temperatures=temperatures,
            draft_temperatures=temperatures,
            noise=self._module.make_rejection_noise(batch.seed, where),
        )
        return Result(accepted.cpu().numpy(), np.zeros(size, np.int64), token.cpu().numpy())


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise Unavailable(f"{package}, which the engine's file imports, is not installed")


class _Tree:
    """`tree_speculative_sampling_target_only`: children tested against the target alone."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise Unavailable("SGLang's tree kernel is CUDA alone, and there is no GPU")
        _need("sglang")
        from sglang.kernels.ops.speculative.sampling import (  # type: ignore[import-not-found]
            tree_speculative_sampling_target_only,
        )

        self._sample = tree_speculative_sampling_target_only
        self.declaration = {
            "name": "sglang:tree",
            "version": version("sglang"),
            "schemes": ["tree_match"],
            "length": [1, None],
            "drafts": [1, None],
            "draft_law": "deterministic",
            "dtypes": ["float32"],
            "note": "tree_speculative_sampling_target_only of the installed package",
        }

    def verify(self, batch: Batch) -> Result:
        """Paths are merged into one tree of distinct siblings."""
        import torch

        size, count, _, vocab = batch.shape
        trees = [merged(batch.drafts[b]) for b in range(size)]
        slots = max(len(nodes) for nodes in trees)
        candidates = np.zeros((size, slots), np.int64)
        child = np.full((size, slots), -1, np.int64)
        sibling = np.full((size, slots), -1, np.int64)
        target = np.zeros((size, slots, vocab), np.float32)
        target[..., 0] = 1
        for b, nodes in enumerate(trees):
            number = {prefix: n for n, prefix in enumerate(nodes)}
            last: dict[tuple[int, ...], int] = {}
            for prefix, n in number.items():
                k = next(
                    k for k in range(count) if tuple(batch.drafts[b, k])[: len(prefix)] == prefix
                )
                target[b, n] = batch.target_rows[b, k, len(prefix)]
                if not prefix:
                    continue
                parent = prefix[:-1]
                candidates[b, n] = prefix[-1]
                if parent in last:
                    sibling[b, last[parent]] = n
                else:
                    child[b, number[parent]] = n
                last[parent] = n
        generator = torch.Generator("cuda").manual_seed(batch.seed)

        def to(values: Any, dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device="cuda")

        def uniform(*shape: int) -> Any:
            return torch.rand(shape, generator=generator, device="cuda")

        predicts = torch.full((size * slots,), -1, dtype=torch.int32, device="cuda")
        accept_index = torch.full((size, slots), -1, dtype=torch.int32, device="cuda")
        accepted = torch.zeros(size, dtype=torch.int32, device="cuda")
        self._sample(
            predicts,
            accept_index,
            accepted,
            to(candidates, torch.int64),
            to(np.arange(size * slots).reshape(size, slots), torch.int64),
            to(child, torch.int64),
            to(sibling, torch.int64),
            uniform(size, slots),
            uniform(size),
            to(target, torch.float32),
            torch.zeros((size, slots, vocab), device="cuda"),  # scratch, which the kernel fills
            1.0,
            1.0,
            True,
        )
        lengths = accepted.cpu().numpy().astype(np.int64)
        last_index = accept_index.cpu().numpy()[np.arange(size), lengths]
        paths = np.zeros(size, np.int64)
        for b, nodes in enumerate(trees):
            prefix = nodes[int(last_index[b]) - b * slots]
            paths[b] = next(
                k for k in range(count) if tuple(batch.drafts[b, k])[: len(prefix)] == prefix
            )
        return Result(lengths, paths, predicts.cpu().numpy()[last_index])


def merged(drafts: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """The distinct prefixes of drafts [K, L], parents first, siblings in order of appearance."""
    nodes: dict[tuple[int, ...], None] = {(): None}
    for depth in range(1, drafts.shape[1] + 1):
        for path in drafts.tolist():
            if -1 not in path[:depth]:
                nodes.setdefault(tuple(path[:depth]))
    return list(nodes)


def create(argument: str = "") -> Any:
    """The subject `sglang:chain` (or `sglang`), `:blockwise-torch`, `:blockwise-triton` or `:tree`.

    Raises:
        ValueError: another name.
        Unavailable: no unpacked SGLang, no GPU for the tree, or Triton cannot run here.
    """
    kinds: dict[str, Callable[[], Any]] = {
        "chain": _Chain,
        "blockwise-torch": partial(_Blockwise, triton=False),
        "blockwise-triton": partial(_Blockwise, triton=True),
        "tree": _Tree,
    }
    return choose("sglang", kinds, argument)
