"""Tiny models with random weights: every architecture the tests name, and pairs of them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for decoding_faults
torch.set_num_threads(1)
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()


def _config(kind: str, vocabulary: int, context: int) -> tuple[type, object]:
    common = {
        "vocab_size": vocabulary,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": context,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    grouped = {**common, "num_key_value_heads": 2}
    tokens = {"bos_token_id": None, "eos_token_id": None}
    match kind:
        case "llama":
            return transformers.LlamaForCausalLM, transformers.LlamaConfig(**common)
        case "mistral":  # grouped queries and a window of 4 tokens
            config = transformers.MistralConfig(**grouped, sliding_window=4)
            return transformers.MistralForCausalLM, config
        case "qwen2":  # grouped queries, one full layer and one with a window of 4 tokens
            config = transformers.Qwen2Config(
                **grouped, use_sliding_window=True, sliding_window=4, max_window_layers=1
            )
            return transformers.Qwen2ForCausalLM, config
        case "gpt2":
            config = transformers.GPT2Config(
                vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=2, n_positions=context, **tokens
            )
            return transformers.GPT2LMHeadModel, config
        case "bloom":  # no position argument: positions come from the mask
            config = transformers.BloomConfig(
                vocab_size=vocabulary, hidden_size=16, n_layer=2, n_head=2, **tokens
            )
            return transformers.BloomForCausalLM, config
    raise ValueError(kind)


def _build(kind: str, vocabulary: int = 17, seed: int = 0, context: int = 64, scale: float = 6.0):
    """A model in float64; ``scale`` > 1 makes rows depend strongly on context and position."""
    torch.manual_seed(seed)
    cls, config = _config(kind, vocabulary, context)
    model = cls(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(scale)
    return model


@pytest.fixture(scope="session")
def build() -> Callable:
    """`_build` with a memory: the same arguments give the same model."""
    made: dict = {}

    def cached(*arguments, **named):
        key = (arguments, tuple(sorted(named.items())))
        if key not in made:
            made[key] = _build(*arguments, **named)
        return made[key]

    return cached


@pytest.fixture(scope="session")
def plain() -> Callable:
    """Logits [T, V] of one ordinary forward over a sequence, without any cache."""

    def forward(model, tokens: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            return model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]

    return forward


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261130)
