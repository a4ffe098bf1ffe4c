"""Scoring a tree in one forward gives the rows of plain forwards over each of its paths."""

import numpy as np
import pytest
import torch
from decoding_faults import SiblingsInARow, StaleSlot, WindowForgotten
from draftproof.fast.decoding.scoring import (
    PathScorer,
    TreeScorer,
    attention_windows,
    takes_tree_mask,
)

ARCHITECTURES = ["llama", "gpt2", "mistral", "qwen2"]
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 11]]  # ragged; the first is longer than a window
PARENTS = [[-1, 0, 0, 1, 2, 1], [-1, 0, 1, 2, 3, 0], [-1, 0, 0, 0, 2, -1]]
BELOW = [[3, 6], [4, 3], [4, 1]]
KEPT = [[0, 1, 3, 6, 7], [0, 1, 2, -1, -1], [0, 2, 4, -1, -1]]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([list(row) + [-1] * (width - len(row)) for row in rows])


def path_to(node, tokens, parents):
    path = []
    while node >= 0:
        path.append(int(tokens[node]))
        node = int(parents[node])
    return path[::-1]


def allowed(logits: torch.Tensor, length: int) -> float:
    """How far two orders of the same sums may differ, in float64.

    A logit is a sum of sums: per layer, inner products of at most ``width`` = max(length, 24) terms
    in attention and in the feed-forward part.  Rounding of such a sum is at most width · eps of its
    magnitude, and two layers with four products each, normalised between, add up to 8 of them. The
    magnitudes inside exceed those of the logits by the weights' scale, about 6 per layer.
    """
    return 8 * max(length, 24) * 36 * torch.finfo(torch.float64).eps * float(logits.abs().max())


def worst_difference(model, scorer, plain, rounds=4, seed=0):
    """(largest difference to plain forwards, what rounding allows) over rounds of trees and
    keeps."""
    rng = np.random.default_rng(seed)
    contexts = [list(prompt) for prompt in PROMPTS]
    scorer.prefill(padded(contexts))
    worst, bound = 0.0, 0.0
    for _ in range(rounds):
        tokens = torch.tensor(rng.integers(0, 17, (3, 8)))
        tokens[2, 5] = -1
        parents = torch.cat([torch.tensor(PARENTS), torch.tensor(BELOW)], 1)
        first = scorer.extend(tokens[:, :6], parents[:, :6])
        logits = torch.cat([first, scorer.extend(tokens[:, 6:], parents[:, 6:])], 1)
        for b in range(3):
            for node in range(8):
                if tokens[b, node] >= 0:
                    path = contexts[b] + path_to(node, tokens[b], parents[b])
                    expected = plain(model, path)[-1]
                    worst = max(worst, float((expected - logits[b, node]).abs().max()))
                    bound = max(bound, allowed(expected, len(path)))
        scorer.commit(torch.tensor(KEPT))
        for b in range(3):
            contexts[b] += [int(tokens[b, node]) for node in KEPT[b] if node >= 0]
        assert scorer.lengths == [len(context) for context in contexts]
    return worst, bound


@pytest.mark.parametrize("kind", ARCHITECTURES)
@pytest.mark.parametrize("scorer", [TreeScorer, PathScorer])
def test_rows_are_those_of_plain_forwards(kind, scorer, build, plain):
    model = build(kind)
    worst, bound = worst_difference(model, scorer(model, 17, 3), plain)
    assert worst <= bound < 1e-9


def test_a_model_without_position_argument_is_scored_path_by_path(build, plain):
    model = build("bloom")
    assert not takes_tree_mask(model)
    worst, _ = worst_difference(model, PathScorer(model, 17, 3), plain)
    # Bloom's attention takes its softmax in float32 whatever the model's dtype.
    scale = float(plain(model, PROMPTS[0]).abs().max())
    assert worst <= 8 * 24 * 36 * torch.finfo(torch.float32).eps * scale


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_the_trial_finds_models_that_take_a_tree_mask(kind, build):
    assert takes_tree_mask(build(kind))


def test_the_trial_finds_a_model_that_ignores_the_mask(build, monkeypatch):
    model = build("llama", seed=5)
    forward = type(model).forward

    def deaf(self, *arguments, attention_mask=None, position_ids=None, **named):
        return forward(self, *arguments, **named)

    deaf.__signature__ = __import__("inspect").signature(forward)
    monkeypatch.setattr(model, "forward", deaf.__get__(model))
    assert not takes_tree_mask(model)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (SiblingsInARow, "llama"),
        (SiblingsInARow, "gpt2"),
        (StaleSlot, "llama"),
        (StaleSlot, "gpt2"),
        (WindowForgotten, "mistral"),
        (WindowForgotten, "qwen2"),
    ],
)
def test_planted_faults_show(fault, kind, build, plain):
    model = build(kind)
    worst, bound = worst_difference(model, fault(model, 17, 3), plain)
    assert worst > 1000 * bound


@pytest.mark.parametrize("scorer", [TreeScorer, PathScorer])
def test_requests_can_leave_the_batch(scorer, build, plain):
    model = build("llama")
    state = scorer(model, 17, 3)
    state.prefill(padded(PROMPTS))
    state.select([2, 0])
    assert state.lengths == [3, 7]
    logits = state.extend(torch.tensor([[4, 5], [6, 7]]), torch.tensor([[-1, -1], [-1, 0]]))
    for row, sequence in [
        (logits[0, 0], [*PROMPTS[2], 4]),
        (logits[0, 1], [*PROMPTS[2], 5]),
        (logits[1, 1], [*PROMPTS[0], 6, 7]),
    ]:
        expected = plain(model, sequence)[-1]
        assert float((row - expected).abs().max()) <= allowed(expected, len(sequence))


def test_a_chain_that_does_not_hang_together_is_refused(build):
    model = build("llama")
    scorer = PathScorer(model, 17, 1)
    scorer.extend(torch.tensor([[1, 2, 3]]), torch.tensor([[-1, 0, 0]]))
    with pytest.raises(ValueError, match=r"nodes\[0\] = \[0, 1, 2\] is not a chain"):
        scorer.commit(torch.tensor([[0, 1, 2]]))


def test_windows_come_from_the_config(build):
    assert attention_windows(build("llama").config) == {"full_attention": None}
    assert attention_windows(build("mistral").config) == {"sliding_attention": 4}
    assert attention_windows(build("qwen2").config) == {
        "full_attention": None,
        "sliding_attention": 4,
    }


def test_an_unknown_kind_of_attention_is_refused(build):
    config = build("qwen2", seed=9).config
    config.layer_types = ["full_attention", "chunked_attention"]
    with pytest.raises(ValueError, match="chunked_attention"):
        attention_windows(config)
    config.layer_types = ["full_attention", "sliding_attention"]
