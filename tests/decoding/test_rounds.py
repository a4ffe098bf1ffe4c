"""What a decoded text must obey: greedy text, one seed one text, ends of text, limits,
streaming."""

import dataclasses

import pytest
import torch
from draftproof.fast import VERIFIERS
from draftproof.fast.decoding import rounds
from draftproof.fast.decoding.methods import AUTOREGRESSIVE, SINGLE_DRAFT
from draftproof.fast.decoding.models import Pair, shipped_pair, wrap
from draftproof.fast.decoding.rounds import (
    Settings,
    autoregressive,
    decode,
    generate,
)
from draftproof.fast.decoding.scoring import PathScorer, TreeScorer

PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [7], [10, 11, 12]]


def settings_of(scheme, **changes):
    drafts = 1 if scheme in SINGLE_DRAFT else 3
    defaults = {"drafts": drafts, "length": 3, "max_new_tokens": 17}
    return Settings(scheme=scheme, **{**defaults, **changes})


@pytest.fixture(scope="module")
def pair(build):
    draft = wrap(build("gpt2", seed=1, scale=4.0), "draft", attention="tree")
    target = wrap(build("llama", seed=2), "target", attention="tree")
    return Pair(draft, target, 17)


@pytest.fixture(scope="module")
def shipped():
    return shipped_pair()


@pytest.fixture(scope="module")
def greedy(build, plain):
    """The target's greedy continuations by plain forwards, token for token."""
    texts = []
    for prompt in PROMPTS:
        text = list(prompt)
        for _ in range(17):
            text.append(int(plain(build("llama", seed=2), text)[-1].argmax()))
        texts.append(text[len(prompt) :])
    return texts


@pytest.mark.parametrize("scheme", [*sorted(VERIFIERS), AUTOREGRESSIVE])
@pytest.mark.parametrize("draft_temperature", [None, 1.0])
def test_temperature_0_is_the_greedy_text(scheme, draft_temperature, pair, greedy):
    settings = settings_of(scheme, temperature=0.0, draft_temperature=draft_temperature)
    decoded = decode(pair, PROMPTS, [1, 2, 3], settings)
    assert [g.tokens for g in decoded.generations] == greedy


@pytest.mark.parametrize("scheme", [*sorted(VERIFIERS), AUTOREGRESSIVE])
def test_one_seed_one_text_whatever_the_batch(scheme, pair):
    settings = settings_of(scheme)
    together = decode(pair, PROMPTS, [5, 6, 7], settings).generations
    reversed_ = decode(pair, PROMPTS[::-1], [7, 6, 5], settings).generations[::-1]
    alone = [decode(pair, [p], [s], settings).generations[0] for p, s in zip(PROMPTS, (5, 6, 7))]
    for i in range(3):
        assert together[i].tokens == alone[i].tokens == reversed_[i].tokens
        assert together[i].accepted == alone[i].accepted
    assert decode(pair, PROMPTS, [8, 9, 10], settings).generations[0].tokens != together[0].tokens


@pytest.mark.parametrize("scorer", [TreeScorer, PathScorer])
@pytest.mark.parametrize("scheme", ["block", "spectr", "greedy_block", "ranked_block"])
def test_caches_keep_exactly_the_accepted_path(scheme, scorer, pair, build, plain):
    """After every round both caches hold the context but for what is still to be scored: the next
    row from the cache is the row of a plain forward over the context."""
    networks = {"draft": build("gpt2", seed=1, scale=4.0), "target": build("llama", seed=2)}
    states = {}

    def start(name):
        def begin(vocabulary, batch):
            states[name] = scorer(networks[name], vocabulary, batch)
            return states[name]

        return begin

    watched = Pair(
        dataclasses.replace(pair.draft, start=start("draft")),
        dataclasses.replace(pair.target, start=start("target")),
        17,
    )
    seen = 0

    def look(_, generation):
        nonlocal seen
        if generation.finish:
            return
        context = generation.prompt + generation.tokens
        for name, state in states.items():
            (length,) = state.lengths
            assert length == len(context) - 1 or (name == "draft" and length == len(context) - 2)
            left = torch.tensor([context[length:]])
            row = state.extend(left, torch.arange(left.shape[1])[None] - 1)[0, -1]
            state.commit(torch.full((1, 1), -1))  # forget them again
            expected = plain(networks[name], context)[-1]
            assert float((row - expected).abs().max()) < 1e-9
        seen += 1

    decode(watched, PROMPTS[:1], [3], settings_of(scheme), look)
    assert seen >= 4


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("scheme", ["block", "ranked_block", "spectr_gbv"])
def test_the_limit_is_reached_and_never_exceeded(limit, scheme, pair):
    whole = decode(pair, PROMPTS, [1, 2, 3], settings_of(scheme)).generations
    cut = decode(pair, PROMPTS, [1, 2, 3], settings_of(scheme, max_new_tokens=limit)).generations
    for long, short in zip(whole, cut):
        assert len(short.tokens) == limit
        assert short.finish == "length"
        assert short.tokens == long.tokens[:limit]  # the limit changes nothing else


@pytest.mark.parametrize("scheme", ["block", "spectr", "ranked_block", "greedy_block"])
def test_the_end_of_a_text_inside_an_accepted_prefix(scheme, pair):
    endless = decode(pair, PROMPTS, [1, 2, 3], settings_of(scheme)).generations
    inside = 0
    for generation in endless:
        for end in set(generation.tokens):
            target = dataclasses.replace(pair.target, end_of_text=frozenset([end]))
            ending = dataclasses.replace(pair, target=target)
            (short,) = decode(
                ending, [generation.prompt], [generation.seed], settings_of(scheme)
            ).generations
            first = generation.tokens.index(end)
            assert short.tokens == generation.tokens[: first + 1]
            assert short.finish == "end of text"
            last_round = sum(tau + 1 for tau in short.accepted[:-1])
            inside += first < last_round + short.accepted[-1]
            settings = dataclasses.replace(settings_of(scheme), ignore_end_of_text=True)
            (long,) = decode(ending, [generation.prompt], [generation.seed], settings).generations
            assert long.tokens == generation.tokens
    assert inside >= 3


def collect(pieces):
    return lambda i, piece: pieces[i].append(piece)


def test_stop_strings_end_the_text_before_them(shipped):
    prompt, seed = "And it came to pass", 4
    whole = generate(shipped, [prompt], [seed], Settings(max_new_tokens=60)).generations[0]
    for stop in {whole.text[i : i + n] for i in (3, 17, 30) for n in (1, 2, 5)}:
        pieces = {0: []}
        settings = Settings(max_new_tokens=60, stop=(stop, "never to be seen"))
        decoded = generate(shipped, [prompt], [seed], settings, collect(pieces))
        (generation,) = decoded.generations
        assert generation.finish == "stop"
        assert generation.text == whole.text[: whole.text.index(stop)] == "".join(pieces[0])
        # The tokens end with the one that completes the stop string, whatever the round did.
        assert len(generation.tokens) == len(
            whole.text[: whole.text.index(stop) + len(stop)].encode()
        )


@pytest.mark.parametrize("scheme", [None, AUTOREGRESSIVE])
def test_streamed_pieces_make_the_text(scheme, shipped):
    pieces = {0: [], 1: []}
    settings = Settings(scheme=scheme, max_new_tokens=50)
    decoded = generate(
        shipped,
        ["In the beginning", "Blessed"],
        [1, 2],
        settings,
        collect(pieces),
    )
    for i, generation in enumerate(decoded.generations):
        assert "".join(pieces[i]) == generation.text
        assert len(pieces[i]) >= generation.rounds // 2 > 3


def test_drafts_cover_the_tree_without_repeating_a_prefix(pair):
    trees = []
    drawn = rounds.draw_tree

    def watch(*arguments):
        trees.append(drawn(*arguments))
        return trees[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "draw_tree", watch)
        decode(pair, PROMPTS, [1, 2, 3], settings_of("spectr", drafts=6))
    for tree in trees:
        for b in range(len(tree.paths)):
            prefixes = {}
            for k in range(6):
                for i in range(4):
                    place = int(tree.places[b, k, i])
                    prefix = tuple(tree.paths[b, k, :i].tolist())
                    assert prefixes.setdefault(prefix, place) == place
                    if i:
                        assert int(tree.tokens[b, place]) == prefix[-1]
                        assert int(tree.parents[b, place]) == int(tree.places[b, k, i - 1])
            assert len(set(prefixes.values())) == len(prefixes) == tree.distinct[b] + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheme": "nonsense"}, "scheme is 'nonsense'; there are autoregressive, block"),
        ({"drafts": 0}, "drafts is 0, expected at least 1"),
        ({"length": 0}, "length is 0, expected at least 1"),
        ({"scheme": "block", "drafts": 2}, "scheme block verifies one draft, but drafts is 2"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"draft_temperature": float("inf")}, "draft_temperature is inf"),
        ({"draft_temperature": (1.0, 2.0)}, "draft_temperature has 2 entries for 3 drafts"),
        ({"draft_temperature": (1.0, 2.0, 1.0)}, "scheme spectr needs drafts of one law"),
        ({"distinct": True}, "scheme spectr needs independent drafts"),
        (
            {"scheme": "tree_match", "distinct": True, "draft_temperature": (1.0, 2.0, 1.0)},
            "drafts without replacement need one draft temperature",
        ),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"stop": ("",)}, "stop has an empty string"),
    ],
)
def test_senseless_settings_are_named(changes, message, pair):
    settings = dataclasses.replace(settings_of("spectr"), **changes)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        decode(pair, PROMPTS, [1, 2, 3], settings)


def test_senseless_prompts_are_named(pair):
    settings = settings_of("spectr", max_new_tokens=40)
    for prompts, message in [
        ([[]], "prompt 0 has no tokens"),
        ([[1], [2, 17]], r"prompt 1, position 1: token 17 is not in 0\.\.16, the tokens of draft"),
        ([[1] * 30], r"prompt 0 has 30 tokens; .* needs a context of 72, but draft has 64"),
    ]:
        with pytest.raises(ValueError, match=message):
            decode(pair, prompts, range(len(prompts)), settings)
    assert decode(pair, [[1] * 22], [0], settings).generations[0].finish == "length"
    with pytest.raises(ValueError, match="seeds has 1 entries for 3 prompts"):
        decode(pair, PROMPTS, [1], settings)
    with pytest.raises(ValueError, match=r"seeds\[0\] is -1"):
        decode(pair, PROMPTS, [-1, 0, 0], settings)


@pytest.mark.parametrize("side", ["draft", "target"])
def test_a_model_that_returns_nan_is_named(side, pair, build):
    class Broken(TreeScorer):
        def extend(self, tokens, parents):
            logits = super().extend(tokens, parents).clone()
            if max(self.lengths) > 9:
                logits[0, -1, 3] = float("nan")
            return logits

    network = build("llama", seed=2)
    model = dataclasses.replace(
        getattr(pair, side), start=lambda vocabulary, batch: Broken(network, vocabulary, batch)
    )
    with pytest.raises(ValueError, match=f"model {side} returned NaN: request 0 of the batch"):
        decode(dataclasses.replace(pair, **{side: model}), PROMPTS, [1, 2, 3], settings_of("block"))


def test_autoregressive_settings_keep_everything_else():
    settings = Settings(temperature=0.3, top_k=5, stop=("x",), options={"labels": 4})
    plain = autoregressive(settings)
    assert (plain.scheme_name, plain.temperature, plain.top_k) == (AUTOREGRESSIVE, 0.3, 5)
    assert plain.stop == ("x",)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("scheme", ["block", "spectr", "greedy_block", "ranked_block"])
def test_greedy_text_on_a_gpu_is_that_of_the_cpu(scheme):
    settings = settings_of(scheme, temperature=0.0, max_new_tokens=60)
    texts = []
    for device in ("cpu", "cuda"):
        on_device = shipped_pair(device=device, dtype="float64")
        prompts = ["And God said", "Blessed"]
        texts.append([g.text for g in generate(on_device, prompts, [1, 2], settings).generations])
    assert texts[0] == texts[1]
