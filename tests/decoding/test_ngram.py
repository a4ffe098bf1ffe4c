"""The n-gram pair: the file is read rightly, and the decoder runs on V = 72,546."""

import math

import numpy as np
import pytest
import torch
from draftproof.fast.decoding.rounds import Settings, decode, generate

pocketsphinx = pytest.importorskip("pocketsphinx")

from draftproof.fast.decoding import ngram  # noqa: E402


@pytest.fixture(scope="module")
def model():
    return ngram.load()


@pytest.fixture(scope="module")
def oracle():
    """The engine that ships the file, asked for one probability at a time."""
    from importlib import metadata

    wheel = metadata.distribution("pocketsphinx")
    path = wheel.locate_file("pocketsphinx/model/en-us/en-us.lm.bin")
    return pocketsphinx.NGramModel.readfile(str(path))


def unnormalised(model, before, last, word):
    """log p of the back-off formula, as the file's engine computes it."""
    words, probabilities, backoff = model.trigrams.history(before * len(model.words) + last)
    if word in words:
        return math.log(probabilities[np.searchsorted(words, word)])
    words, probabilities, shorter = model.bigrams.history(last)
    if word in words:
        return math.log(backoff * probabilities[np.searchsorted(words, word)])
    return math.log(backoff * shorter * model.unigrams[word])


def test_probabilities_are_those_of_the_engine_that_ships_the_file(model, oracle, rng):
    """On listed trigrams, on listed bigrams and on neither; the engine rounds logs to integers."""
    keys = rng.choice(model.trigrams.keys, 200)
    kinds = set()
    for key in keys:
        before, last = divmod(int(key), len(model.words))
        three, two = model.trigrams.history(int(key))[0], model.bigrams.history(last)[0]
        for word in (rng.choice(three), rng.choice(two), rng.integers(model.vocabulary)):
            kinds.add((word in three, word in two))
            ours = unnormalised(model, before, last, int(word))
            # The engine takes the predicted word first, then the history backwards.
            theirs = oracle.prob([model.words[i] for i in (int(word), last, before)])
            assert abs(ours / ngram.LOG_BASE - theirs) <= 3
    assert {(True, True), (False, True), (False, False)} <= kinds


def test_rows_are_normalised_and_close_to_the_formula(model, rng):
    assert model.vocabulary == 72546
    assert model.words[-1] == "<s>"
    for _ in range(30):
        before, last = divmod(int(rng.choice(model.trigrams.keys)), len(model.words))
        row = model.row(before, last, 3)
        assert abs(row.sum() - 1) < 1e-12
        assert row.min() > 0
        word = int(row.argmax())
        assert abs(math.log(row[word]) - unnormalised(model, before, last, word)) < 0.01
    assert abs(model.row(None, model.vocabulary, 3).sum() - 1) < 1e-12


def test_the_scorer_follows_paths_of_a_tree(model):
    scorer = ngram.NgramScorer(model, 3, torch.device("cpu"), model.vocabulary, 1)
    start = model.vocabulary
    scorer.prefill(torch.tensor([[start, 5]]))
    logits = scorer.extend(torch.tensor([[7, 8, 9, 9]]), torch.tensor([[-1, 0, 0, 1]]))[0]
    for row, (before, last) in zip(logits, ((5, 7), (7, 8), (7, 9), (8, 9))):
        np.testing.assert_allclose(row.exp().numpy(), model.row(before, last, 3))
    scorer.commit(torch.tensor([[0, 1, 3]]))
    assert scorer.lengths == [5]
    (row,) = scorer.extend(torch.tensor([[4]]), torch.tensor([[-1]]))[0]
    np.testing.assert_allclose(row.exp().numpy(), model.row(9, 4, 3))


def test_the_pair_decodes_and_greedy_text_is_greedy(model):
    pair = ngram.ngram_pair()
    settings = Settings(scheme="spectr", drafts=3, length=3, max_new_tokens=8, temperature=0.0)
    decoded = generate(pair, ["one of the"], [0], settings)
    context = pair.tokenizer.encode("one of the")
    for token in decoded.generations[0].tokens:
        assert token == model.row(context[-2], context[-1], 3).argmax()
        context.append(token)
    settings = Settings(scheme="kseq_block", drafts=3, length=3, max_new_tokens=8)
    decoded = decode(pair, [[model.vocabulary]] * 2, [1, 2], settings)
    assert all(0 <= t < model.vocabulary for g in decoded.generations for t in g.tokens)


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a binary 3-gram trie"):
        ngram.read_trie(path)
