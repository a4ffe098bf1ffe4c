"""Verifiers of research projects and of older engines, run from their own files.

Each factory is a subject of its own, `draftproof check python:draftproof.conformance.adapters.
research:NAME`, and reads the folder of an unpacked checkout from an environment variable:

    gpt_fast            DRAFTPROOF_GPT_FAST             generate.py, speculative_decode
    layerskip           DRAFTPROOF_LAYERSKIP            SelfSpeculativeGenerationStrategy
    lucidrains          DRAFTPROOF_LUCIDRAINS           speculative_decoding
    eagle               DRAFTPROOF_EAGLE                eagle/model/utils.py, evaluate_posterior
    sequoia             DRAFTPROOF_SEQUOIA              Tree/SpecTree.py, SpecTree.verify
    recurrent_drafter   DRAFTPROOF_RECURRENT_DRAFTER    one sampled draft
    recurrent_beams     DRAFTPROOF_RECURRENT_DRAFTER    several drafts, as after beam search
    vllm_ascend_block   DRAFTPROOF_VLLM_ASCEND          sample/rejection_sampler.py, torch path
    vllm_085            DRAFTPROOF_VLLM_085             RejectionSampler of vLLM 0.8.5
    vllm_085_typical    DRAFTPROOF_VLLM_085             TypicalAcceptanceSampler of vLLM 0.8.5

Most of them draw from torch's global generator. `_driven` answers those calls from the suite's
uniforms (a test by the uniform of its place, a multinomial by its inverse distribution function),
so that their exact laws can be rebuilt. The decisions and the weights stay the project's own.
docs/engines.md has the commits that were run and what was found.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from draftproof.conformance.adapters.sglang import single_precision
from draftproof.conformance.adapters.unpacked import engine_path, load, version_of
from draftproof.conformance.adapters.vllm import seeds_and_positions
from draftproof.conformance.subject import Batch, Block, Result, Unavailable

__all__ = [
    "eagle",
    "gpt_fast",
    "layerskip",
    "lucidrains",
    "recurrent_beams",
    "recurrent_drafter",
    "sequoia",
    "vllm_085",
    "vllm_085_typical",
    "vllm_ascend_block",
]


def _inverse(weights: Any, uniform: Any) -> Any:
    """int64 [..]: the smallest v with cumsum > u · sum, as torch.multinomial's law prescribes.

    Raises:
        RuntimeError: as torch.multinomial does, for weights that are negative, NaN or all 0.
    """
    import torch

    w = torch.as_tensor(weights).double()
    if bool((w < 0).any() or w.isnan().any() or w.isinf().any() or (w.sum(-1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution")
    reached = w.cumsum(-1)
    u = torch.as_tensor(uniform, dtype=torch.float64)
    threshold = u.reshape(u.shape + (1,) * (w.dim() - u.dim())) * reached[..., -1:]
    last = (w > 0).double().mul(torch.arange(1, w.shape[-1] + 1)).argmax(-1)
    return torch.minimum((reached <= threshold).sum(-1), last)


@contextmanager
def _driven(accept: Any, token: Any) -> Iterator[None]:
    """Answer the uniform draws from `accept`, in order, and its multinomial draws by `token`."""
    import torch

    left = iter(single_precision(np.asarray(accept, dtype=np.float64)).ravel().tolist())

    def uniforms(shape: Any) -> Any:
        count = int(np.prod(list(shape)))
        return torch.tensor([next(left) for _ in range(count)]).reshape(tuple(shape))

    def rand(*size: Any, **_: Any) -> Any:
        return uniforms(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)

    def multinomial(weights: Any, num_samples: int = 1, *_: Any, **__: Any) -> Any:
        return _inverse(weights, token).unsqueeze(-1)

    with (
        mock.patch.object(torch, "rand", rand),
        mock.patch.object(torch, "rand_like", lambda like, **_: uniforms(like.shape)),
        mock.patch.object(torch.Tensor, "uniform_", lambda self, *_: uniforms(self.shape)),
        mock.patch.object(torch, "multinomial", multinomial),
        mock.patch.object(torch.Tensor, "multinomial", multinomial),
    ):
        yield


def _answer(emitted: list[int], path: int = 0) -> dict[str, int]:
    """From the emitted tokens of one block: all but the last are accepted."""
    return {"accepted_length": len(emitted) - 1, "path": path, "next_token": emitted[-1]}


def _logs(rows: Any) -> Any:
    import torch

    return torch.tensor(np.asarray(rows), dtype=torch.float32).log()


def _declaration(name: str, version: str, schemes: list[str], note: str, **more: Any) -> Any:
    common = {"drafts": [1, 1], "length": [1, None], "uniforms": True, "dtypes": ["float32"]}
    return {"name": name, "version": version, "schemes": schemes, "note": note, **common, **more}


class _GptFast:
    def __init__(self) -> None:
        root = engine_path("DRAFTPROOF_GPT_FAST", "gpt-fast")
        stubbed = {"model", "tokenizer"}
        self._module: Any = load(root, {"generate": "generate.py"}, stubbed=stubbed)["generate"]
        self.declaration = _declaration(
            "gpt-fast", version_of(root, "32971d3"), ["token_by_token"],
            "generate.py, speculative_decode; the drafts are handed in; accepts iff not u > ratio",
            known=["at u = 0"],
        )  # fmt: skip

    def verify_one(self, block: Block) -> dict[str, int]:
        import torch

        length = block.drafts.shape[1]
        tokens = [torch.tensor([t], dtype=torch.int64) for t in block.drafts[0].tolist()]
        rows = list(torch.tensor(block.draft_rows[0], dtype=torch.float32))
        target = _logs(block.target_rows[0])[None]

        def draw(weights: Any) -> Any:
            return _inverse(weights, block.token_uniform)[None].int()

        self._module.decode_n_tokens = lambda *_, **__: (tokens, rows)
        self._module.multinomial_sample_one_no_sync = draw
        with _driven(block.accept_uniforms, block.token_uniform):
            emitted = self._module.speculative_decode(
                lambda *_: target, lambda *_: None, torch.tensor([0]), 0, length
            )
        return _answer([int(t) for t in emitted])


class _LayerSkip:
    def __init__(self) -> None:
        root = engine_path("DRAFTPROOF_LAYERSKIP", "LayerSkip")
        package = "self_speculation"
        names = [
            f"{package}.{name}"
            for name in ("generator_base", "llama_model_utils", "self_speculation_generator")
        ]
        loaded = load(
            root,
            {name: name.replace(".", "/") + ".py" for name in names},
            stubbed={package, "colorama"},
        )
        self._module: Any = loaded[names[-1]]
        self._decode = self._module.decode_next_token
        self._module.crop_past_key_values = lambda *_: None
        self.declaration = _declaration(
            "LayerSkip", version_of(root, "f42c669"), ["token_by_token"],
            "self_speculation_generator.py, single_step_speculation; divides by draft rows",
            known=["draft probability 0"],
        )  # fmt: skip

    def verify_one(self, block: Block) -> dict[str, int]:
        import torch

        length, module = block.drafts.shape[1], self._module
        drafted = iter(block.drafts[0].tolist())
        rows = iter(_logs(block.draft_rows[0]))

        def forward(logits: Any) -> Any:
            return SimpleNamespace(logits=logits, past_key_values=None, exit_query_cache=None)

        def decode(logits: Any, token_idx: Any = None, **options: Any) -> Any:
            token, probabilities = self._decode(logits=logits, token_idx=token_idx, **options)
            return (torch.tensor([[next(drafted)]]) if token_idx else token), probabilities

        module.decode_next_token = decode
        module.forward_early = lambda *_: forward(next(rows)[None, None])
        module.forward_remainder = lambda *_: forward(_logs(block.target_rows[0])[None])
        output: list[int] = []
        with _driven(block.accept_uniforms, block.token_uniform):
            module.SelfSpeculativeGenerationStrategy.single_step_speculation(
                None, model=None, input_ids=torch.zeros((1, 1), dtype=torch.int64),
                input_ids_list=[0], output_ids=output, num_speculations=length,
                past_key_values=None, eos_token_ids=[], calls=0, exit_layer=0, sample=True,
                temperature=1.0, top_k=0, top_p=1.0,
            )  # fmt: skip
        return _answer(output)


class _RoundOverError(Exception):
    """Raised by a stand-in for the draft model when the second round begins."""


class _Lucidrains:
    def __init__(self) -> None:
        root = engine_path("DRAFTPROOF_LUCIDRAINS", "speculative-decoding")
        name = "speculative_decoding.speculative_decoding"
        file = "speculative_decoding/speculative_decoding.py"
        stubbed = {"speculative_decoding", "beartype"}
        self._module: Any = load(root, {name: file}, stubbed=stubbed)[name]
        self.declaration = _declaration(
            "lucidrains/speculative-decoding", version_of(root, "72171ac"), ["token_by_token"],
            "speculative_decoding.py, speculative_decoding, one round; accepts iff not u > ratio",
            known=["at u = 0"],
        )  # fmt: skip

    def verify(self, batch: Batch) -> Result:
        """One round of a batch, through the project's own realignment of ragged rows."""
        import torch

        assert batch.accept_uniforms is not None
        size, _, length, _ = batch.shape
        drafted = iter(torch.tensor(batch.drafts[:, 0]).T)
        rows = _logs(batch.draft_rows[:, 0])
        asked = 0
        seen: list[Any] = []

        def cached(out: Any) -> Any:
            return torch.zeros(size, 1, out.shape[-1], 1), None

        def small(out: Any, seq_start_pos: Any, **_: Any) -> Any:
            nonlocal asked
            if asked == length:
                seen.extend((out, seq_start_pos))
                raise _RoundOverError
            asked += 1
            return rows[:, asked - 1 : asked], cached(out)

        def large(out: Any, **_: Any) -> Any:
            return _logs(batch.target_rows[:, 0]), cached(out)

        self._module.gumbel_sample = lambda *_, **__: next(drafted)
        prompt = torch.zeros((size, 1), dtype=torch.int64)
        with _driven(batch.accept_uniforms, batch.token_uniform), suppress(_RoundOverError):
            self._module.speculative_decoding(
                large, small, prompt, 10**6, gamma=length, filter_thres=0.0
            )
        out, start = seen
        lengths = (out.shape[1] - start - 2).numpy()
        return Result(lengths, np.zeros(size, np.int64), out[:, -1].numpy())


class _Eagle:
    def __init__(self) -> None:
        root = engine_path("DRAFTPROOF_EAGLE", "EAGLE")
        name = "eagle.model.utils"
        self._module: Any = load(root, {name: "eagle/model/utils.py"}, stubbed={"eagle"})[name]
        self.declaration = _declaration(
            "EAGLE", version_of(root, "cb7e084"), ["tree_match"],
            "eagle/model/utils.py, evaluate_posterior; accepts iff u <= ratio",
            drafts=[1, None], draft_law="deterministic", known=["at u = 0"],
        )  # fmt: skip

    def verify_one(self, block: Block) -> dict[str, int]:
        import torch

        assert block.accept_uniforms is not None
        uniforms = block.accept_uniforms

        def random() -> float:
            # The loops of evaluate_posterior: candidate j at depth i.
            place = sys._getframe(1).f_locals
            return float(uniforms[place["j"], place["i"] - 1])

        self._module.random = SimpleNamespace(random=random)
        root = np.zeros((len(block.drafts), 1), np.int64)
        candidates = torch.tensor(np.concatenate([root, block.drafts], axis=1))
        best, length, row = self._module.evaluate_posterior(
            _logs(block.target_rows), candidates, lambda _, logits: logits
        )
        token = int(_inverse(row, block.token_uniform))
        return {"accepted_length": int(length), "path": int(best), "next_token": token}


class _Sequoia:
    # The engine ends a sequence at the tokens 0 and 2, so the suite's ids are shifted past them.
    SHIFT = 3

    def __init__(self) -> None:
        root = engine_path("DRAFTPROOF_SEQUOIA", "Sequoia")
        files = {
            "utils": "utils.py",
            "Tree.Tree": "Tree/Tree.py",
            "Tree.SpecTree": "Tree/SpecTree.py",
        }
        loaded: Any = load(root, files, stubbed={"utils", "Tree", "Engine"})
        self._class = loaded["Tree.SpecTree"].SpecTree
        self._residual = loaded["utils"].get_residual
        self.declaration = _declaration(
            "Sequoia", version_of(root, "0ff3ff7"), ["recursive_rejection"],
            "Tree/SpecTree.py, SpecTree.verify on a fake engine; the drafts are handed in",
            drafts=[1, None], length=[1, 1], draft_law="without_replacement",
        )  # fmt: skip

    def verify_one(self, block: Block) -> dict[str, Any]:
        import torch

        assert block.accept_uniforms is not None
        count, vocab = block.drafts.shape[0], block.target_rows.shape[-1]
        nodes = 1 + count
        drafts = block.drafts[:, 0].tolist()

        def wide(rows: Any) -> Any:
            padded = np.zeros((len(rows), self.SHIFT + vocab))
            padded[:, self.SHIFT :] = rows
            return _logs(padded)

        target = wide(np.concatenate([block.target_rows[:1, 0], block.target_rows[:, 1]]))
        kept: list[int] = []  # positions of accepted nodes, as the engine tells its caches

        def gather(positions: list[int], _: int) -> None:
            kept[:] = positions

        cache = SimpleNamespace(
            engine=SimpleNamespace(kv_cache=SimpleNamespace(gather_kv_incremental=gather))
        )
        tree = self._class.__new__(self._class)
        tree.__dict__.update(
            temperature=1.0, top_p=1.0, dtype=torch.float32, residual_graph=self._residual,
            ground_truth_len=1, num_nodes=nodes, target_kv_len=0,
            tokens=torch.tensor([0, *(t + self.SHIFT for t in drafts), 0]),
            position_ids=torch.arange(nodes), storage_ids=torch.arange(nodes),
            attn_mask=torch.zeros(nodes, nodes), seq_to_use=list(range(nodes)),
            Successors=[list(range(1, nodes))] + [[]] * count,
            draft_logits=wide(block.draft_rows[[0] * nodes, 0]),
            r=torch.tensor([0.0, *single_precision(block.accept_uniforms[:, 0])]),
            draft_model_engine=cache,
            target_model_engine=SimpleNamespace(
                dtype=torch.float32, inference=lambda **_: target[None], **vars(cache)
            ),
            prepare_for_next_iter=lambda *_: None,
        )  # fmt: skip
        with _driven([], block.token_uniform):
            tokens, *_ = tree.verify()
        emitted = [int(t) - self.SHIFT for t in tokens[1:]]
        # What the engine emits, whatever it accepted.
        return {**_answer(emitted, kept[0] - 1 if kept else 0), "tokens": emitted}


class _RecurrentDrafter:
    def __init__(self, beams: bool) -> None:
        root = engine_path("DRAFTPROOF_RECURRENT_DRAFTER", "ml-recurrent-drafter")
        name = "recurrent_drafting.recurrent_drafting"
        file = "recurrent_drafting/recurrent_drafting.py"
        self._module: Any = load(root, {name: file}, stubbed={"recurrent_drafting"})[name]
        more: dict[str, Any] = {"note": "_choose_from_candidates and _prepare_next_input"}
        if beams:
            more |= {"drafts": [1, 3], "draft_law": "deterministic", "graded_laws": ["tokens"]}
        scheme = "tree_match" if beams else "token_by_token"
        name = "recurrent drafter" + (" (beams)" if beams else "")
        self.declaration = _declaration(name, version_of(root, "bd8586b"), [scheme], **more)

    def verify(self, batch: Batch) -> Result:
        """The project's own batch of beams; slot 0 is the token before the drafts."""
        import torch

        size, count, length, _ = batch.shape
        root = np.zeros((size, count, 1), np.int64)
        beams = torch.tensor(np.concatenate([root, batch.drafts], axis=2))
        target, draft = _logs(batch.target_rows), _logs(batch.draft_rows)
        with _driven(batch.accept_uniforms, batch.token_uniform):
            accepted, beam = self._module._choose_from_candidates(beams, target, draft)
            _, token = self._module._prepare_next_input(
                draft, target, torch.zeros(size, count, length + 1, 1), beam, accepted
            )
        return Result(accepted.numpy(), beam.numpy(), token.numpy())


class _VllmAscendBlock:
    """Its torch path pins memory, which needs a device, and races exponential variables.

    Here pinning is left out and the race is drawn by its law: the variables are 1, and the largest
    of the raced weights becomes a draw from those weights.
    """

    def __init__(self) -> None:
        import torch

        root = engine_path("DRAFTPROOF_VLLM_ASCEND", "vllm-ascend")
        name = "vllm_ascend.sample.rejection_sampler"
        settings = SimpleNamespace(
            enable_block_verify=True, enable_entropy_verify=False,
            posterior_threshold=0.95, posterior_alpha=0.4,
        )  # fmt: skip
        config = SimpleNamespace(rejection_sampler_config=settings, enable_reduce_sample=False)
        quiet = SimpleNamespace(
            debug_once=lambda *_: None, info_once=lambda *_: None, warning_once=lambda *_: None
        )
        given: Any = {
            "vllm.triton_utils": {"HAS_TRITON": False},
            "vllm.logger": {"logger": quiet},
            "vllm.v1.sample.rejection_sampler": {
                "PLACEHOLDER_TOKEN_ID": -1,
                "GREEDY_TEMPERATURE": 0,
                "RejectionSampler": torch.nn.Module,
                "generate_uniform_probs": lambda *_: self._uniforms,
            },
            "vllm_ascend.ascend_config": {"get_ascend_config": lambda: config},
        }
        file = "vllm_ascend/sample/rejection_sampler.py"
        stubbed = {"vllm", "vllm_ascend"}
        self._module: Any = load(root, {name: file}, stubbed=stubbed, given=given)[name]
        self._module.torch = _Unpinned(self)
        self._uniforms: Any = None
        self.token: Any = None
        self.declaration = _declaration(
            "vllm-ascend (block, torch path)", version_of(root, "182b75e"), ["block"],
            "sample/rejection_sampler.py, rejection_sample with enable_block_verify",
            length=[3, None], bonus="supplied",
        )  # fmt: skip

    def verify(self, batch: Batch) -> Result:
        """Block verification is switched on from three drafts a request."""
        import torch

        assert batch.accept_uniforms is not None
        size, _, length, vocab = batch.shape
        self._uniforms = torch.tensor(batch.accept_uniforms[:, 0].ravel())
        uniform = np.asarray(batch.token_uniform)
        self.token = torch.tensor(np.repeat(uniform, length))
        bonus = _inverse(batch.target_rows[:, 0, -1], uniform)
        tokens = self._module.rejection_sample(
            torch.tensor(batch.drafts[:, 0].ravel()),
            [length] * size,
            length,
            torch.arange(1, size + 1) * length,
            torch.tensor(batch.draft_rows[:, 0].reshape(-1, vocab), dtype=torch.float32),
            _logs(batch.target_rows[:, 0, :-1].reshape(-1, vocab)),
            bonus[:, None],
            SimpleNamespace(
                all_greedy=False, all_random=True, temperature=torch.ones(size), generators={}
            ),
        )
        emitted = tokens.numpy().astype(np.int64)
        accepted = (emitted >= 0).sum(axis=1) - 1
        return Result(accepted, np.zeros(size, np.int64), emitted[np.arange(size), accepted])


class _Unpinned:
    """The name `torch` of one module, without pinned memory and with a drawn race."""

    def __init__(self, owner: _VllmAscendBlock) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        import torch

        real = getattr(torch, name)
        if name not in ("tensor", "arange", "ones"):
            return real
        return lambda *args, pin_memory=False, **options: real(*args, **options)

    def empty(self, *args: Any, **options: Any) -> Any:
        import torch

        class Ones(torch.Tensor):
            def exponential_(self, *_: Any, **__: Any) -> Any:
                return self

        return torch.ones(*args, **options).as_subclass(Ones)

    def argmax(self, values: Any, dim: int) -> Any:
        import torch

        if not values.is_floating_point():
            return torch.argmax(values, dim=dim)
        plain = values.as_subclass(torch.Tensor)
        # Rows without any residual are never read.
        safe = torch.where(plain.sum(-1, keepdim=True) > 0, plain, torch.ones_like(plain))
        return _inverse(safe, self._owner.token)


def _uncompiled(*_: Any, **__: Any) -> Any:
    """`torch.compile(..)` as a decorator that leaves its function as it is."""
    return lambda function: function


class _Vllm085:
    def __init__(self, typical: bool) -> None:
        import torch

        root = engine_path("DRAFTPROOF_VLLM_085", "vLLM 0.8.5")
        layers = "vllm.model_executor.layers"
        last = "typical_acceptance_sampler" if typical else "rejection_sampler"
        names = [f"{layers}.spec_decode_base_sampler", f"{layers}.{last}"]
        platform = SimpleNamespace(device_type="cpu", simple_compile_backend="eager")
        given: Any = {
            "vllm.platforms": {"current_platform": platform},
            "vllm.logger": {"init_logger": logging.getLogger},
        }
        with mock.patch.object(torch, "compile", _uncompiled):
            loaded: Any = load(
                root,
                {name: name.replace(".", "/") + ".py" for name in names},
                stubbed={"vllm", "flashinfer"},
                given=given,
            )
        module = loaded[names[1]]
        self._sampler = (
            module.TypicalAcceptanceSampler(posterior_threshold=0.09, posterior_alpha=0.3)
            if typical
            else module.RejectionSampler(use_flashinfer=False)
        )
        self._typical = typical
        self._sampler.init_tensors("cpu", "cpu")
        self.declaration = _declaration(
            "vLLM 0.8.5 " + ("TypicalAcceptanceSampler" if typical else "RejectionSampler"),
            version_of(root, "0.8.5"), ["token_by_token"],
            f"{layers}.{last}, forward, behind stubs",
            uniforms=False, bonus="supplied", lossless=not typical,
            request_seeds=not typical,
        )  # fmt: skip
        if typical:
            self.declaration["graded_laws"] = ["tokens"]

    def verify(self, batch: Batch) -> Result:
        """One generator a request, which also draws the bonus."""
        import torch

        size, _, _, _ = batch.shape
        generators = {
            b: torch.Generator().manual_seed(
                int(np.random.SeedSequence((seed, position)).generate_state(1)[0])
            )
            for b, (seed, position) in enumerate(zip(*seeds_and_positions(batch)))
        }
        target = torch.tensor(batch.target_rows[:, 0], dtype=torch.float32)
        bonus = torch.stack(
            [torch.multinomial(target[b, -1], 1, generator=generators[b]) for b in range(size)]
        )
        more = {} if self._typical else {"seeded_seqs": generators}
        emitted = self._sampler(
            target_with_bonus_probs=target,
            bonus_token_ids=bonus,
            draft_probs=torch.tensor(batch.draft_rows[:, 0], dtype=torch.float32),
            draft_token_ids=torch.tensor(batch.drafts[:, 0]),
            **more,
        ).numpy()
        accepted = (emitted >= 0).sum(axis=1) - 1
        return Result(accepted, np.zeros(size, np.int64), emitted[np.arange(size), accepted])


def _need(*packages: str) -> None:
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise Unavailable(f"{package}, which the project imports, is not installed")


def gpt_fast() -> Any:
    """gpt-fast's speculative_decode."""
    _need("torch")
    return _GptFast()


def layerskip() -> Any:
    """LayerSkip's single_step_speculation."""
    _need("torch", "transformers")
    return _LayerSkip()


def lucidrains() -> Any:
    """lucidrains' speculative_decoding."""
    _need("torch", "einops")
    return _Lucidrains()


def eagle() -> Any:
    """EAGLE's evaluate_posterior."""
    _need("torch", "transformers")
    return _Eagle()


def sequoia() -> Any:
    """Sequoia's SpecTree.verify on one level of children."""
    _need("torch")
    return _Sequoia()


def recurrent_drafter() -> Any:
    """The recurrent drafter's choice among candidates, with one sampled draft."""
    _need("torch", "transformers")
    return _RecurrentDrafter(beams=False)


def recurrent_beams() -> Any:
    """The same with drafts that are a function of the context, as beam search makes them."""
    _need("torch", "transformers")
    return _RecurrentDrafter(beams=True)


def vllm_ascend_block() -> Any:
    """vllm-ascend's block verification, torch path."""
    _need("torch")
    return _VllmAscendBlock()


def vllm_085() -> Any:
    """The RejectionSampler of vLLM 0.8.5."""
    _need("torch")
    return _Vllm085(typical=False)


def vllm_085_typical() -> Any:
    """The TypicalAcceptanceSampler of vLLM 0.8.5, lossy by design."""
    _need("torch")
    return _Vllm085(typical=True)
