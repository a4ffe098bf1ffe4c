"""A function of the user's own: how it is found, called, and held to what it returns."""

import dataclasses
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from draftproof.fast import Batch, verify
from draftproof.fast.decoding.methods import (
    check_signature,
    checked,
    load_method,
    name_of,
    select_carry,
)
from draftproof.fast.decoding.models import Pair, wrap
from draftproof.fast.decoding.rounds import Settings, decode

PROMPTS = [[3, 1, 4], [7], [10, 11]]


@pytest.fixture(scope="module")
def pair(build):
    draft = wrap(build("llama", seed=1, scale=4.0), "draft", attention="tree")
    return Pair(draft, wrap(build("llama", seed=2), "target", attention="tree"), 17)


def plain(batch, uniforms, carry):
    return verify("spectr", batch, uniforms)


class Carrying:
    """A callable object: greedy block verification, its carry in a dict beside a tensor."""

    def __call__(self, batch, uniforms, carry):
        before = None if carry is None else carry["owed"]
        result = verify("spectr_gbv", batch, uniforms, carry=before)
        seen = torch.zeros(batch.blocks) if carry is None else carry["rounds"]
        return dataclasses.replace(result, carry={"owed": result.carry, "rounds": seen + 1})


@pytest.mark.parametrize(("method", "scheme"), [(plain, "spectr"), (Carrying(), "spectr_gbv")])
def test_a_function_decodes_as_the_scheme_it_calls(method, scheme, pair):
    """Prompts end at different times, so that carries are taken apart."""
    texts = [
        [g.tokens for g in decode(pair, PROMPTS, [1, 2, 3], settings).generations]
        for settings in (
            Settings(scheme=which, drafts=3, length=4, max_new_tokens=25, stop=())
            for which in (method, scheme)
        )
    ]
    assert texts[0] == texts[1]


def batch_of(blocks=2, drafts=2, length=3, vocab=5):
    tokens = torch.arange(blocks * drafts * length).view(blocks, drafts, length) % vocab
    rows = torch.full((blocks, drafts, length + 1, vocab), 1 / vocab)
    return Batch.from_paths(tokens, rows[:, :, :length], rows)


def returned(**changes):
    fields = {
        "accepted_length": torch.tensor([3, 0]),
        "path": torch.tensor([1, 0]),
        "next_token": torch.tensor([4, 0]),
    }
    return SimpleNamespace(**{**fields, **changes})


def test_what_is_right_passes_with_and_without_tokens():
    batch = batch_of()
    result = checked(returned(), batch, "m:f")
    assert result.tokens.tolist() == [[3, 4, 0, 4], [0, -1, -1, -1]]
    again = checked(returned(tokens=result.tokens), batch, "m:f")
    assert torch.equal(again.tokens, result.tokens)
    assert (
        checked(returned(path=torch.tensor([1, 0], dtype=torch.int32)), batch, "m:f").carry is None
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"accepted_length": [3, 0]},
            r"returned a SimpleNamespace whose accepted_length is \[",
        ),
        ({"path": None}, "whose path is None, expected a tensor of 2 integers"),
        ({"next_token": torch.tensor([1])}, r"next_token of shape \[1\] and torch.int64"),
        ({"next_token": torch.tensor([1.0, 2.0])}, "torch.float32, expected integers of shape"),
        ({"path": torch.tensor([True, False])}, "torch.bool, expected integers"),
        ({"accepted_length": torch.tensor([4, 0])}, r"accepted_length\[0\] = 4, .* length .*, 3"),
        ({"accepted_length": torch.tensor([0, -1])}, r"accepted_length\[1\] = -1"),
        ({"path": torch.tensor([0, 2])}, r"path\[1\] = 2, expected 0 to 1"),
        ({"next_token": torch.tensor([0, 5])}, r"next_token\[1\] = 5, expected 0 to 4"),
        ({"next_token": torch.tensor([-1, 0])}, r"next_token\[0\] = -1, expected 0 to 4"),
        ({"tokens": torch.zeros(2, 3)}, r"returned tokens\[0\] = torch.Size\(\[2, 3\]\), but"),
        (
            {"tokens": torch.tensor([[3, 4, 0, 4], [1, -1, -1, -1]])},
            r"tokens\[1\] = \[1, -1, -1, -1\], but .* say \[0, -1, -1, -1\]",
        ),
        (
            {"carry": torch.zeros(3, 2)},
            r"a tensor of shape \[3, 2\], expected 2 entries",
        ),
        ({"carry": {"a": (torch.zeros(2), torch.tensor(1.0))}}, r"a tensor of shape \[\]"),
        ({"carry": [7]}, "a carry of type int, expected None, tensors"),
    ],
)
def test_what_is_malformed_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        checked(returned(**changes), batch_of(), "m:f")


def test_nothing_returned_is_named(pair):
    def silent(batch, uniforms, carry):
        return None

    with pytest.raises(ValueError, match="silent returned a NoneType whose accepted_length"):
        decode(pair, PROMPTS, [1, 2, 3], Settings(scheme=silent, max_new_tokens=9))


def test_an_exception_names_the_function(pair):
    def failing(batch, uniforms, carry):
        return batch.nonsense

    with pytest.raises(RuntimeError, match=r"failing raised AttributeError: .*nonsense") as caught:
        decode(pair, PROMPTS, [1, 2, 3], Settings(scheme=failing, max_new_tokens=9))
    assert isinstance(caught.value.__cause__, AttributeError)


class Pieces(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_carries_are_taken_apart():
    whole = torch.arange(6).view(3, 2)
    chosen = torch.tensor([2, 0])
    expected = [[4, 5], [0, 1]]
    assert select_carry(None, chosen) is None
    assert select_carry(whole, chosen).tolist() == expected
    assert select_carry((whole, [whole]), chosen)[1][0].tolist() == expected
    assert select_carry({"a": whole}, chosen)["a"].tolist() == expected
    assert select_carry(Pieces(whole, whole[:, 0]), chosen).second.tolist() == [4, 0]
    own = SimpleNamespace(select=lambda requests: requests.tolist())
    assert select_carry(own, chosen) == [2, 0]


def test_a_function_is_found_by_its_place(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "class Rules:\n    @staticmethod\n    def rule(batch, uniforms, carry): return carry\n"
        "def narrow(batch): return None\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    function = load_method("mine:Rules.rule")
    assert name_of(function) == "mine:Rules.rule"
    assert name_of("block") == "block"
    assert name_of(Carrying()).endswith("test_methods:Carrying")
    for place, message in [
        ("mine", "'mine' is not of the form package.module:function"),
        ("nowhere.at_all:f", "cannot import nowhere.at_all"),
        ("mine:other", "mine has no function 'other'"),
        ("mine:number", "mine has no function 'number'"),
        ("mine:narrow", r"mine:narrow is called as verify\(batch, uniforms, carry\), but takes"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_method(place)


def test_the_signature_is_checked_before_anything_runs(pair):
    with pytest.raises(ValueError, match="is called as verify"):
        decode(pair, PROMPTS, [1, 2, 3], Settings(scheme=lambda batch: None))
    check_signature(lambda *arguments: None)
    check_signature(Carrying())
