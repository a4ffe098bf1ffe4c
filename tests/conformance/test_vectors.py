"""Vectors: deterministic, valid by their schema, derived again, and a changed answer is found."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from itertools import accumulate

import jsonschema
import pytest
from click.testing import CliRunner
from draftproof.conformance import vectors
from draftproof.conformance.vectors_commands import vectors as command
from draftproof.reference.catalogue import SCHEMES

VALIDATED = ("block", "greedy_block", "ranked_block", "spectr:target_match", "tree_match")
QUICK = ("token_by_token", "block", "greedy_block", "kseq", "target_match", "independent_trials")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    vectors.write(folder)
    return folder


def content(folder, scheme):
    return json.loads((folder / vectors.file_name(scheme)).read_text(encoding="utf-8"))


def case(data, part, name):
    return next(c for c in data[part] if c["id"].startswith(f"{data['scheme']}/{name}/"))


def test_every_scheme_has_a_file_that_its_schema_accepts(written):
    validator = jsonschema.Draft202012Validator(vectors.schema())
    validator.check_schema(vectors.schema())
    for name in SCHEMES:
        data = content(written, name)
        if name in VALIDATED:
            validator.validate(data)
        assert data["laws"]
        assert data["replays"]
        assert data["decisions"]
    assert (written / vectors.SCHEMA_NAME).is_file()


@pytest.mark.parametrize("name", QUICK)
def test_the_same_bytes_every_time(written, name, tmp_path):
    vectors.write(tmp_path, [name])
    again = (tmp_path / vectors.file_name(name)).read_bytes()
    assert again == (written / vectors.file_name(name)).read_bytes()


def test_a_decision_is_the_textbook_one(written):
    """p = (6, 3, 1)/10, q = (2, 5, 3)/10: min(1, q/p) and (q - p)+ normalised, by hand."""
    data = content(written, "token_by_token")
    seen = set()
    for found in data["decisions"]:
        if not found["id"].startswith("token_by_token/plain/"):
            continue
        token = found["drafts"][0][0]
        asks = found["asks"]
        assert asks["test"] == {"draft": 0, "depth": 1}
        assert Fraction(asks["probability"]) == (Fraction(1, 3), 1, 1)[token]
        if token == 0:
            assert asks["if_rejected"]["row"] == ["0", "1/2", "1/2"]
            assert asks["if_rejected"]["accepted"] == []
        assert asks["if_accepted"]["accepted"] == [token]
        bonus = found["instance"]["target_rows"][str(token)]
        assert asks["if_accepted"]["row"] == bonus
        seen.add(token)
    assert 0 in seen


def test_the_block_residual_carries_its_weight(written):
    """h_1 and the correction after token 0 of the case `block`, by the formulas of the paper."""
    found = next(
        c for c in content(written, "block")["decisions"]
        if c["id"].startswith("block/block/") and c["drafts"] == [[0, 0]]
    )  # fmt: skip
    w = Fraction(1, 5) / Fraction(3, 5)
    p, q = (
        [Fraction(x) for x in found["instance"][side]["0"]]
        for side in ("draft_rows", "target_rows")
    )
    owed = [max(w * b - a, Fraction(0)) for a, b in zip(p, q)]
    asks = found["asks"]
    assert asks["test"] == {"draft": 0, "depth": 2}
    below = asks["if_rejected"]
    h = sum(owed) / (sum(owed) + 1 - w)
    assert Fraction(below["probability"]) == h
    assert [Fraction(x) for x in below["if_accepted"]["row"]] == [x / sum(owed) for x in owed]


def test_the_tree_of_decisions_has_the_law_of_its_replays(written):
    """A replay is the walk through the tree by its own uniforms."""
    for name in ("block", "kseq_block", "spectr:target_match"):
        data = content(written, name)
        trees = {c["id"].rpartition("/")[0]: c["asks"] for c in data["decisions"]}
        for replay in data["replays"]:
            node = trees[replay["id"].split("/replay/")[0]]
            while "test" in node:
                place = node["test"]
                u = Fraction(replay["accept_uniforms"][place["draft"]][place["depth"] - 1])
                accepted = u < Fraction(node["probability"])
                node = node["if_accepted" if accepted else "if_rejected"]
            u = Fraction(replay["token_uniform"])
            reached = list(accumulate(map(Fraction, node["row"])))
            drawn = next(token for token, mass in enumerate(reached) if mass > u)
            assert replay["result"]["next"] == drawn
            assert replay["result"]["accepted"] == node["accepted"]


def test_lossless_schemes_say_total_variation_0_and_controls_do_not(written):
    for name, scheme in SCHEMES.items():
        if scheme.approximate:
            continue
        distances = {c["law"]["total_variation"] for c in content(written, name)["laws"]}
        assert (distances == {"0"}) == scheme.lossless, name


def test_every_hunted_fault_is_in_the_list_of_faults(written):
    hunted = {fault for c in content(written, "tree_match")["laws"] for fault in c["hunts"]}
    known = {
        "residual-is-target", "residual-one-hot", "siblings-no-update", "keep-longest-of-B",
        "block-tokenwise-accept", "gbv-no-carry", "hsd-uncapped", "shared-uniform",
        "zero-residual-nan", "uniform-hard-zero", "zero-prob-at-u-zero", "stale-bonus-row",
        "padding-draft", "multipath-ties", "deterministic-top-k-tree", "argmax-draft-soft-q",
    }  # fmt: skip
    assert hunted == known


@pytest.mark.parametrize("name", QUICK)
def test_derived_again_without_a_difference(written, name):
    assert vectors.verify_file(written / vectors.file_name(name)) == []


def plant(data, fault):
    """One wrong answer in a part of the file."""
    if fault == "probability":
        found = next(
            c for c in data["decisions"] if c["asks"].get("probability") not in (None, "0")
        )
        found["asks"]["probability"] = "1/7"
    elif fault == "row":
        found = case(data, "decisions", "no-draft")
        found["asks"]["row"] = ["1/6", "5/6", "0"]
    elif fault == "result":
        found = case(data, "replays", "plain")
        found["result"]["next"] = (found["result"]["next"] + 1) % 3
    elif fault == "law":
        case(data, "laws", "plain")["law"]["outcomes"][0]["probability"] = "1/97"
    elif fault == "missing outcome":
        case(data, "laws", "plain")["law"]["outcomes"].pop()
    elif fault == "input":
        case(data, "laws", "plain")["instance"]["target_rows"][""] = ["2/10", "4/10", "4/10"]
    elif fault == "malformed":
        case(data, "laws", "plain")["instance"]["vocab"] = "three"
    elif fault == "format":
        data["format"] = 2
    elif fault == "scheme":
        data["scheme"] = "unheard_of"
    return data


@pytest.mark.parametrize(
    "fault",
    ["probability", "row", "result", "law", "missing outcome", "input", "malformed", "format",
     "scheme"],
)  # fmt: skip
def test_a_changed_answer_is_found(written, tmp_path, fault):
    data = plant(copy.deepcopy(content(written, "token_by_token")), fault)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    assert len(vectors.verify_file(path)) == 1


def test_equal_rationals_may_be_written_in_other_ways(written, tmp_path):
    text = (written / "token_by_token.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"1/2"', '"0.5"').replace('"1/4"', '"2/8"'))
    assert vectors.verify_file(tmp_path / "other.json") == []


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_the_command_writes_and_verifies(tmp_path):
    done = run("--out", tmp_path / "new", "--scheme", "block", "--scheme", "spectr:target_match")
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "block.json", "spectr-target_match.json", "vectors.schema.json",
    ]  # fmt: skip
    done = run("--verify", tmp_path / "new")
    assert done.exit_code == 0
    assert "2 of 2 files derived again" in done.output
    changed = plant(content(tmp_path / "new", "block"), "law")
    (tmp_path / "new" / "block.json").write_text(json.dumps(changed))
    done = run("--verify", tmp_path / "new")
    assert done.exit_code == 1
    assert "block.json: block/plain/law: outcomes[0].probability is '1/97'" in done.output


@pytest.mark.parametrize(
    "arguments",
    [[], ["--out", "a", "--verify", "b"], ["--out", "a", "--scheme", "nothing"],
     ["--verify", "not/there"], ["--verify", ".", "--scheme", "block"]],
)  # fmt: skip
def test_wrong_usage_exits_2(arguments):
    assert run(*arguments).exit_code == 2
