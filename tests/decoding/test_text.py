"""Tokenizers and growing text."""

import pytest
from draftproof.fast.decoding.text import (
    ByteTokenizer,
    WordTokenizer,
    cut_at_stop,
    showable,
    stopped_length,
)

BYTES = ByteTokenizer()


def test_bytes_round_trip_and_start_a_document():
    tokens = BYTES.encode("né€🙂")
    assert tokens[0] == 0
    assert BYTES.decode(tokens) == "né€🙂"
    assert BYTES.encode("") == [0]


def test_nul_is_no_text():
    with pytest.raises(ValueError, match="NUL character at 1"):
        BYTES.encode("a\0b")


def test_an_unknown_word_is_named():
    words = WordTokenizer(["a", "b", "<s>"], start=2)
    assert words.encode("B a") == [2, 1, 0]
    assert words.decode([1, 0]) == " b a"
    assert WordTokenizer(["a", "</s>"], 0, frozenset([1])).decode([0, 1]) == " a"
    with pytest.raises(ValueError, match="word 1, 'c', is not in the vocabulary"):
        words.encode("a c")


def test_unfinished_characters_are_held_back():
    whole = "é🙂".encode()
    shown = [showable(BYTES.decode(list(whole[:n])), ()) for n in range(len(whole) + 1)]
    assert shown == ["", "", "é", "é", "é", "é", "é🙂"]


def test_a_tail_that_may_begin_a_stop_string_is_held_back():
    assert showable("abEN", ("END",)) == "ab"
    assert showable("abENx", ("END",)) == "abENx"
    assert showable("ab", ("b",)) == "ab"  # a whole stop string is cut, not held back
    assert showable("xaab", ("aabc", "bd")) == "x"


def test_text_is_cut_at_the_earliest_stop_string():
    assert cut_at_stop("one two three", ("three", "two")) == "one "
    assert cut_at_stop("one", ("two",)) == "one"


def test_stopping_depends_on_tokens_alone():
    tokens = list(b"one two three")
    assert stopped_length(BYTES, tokens, ("two",)) == 7
    assert stopped_length(BYTES, tokens, ("three", "e t")) == 5
    assert stopped_length(BYTES, tokens, ("four",)) is None
    assert stopped_length(BYTES, tokens[:6], ("two",)) is None
