"""A word 3-gram model of English as a target and its 2-gram marginal as a draft, both offline.

The numbers are those of ``en-us.lm.bin`` inside the ``pocketsphinx`` wheel (BSD), read straight
from the file: a back-off model (Katz) of 72,547 words with 2.05 M bigrams and 1.67 M trigrams.  The
word that starts a sentence is never predicted, so rows have V = 72,546 entries; it keeps the id V.

    p(w|u,v) = p3(u,v,w) if that trigram is listed, else b(u,v) p2(v,w) or b(u,v) b(v) p1(w)

renormalised, since the file's quantised rows sum to .993 to 1.004.
"""

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from draftproof.fast.decoding.models import LanguageModel, Pair
from draftproof.fast.decoding.text import WordTokenizer
from numpy.typing import NDArray
from torch import Tensor

HEADER = b"Trie Language Model"
LOG_BASE = np.log(1.0001)  # the file's logarithms are to this base
BINS = 65536
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Listed n-grams sorted by history: words and probabilities of history ``keys[i]`` stand at
    ``starts[i] .. starts[i+1]``, and ``backoffs[i]`` scales what is not listed."""

    keys: Ids
    starts: Ids
    backoffs: Doubles
    words: Ids
    probabilities: Doubles

    def history(self, key: int) -> tuple[Ids, Doubles, float]:
        """(words, probabilities, back-off) after one history; nothing and 1 where none is
        listed."""
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            return self.words[:0], self.probabilities[:0], 1.0
        part = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return self.words[part], self.probabilities[part], float(self.backoffs[at])


@dataclass(frozen=True)
class BackoffModel:
    """A 3-gram model.  ``words``: spelling by id, the last of them the start of a sentence."""

    words: tuple[str, ...]
    unigrams: Doubles
    bigrams: Table
    trigrams: Table

    @property
    def vocabulary(self) -> int:
        """Words that can be predicted."""
        return len(self.words) - 1

    def row(self, before: int | None, last: int, order: int) -> Doubles:
        """The row after the words ``before, last``, from 2-grams or 3-grams: float64 [V]."""
        words, probabilities, backoff = self.bigrams.history(last)
        row = backoff * self.unigrams
        row[words] = probabilities
        if order == 3 and before is not None:
            words, probabilities, backoff = self.trigrams.history(before * len(self.words) + last)
            row *= backoff
            row[words] = probabilities
        normalised: Doubles = row / row.sum()
        return normalised


def _bits(memory: NDArray[np.uint8], offsets: Ids, width: int) -> Ids:
    """Little-endian unsigned integers of ``width`` ≤ 57 bits at these bit offsets."""
    first = offsets >> 3
    value = np.zeros(len(offsets), np.uint64)
    for byte in range(8):
        value |= memory[first + byte].astype(np.uint64) << np.uint64(8 * byte)
    shifted = value >> (offsets & 7).astype(np.uint64)
    return (shifted & np.uint64((1 << width) - 1)).astype(np.int64)


def _by_history(
    history: Ids, words: Ids, logs: Doubles, backoffs: dict[str, NDArray[Any]]
) -> Table:
    """Sort listed n-grams by history and look their back-offs up: {"keys", "values"} sorted."""
    order = np.lexsort((words, history))
    keys, starts = np.unique(history[order], return_index=True)
    at = np.searchsorted(backoffs["keys"], keys)
    assert (backoffs["keys"][at] == keys).all(), "a listed n-gram whose history is not listed"
    return Table(
        keys=keys,
        starts=np.append(starts, len(history)),
        backoffs=np.exp(LOG_BASE * backoffs["values"][at]),
        words=words[order],
        probabilities=np.exp(LOG_BASE * logs[order]),
    )


def read_trie(path: Path) -> BackoffModel:
    """Read a binary 3-gram trie.  Raises ``ValueError`` if the file is something else.

    Layout: header; order; counts; bins of the quantised logarithms (bigram probability and
    back-off, trigram probability); unigrams (probability, back-off, first child); packed bigrams
    (history, back-off bin, probability bin, first child) filed under the word they predict, and
    trigrams (earlier history, probability bin) filed under the bigram; the words.
    """
    raw = path.read_bytes()
    if not raw.startswith(HEADER) or raw[len(HEADER)] != 3:
        raise ValueError(f"{path} is not a binary 3-gram trie")
    at = len(HEADER) + 1
    counts = struct.unpack_from("<3I", raw, at)
    at += 12 + 4
    bins = np.frombuffer(raw, "<f4", 3 * BINS, at).astype(np.float64).reshape(3, BINS)
    at += 3 * BINS * 4
    fields = np.dtype([("log", "<f4"), ("backoff", "<f4"), ("child", "<u4")])
    unigrams = np.frombuffer(raw, fields, counts[0] + 1, at)
    at += (counts[0] + 1) * fields.itemsize
    word_bits, child_bits = int(counts[0]).bit_length(), int(counts[2]).bit_length()
    middle, longest = word_bits + 32 + child_bits, word_bits + 16
    sizes = [((1 + n) * width + 7) // 8 + 8 for n, width in zip(counts[1:], (middle, longest))]
    bigram_memory = np.frombuffer(raw, np.uint8, sizes[0], at)
    trigram_memory = np.frombuffer(raw, np.uint8, sizes[1], at + sizes[0])
    at += sum(sizes)
    (length,) = struct.unpack_from("<i", raw, at)
    words = raw[at + 4 : at + 4 + length].decode().split("\0")[:-1]
    if len(words) != counts[0]:
        raise ValueError(f"{path} lists {len(words)} words, its header says {counts[0]}")

    # The entries really filed are as many as the children say; the header counts a few more.
    filed = int(unigrams["child"][-1])
    offsets = np.arange(filed + 1, dtype=np.int64) * middle
    children = _bits(bigram_memory, offsets + word_bits + 32, child_bits)
    offsets = offsets[:-1]
    inner = _bits(bigram_memory, offsets, word_bits)
    bigram_backoff = bins[1][_bits(bigram_memory, offsets + word_bits, 16)]
    bigram_log = bins[0][_bits(bigram_memory, offsets + word_bits + 16, 16)]
    first_child: Ids = unigrams["child"].astype(np.int64)
    predicted = np.repeat(np.arange(counts[0]), first_child[1:] - first_child[:-1])
    offsets = np.arange(int(children[-1]), dtype=np.int64) * longest
    outer = _bits(trigram_memory, offsets, word_bits)
    trigram_log = bins[2][_bits(trigram_memory, offsets + word_bits, 16)]
    parent = np.repeat(np.arange(filed), np.diff(children))

    # The start of a sentence moves to the last id, so that predicted words are 0 .. V-1.
    start = words.index("<s>")
    renumber = np.arange(counts[0], dtype=np.int64)
    renumber[start + 1 :] -= 1
    renumber[start] = counts[0] - 1
    size = counts[0]
    predicted, inner, outer = renumber[predicted], renumber[inner], renumber[outer]
    real = predicted != size - 1
    pair_keys = inner * size + predicted
    sorted_pairs = np.argsort(pair_keys)
    ids = np.argsort(renumber)
    return BackoffModel(
        words=tuple(words[i] for i in ids),
        unigrams=np.exp(LOG_BASE * unigrams["log"][:-1].astype(np.float64)[ids])[:-1],
        bigrams=_by_history(
            inner[real],
            predicted[real],
            bigram_log[real],
            {"keys": np.arange(size), "values": unigrams["backoff"][:-1].astype(np.float64)[ids]},
        ),
        trigrams=_by_history(
            (outer * size + inner[parent])[real[parent]],
            predicted[parent][real[parent]],
            trigram_log[real[parent]],
            {"keys": pair_keys[sorted_pairs], "values": bigram_backoff[sorted_pairs]},
        ),
    )


class NgramScorer:
    """A `Scorer` whose state is the last two words of each request and of each pending node."""

    def __init__(
        self, model: BackoffModel, order: int, device: torch.device, vocabulary: int, batch: int
    ) -> None:
        if vocabulary != model.vocabulary:
            raise ValueError(f"vocabulary is {vocabulary}, the model has {model.vocabulary} words")
        self._model = model
        self._order = order
        self._device = device
        self._contexts: list[list[int]] = [[] for _ in range(batch)]
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._tokens: list[list[int]] = [[] for _ in self._contexts]
        self._parents: list[list[int]] = [[] for _ in self._contexts]

    @property
    def lengths(self) -> list[int]:
        return [len(context) for context in self._contexts]

    def prefill(self, tokens: Tensor) -> None:
        self._contexts = [[t for t in row if t >= 0] for row in tokens.tolist()]
        self._forget_pending()

    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        rows = np.ones((*tokens.shape, self._model.vocabulary))
        for request, (new, above) in enumerate(zip(tokens.tolist(), parents.tolist())):
            self._tokens[request] += new
            self._parents[request] += above
            for i, (token, parent) in enumerate(zip(new, above)):
                if token >= 0:
                    before = self._contexts[request][-1:]
                    if parent >= 0:
                        before = [self._tokens[request][parent]]
                    rows[request, i] = self._model.row(
                        before[0] if before else None, token, self._order
                    )
        return torch.from_numpy(np.log(rows)).to(self._device)

    def commit(self, nodes: Tensor) -> None:
        for request, chain in enumerate(nodes.tolist()):
            self._contexts[request] += [self._tokens[request][node] for node in chain if node >= 0]
        self._forget_pending()

    def select(self, requests: Sequence[int]) -> None:
        self._contexts = [self._contexts[r] for r in requests]
        self._forget_pending()


@functools.cache
def load(path: Path | None = None) -> BackoffModel:
    """The model of the installed ``pocketsphinx`` wheel, or of a file in its format."""
    if path is None:
        try:
            wheel = metadata.distribution("pocketsphinx")
        except metadata.PackageNotFoundError:
            raise ValueError(
                "the n-gram pair needs the file in the pocketsphinx wheel; "
                "run: pip install 'draftproof[ngram]'"
            ) from None
        path = Path(str(wheel.locate_file("pocketsphinx/model/en-us/en-us.lm.bin")))
    return read_trie(path)


def ngram_pair(path: Path | None = None, device: str = "cpu") -> Pair:
    """2-grams draft, 3-grams verify, over V = 72,546 words.

    Rows are looked up on the CPU and go to ``device`` from there.
    """
    model = load(path)
    start, end = model.vocabulary, model.words.index("</s>")
    tokenizer = WordTokenizer(model.words, start, silent=frozenset([start, end]))

    def language_model(order: int) -> LanguageModel:
        return LanguageModel(
            name=f"{order}-gram",
            vocabulary=model.vocabulary,
            inputs=model.vocabulary + 1,
            context=None,
            end_of_text=frozenset([end]),
            tokenizer=tokenizer,
            device=torch.device(device),
            start=functools.partial(NgramScorer, model, order, torch.device(device)),
        )

    return Pair(language_model(2), language_model(3), model.vocabulary)
