"""vLLM: the v1 rejection sampler and the newer runner's sampler, token by token and block.

Follows the signatures of vLLM 0.33.0:

    vllm/v1/sample/rejection_sampler.py                        rejection_sample
    vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py  rejection_sample

The two files are executed from an unpacked wheel (`DRAFTPROOF_VLLM=/path`) behind stubs of the rest
of the package; their Triton kernels run on a GPU or, with `TRITON_INTERPRET=1`, in the interpreter.
"""

from __future__ import annotations

from types import SimpleNamespace
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
from draftproof.conformance.subject import Batch, Result

__all__ = ["ENVIRONMENT", "create"]

ENVIRONMENT = TRITON_ENVIRONMENT

VERSION = "0.33.0"
_WARMUP = "vllm.model_executor.warmup"
_SPEC_DECODE = "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils"


def _modules(files: dict[str, str]) -> dict[str, Any]:
    root = engine_path("DRAFTPROOF_VLLM", "vLLM")
    given = {"vllm.triton_utils": interpreted_triton()}
    return load(root, files, stubbed={"vllm"}, given=given)


class _V1:
    """`rejection_sample(draft_token_ids, num_draft_tokens, ..)`: flat rows, the bonus is given."""

    def __init__(self) -> None:
        names = [
            f"{_WARMUP}.jit_warmup",
            f"{_WARMUP}.jit_warmup_triton_helper",
            "vllm.v1.spec_decode.fly",
            "vllm.v1.sample.rejection_sampler",
        ]
        loaded = _modules({name: name.replace(".", "/") + ".py" for name in names})
        self._sample = loaded["vllm.v1.sample.rejection_sampler"].rejection_sample
        self.declaration = {
            "name": "vllm:v1",
            "version": version_of(engine_path("DRAFTPROOF_VLLM", "vLLM"), VERSION),
            "schemes": ["token_by_token"],
            "drafts": [1, 1],
            "length": [1, 128],
            "bonus": "supplied",
            "ragged": True,
            "request_seeds": True,
            "dtypes": ["float32"],
            "time_limit": 600,
            "note": f"v1/sample/rejection_sampler.py behind stubs, {how_triton_runs()}",
        }

    def verify(self, batch: Batch) -> Result:
        """Every request has a generator of its own, which also draws the bonus."""
        import torch

        where = device()
        size, _, length, _ = batch.shape
        lengths = batch.lengths[:, 0]
        used = np.arange(length) < lengths[:, None]
        # The engine keeps a request's generator from round to round; here the position tells the
        # rounds apart.
        generators = {
            b: torch.Generator(where).manual_seed(
                int(np.random.SeedSequence((seed, position)).generate_state(1)[0])
            )
            for b, (seed, position) in enumerate(zip(*seeds_and_positions(batch)))
        }
        ends = torch.tensor(batch.target_rows[np.arange(size), 0, lengths], dtype=torch.float32)
        bonus = torch.stack(
            [torch.multinomial(ends[b], 1, generator=generators[b]) for b in range(size)]
        )
        sampling = SimpleNamespace(
            all_greedy=False,
            all_random=True,
            temperature=torch.ones(size, device=where),
            generators=generators,
        )
        target = torch.tensor(batch.target_rows[:, 0, :-1][used], dtype=torch.float32).log()
        draft = torch.tensor(batch.draft_rows[:, 0][used], dtype=torch.float32)
        tokens = self._sample(
            torch.tensor(batch.drafts[:, 0][used], dtype=torch.int32, device=where),
            lengths.tolist(),
            int(length),
            torch.tensor(np.cumsum(lengths), dtype=torch.int32, device=where),
            draft.to(where),
            target.to(where),
            bonus.to(where),
            sampling,
        )
        emitted = tokens.cpu().numpy().astype(np.int64)
        accepted = (emitted >= 0).sum(axis=1) - 1
        return Result(accepted, np.zeros(size, np.int64), emitted[np.arange(size), accepted])


class _Runner:
    """`rejection_sample(target_logits, draft_logits, ..)`: logits, Philox of (seed, position)."""

    def __init__(self) -> None:
        names = [
            "vllm.v1.watermarking.prfs.philox",
            "vllm.v1.spec_decode.fly",
            "vllm.v1.worker.gpu.sample.gumbel",
            "vllm.v1.worker.gpu.sample.watermark",
            _SPEC_DECODE,
        ]
        loaded = _modules({name: name.replace(".", "/") + ".py" for name in names})
        self._sample = loaded[_SPEC_DECODE].rejection_sample
        self._temperature = loaded["vllm.v1.worker.gpu.sample.gumbel"].apply_temperature
        self.declaration = {
            "name": "vllm:runner",
            "version": version_of(engine_path("DRAFTPROOF_VLLM", "vLLM"), VERSION),
            "schemes": ["token_by_token", "block"],
            "drafts": [1, 1],
            "length": [1, 128],
            "rows": "logits",
            "ragged": True,
            "request_seeds": True,
            "temperatures": True,
            "dtypes": ["float32"],
            "time_limit": 600,
            "note": "v1/worker/gpu/spec_decode/rejection_sampler_utils.py behind stubs, "
            + how_triton_runs(),
        }

    def verify(self, batch: Batch) -> Result:
        """Draft rows before the temperature, target rows after it, as in this version."""
        import torch

        where = device()
        size, _, length, vocab = batch.shape
        lengths = batch.lengths[:, 0]
        seeds, positions = seeds_and_positions(batch)
        temperature = np.ones(size) if batch.temperature is None else batch.temperature
        used = np.arange(length + 1) <= lengths[:, None]
        # The draft verified by row i stands at entry i + 1; entry 0 is the last emitted token.
        entries = np.concatenate([np.zeros((size, 1), np.int64), batch.drafts[:, 0]], axis=1)
        ends = np.concatenate([[0], np.cumsum(lengths + 1)])
        owner = np.repeat(np.arange(size), lengths + 1)
        place = np.tile(np.arange(length + 1), (size, 1))[used]

        def to(values: Any, dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device=where)

        owners = to(owner, torch.int32)
        temperatures = to(temperature, torch.float32)
        target = to(batch.target_rows[:, 0][used], torch.float32)
        self._temperature(target, owners, temperatures)
        sampled, count = self._sample(
            target,
            to(batch.draft_rows[:, 0].reshape(size, length, vocab), torch.float32),
            to(entries[used], torch.int64),
            to(ends, torch.int32),
            to(place + positions[owner], torch.int64),
            to(np.arange(size), torch.int32),
            owners,
            to(place, torch.int32),
            temperatures,
            to(seeds, torch.int64),
            int(length),
            use_block_verification=batch.scheme == "block",
        )
        accepted = count.cpu().numpy().astype(np.int64) - 1
        emitted = sampled.cpu().numpy()
        return Result(accepted, np.zeros(size, np.int64), emitted[np.arange(size), accepted])


def create(argument: str = "") -> Any:
    """The subject `vllm:runner` (or `vllm`: the newer runner) or `vllm:v1`.

    Raises:
        ValueError: another name.
        Unavailable: no unpacked vLLM, or Triton cannot run here.
    """
    return choose("vllm", {"runner": _Runner, "v1": _V1}, argument)


def seeds_and_positions(batch: Batch) -> tuple[Any, Any]:
    """Seeds [B] and positions [B] of the requests."""
    size = batch.size
    seeds = batch.seed + np.arange(size) if batch.seeds is None else batch.seeds
    return seeds, np.zeros(size, np.int64) if batch.position is None else batch.position
