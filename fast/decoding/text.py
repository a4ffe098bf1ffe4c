"""Tokenizers, and text that grows token by token: whole characters only, cut at stop strings."""

from collections.abc import Sequence
from typing import Any, Protocol

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Tokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with the token that starts a document if the model wants one."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of some tokens; an unfinished character at the end shows as U+FFFD."""

    def table(self) -> dict[str, int]:
        """Every token's spelling and id, to compare two tokenizers."""


class ByteTokenizer:
    """Tokens are the bytes of UTF-8; byte 0 starts and ends a document and is never text."""

    def encode(self, text: str) -> list[int]:
        if "\0" in text:
            raise ValueError(f"prompt has a NUL character at {text.index(chr(0))}")
        return [0, *text.encode()]

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token).decode(errors="replace")

    def table(self) -> dict[str, int]:
        return {f"<{byte:02x}>": byte for byte in range(256)}


class PretrainedTokenizer:
    """A transformers tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return [int(token) for token in self._tokenizer(text)["input_ids"]]

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def table(self) -> dict[str, int]:
        table: dict[str, int] = self._tokenizer.get_vocab()
        return table


class WordTokenizer:
    """Words separated by white space, from a fixed list; a word outside the list is an error.

    ``start``: the token that begins a document; ``silent``: tokens that are no text.
    """

    def __init__(
        self, words: Sequence[str], start: int, silent: frozenset[int] = frozenset()
    ) -> None:
        self._words = list(words)
        self._ids = {word: i for i, word in enumerate(words)}
        self._start = start
        self._silent = silent

    def encode(self, text: str) -> list[int]:
        words = text.lower().split()
        for position, word in enumerate(words):
            if word not in self._ids:
                raise ValueError(f"prompt: word {position}, {word!r}, is not in the vocabulary")
        return [self._start, *(self._ids[word] for word in words)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(f" {self._words[token]}" for token in tokens if token not in self._silent)

    def table(self) -> dict[str, int]:
        return self._ids


def stopped_length(tokenizer: Tokenizer, tokens: Sequence[int], stop: Sequence[str]) -> int | None:
    """Fewest leading tokens whose text has a stop string, or None.

    The answer depends on the tokens alone, not on how they were grouped into rounds.
    """
    if not any(string in tokenizer.decode(tokens) for string in stop):
        return None
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if any(string in tokenizer.decode(tokens[:middle]) for string in stop):
            high = middle
        else:
            low = middle + 1
    return low


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """``text`` up to its earliest stop string."""
    found = [text.index(string) for string in stop if string in text]
    return text[: min(found)] if found else text


def showable(text: str, stop: Sequence[str]) -> str:
    """The part of a growing text that no later token can change or stop.

    Held back: an unfinished character at the end, and a tail that could begin a stop string.
    """
    text = text.rstrip(REPLACEMENT)
    held = 0
    for string in stop:
        for length in range(1, min(len(string), len(text) + 1)):
            if text.endswith(string[:length]):
                held = max(held, length)
    return text[: len(text) - held]
