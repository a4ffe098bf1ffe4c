"""The instance format: what is read is what was written, and every error says where."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from draftproof.reference.instance import (
    KINDS,
    instance_from_json,
    random_instance,
    read_instance,
    write_instance,
)
from draftproof.reference.numbers import rational

VALID: dict[str, Any] = {
    "format": 1,
    "vocab": 2,
    "drafts": 1,
    "length": 1,
    "draft_rows": {"": ["2/3", "1/3"]},
    "target_rows": {"": ["1/3", "2/3"], "0": ["0.25", "0.75"], "1": ["1", "0"]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", ["iid", "without_replacement", "fixed"])
def test_round_trip(kind: str, law: Any, tmp_path: Path) -> None:
    generator = random.Random(f"{kind} {law}")
    for _ in range(10):
        vocab, length = generator.randint(1, 3), generator.randint(0, 2)
        drafts = min(generator.randint(0, 3), vocab**length)
        instance = random_instance(generator, vocab, length, drafts, kind=kind, draft_law=law)
        write_instance(instance, tmp_path / "instance.json")
        assert read_instance(tmp_path / "instance.json") == instance
        assert [p.name for p in tmp_path.iterdir()] == ["instance.json"]


def test_decimal_and_fraction_texts_are_exact() -> None:
    instance = instance_from_json(VALID)
    assert instance.target_model((0,)) == (rational("1/4"), rational("3/4"))


def test_absent_rows_that_cannot_matter_are_uniform() -> None:
    data = copy.deepcopy(VALID)
    data["target_rows"] = {"": ["0", "1"], "1": ["1", "0"]}  # token 0 cannot be emitted
    assert instance_from_json(data).target_model((0,)) == (rational("1/2"), rational("1/2"))


def wrong(**changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(VALID)
    for key, value in changes.items():
        if value is None:
            del data[key]
        else:
            data[key] = value
    return data


TARGET = VALID["target_rows"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must be a JSON object, not list"),
        (wrong(vocabulary=2), "unknown key 'vocabulary'"),
        (wrong(format=2), "format is 2"),
        (wrong(vocab=0), "vocab is 0"),
        (wrong(drafts=-1), "drafts is -1"),
        (wrong(length=True), "length is True"),
        (wrong(length=None), "has no 'length'"),
        (wrong(draft_law="greedy"), "draft_law is 'greedy'"),
        (wrong(draft_law="without_replacement", drafts=3), "more than the 2 paths"),
        (wrong(paths=[[0]]), "paths are given, but draft_law is 'iid'"),
        (wrong(draft_law="fixed"), "needs paths, a list of 1 drafts"),
        (wrong(draft_law="fixed", paths=[[2]]), r"paths\[0\]\[0\] is 2, not in 0..1"),
        (wrong(draft_law="fixed", paths=[[0, 1]]), r"paths\[0\] is \[0, 1\], not a list of 1"),
        (wrong(draft_rows=[]), "draft_rows must be an object, not list"),
        (wrong(draft_rows={}), 'draft_rows has no row for the prefix "", which can be drafted'),
        (wrong(draft_rows={"": ["1/3", "1/3"]}), r'draft_rows\[""\] sums to 2/3, not 1'),
        (wrong(draft_rows={"": ["4/3", "-1/3"]}), r'draft_rows\[""\]\[1\] is negative: -1/3'),
        (wrong(draft_rows={"": ["x", "1"]}), r'draft_rows\[""\]\[0\] is \'x\', not a rational'),
        (wrong(draft_rows={"": [None, "1"]}), r'draft_rows\[""\]\[0\] must be a number'),
        (wrong(draft_rows={"": [float("nan"), 1]}), r'draft_rows\[""\]\[0\] is nan'),
        (wrong(draft_rows={"": ["1"]}), "has 1 entries; the vocabulary has 2"),
        (wrong(draft_rows={"": "1"}), "must be a list of 2 numbers"),
        (wrong(draft_rows={"": ["2/3", "1/3"], "0": ["1", "0"]}), "the prefix has 1 tokens"),
        (wrong(target_rows={**TARGET, "5": ["1", "0"]}), "token 0 of the prefix is '5', not in 0"),
        (wrong(target_rows={**TARGET, "0,": ["1", "0"]}), "token 1 of the prefix is ''"),
        (wrong(target_rows={"": ["1/3", "2/3"], "0": ["1", "0"]}), 'no row for the prefix "1"'),
    ],
)
def test_errors_name_key_position_and_value(data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        instance_from_json(data)


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.json: No such file"):
        read_instance(tmp_path / "absent.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json is not valid JSON"):
        read_instance(broken)
    broken.write_text(json.dumps(VALID).replace('"1": [', '"0": ['))
    with pytest.raises(ValueError, match="the key '0' occurs twice"):
        read_instance(broken)


def test_random_kinds_are_what_they_say() -> None:
    generator = random.Random(5)
    for _ in range(20):
        equal = random_instance(generator, 3, 2, 2, kind="equal")
        assert all(equal.draft_rows[x] == equal.target_rows[x] for x in equal.draft_rows)
        apart = random_instance(generator, 3, 2, 2, kind="disjoint")
        assert all(
            p == 0 or q == 0
            for x in apart.draft_rows
            for p, q in zip(apart.draft_rows[x], apart.target_rows[x])
        )
        hot = random_instance(generator, 3, 2, 2, kind="one_hot")
        assert all(1 in (*hot.draft_rows[x], *hot.target_rows[x]) for x in hot.draft_rows)
    with pytest.raises(ValueError, match="kind is 'odd'"):
        random_instance(generator, 3, 2, 2, kind="odd")
