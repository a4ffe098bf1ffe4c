"""The samplers of serving engines, called on the inputs of a benchmark where they are importable.

Each takes what its engine would hand it: one draft a block, rows path by path, one call for all
blocks. The signatures are those of vLLM 0.33.0, SGLang 0.5.23 and FlashInfer 0.7.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import torch
from draftproof.fast import Batch
from draftproof.fast.bench.measure import Call

__all__ = ["ENGINES", "engine_calls"]


def engine_calls(batch: Batch) -> Iterator[tuple[str, Call | str]]:
    """(sampler, its call on the batch, or why there is none), for the engines installed here."""
    for name, make in _SAMPLERS.items():
        try:
            yield name, make(batch)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != name.partition(":")[0]:
                yield name, f"{type(error).__name__}: {error}"  # the engine is there, not all of it
        except Exception as error:  # whatever an engine raises, the others are still measured
            yield name, f"{type(error).__name__}: {error}"


def _rows(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Draft rows [B, L, V] and target rows [B, L+1, V] of the one draft."""
    nodes = batch.nodes[:, 0]
    return batch.draft_rows[nodes[:, : batch.length]], batch.target_rows[nodes]


def _vllm(batch: Batch) -> Call:
    """`rejection_sample`: flat rows, target logits; the bonus is drawn before and given."""
    from vllm.v1.sample.rejection_sampler import (  # type: ignore[import-not-found]
        rejection_sample,
    )

    draft, target = _rows(batch)
    size, length, vocab = draft.shape
    where = batch.device
    tokens = batch.tokens[:, 0].flatten().to(torch.int32)
    ends = torch.arange(length, size * length + 1, length, dtype=torch.int32, device=where)
    logits = target[:, :length].reshape(-1, vocab).log()
    sampling = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.ones(size, device=where),
        generators={},
    )

    def call() -> None:
        bonus = torch.multinomial(target[:, length], 1).to(torch.int32)
        counts = [length] * size
        rows = draft.view(-1, vocab)
        rejection_sample(tokens, counts, length, ends, rows, logits, bonus, sampling)

    return call


def _sglang(block: bool, batch: Batch) -> Call:
    """`chain_speculative_sampling_triton`: explicit uniforms, probabilities, slot 0 is the root."""
    from sglang.kernels.ops.speculative.reject_sampling import (  # type: ignore[import-not-found]
        chain_speculative_sampling_triton,
    )

    draft, target = _rows(batch)
    size, length, _ = draft.shape
    slots, where = length + 1, batch.device
    candidates = torch.nn.functional.pad(batch.tokens[:, 0], (1, 0))
    index = torch.arange(size * slots, device=where).view(size, slots)

    def call() -> None:
        chain_speculative_sampling_triton(
            torch.full((size * slots,), -1, dtype=torch.int32, device=where),
            torch.full((size, slots), -1, dtype=torch.int32, device=where),
            torch.zeros(size, dtype=torch.int32, device=where),
            candidates,
            index,
            None,
            None,
            torch.rand(size, length, device=where),
            torch.rand(size, device=where),
            target,
            draft,
            1.0,
            1.0,
            True,
            block_verification=block,
        )

    return call


def _flashinfer(batch: Batch) -> Call:
    """`chain_speculative_sampling`, CUDA alone."""
    from flashinfer.sampling import (  # type: ignore[import-not-found]
        chain_speculative_sampling,
    )

    draft, target = _rows(batch)
    tokens = batch.tokens[:, 0].to(torch.int32)
    return lambda: chain_speculative_sampling(draft, tokens, target)


_SAMPLERS: dict[str, Callable[[Batch], Call]] = {
    "vllm": _vllm,
    "sglang": lambda batch: _sglang(False, batch),
    "sglang:block": lambda batch: _sglang(True, batch),
    "flashinfer": _flashinfer,
}
ENGINES = tuple(dict.fromkeys(name.partition(":")[0] for name in _SAMPLERS))
"""The packages."""
