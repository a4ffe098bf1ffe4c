"""The models that draft and verify: Hugging Face causal models, n-grams, and the shipped pair.

A `LanguageModel` is what a decoder needs to know of a model: how many tokens it tells apart, how
long its context may be, which tokens end a text, and how to start a `Scorer` for a batch.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from draftproof.fast.decoding.scoring import PathScorer, Scorer, TreeScorer, takes_tree_mask
from draftproof.fast.decoding.text import ByteTokenizer, PretrainedTokenizer, Tokenizer

SHIPPED = Path(__file__).parent / "shipped"
DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True)
class LanguageModel:
    """A causal model as the decoder sees it.

    ``vocabulary``: columns of its output rows, padding columns included.  ``inputs``: token ids it
    can read.  ``context``: most tokens it can take, None for any number.  ``start(vocabulary,
    batch)``: a new `Scorer` whose rows keep the first ``vocabulary`` columns.  ``attention``:
    "tree", "paths", or "" where it has none.
    """

    name: str
    vocabulary: int
    inputs: int
    context: int | None
    end_of_text: frozenset[int]
    tokenizer: Tokenizer | None
    device: torch.device
    start: Callable[[int, int], Scorer]
    attention: str = ""


@dataclass(frozen=True)
class Pair:
    """A draft and a target over one vocabulary of ``vocabulary`` tokens."""

    draft: LanguageModel
    target: LanguageModel
    vocabulary: int

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer; `ValueError` if it has none."""
        if self.target.tokenizer is None:
            raise ValueError(f"model {self.target.name} has no tokenizer: give it token ids")
        return self.target.tokenizer


def wrap(
    model: Any,
    name: str,
    tokenizer: Tokenizer | None = None,
    attention: str = "auto",
) -> LanguageModel:
    """A loaded transformers causal model as a `LanguageModel`.

    ``attention``: "tree" scores a tree with one masked forward, "paths" runs its paths as a batch,
    "auto" tries the first on a few tokens and falls back to the second.
    """
    if attention not in ("auto", "tree", "paths"):
        raise ValueError(f"attention is {attention!r}, expected auto, tree or paths")
    config = model.config.get_text_config()
    if attention == "auto":
        attention = "tree" if takes_tree_mask(model) else "paths"
    kind = TreeScorer if attention == "tree" else PathScorer
    ends = getattr(config, "eos_token_id", None)
    generation_ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = generation_ends if generation_ends is not None else ends
    tokens = ends if isinstance(ends, list | tuple) else [] if ends is None else [ends]
    return LanguageModel(
        name=name,
        vocabulary=int(config.vocab_size),
        inputs=int(config.vocab_size),
        context=getattr(config, "max_position_embeddings", None),
        end_of_text=frozenset(int(token) for token in tokens),
        tokenizer=tokenizer,
        device=next(model.parameters()).device,
        start=lambda vocabulary, batch: kind(model, vocabulary, batch),
        attention=attention,
    )


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No progress bars and no notes on standard error while a model loads."""
    from transformers.utils import logging as hub_logging

    level = hub_logging.get_verbosity()
    bars = hub_logging.is_progress_bar_enabled()
    hub_logging.set_verbosity(logging.ERROR)
    hub_logging.disable_progress_bar()
    try:
        yield
    finally:
        hub_logging.set_verbosity(level)
        if bars:
            hub_logging.enable_progress_bar()


def load_model(
    path: str, device: str = "cpu", dtype: str = "float32", attention: str = "auto"
) -> LanguageModel:
    """What ``AutoModelForCausalLM.from_pretrained`` makes of a local path or a name.

    ``dtype``: float16, bfloat16, float32, float64, or "auto" for the one it was saved in.
    Raises ``ValueError`` naming the argument for a model that cannot be loaded.
    """
    from transformers import AutoModelForCausalLM

    if dtype != "auto" and dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}, expected auto, {', '.join(DTYPES)}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}, but torch finds no CUDA device on this machine")
    try:
        with _quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPES.get(dtype, dtype))
        model = model.to(device).eval()
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ValueError(f"model {path!r} cannot be loaded: {first}") from error
    return wrap(model, path, _load_tokenizer(path, model.config), attention)


TOKENIZER_FILES = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken")


def _load_tokenizer(path: str, config: Any) -> Tokenizer | None:
    """The tokenizer saved beside a model, None if there is none."""
    from transformers import AutoTokenizer

    if getattr(config, "draftproof_tokenizer", None) == "bytes":
        return ByteTokenizer()
    folder = Path(path)
    # For a folder without a tokenizer, transformers may make up an empty one.
    if folder.is_dir() and not any(any(folder.glob(name)) for name in TOKENIZER_FILES):
        return None
    try:
        with _quiet_transformers():
            return PretrainedTokenizer(AutoTokenizer.from_pretrained(path))
    except (OSError, ValueError, KeyError, ImportError):
        return None


def pair(draft: LanguageModel, target: LanguageModel, vocabulary: int | None = None) -> Pair:
    """Check that two models speak of the same tokens, and fix how many there are.

    With tokenizers, their tables must be equal, and output columns beyond the largest id are
    padding: they are cut off, whatever each model's width.  Without, the widths must be equal.
    ``vocabulary`` overrides the count.  Raises ``ValueError`` naming the first difference.
    """
    narrow = min(draft.vocabulary, target.vocabulary)
    if vocabulary is None and draft.tokenizer is not None and target.tokenizer is not None:
        ours, theirs = draft.tokenizer.table(), target.tokenizer.table()
        if ours != theirs:
            spelling = min(
                (
                    word
                    for word in ours.keys() | theirs.keys()
                    if ours.get(word) != theirs.get(word)
                ),
                key=lambda word: (ours.get(word, theirs.get(word, 0)), word),
            )
            raise ValueError(
                f"draft {draft.name} and target {target.name} have different vocabularies: "
                f"token {spelling!r} has id {ours.get(spelling, 'none')} in the draft and "
                f"{theirs.get(spelling, 'none')} in the target"
            )
        vocabulary = max(ours.values()) + 1
    elif vocabulary is None:
        if draft.vocabulary != target.vocabulary:
            raise ValueError(
                f"draft {draft.name} has {draft.vocabulary} tokens and target {target.name} has "
                f"{target.vocabulary}; if the first ones are the same, say how many: vocabulary="
            )
        vocabulary = draft.vocabulary
    if not 1 <= vocabulary <= narrow:
        raise ValueError(
            f"vocabulary is {vocabulary}, but draft {draft.name} has {draft.vocabulary} output "
            f"columns and target {target.name} has {target.vocabulary}"
        )
    return Pair(draft, target, vocabulary)


def load_pair(
    draft: str, target: str, device: str = "cpu", dtype: str = "float32", attention: str = "auto"
) -> Pair:
    """`load_model` twice, then `pair`."""
    return pair(
        load_model(draft, device, dtype, attention), load_model(target, device, dtype, attention)
    )


def shipped_pair(device: str = "cpu", dtype: str = "float32", attention: str = "auto") -> Pair:
    """The byte-level pair inside the package; see ``shipped/MODEL_CARD.md``."""
    draft, target = (
        dataclasses.replace(
            load_model(str(SHIPPED / name), device, dtype, attention), name=f"shipped-{name}"
        )
        for name in ("draft", "target")
    )
    return pair(draft, target)
